"""What a guard is made from: wrong arguments stop the server before it begins."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer
from tests.world.delegations import NOW, World

from accredit.errors import ConfigurationError
from accredit.keys import PrivateKeyFile, write_file
from accredit.ratify import issue_revocation_list
from accredit.server import ProofGuard, TokenRules, TrustedIssuer, fastmcp

pytestmark = pytest.mark.holds("server/assemble")

GUARDS = (ProofGuard, fastmcp.ProofGuard)


def saved(folder: Path, key: PrivateKeyFile, name: str = "owner.key.pub") -> Path:
    write_file(folder / name, key.public().encode(), replace=True)
    return folder / name


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"roots": []}, "roots names nobody"),
        ({"roots": "owner.key.pub"}, "a list is asked for"),
        ({"roots": ["missing.pub"]}, "can't read missing.pub"),
        ({"gateway_id": ""}, "gateway_id"),
        ({"binding": "always"}, "binding can't be 'always'"),
        ({"default_tool_scope": "mcp:*"}, "default_tool_scope"),
        ({"freshness_seconds": 0}, "freshness_seconds is 0"),
        ({"freshness_seconds": 301}, "freshness_seconds is 301"),
        ({"challenge_seconds": 301}, "challenge_seconds is 301"),
        ({"store": "redis://localhost"}, "'redis' is no store"),
        ({"revocation_files": ["nowhere/missing.json"]}, "missing.json"),
        ({"methods": "vendor/x"}, "a list is asked for"),
        ({"methods": ["vendor/x", "Tools/Call"]}, "'Tools/Call'"),
    ],
)
def test_a_wrong_argument_is_refused(guard: Any, changes: dict[str, Any], what: str) -> None:
    arguments: dict[str, Any] = {"roots": [World().owner.public_key], "gateway_id": "mail"}
    with pytest.raises(ConfigurationError) as refused:
        guard(**(arguments | changes))
    assert what in refused.value.what
    assert refused.value.remedy


ASKED = {
    "introspection_url": "https://issuer.example/i",
    "introspection_client_id": "gw",
    "introspection_client_secret": "s",
}
ISSUER = TrustedIssuer("https://issuer.example", "mail", jwks_url="https://issuer.example/jwks.json")


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"roots": None}, "nothing would be judged"),
        ({"roots": [], "tokens": TokenRules([ISSUER])}, "roots names nobody"),
        ({"tokens": TokenRules([])}, "names no issuer"),
        ({"tokens": TokenRules([ISSUER, ISSUER])}, "one issuer is named twice"),
        ({"tokens": TokenRules([replace(ISSUER, key_file="keys.json")])}, "are in one place"),
        ({"tokens": TokenRules([replace(ISSUER, issuer="accredit", jwks_url=None)])}, "are in one place"),
        ({"tokens": TokenRules([replace(ISSUER, jwks_url=None, key_file="missing.json")])}, "missing.json"),
        (
            {"tokens": TokenRules([replace(ISSUER, jwks_url="http://issuer.example/keys")])},
            "keys that come in the clear",
        ),
        ({"tokens": TokenRules([replace(ISSUER, algorithms=["HS256"])])}, "HS256"),
        ({"tokens": TokenRules([replace(ISSUER, introspection_url="https://issuer.example/i")])}, "says who asks"),
        ({"tokens": TokenRules([replace(ISSUER, introspection_client_secret="s")])}, "says who asks"),
        (
            {"tokens": TokenRules([replace(ISSUER, **{**ASKED, "introspection_url": "http://a.example"})])},
            "in the clear",
        ),
        ({"tokens": TokenRules([replace(ISSUER, audience="")])}, "issuer and audience can't be empty"),
        ({"tokens": TokenRules([ISSUER], required=False, bind_agent=True)}, "bind_agent"),
        ({"roots": None, "tokens": TokenRules([ISSUER], bind_agent=True)}, "bind_agent"),
    ],
)
def test_rules_for_tokens_that_would_not_hold_stop_the_server(guard: Any, changes: dict[str, Any], what: str) -> None:
    arguments: dict[str, Any] = {"roots": [World().owner.public_key], "gateway_id": "mail"}
    with pytest.raises(ConfigurationError) as refused:
        guard(**(arguments | changes))
    assert what in refused.value.what
    assert refused.value.remedy


def test_an_agent_s_key_is_no_root__it_would_grant_itself(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is a key of kind 'agent'"):
        ProofGuard([saved(tmp_path, World().agent)], "mail")


def test_a_list_of_somebody_else_stops_the_start(tmp_path: Path) -> None:
    world = World()
    path = tmp_path / "revoked.json"
    path.write_bytes(issue_revocation_list(world.agent.signer(), ("cert",), NOW).encode())
    with pytest.raises(ConfigurationError, match="is not known here"):
        ProofGuard([world.owner.public_key], "mail", revocation_files=[path])


def test_a_guard_that_can_t_see_its_server_says_what_to_do() -> None:
    with pytest.raises(ConfigurationError) as refused:
        ProofGuard([World().owner.public_key], "mail").settings()
    assert refused.value.remedy == "call guard.protect(server)"


def test_a_server_has_one_gate_of_a_guard__a_proof_would_be_spent_by_the_first_of_two() -> None:
    guard = ProofGuard([World().owner.public_key], "mail")
    server: MCPServer[Any] = MCPServer("mail", extensions=[guard])
    before = len(server.middleware)
    guard.protect(server)
    assert len(server.middleware) == before


@pytest.mark.slow
def test_without_fastmcp_the_import_says_what_to_install() -> None:
    code = "import sys; sys.modules['fastmcp'] = None; import accredit.server; import accredit.server.fastmcp"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert 'ImportError: accredit.server.fastmcp needs FastMCP 4: install "accredit[fastmcp]"' in done.stderr
