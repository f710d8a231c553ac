"""The official conformance suite: against our client; and directly and through the gateway over HTTP and stdio.

What passes directly has to pass through the gateway with the same counts of checks; the runner's table says
which scenario did not.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conformance.node import NodeMissing, find_node

ROOT = Path(__file__).parents[2]


def suite(*options: str) -> str:
    """Runs it; gives what it printed."""
    try:
        find_node()
    except NodeMissing as missing:
        if "CI" in os.environ:
            raise
        pytest.skip(str(missing))
    done = subprocess.run(
        [sys.executable, "-m", "tests.conformance", *options], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_our_client_passes_what_the_suite_asks_of_clients() -> None:
    printed = suite("--only", "client")
    assert "2025-11-25 client: 4 scenarios, 0 problems" in printed
    assert "2026-07-28 client: 7 scenarios, 0 problems" in printed


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_what_passes_directly_passes_through_the_gateway_too() -> None:
    printed = suite()
    assert "2025-11-25   direct 30/30   http 30/30   stdio 30/30" in printed
    assert "2026-07-28   direct 37/37   http 37/37   stdio 37/37" in printed
