"""The official conformance suite: against our client; directly, and through the gateway over HTTP and stdio, also as
one of several servers.

What passes directly has to pass through the gateway with the same counts of checks; the runner's table says
which scenario did not.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from tests.conformance.__main__ import run_target
from tests.conformance.node import Node, NodeMissing, find_node, install_suite
from tests.conformance.suite import read_outcomes, run_suite, server_scenarios
from tests.conformance.targets import direct, through_http, through_stdio

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TAMPERED = "input-required-result-tampered-state"


@pytest.fixture
def node() -> Node:
    try:
        return find_node()
    except NodeMissing as missing:
        if "CI" in os.environ:
            raise
        pytest.skip(str(missing))


def suite(*options: str) -> str:
    """Runs it; gives what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.conformance", *options], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("node")
def test_our_client_passes_what_the_suite_asks_of_clients() -> None:
    printed = suite("--only", "client")
    assert "2025-11-25 client: 4 scenarios, 0 problems" in printed
    assert "2026-07-28 client: 7 scenarios, 0 problems" in printed


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("revision", "required"), [("2025-11-25", 30), ("2026-07-28", 37)])
def test_all_that_is_required_of_servers_passes_through_the_gateway(
    revision: str, required: int, node: Node, tmp_path: Path
) -> None:
    outcomes = run_target(node, install_suite(node), tmp_path, "http", revision=revision, scenarios=[])
    scored = [name for name, counts in server_scenarios(revision).items() if counts]
    assert [name for name in scored if not outcomes[name].passed] == []
    assert len(scored) == required


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("node")
def test_what_passes_directly_passes_through_the_gateway_too() -> None:
    printed = suite("--only", "http")
    assert "2025-11-25   direct 30/30   http 30/30" in printed
    assert "2026-07-28   direct 37/37   http 37/37" in printed


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("node")
@pytest.mark.parametrize("target", ["stdio", "named-http", "named-stdio", "merged-http", "merged-stdio"])
def test_what_passes_directly_passes_over_stdio_and_as_one_of_several_servers_too(target: str) -> None:
    printed = suite("--only", target)
    assert f"2025-11-25   direct 30/30   {target} 30/30" in printed
    assert f"2026-07-28   direct 37/37   {target} 37/37" in printed


@pytest.mark.timeout(900)
def test_sessions_and_requests_of_the_servers_own_pass_where_servers_are_one(node: Node, tmp_path: Path) -> None:
    scenarios = ["server-initialize", "tools-call-with-progress", "tools-call-elicitation"]
    outcomes = run_target(
        node, install_suite(node), tmp_path, "merged-http", revision="2025-11-25", scenarios=scenarios
    )
    assert {name: outcome.passed for name, outcome in outcomes.items()} == dict.fromkeys(scenarios, True)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("target", [direct, through_http, pytest.param(through_stdio, marks=pytest.mark.long)])
def test_a_server_that_believes_any_state_passes_behind_the_gateway_only(
    target: Callable[..., AbstractContextManager[str]], node: Node, tmp_path: Path
) -> None:
    requests = tmp_path / "requests.log"
    requests.touch()
    with target(tmp_path, requests, "--believe-state") as url:
        run_suite(node, install_suite(node), url, "2026-07-28", [TAMPERED], tmp_path / "suite")
    outcome = read_outcomes(tmp_path / "suite", requests, [TAMPERED])[TAMPERED]
    assert outcome.passed is (target is not direct)
    assert outcome.requests == (2 if target is direct else 1)
