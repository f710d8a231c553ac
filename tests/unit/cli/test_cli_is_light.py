"""`accredit --help` must not wait for what only a running gateway needs."""

import subprocess
import sys
from functools import cache

import pytest

HEAVY = (
    "pydantic",
    "uvicorn",
    "uvloop",
    "msgspec",
    "accredit.gateway",
    "accredit.jsonrpc",
    "mcp",
    "cryptography",
    "accredit.ratify",
)


@cache
def modules_after(statements: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{statements}\nimport sys; print(*sys.modules)"],
        check=True, capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    return set(done.stdout.split())


@pytest.mark.parametrize("module", HEAVY)
def test_the_command_line_is_read_without_it(module: str) -> None:
    assert module not in modules_after("import accredit.cli")


@pytest.mark.parametrize(
    "module",
    ["mcp", "mcp_types", "pydantic_settings", "h11", "httpx2", "accredit.net", "starlette", "securesystemslib"],
)
def test_the_gateway_runs_without_it(module: str) -> None:
    assert module not in modules_after("import accredit.cli.actions.serve")
