"""A small mail server on the official SDK: the server that the docs and `accredit demo` put behind the gateway.

python examples/mail_server.py --port 9000      streamable HTTP on http://127.0.0.1:9000/mcp
python examples/mail_server.py                  stdio
"""

import argparse

from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("mail", version="1.0.0")

INBOX = [
    {"from": "ada@example.org", "subject": "The engine", "body": "It might act upon other things besides number."},
    {"from": "grace@example.org", "subject": "A bug", "body": "First actual case of one being found."},
]
OUTBOX: list[dict[str, str]] = []


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def list_inbox() -> list[str]:
    """The subjects of the messages in the inbox."""
    return [f"{message['from']}: {message['subject']}" for message in INBOX]


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def search(word: str, context: Context) -> list[str]:
    """The messages that hold a word; tells its progress."""
    found: list[str] = []
    for number, message in enumerate(INBOX, start=1):
        await context.report_progress(number, len(INBOX))
        if word.lower() in message["body"].lower():
            found.append(message["subject"])
    return found


@server.tool(annotations=ToolAnnotations(destructive_hint=True))
def send_email(to: str, subject: str) -> str:
    """Sends a message."""
    OUTBOX.append({"to": to, "subject": subject})
    return f"sent to {to}: {subject}"


@server.resource("mail://inbox/first")
def first_message() -> str:
    """The oldest message in the inbox."""
    return INBOX[0]["body"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, help="serve streamable HTTP on this port, not stdio")
    port = parser.parse_args().port
    if port is None:
        server.run("stdio")
    else:
        server.run("streamable-http", port=port)
