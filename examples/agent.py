"""A small agent that proves itself: lists what it may call, and calls one tool.

python examples/agent.py http://127.0.0.1:8484/mcp --key agent.key --delegation delegation.json list_inbox
python examples/agent.py http://127.0.0.1:8484/mcp --key agent.key --delegation delegation.json send_email
    '{"to": "ada@example.org", "subject": "Hello"}'
"""

import argparse
import asyncio
import json

from mcp.types import TextContent

from accredit.client import AccreditedClient, ProofPresenter
from accredit.errors import ConfigurationError, ProofRefused


async def main(url: str, key: str, delegations: list[str], tool: str, arguments: str) -> int:
    """Returns the exit code: 1 for a call that was refused."""
    async with AccreditedClient(url, presenter=ProofPresenter(key, delegations)) as client:
        listed = await client.list_tools()
        print("may call:", ", ".join(each.name for each in listed.tools) or "nothing")
        try:
            result = await client.call_tool(tool, json.loads(arguments))
        except ProofRefused as refusal:
            print("refused:", refusal.message)
            return 1
    for block in result.content:
        if isinstance(block, TextContent):
            print(block.text)
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--key", required=True)
    parser.add_argument("--delegation", action="append", required=True)
    parser.add_argument("tool")
    parser.add_argument("arguments", nargs="?", default="{}", help="JSON")
    given = parser.parse_args()
    try:
        raise SystemExit(asyncio.run(main(given.url, given.key, given.delegation, given.tool, given.arguments)))
    except ConfigurationError as error:
        raise SystemExit(f"{error.what}\n{error.remedy}") from None
