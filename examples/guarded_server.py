"""A mail server that lets nobody use a tool without a proof. It reads `owner.key.pub` in the working directory.

python guarded_server.py                stdio
python guarded_server.py --port 9000    streamable HTTP on http://127.0.0.1:9000/mcp
"""

import argparse

from mcp.server.mcpserver import MCPServer

from accredit.server import ProofGuard, current_authority, require

guard = ProofGuard(roots=["owner.key.pub"], gateway_id="mail")
mcp = MCPServer("mail", extensions=[guard])


@mcp.tool()
@require("email:read")
def list_inbox() -> list[str]:
    """The subjects of the messages in the inbox."""
    return ["The engine", "A bug"]


@mcp.tool()
@require("email:send", sensitive=True)
async def send_email(to: str, subject: str) -> str:
    """Sends a message."""
    authority = current_authority()
    assert authority is not None  # a call without one does not come this far
    return f"sent to {to} on the word of {authority.principal_name}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    port = parser.parse_args().port
    if port is None:
        mcp.run("stdio")
    else:
        mcp.run("streamable-http", port=port)
