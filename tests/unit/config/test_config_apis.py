"""HTTP APIs in the configuration: what they have and MCP servers have not, and what is told of what is wrong."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.world.decisions import Known

from accredit.cli import main as accredit
from accredit.config.build import build_all_settings
from accredit.config.digest import policy_digest
from accredit.config.load import load
from accredit.config.servers import every_view, views
from accredit.errors import ConfigurationError
from accredit.gateway import create_app
from accredit.gateway.settings import ApiUpstream
from accredit.keys import make_key, write_key
from accredit.stores import MemoryStore

pytestmark = pytest.mark.holds("config/apis")

BASE = """
[gateway]
id = "gw"
[admin]
port = 0
[proofs]
mode = "required"
[[proofs.roots]]
name = "Owner"
public_key_file = "owner.key.pub"
"""
API = """
[servers.mail]
protocol = "authorize"
proxy = "nginx"
"""
ROUTE = """
[servers.mail.routes."POST /messages/{id}/send"]
scope = "email:send"
sensitive = true
facts = { resource_id = "path:id", amount = "query:n", currency = "EUR" }
"""


def write(folder: Path, text: str) -> Path:
    if not (folder / "owner.key").exists():
        write_key(folder / "owner.key", make_key("human", "Owner", 0))
    file = folder / "accredit.toml"
    file.write_text(text, "utf-8")
    return file


def problem(folder: Path, text: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        build_all_settings(load(write(folder, text), {}, {}), {})
    return f"{caught.value.what}\n{caught.value.remedy}"


def test_an_api_has_its_routes_and_a_verifier_s_id_of_its_own__and_proofs_are_bound(tmp_path: Path) -> None:
    (settings,) = build_all_settings(load(write(tmp_path, BASE + API + ROUTE), {}, {}), {})
    assert isinstance(settings.upstream, ApiUpstream)
    assert (settings.upstream.proxy, [*settings.upstream.routes.routes]) == ("nginx", ["POST /messages/{id}/send"])
    assert settings.proofs is not None
    policy = settings.proofs.policy
    assert (policy.verifier_id, policy.binding_required, policy.server) == ("gw/mail", True, "mail")
    entry = policy.catalog.find("POST", "POST /messages/{id}/send")
    assert entry is not None
    assert (entry.scope, entry.sensitive) == ("email:send", True)
    assert entry.facts.sources == {"resource_id": "/path/id", "amount": "/numbers/query/n", "currency": "EUR"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (API + ROUTE.replace("POST /", "FETCH it /"), "servers.mail.routes.FETCH it /messages/{id}/send"),
        (API + ROUTE.replace("/send", "//send"), "empty segment"),
        (API + ROUTE + ROUTE.replace("messages", "Messages"), "some servers take them for the same"),
        (API + ROUTE.replace("path:id", "path:other"), "has no parameter 'other'"),
        (API + ROUTE.replace("query:n", "/n"), 'amount should be "path:NAME"'),
        (API + ROUTE.replace("scope", "scop"), "did you mean servers.mail.routes"),
        (API + ROUTE.replace("email:send", "email:*"), "wildcard"),
        (API, "servers.mail has no routes"),
        (API.replace('proxy = "nginx"', "") + ROUTE, "no proxy is named"),
        (API.replace("nginx", "squid") + ROUTE, '"nginx" or "envoy" or "traefik" or "caddy"'),
        (API + 'url = "http://127.0.0.1:9"\n' + ROUTE, "servers.mail.url is set"),
        (API + 'command = ["x"]\n' + ROUTE, "servers.mail.command is set"),
        (API + ROUTE + '[servers.mail.tools.x]\nscope = "a:b"\n', "servers.mail.tools is set"),
        (API.replace("authorize", "mcp") + 'command = ["cat"]\n', "servers.mail.proxy is for an HTTP API"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, told: str) -> None:
    assert told in problem(tmp_path, BASE + text)


HTTP = """
[servers.mail]
protocol = "http"
path = "/api/mail"
url = "http://127.0.0.1:9000/base"
"""


def test_an_api_behind_the_gateway_has_a_url_and_a_path(tmp_path: Path) -> None:
    text = BASE + HTTP + 'forward_headers = ["Cookie", "If-Match"]\nheaders = { "X-Key" = "k" }\n' + ROUTE
    (settings,) = build_all_settings(load(write(tmp_path, text), {}, {}), {})
    assert isinstance(settings.upstream, ApiUpstream)
    behind = settings.upstream.behind
    assert behind is not None
    assert (settings.path, behind.url, behind.headers) == ("/api/mail", "http://127.0.0.1:9000/base", {"X-Key": "k"})
    assert (settings.upstream.protocol, settings.upstream.forward_headers) == ("http", ("Cookie", "If-Match"))
    assert settings.pins is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (HTTP.replace('path = "/api/mail"', "") + ROUTE, "servers.mail.path is not set"),
        (HTTP.replace("/api/mail", "/api/mail/") + ROUTE, "without a slash at its end"),
        (HTTP.replace("/api/mail", "/") + ROUTE, "without a slash at its end"),
        (HTTP.replace("/api/mail", "/api//mail") + ROUTE, "empty segment"),
        (HTTP.replace("/api/mail", "/v1/ratify") + ROUTE, "a place of its own"),
        (HTTP.replace("/api/mail", "/healthz") + ROUTE, "the gateway itself answers"),
        (HTTP.replace('url = "http://127.0.0.1:9000/base"', "") + ROUTE, "url is not set"),
        (HTTP.replace("/base", "/base?key=1") + ROUTE, "should hold no query"),
        (HTTP + 'proxy = "nginx"\n' + ROUTE, "servers.mail.proxy is set"),
        (HTTP + 'forward_headers = ["Host"]\n' + ROUTE, "Cookie, Range or an If-... header"),
        (HTTP + 'forward_headers = ["Ratify-Proof"]\n' + ROUTE, "Cookie, Range or an If-... header"),
        (
            API.replace("authorize", "mcp").replace('proxy = "nginx"', 'path = "/x"\ncommand = ["cat"]'),
            "mail.path is for",
        ),
        (API + 'path = "/x"\n' + ROUTE, "servers.mail.path is set"),
    ],
)
def test_what_is_wrong_of_an_api_behind_the_gateway_is_named(tmp_path: Path, text: str, told: str) -> None:
    assert told in problem(tmp_path, BASE + text)


@pytest.mark.parametrize(
    ("path", "more", "told"),
    [
        ("/api", HTTP + ROUTE, "covers /api/mail, where servers.mail is"),
        ("/api/mail", HTTP + ROUTE, "covers /api/mail, where servers."),
        ("/gate", '[servers.mail]\nurl = "http://127.0.0.1:1"\n[gateway]\npath = "/gate"\n', "covers /gate/mail"),
        ("/v1", '[ratify_http]\nenabled = true\nlistener = "public"\n', "covers /v1/ratify, where ratify_http is"),
        ("/oauth", '[oauth]\nenabled = true\npublic_url = "http://127.0.0.1"\n', "covers /oauth, where oauth is"),
    ],
)
def test_no_path_of_an_api_covers_another_server_or_what_the_gateway_answers(
    path: str, more: str, told: str, tmp_path: Path
) -> None:
    other = HTTP.replace("servers.mail", "servers.other").replace("/api/mail", path) + ROUTE.replace("mail", "other")
    base = BASE.replace("[gateway]", more if "[gateway]" in more else "[gateway]", 1)
    assert told in problem(tmp_path, base + ("" if "[gateway]" in more else more) + other)


def test_nor_where_an_application_is_made_of_settings(tmp_path: Path) -> None:
    other = HTTP.replace("servers.mail", "servers.other").replace("/api/mail", "/api") + ROUTE.replace("mail", "other")
    each = (build_all_settings(load(write(tmp_path, BASE + text), {}, {}), {}) for text in (HTTP + ROUTE, other))
    mail, wide = (*next(each), *next(each))
    with pytest.raises(ConfigurationError, match=r"servers\.other\.path /api covers /api/mail, where servers\.mail is"):
        create_app([mail, wide], store=MemoryStore(), revocations=Known())
    own = replace(mail, path="/v1", ratify_http="public")
    with pytest.raises(ConfigurationError, match="covers /v1/ratify, where ratify_http is"):
        create_app([own], store=MemoryStore(), revocations=Known())
    with pytest.raises(ConfigurationError, match=r"servers\.other\.path / covers /api/mail, where servers\.mail is"):
        create_app([mail, replace(wide, path="/")], store=MemoryStore(), revocations=Known())


def test_an_api_needs_proofs_and_a_listener_at_which_its_proxy_asks(tmp_path: Path) -> None:
    assert "admin.port is not set" in problem(tmp_path, BASE.replace("port = 0", "") + API + ROUTE)
    off = '[gateway]\nid = "gw"\n[admin]\nport = 0\n'
    assert 'proofs.mode is "off"' in problem(tmp_path, off + API + ROUTE)


def test_who_asks_mcp_servers_is_not_led_to_an_api(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, BASE + API + ROUTE + '[servers.tools]\ncommand = ["cat"]\n'), {}, {})
    assert [each.server for each in every_view(loaded)] == ["mail", "tools"]
    assert [each.server for each in views(loaded)] == ["tools"]
    with pytest.raises(ConfigurationError, match="HTTP APIs alone"):
        views(load(write(tmp_path, BASE + API + ROUTE), {}, {}))


def test_tokens_for_an_api_are_for_its_own_url(tmp_path: Path) -> None:
    (tmp_path / "issuer.pem").write_text("x")
    tokens = (
        '[tokens]\nmode = "required"\n[[tokens.issuers]]\nissuer = "i"\naudience = "https://gw.example/mcp"\n'
        'public_key_file = "issuer.pem"\n'
    )
    (settings,) = build_all_settings(load(write(tmp_path, BASE + tokens + API + ROUTE), {}, {}), {})
    assert settings.tokens is not None
    (issuer,) = settings.tokens.issuers
    assert (issuer.audience, issuer.server_audience) == ("https://gw.example/v1/ratify/authorize/mail", "")


def test_the_digest_of_a_configuration_covers_routes__and_is_as_before_where_there_are_none(tmp_path: Path) -> None:
    digests = {
        policy_digest(load(write(tmp_path, BASE + text), {}, {}))
        for text in (
            API + ROUTE,
            API + ROUTE.replace("email:send", "email:read"),
            API.replace("nginx", "caddy") + ROUTE,
        )
    }
    assert len(digests) == 3


def test_a_grant_is_held_against_the_scopes_of_routes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path, BASE + API + ROUTE.replace("email:send", "acme:send"))
    write_key(tmp_path / "agent.key", make_key("agent", "Mailer", 0))
    monkeypatch.chdir(tmp_path)

    def grant(scope: str) -> object:
        options = ["--issuer", "owner.key", "--agent", "agent.key.pub", "--out", f"{scope.replace(':', '-')}.json"]
        words = ["accredit", "grant", *options, "--config", str(file), "--scope", scope]
        monkeypatch.setattr("sys.argv", words)
        with pytest.raises(SystemExit) as ended:
            sys.exit(accredit())
        return ended.value.code

    assert grant("acme:send") in (0, None)
    assert grant("acme:other") == 2
