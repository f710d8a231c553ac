"""The help of a command must not wait for what only its run needs; nor a gateway for what it never uses."""

import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from tests.world.command_tree import commands
from tests.world.signed_calls import signed_call

from accredit.attest import CallBundle, encode_call_bundle, encode_statement
from accredit.keys import log_signer, make_key

pytestmark = pytest.mark.holds("cli/application")

OURS = {
    *("accredit", "base", "base.standard", "base.terminal", "base.text"),
    *("errors", "limits", "refusals", "cli"),
}
"""Of our own modules what every help needs, beside those of `cli`."""
OF_OPTIONS = {"base.deferred", "terminal", "terminal.progress"}
"""What options load besides, where a command has some of those that commands share."""
SLOW = {"asyncio", "ssl", "sqlite3", "http", "email", "importlib.metadata", "multiprocessing", "unittest"}
"""Of Python's own what takes long to load."""

MAIN = """
import sys
sys.argv[0] = "accredit"
from accredit.cli import main
main()
print(*sys.modules, file=sys.stderr)
"""


@cache
def modules_after(*words: str, statements: str = MAIN) -> frozenset[str]:
    """What Python has loaded in the end; on its stdin there is nothing."""
    done = subprocess.run(
        [sys.executable, "-c", statements, *words],
        stdin=subprocess.DEVNULL, check=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return frozenset(done.stderr.splitlines()[-1].split())


def from_elsewhere(modules: frozenset[str]) -> set[str]:
    """Those that are neither Python's nor ours, but for what every Python of an environment loads (`site`)."""
    names = {name.partition(".")[0] for name in modules - modules_after(statements=BARE)}
    return {name for name in names if name not in sys.stdlib_module_names and name[0] != "_"} - {"accredit"}


BARE = "import sys; print(*sys.modules, file=sys.stderr)"


@pytest.mark.parametrize("words", commands(), ids=lambda words: " ".join(["accredit", *words]))
def test_help_loads_click_and_the_commands_own_declaration(words: Sequence[str]) -> None:
    loaded = modules_after(*words, "--help")
    assert from_elsewhere(loaded) == {"click"}
    assert SLOW.isdisjoint(loaded)
    ours = {name.removeprefix("accredit.") for name in loaded if name.partition(".")[0] == "accredit"}
    inner = {name for name in ours if name.startswith("cli.")}
    assert ours - inner - OF_OPTIONS == OURS
    assert not {name for name in inner if name.startswith("cli.actions")}
    if words:
        assert len({name for name in inner if name.startswith("cli.commands.")}) == 1


def test_the_version_is_said_without_any_command() -> None:
    loaded = modules_after("--version")
    assert from_elsewhere(loaded) == {"click"}
    assert "accredit.cli.commands" not in loaded


CONNECTS = {
    "annotated_types", "anyio", "backports", "brotli", "click", "csimdjson", "cython_runtime", "h11", "httpcore2",
    "httpx2", "idna", "mcp", "mcp_types", "msgspec", "opentelemetry", "pydantic", "pydantic_core", "simdjson",
    "truststore", "typing_extensions", "typing_inspection", "uvloop",
}  # fmt: skip
"""What `accredit connect` uses, and what that loads; without a key no `cryptography`."""
SDK = {"mcp", "mcp.client", "mcp.client._transport", "mcp.client.streamable_http", "mcp.shared", "mcp_types"}
"""Of the official SDK only the parts that a transport needs: no servers, and no models of each revision."""


@pytest.mark.slow
def test_a_host_that_starts_connect_waits_for_a_transport_and_nothing_else() -> None:
    loaded = modules_after("connect", "http://127.0.0.1:1/mcp")
    assert from_elsewhere(loaded) <= CONNECTS
    of_sdk = {name for name in loaded if name.partition(".")[0] in ("mcp", "mcp_types")}
    assert {name for name in of_sdk if not name.startswith("mcp.shared.")} - SDK == {
        "mcp_types._types", "mcp_types.jsonrpc", "mcp_types.version",
    }  # fmt: skip
    ours = {".".join(name.split(".")[:2]) for name in loaded if name.startswith("accredit.")}
    rooms = ("app", "config", "gateway", "server", "stores", "net")
    assert ours.isdisjoint(f"accredit.{room}" for room in rooms)
    assert "accredit.client.session" not in loaded


def test_hosts_are_listed_without_the_gateway_or_the_configuration() -> None:
    loaded = modules_after("install", "--list")
    ours = {".".join(name.split(".")[:2]) for name in loaded if name.startswith("accredit.")}
    assert ours.isdisjoint(
        {"accredit.app", "accredit.client", "accredit.config", "accredit.gateway", "accredit.server"}
    )
    assert from_elsewhere(loaded).isdisjoint({"mcp", "mcp_types", "cryptography", "uvicorn", "starlette", "httpx2"})


def test_a_call_is_verified_without_the_configuration_the_stores_or_a_loop(tmp_path: Path) -> None:
    call, key = signed_call(), make_key("gateway", "mail", 1)
    envelope = log_signer(key).record(encode_statement(call.decision))
    (tmp_path / "call.json").write_bytes(
        encode_call_bundle(CallBundle((envelope,), call.certificates, proof=call.proof))
    )
    (tmp_path / "gateway.key.pub").write_bytes(key.public().text())
    loaded = modules_after("log", "verify", str(tmp_path / "call.json"), "--key", str(tmp_path / "gateway.key.pub"))
    assert "accredit.policy.evidence" in loaded
    assert loaded.isdisjoint(
        {"accredit.config", "accredit.stores", "accredit.gateway", "accredit.net", "accredit.tokens"}
    )
    assert loaded.isdisjoint({"accredit.policy.decide", "accredit.jsonrpc.frames", "accredit.consent.asks"})
    assert from_elsewhere(loaded) - OPTIONAL <= {"click", "msgspec", "cryptography", "nacl"}
    assert loaded.isdisjoint({"asyncio", "ssl", "sqlite3", "multiprocessing", "secrets", "tempfile", "zoneinfo"})


OPTIONAL = {"typing_extensions"}
"""What msgspec loads where it is installed."""


@pytest.mark.parametrize(
    "module",
    [
        "mcp",
        "mcp_types",
        "pydantic_settings",
        "h11",
        "httpx2",
        "accredit.net",
        "starlette",
        "securesystemslib",
        "accredit.a2a.shapes",
        "accredit.gateway.api_server",
        "accredit.gateway.front.door.server",
        "accredit.gateway.front.wrap",
        "accredit.gateway.upstream.merged.backend",
        "accredit.gateway.upstream.stdio.child",
        "accredit.stores.audit_log.requests",
        "accredit.stores.lasting",
        "accredit.stores.revocation",
        "sqlite3",
        "uvicorn.main",
        "multiprocessing",
        "anyio",
    ],
)
def test_the_gateway_runs_without_it(module: str) -> None:
    statements = "import accredit.cli.actions.serve, sys, uvicorn.lifespan.on; print(*sys.modules, file=sys.stderr)"
    assert module not in modules_after(statements=statements)


def test_a_program_that_imports_our_server_has_all_of_uvicorn() -> None:
    statements = "import accredit.app.server, sys; print(*sys.modules, file=sys.stderr)"
    assert "uvicorn.main" in modules_after(statements=statements)
