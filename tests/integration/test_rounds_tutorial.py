"""The tutorial "a tool that asks before it acts" is done here as it is written, and so is its example on FastMCP."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from mcp import StdioServerParameters
from mcp.types import TextContent
from mcp_types import ElicitRequestParams, ElicitResult
from tests.integration.test_tutorial import ROOT, blocks, running, surroundings
from tests.world.raw_server import PATIENCE
from tests.world.warm import python

from accredit.client import AccreditedClient
from accredit.rounds import InputContext

pytestmark = pytest.mark.slow

TUTORIAL = "docs/tutorial/a-tool-that-asks.md"
EXAMPLES = ROOT / "examples"


def test_the_tutorial_of_a_tool_that_asks_does_what_it_says(free_port: Callable[[], int], tmp_path: Path) -> None:
    steps = blocks(TUTORIAL, free_port)
    server, *calls, gateway, through, connect = [body for kind, body in steps if kind == "console"]
    promised = [body for kind, body in steps if kind == "text"]
    *parts, client = sorted((body for kind, body in steps if kind == "python"), key=lambda body: "import" in body)
    example = (EXAMPLES / "confirming_server.py").read_text("utf-8")
    assert len(parts) == 3
    assert all(part in example for part in parts)
    assert "--modern" in connect
    (tmp_path / "ask.py").write_text(client, "utf-8")

    def printed(command: str) -> str:
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, env=surroundings(), capture_output=True, text=True, timeout=PATIENCE,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    with running(server, "Uvicorn running"):
        assert [printed(call) for call in calls] == promised[:-1]
        with running(gateway, "listening on", tmp_path):
            assert printed(through) == promised[-1]


@pytest.mark.parametrize("script", ["confirming_server.py", "confirming_fastmcp.py"])
@pytest.mark.parametrize(
    ("answer", "becomes"),
    [
        (ElicitResult(action="accept", content={"sure": True}), "deleted a.txt"),
        (ElicitResult(action="accept", content={"sure": False}), "kept a.txt"),
        (ElicitResult(action="decline"), "kept a.txt"),
        (ElicitResult(action="cancel"), "kept a.txt"),
    ],
)
async def test_the_examples_do_what_the_person_says(script: str, answer: ElicitResult, becomes: str) -> None:
    async def on_elicit(context: InputContext, params: ElicitRequestParams) -> ElicitResult:
        assert (context.key, params.message) == ("confirm", "Delete a.txt?")
        return answer

    command = StdioServerParameters(command=python(), args=[str(EXAMPLES / script)], env=surroundings())
    async with AccreditedClient(command, elicitation=on_elicit) as client:
        result = await client.call_tool("delete", {"path": "a.txt"}, timeout=PATIENCE)
        assert isinstance(result.content[0], TextContent)
        assert result.content[0].text == becomes
