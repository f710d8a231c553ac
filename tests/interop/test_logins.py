"""Hosts that nobody here wrote log in at the front door, a person says yes at their desk, and calls go through: the
clients of the official TypeScript SDK of both generations, FastMCP's, MCP Inspector's.

The Python SDK's client is in `tests/integration/test_front_door.py`; the official suite's, which judges the door as an
authorization server, in `tests/conformance/door.py`.
"""

import os
import re
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from tests.interop.clients import SCOPE
from tests.interop.environments import NODE, OWN, Environments
from tests.world.command import environment
from tests.world.front_door import FrontDoor
from tests.world.ports import reserved_port
from tests.world.recorded import records_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

LAUNCHER = f"node_modules/{SCOPE}/inspector/clients/launcher/build/index.js"
QUIET = {"BROWSER": "echo %s", "MCP_AUTO_OPEN_ENABLED": "true", "NO_COLOR": "1", "COLUMNS": "10000"}
"""Each prints the page for the browser on a line of its own, or opens it in this "browser"."""


def typescript(generation: str) -> Callable[[Environments, FrontDoor], list[str]]:
    return lambda environments, door: [*environments.node("login.mjs"), generation, door.endpoint]


def fastmcp(environments: Environments, door: FrontDoor) -> list[str]:
    return [*environments.python(OWN, "login_fastmcp.py"), door.endpoint]


def inspector(environments: Environments, door: FrontDoor) -> list[str]:
    calling = ["--method", "tools/call", "--tool-name", "list_inbox", "--format", "json"]
    return [*environments.node(LAUNCHER), "--cli", door.endpoint, *calling, "--callback-url", callback()]


def callback() -> str:
    with reserved_port() as port:
        return f"http://127.0.0.1:{port}/oauth/callback"


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Generator[FrontDoor]:
    with reserved_port() as port:
        found = FrontDoor(tmp_path_factory.mktemp("door"), port, "registration = true")
        with found.serving():
            yield found


@pytest.fixture
def environments(tmp_path: Path) -> Environments:
    """Where they run. What can't be installed is skipped with its reason; never in continuous integration."""
    found = Environments(tmp_path)
    if lacks := found.install(NODE):
        (pytest.fail if os.environ.get("CI") else pytest.skip)(lacks)
    return found


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(typescript("1"), id="typescript-1"),
        pytest.param(typescript("2"), id="typescript-2"),
        pytest.param(fastmcp, id="fastmcp"),
        pytest.param(inspector, id="inspector"),
    ],
)
def test_a_host_s_own_client_logs_in__and_its_calls_are_recorded_as_proved(
    command: Callable[[Environments, FrontDoor], list[str]],
    door: FrontDoor,
    environments: Environments,
    tmp_path: Path,
) -> None:
    before = len(calls_of(door))
    with subprocess.Popen(
        command(environments, door), cwd=tmp_path, env=environment({**QUIET, "HOME": str(tmp_path)}), text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as program:  # fmt: skip
        printed = door.watch(program)
    assert re.search(r'"isError": ?false', printed), printed
    (call,) = calls_of(door)[before:]
    assert call.decision.verdict == "allow"
    assert call.call.client


@pytest.mark.parametrize("generation", ["1", "2"])
def test_a_host_s_own_client_shows_the_page_of_a_call_that_waits__and_gets_its_answer(
    generation: str, door: FrontDoor, environments: Environments, tmp_path: Path
) -> None:
    before = len(calls_of(door))
    command = [*typescript(generation)(environments, door), "held"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment({"HOME": str(tmp_path)}), text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as program:  # fmt: skip
        printed = door.watch(program)
    assert f"url {door.url}/oauth/asked/" in printed, printed
    assert '"isError":false' in printed, printed
    assert ("Waiting for a person: send_email, code" in printed) is (generation == "1"), printed
    assert calls_of(door)[-1].decision.verdict == "allow"
    assert len(calls_of(door)) > before


def calls_of(door: FrontDoor) -> list[Any]:
    """The decided calls that are on record."""
    return [each for each in records_of(door.folder / "gateway.db") if each.decision is not None]
