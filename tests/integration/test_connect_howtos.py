"""The how-tos for hosts and for an agent's author are done here as they are written, as is the example."""

import asyncio
import json
import re
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from tests.world.agents import EXAMPLES, AgentFiles, agent_files
from tests.world.authorization import Trust
from tests.world.command import Serving, environment
from tests.world.raw_server import PATIENCE
from tests.world.warm import path, python

pytestmark = pytest.mark.slow

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
BLOCK = re.compile(r"```(console|json|python|text)\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Serving, AgentFiles]]:
    files = agent_files(tmp_path_factory.mktemp("gateway"), Trust(), "email:read", "email:send")
    with Serving("--config", "accredit.toml", folder=files.folder) as serving:
        yield serving, files


def blocks(page: str, kind: str, gateway: Serving, home: Path) -> list[str]:
    """The page's blocks of one kind, with this gateway's port and this user's home."""
    text = (HOW_TO / page).read_text("utf-8").replace("/home/ada", str(home)).replace(":8484", f":{gateway.port}")
    return [body for found, body in BLOCK.findall(text) if found == kind]


def shell(command: str, folder: Path) -> str:
    """Runs what a user types; where they would be asked for a yes, they have said it."""
    agreed = re.sub(r"^(accredit (?:un)?install (?!--list).*)", r"\1 --yes", command, flags=re.MULTILINE)
    done = subprocess.run(
        ["bash", "-c", agreed], cwd=folder, env=environment({"PATH": path(), "HOME": str(folder)}),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def server_of(configuration: dict[str, Any]) -> dict[str, Any]:
    """The one server that a host's configuration names."""
    ((_, server),) = configuration.get("mcpServers", configuration.get("servers", {})).items()
    return server


async def as_a_host(server: dict[str, Any]) -> tuple[set[str], str]:
    """Starts the server as hosts do, from a folder of their own; gives the tools, and the text of a refused call."""
    command = StdioServerParameters(
        command=server["command"],
        args=server["args"],
        cwd="/",
        env=environment({"PATH": path()} | server.get("env", {})),
    )
    async with Client(command, read_timeout_seconds=PATIENCE) as client:
        assert not (await client.call_tool("list_inbox")).is_error
        (told,) = (await client.call_tool("search", {"word": "bug"})).content
        assert isinstance(told, types.TextContent)
        return {tool.name for tool in (await client.list_tools()).tools}, told.text


async def test_the_how_to_for_hosts_does_what_it_says(gateway: tuple[Serving, AgentFiles], tmp_path: Path) -> None:
    serving, files = gateway
    for command in blocks("hosts.md", "console", serving, tmp_path):
        if "--adopt" in command:
            (files.folder / ".cursor").mkdir(exist_ok=True)
            (files.folder / ".cursor/mcp.json").write_text('{"mcpServers": {"mail": {"command": "cat"}}}')
        shell(command, files.folder)
    configurations = [json.loads(text) for text in blocks("hosts.md", "json", serving, tmp_path)]
    assert [("servers" in found, "env" in server_of(found)) for found in configurations] == [
        (False, False), (True, False), (False, True),
    ]  # fmt: skip

    told = await asyncio.gather(*[as_a_host(server_of(found)) for found in configurations])
    covered = {"list_inbox", "send_email"}
    assert [tools for tools, _ in told] == [covered, covered, covered | {"search"}]
    (promised,) = blocks("hosts.md", "text", serving, tmp_path)
    assert {text for _, text in told} == {promised.strip()}


def test_the_how_to_for_an_agents_author_does_what_it_says(gateway: tuple[Serving, AgentFiles]) -> None:
    serving, files = gateway
    _first, *programs = [
        each for each in blocks("agent-author.md", "python", serving, files.folder) if "AccreditedHttp" not in each
    ]  # such a program runs in test_http_api.py, and the first one in test_tutorial.py, with the tutorial's delegation
    _, *promises = blocks("agent-author.md", "text", serving, files.folder)
    assert len(programs) == len(promises) == 2
    for program, promise in zip(programs, promises, strict=True):
        (files.folder / "program.py").write_text(program, "utf-8")
        assert shell(f"python program.py {serving.url}", files.folder) == promise


@pytest.mark.parametrize(
    ("tool", "says", "code"),
    [
        (("list_inbox",), "ada@example.org: The engine", 0),
        (("send_email", '{"to": "x", "subject": "y"}'), "sent to x: y", 0),
        (("search",), "refused: ratify_scope_denied", 1),
    ],
)
def test_the_example_of_an_agent_works(
    tool: tuple[str, ...], says: str, code: int, gateway: tuple[Serving, AgentFiles]
) -> None:
    serving, files = gateway
    done = subprocess.run(
        [python(), str(EXAMPLES / "agent.py"), serving.url, *files.options, *tool],
        capture_output=True, text=True, timeout=60, check=False, env=environment(),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (code, "")
    assert "may call: list_inbox, send_email" in done.stdout
    assert says in done.stdout
