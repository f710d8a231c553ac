"""`[oauth]`: a configuration that would let in less, or more, than it says does not start."""

import json
from pathlib import Path

import pytest
from tests.world.agents import save_delegation
from tests.world.authorization import Trust

from accredit.config.build import build_settings
from accredit.config.digest import policy_digest
from accredit.config.load import load
from accredit.errors import ConfigurationError
from accredit.gateway.oauth_settings import OAuthSettings
from accredit.keys import make_key, write_key

pytestmark = pytest.mark.holds("config/oauth")

URL = "https://mcp.example.com"
BASE = """
[gateway]
id = "mail"
[upstream]
url = "http://127.0.0.1:9/mcp"
[proofs]
mode = "required"
[[proofs.roots]]
name = "Owner"
public_key_file = "owner.key.pub"
"""
ON = f'[oauth]\nenabled = true\npublic_url = "{URL}"\n'
IDP = """consent = "idp"
[oauth.idp]
issuer = "https://idp.example"
client_id = "accredit"
client_secret = { file = "idp.secret" }
key_file = "front.key"
delegation = "front.json"
groups = { "mail-users" = ["email:read"] }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    trust = Trust()
    write_key(tmp_path / "owner.key", trust.owner)
    write_key(tmp_path / "front.key", trust.agent)
    write_key(tmp_path / "other.key", make_key("agent", "Other", 1))
    write_key(tmp_path / "gateway.key", make_key("gateway", "mail", 1))
    save_delegation(tmp_path / "front.json", trust.chain("email:read", "identity:delegate"))
    save_delegation(tmp_path / "standing.json", trust.chain("email:read"))
    save_delegation(tmp_path / "over.json", trust.chain("email:read", "identity:delegate", begins=-99_999, ends=-9))
    (tmp_path / "idp.secret").write_text("s3cret\n", "ascii")
    (tmp_path / "idp.secret").chmod(0o600)
    return tmp_path


def built(folder: Path, text: str, *, starting: bool = False) -> OAuthSettings | None:
    file = folder / "accredit.toml"
    file.write_text(text, "utf-8")
    return build_settings(load(file, {}, {}), {}, starting=starting).oauth


def fault(folder: Path, text: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        built(folder, text)
    assert "s3cret" not in str(caught.value)
    return caught.value.what


def test_the_front_door_is_off_until_it_is_enabled(folder: Path) -> None:
    assert built(folder, BASE) is None
    assert built(folder, BASE + "[oauth]\nenabled = false\nregistration = true\n") is None
    assert "oauth.registration is set and oauth.enabled is not" in fault(
        folder, BASE + "[oauth]\nregistration = true\n"
    )


def test_its_settings_are_those_of_the_table(folder: Path) -> None:
    found = built(folder, BASE + ON + 'clients = ["https://claude.ai/*"]\nrefresh_days = 2\n', starting=True)
    assert found is not None
    assert (found.public_url, found.consent, found.access_seconds, found.refresh_seconds) == (URL, "desk", 900, 172_800)
    assert found.clients == ("https://claude.ai/*",)
    assert (folder / "identity.key").exists()


def test_the_public_url_s_host_is_one_of_the_gateway_s(folder: Path) -> None:
    (folder / "accredit.toml").write_text(BASE + ON, "utf-8")
    settings = build_settings(load(folder / "accredit.toml", {}, {}), {})
    assert "mcp.example.com" in settings.allowed_hosts


@pytest.mark.parametrize(
    ("url", "good"),
    [
        ("https://mcp.example.com:8443", True),
        ("http://127.0.0.1:8484", True),
        ("http://localhost", True),
        ("http://mcp.example.com", False),
        ("https://mcp.example.com/", False),
        ("https://mcp.example.com/mcp", False),
        ("https://mcp.example.com?x", False),
        ("https://MCP.example.com", False),
        ("https://u@mcp.example.com", False),
    ],
)
def test_a_public_url_is_an_origin_that_nobody_listens_in_on(folder: Path, url: str, good: bool) -> None:
    text = BASE + f'[oauth]\nenabled = true\npublic_url = "{url}"\n'
    if good:
        assert built(folder, text) is not None
    else:
        assert "oauth.public_url" in fault(folder, text)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (BASE.replace('"required"', '"off"').partition("[[")[0] + ON, "proofs are not required"),
        (BASE + "[oauth]\nenabled = true\n", "oauth.public_url is not"),
        (BASE.replace('id = "mail"', 'id = "mail"\npath = "/oauth/token"') + ON, "a path of the front door"),
        (BASE + ON + '[store]\nurl = "sqlite:///gateway.db"\n', "cluster.keys_file is not"),
        (BASE + ON + 'clients = ["https://*"]\n', "oauth.clients"),
        (BASE + ON + 'clients = ["https://claude.ai*"]\n', "oauth.clients"),
        (BASE + ON + 'clients = ["http://127.0.0.1/c"]\n', "oauth.clients"),
        (BASE + ON + 'consent = "both"\n', "oauth.consent"),
        (BASE + ON + "access_seconds = 5\n", "oauth.access_seconds"),
        (BASE + ON + 'consent = "idp"\n', "[oauth.idp]"),
        (BASE + ON + IDP.partition("\n")[2], "[oauth.idp]"),
        (BASE + ON + IDP.replace("front.key", "gateway.key"), "oauth.idp.key_file"),
        (BASE + ON + IDP.replace("front.key", "owner.key"), "oauth.idp.key_file"),
        (BASE + ON + IDP.replace("front.key", "other.key"), "another key"),
        (BASE + ON + IDP.replace("front.json", "standing.json"), "identity:delegate"),
        (BASE + ON + IDP.replace("front.json", "over.json"), "proves nothing"),
        (BASE + ON + IDP.replace("front.json", "idp.secret"), "no delegation"),
        (BASE + ON + IDP.replace("email:read", "email:send"), "oauth.idp.groups"),
        (BASE + ON + IDP.replace("https://idp", "http://idp"), "oauth.idp.issuer"),
    ],
)
def test_what_can_not_be_meant_stops_the_start(folder: Path, text: str, what: str) -> None:
    assert what in fault(folder, text)


def test_an_issuer_of_tokens_has_another_name(folder: Path) -> None:
    issuer = f'[tokens]\nmode = "optional"\n[[tokens.issuers]]\nissuer = "{URL}"\naudience = "a"\n'
    assert "two keys" in fault(folder, BASE + ON + issuer)


def test_a_login_is_built_of_its_table__and_shows_no_secret(folder: Path) -> None:
    settings = built(folder, BASE + ON + IDP)
    assert settings is not None
    assert settings.idp is not None
    assert (settings.idp.client_secret, settings.idp.groups) == ("s3cret", {"mail-users": ("email:read",)})
    assert "s3cret" not in repr(settings)


def test_a_new_delegation_is_a_new_policy__and_a_door_that_is_shut_is_none(folder: Path) -> None:
    def digest(text: str) -> str:
        (folder / "accredit.toml").write_text(text, "utf-8")
        return policy_digest(load(folder / "accredit.toml", {}, {}))

    assert digest(BASE) == digest(BASE + "[oauth]\nenabled = false\n")
    before = digest(BASE + ON + IDP)
    assert before not in (digest(BASE), digest(BASE + ON))
    (folder / "front.json").write_text(json.dumps(json.loads((folder / "front.json").read_text("utf-8"))), "utf-8")
    assert digest(BASE + ON + IDP) != before
