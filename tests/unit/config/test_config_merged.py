"""`[gateway] merge`: what the servers say counts under merged names, and what is the gateway's counts as it is."""

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.world.changing_server import definitions

from accredit.config.build import build_all_settings
from accredit.config.load import Loaded, load
from accredit.errors import ConfigurationError
from accredit.gateway import GatewaySettings, HttpUpstream
from accredit.gateway.settings import MergedUpstream
from accredit.pins.lock import LOCK_FILE, write_lock

pytestmark = [pytest.mark.holds("config/build"), pytest.mark.holds("gateway/merging")]

TWO = f"""
[gateway]
id = "gate"
merge = true
[servers.mail]
url = "http://127.0.0.1:1/mcp"
timeout_seconds = 5
identity = "none"
[servers.mail.tools.send]
scope = "email:send"
token_scope = "send"
[servers.files]
command = ["{sys.executable}", "x.py"]
timeout_seconds = 7
[servers.files.resources."file:///etc"]
scope = "files:write"
"""
OFF = """
[tokens]
mode = "off"
"""
TOKENS = """
[tokens]
mode = "required"
[[tokens.issuers]]
issuer = "https://issuer.example"
audience = "https://gate.example/mcp"
jwks_url = "https://issuer.example/keys"
"""


def loaded(folder: Path, text: str) -> Loaded:
    file = folder / "accredit.toml"
    file.write_text(text, "utf-8")
    return load(file, {}, {})


def merged(folder: Path, text: str) -> GatewaySettings:
    return build_all_settings(loaded(folder, text), {})[-1]


@pytest.mark.holds("gateway/merging", "shared", "catalogs")
def test_all_servers_are_one_at_the_gateways_own_path(tmp_path: Path) -> None:
    mail, files, both = build_all_settings(loaded(tmp_path, TWO + OFF), {})
    assert both.upstream == MergedUpstream({"mail": mail, "files": files})
    assert (both.server, both.path, both.patience) == ("", "/mcp", 7)
    assert (mail.tells_identity, both.tells_identity) == (False, True)
    assert (both.lives_here, mail.lives_here, both.seals_sessions) == (True, False, True)
    assert both.rounds.ring is mail.rounds.ring
    assert both.proofs is not None
    find: Any = both.proofs.policy.catalog.find
    assert find("tools/call", "mail__send").scope == "email:send"
    assert find("tools/call", "files__send") is None
    assert find("resources/read", "accredit+files:file:///etc/passwd").scope == "files:write"
    assert find("resources/read", "accredit+mail:file:///etc/passwd").scope == "mcp:resource"


@pytest.mark.holds("gateway/merging", "shared", "catalogs")
def test_tokens_are_for_the_gateway__and_scopes_under_merged_names(tmp_path: Path) -> None:
    tokens = merged(tmp_path, TWO + TOKENS).tokens
    assert tokens is not None
    assert [(each.audience, each.server_audience) for each in tokens.issuers] == [("https://gate.example/mcp", "")]
    assert (tokens.resource, tokens.servers) == ("https://gate.example/mcp", ("mail", "files"))
    assert tokens.tool_scopes == {"mail__send": "send"}


@pytest.mark.holds("gateway/merging", "pins")
def test_pins_are_each_servers_own_digests__and_lists_are_held_to_renamed_definitions(tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).write_bytes(write_lock({name: definitions() for name in ("mail", "files")}))
    pins = merged(tmp_path, TWO + OFF).pins
    assert pins is not None
    own = definitions().tools["list_inbox"].sha256
    assert pins.tools["mail__list_inbox"] == pins.tools["files__list_inbox"] == own
    assert pins.listed is not None
    assert pins.as_listed("mail__list_inbox") != own
    assert len({pins.listed["mail__list_inbox"], pins.listed["files__list_inbox"]}) == 2
    assert (pins.as_listed("list_inbox"), pins.instructions) == (None, None)


def test_without_servers_there_is_nothing_to_merge(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="nothing to merge"):
        build_all_settings(
            loaded(tmp_path, '[gateway]\nmerge = true\n[upstream]\nurl = "http://127.0.0.1:1/mcp"\n'), {}
        )


@pytest.mark.parametrize("name", ["a_b", "a:b", "A", "", "-a", "a" * 33, "a\n"])
def test_a_name_from_which_nothing_leads_back_is_not_merged(name: str) -> None:
    with pytest.raises(ConfigurationError, match="merged"):
        MergedUpstream({name: GatewaySettings(HttpUpstream("http://127.0.0.1:1/mcp"), server=name)})
