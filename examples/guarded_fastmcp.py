"""The same mail server on FastMCP. It reads `owner.key.pub` in the working directory.

python guarded_fastmcp.py                stdio
python guarded_fastmcp.py --port 9000    streamable HTTP on http://127.0.0.1:9000/mcp
"""

import argparse
from typing import Any

from fastmcp import FastMCP

from accredit.server.fastmcp import ProofGuard, current_authority, require

guard = ProofGuard(roots=["owner.key.pub"], gateway_id="mail")
mcp: FastMCP[Any] = FastMCP("mail")
guard.protect(mcp)


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
        mcp.run("stdio", show_banner=False)
    else:
        mcp.run("http", port=port, show_banner=False)
