"""A tool that asks before it acts, on FastMCP: builders and readers are the same as on the official SDK.

python examples/confirming_fastmcp.py                stdio
python examples/confirming_fastmcp.py --port 9000    streamable HTTP on http://127.0.0.1:9000/mcp
"""

import argparse
from typing import Any

from fastmcp import Context, FastMCP
from mcp.types import InputRequiredResult
from pydantic import BaseModel

from accredit.rounds import accepted_content, elicit, input_required, input_response

mcp: FastMCP[Any] = FastMCP("office")


class Confirmation(BaseModel):
    """What a person is asked before anything is deleted."""

    sure: bool


@mcp.tool()
async def delete(path: str, context: Context) -> str | InputRequiredResult:
    """Deletes a file, if a person is sure."""
    answer = input_response(context.input_responses, "confirm")
    if answer.kind == "elicit" and answer.action != "accept":
        return f"kept {path}"
    confirmed = accepted_content(context.input_responses, "confirm", Confirmation)
    if confirmed is None:
        return input_required(input_requests={"confirm": elicit(f"Delete {path}?", Confirmation)})
    return f"deleted {path}" if confirmed.sure else f"kept {path}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    port = parser.parse_args().port
    if port is None:
        mcp.run("stdio", show_banner=False)
    else:
        mcp.run("http", port=port, show_banner=False)
