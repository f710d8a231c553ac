"""`[servers.NAME]`: each server is a configuration of its own, and what is wrong is told with its place."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.world.delegations import DAY, NOW, World

from accredit.config.build import build_all_settings, build_settings, build_upstream
from accredit.config.digest import policy_digest
from accredit.config.load import Loaded, Origin, load
from accredit.config.pins import read_pinned
from accredit.config.servers import only_server, view
from accredit.config.show import list_settings
from accredit.errors import ConfigurationError
from accredit.gateway.settings import HttpUpstream, StdioUpstream
from accredit.keys import make_key, write_key
from accredit.pins.definitions import Definitions, read_definition
from accredit.pins.lock import write_lock
from accredit.policy.catalog import Entry
from accredit.ratify import Grant, issue_delegation, verify_chain

pytestmark = pytest.mark.holds("config/servers")

TWO = f"""
[gateway]
id = "gate"
upstream_timeout_seconds = 9
[servers.mail]
url = "http://127.0.0.1:1/mcp?key=k"
headers = {{ "X-Api-Key" = "very-secret", "X-Other" = {{ env = "OTHER" }} }}
timeout_seconds = 5
[servers.mail.tools.send]
scope = "email:send"
[servers.mail.prompts]
scope = "email:prompt"
[servers.files-2]
command = ["{sys.executable}", "x.py"]
[servers.files-2.resources]
scope = "files:read"
[servers.files-2.resources."file:///etc"]
scope = "files:write"
"""
AUTH = """
type = "client_credentials"
token_url = "https://issuer.example/token"
client_id = "gate"
client_secret = { env = "NO_SECRET" }
"""
ENVIRON = {"OTHER": "from-outside"}


def loaded(folder: Path, text: str, environ: dict[str, str] | None = None, **command_line: Any) -> Loaded:
    file = folder / "accredit.toml"
    file.write_text(text, "utf-8")
    given = {("upstream", key): (Origin("command line", key), value) for key, value in command_line.items()}
    return load(file, environ or {}, given)


def test_each_server_has_the_settings_of_a_gateway_of_its_own(tmp_path: Path) -> None:
    mail, files = build_all_settings(loaded(tmp_path, TWO), ENVIRON)
    assert (mail.server, mail.path, mail.patience) == ("mail", "/mcp/mail", 5)
    assert mail.upstream == HttpUpstream(
        "http://127.0.0.1:1/mcp?key=k", {"X-Api-Key": "very-secret", "X-Other": "from-outside"}
    )
    assert mail.proofs is not None
    assert mail.proofs.policy.catalog.tools == {"send": Entry(scope="email:send")}
    assert mail.proofs.policy.catalog.prompt.scope == "email:prompt"
    assert (files.server, files.path, files.patience) == ("files-2", "/mcp/files-2", 9)
    assert files.upstream == StdioUpstream((sys.executable, "x.py"), {}, str(tmp_path))
    assert files.proofs is not None
    assert files.proofs.policy.catalog.tools == {}
    assert {*files.proofs.policy.catalog.resource_prefixes} == {"file:///etc"}
    assert mail.rounds is files.rounds


def test_proofs_are_bound_to_the_server_and_records_name_the_gateway_and_the_whole(tmp_path: Path) -> None:
    write_key(tmp_path / "root.key", make_key("human", "Owner", NOW))
    write_key(tmp_path / "gateway.key", make_key("gateway", "Gate", NOW))
    more = """
[proofs]
mode = "required"
[[proofs.roots]]
name = "Owner"
public_key_file = "root.key.pub"
[attest]
mode = "durable"
[store]
url = "sqlite:///log.db"
"""
    whole = loaded(tmp_path, TWO + more)
    built = build_all_settings(whole, ENVIRON)
    policies = [each.proofs.policy for each in built if each.proofs is not None]
    assert [(each.verifier_id, each.server) for each in policies] == [
        ("gate/mail", "mail"),
        ("gate/files-2", "files-2"),
    ]
    records = [each.records for each in built if each.records is not None]
    assert [(each.gateway_id, each.policy_digest) for each in records] == [("gate", policy_digest(whole))] * 2


def test_an_issuers_tokens_count_with_the_name_appended_as_well(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text('{"keys": []}', "utf-8")
    more = """
[tokens]
mode = "required"
[[tokens.issuers]]
issuer = "https://issuer.example"
audience = "https://mcp.example/mcp"
jwks_file = "keys.json"
"""
    tokens = [each.tokens for each in build_all_settings(loaded(tmp_path, TWO + more), ENVIRON)]
    found = [(each.issuers[0].audience, each.issuers[0].server_audience, each.resource) for each in tokens if each]
    base = "https://mcp.example/mcp"
    assert found == [(base, f"{base}/{name}", f"{base}/{name}") for name in ("mail", "files-2")]


def test_a_url_or_a_command_on_the_command_line_takes_the_place_of_all_of_them(tmp_path: Path) -> None:
    only = build_all_settings(loaded(tmp_path, TWO, url="http://127.0.0.1:2/mcp"), {})
    assert [(each.server, each.path, each.upstream) for each in only] == [
        ("", "/mcp", HttpUpstream("http://127.0.0.1:2/mcp", {}))
    ]


def test_no_secret_of_a_server_is_shown__and_the_digest_knows_every_server(tmp_path: Path) -> None:
    first = loaded(tmp_path, TWO)
    rows = {row.key: row.value for row in list_settings(first) if row.section == "servers"}
    assert "very-secret" not in str(rows)
    assert "key=k" not in str(rows)
    assert rows["mail"]["headers"] == {"X-Api-Key": "***", "X-Other": {"env": "OTHER"}}  # type: ignore[index]
    before = policy_digest(first)
    assert policy_digest(loaded(tmp_path, TWO.replace("files:write", "files:other"))) != before
    assert policy_digest(loaded(tmp_path, TWO.replace("very-secret", "other-secret"))) == before
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    folders = TWO.replace("[servers.files-2.resources]", 'cwd = "sub"\n[servers.files-2.resources]')
    assert policy_digest(loaded(tmp_path, folders)) == policy_digest(loaded(elsewhere, folders))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('[servers.Mail]\nurl = "http://x"', "servers.Mail (*): should have a name of a-z, 0-9 and -"),
        (f'[servers.{"a" * 33}]\nurl = "http://x"', f"servers.{'a' * 33} (*): should have a name of"),
        ('[servers.mail]\nurl = "ftp://x"', "servers.mail.url (*): should begin with"),
        ('[servers.mail]\nheaders = { "X-A" = 1 }', "servers.mail.headers.X-A (*): should be text or a table"),
        ("[servers.mail]\ntols = {}", "servers.mail.tols (*): no such key"),
        ('[servers.mail.tools.a]\nscope = "x"', "servers.mail.tools.a.scope (*): is no scope"),
        ('[servers.mail.tools.a]\nscpe = "x:y"', "servers.mail.tools.a.scpe (*): no such key"),
        ('[servers.mail.auth]\ntype = "x"', "servers.mail.auth"),
        ("[servers]\nmail = 1", "servers.mail (*): should be a table"),
        ('[servers.mail]\nurl = "http://x"\n[upstream]\nurl = "http://y"', "upstream.url (*) is for one server"),
        ('[servers.mail]\nurl = "http://x"\n[tools.a]\nscope = "a:b"', "tools.a (*) is for one server"),
        ('[servers.mail]\nurl = "http://x"\n[resources]\nscope = "a:b"', "resources.scope (*) is for one server"),
    ],
)
def test_what_is_wrong_in_a_file_is_told_with_its_place(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        loaded(tmp_path, text)
    assert error.value.what.startswith(what.replace("*", str(tmp_path / "accredit.toml")))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[servers.mail]\nenv = {}", "servers.mail: neither url nor command is set"),
        ('[servers.mail]\nurl = "http://x"\ncommand = ["x"]', "servers.mail.url (*) and servers.mail.command (*)"),
        ('[servers.mail]\nurl = "http://x"\nenv = { A = "b" }', "servers.mail.env is for a command"),
        ('[servers.mail]\nurl = "http://x"\nheaders = { A = { env = "NO" } }', "servers.mail.headers.A is to come"),
        ('[servers.mail]\ncommand = ["/no/such"]', "servers.mail command not found"),
        ('[servers.mail]\ncommand = ["x"]\ncwd = "no"', "servers.mail.cwd: there is no folder"),
        ('[servers.mail]\nurl = "http://x"\nidentity_header = "X-Who"', "servers.mail.identity_header is set"),
        ('[servers.mail]\nurl = "http://x"\n[servers.mail.tools.a]\nscope = "a:b"\ntoken_scope = "t"',
         "servers.mail.tools.a.token_scope is set and tokens.mode is not"),
        (f'[servers.mail]\nurl = "http://x"\n[servers.mail.auth]\n{AUTH}',
         "servers.mail.auth.client_secret is to come"),
        ('[gateway]\npassthrough = ["/x"]\n[servers.mail]\nurl = "http://x"', "gateway.passthrough is set"),
        ('[gateway]\npath = "/"\n[servers.healthz]\nurl = "http://x"', "servers.healthz: its path /healthz"),
        ('[pins]\nmode = "enforce"\n[servers.mail]\nurl = "http://x"', 'pins.mode is "enforce", and there is no'),
    ],
)  # fmt: skip
def test_what_can_not_work_is_told_with_its_place(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        build_all_settings(loaded(tmp_path, text), {})
    assert error.value.what.startswith(what.replace("*", str(tmp_path / "accredit.toml")))


def test_what_is_about_one_server_takes_none_of_several(tmp_path: Path) -> None:
    whole = loaded(tmp_path, TWO)
    with pytest.raises(ConfigurationError, match="names 2 servers, and this is about one"):
        build_upstream(whole, ENVIRON)
    with pytest.raises(ConfigurationError, match="no server is called 'other'") as error:
        view(whole, "other")
    assert "mail, files-2" in error.value.remedy
    assert isinstance(build_upstream(view(whole, "mail"), ENVIRON), HttpUpstream)


def test_the_only_mcp_server_need_not_be_named(tmp_path: Path) -> None:
    api = '[servers.api]\nprotocol = "http"\nurl = "http://127.0.0.1:2"\npath = "/api"\n'
    routes = '[servers.api.routes."GET /a"]\nscope = "email:read"\n'
    mail = '[servers.mail]\nurl = "http://127.0.0.1:1/mcp"\n'
    assert build_settings(loaded(tmp_path, mail + api + routes), {}).server == "mail"
    assert only_server(loaded(tmp_path, mail)) == "mail"
    assert only_server(loaded(tmp_path, TWO)) is None
    assert only_server(loaded(tmp_path, '[upstream]\nurl = "http://127.0.0.1:1/mcp"\n')) is None


def test_names_of_servers_do_not_come_from_the_environment(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="names with their own spelling"):
        loaded(tmp_path, TWO, {"ACCREDIT_SERVERS__MAIL": "{}"})
    with pytest.raises(ConfigurationError, match="is for one server"):
        loaded(tmp_path, TWO, {"ACCREDIT_UPSTREAM__URL": "http://127.0.0.1:3"})


def test_each_server_is_held_to_what_the_lock_says_of_it_by_name(tmp_path: Path) -> None:
    one, two = (read_definition(json.dumps({"inputSchema": {}, "name": name}).encode()) for name in ("send", "read"))
    lock = {"mail": Definitions({"send": one}), "files-2": Definitions({"read": two})}
    (tmp_path / "accredit.lock").write_bytes(write_lock(lock))
    whole = loaded(tmp_path, TWO)
    pins = [each.pins for each in build_all_settings(whole, ENVIRON)]
    assert [set(each.tools) for each in pins if each is not None] == [{"send"}, {"read"}]
    assert read_pinned(view(whole, "mail")) == lock["mail"]
    (tmp_path / "accredit.lock").write_bytes(write_lock({"mail": lock["mail"]}))
    with pytest.raises(ConfigurationError, match=r"pins nothing of the server of \[servers.files-2\]"):
        build_all_settings(whole, ENVIRON)


def test_a_lock_that_changes_meanwhile_is_the_same_for_all_servers(tmp_path: Path) -> None:
    one, two = (read_definition(json.dumps({"inputSchema": {}, "name": name}).encode()) for name in ("send", "read"))
    lock, names = tmp_path / "accredit.lock", ("mail", "files-2")

    class Changing(dict[str, str]):
        """An environment; when the second server's header is looked up, the lock changes."""

        def get(self, key: str, default: Any = None) -> Any:
            if key == "LATER":
                lock.write_bytes(write_lock(dict.fromkeys(names, Definitions({"read": two}))))
            return super().get(key, default)

    lock.write_bytes(write_lock(dict.fromkeys(names, Definitions({"send": one}))))
    later = 'url = "http://127.0.0.1:2/mcp"\nheaders = { X = { env = "LATER" } }'
    text = TWO.replace(f'command = ["{sys.executable}", "x.py"]', later)
    pins = [each.pins for each in build_all_settings(loaded(tmp_path, text), Changing(OTHER="x", LATER="y"))]
    assert [set(each.tools) for each in pins if each is not None] == [{"send"}, {"send"}]
    assert lock.read_bytes() == write_lock(dict.fromkeys(names, Definitions({"read": two})))


PROVED = """
[gateway]
id = "gate"
merge = true
[servers.mail]
url = "http://127.0.0.1:1/mcp"
[servers.mail.tools.list_inbox]
scope = "email:read"
[servers.calendar]
url = "http://127.0.0.1:2/mcp"
[servers.calendar.tools.list_inbox]
scope = "calendar:read"
[servers.api]
url = "http://127.0.0.1:3"
protocol = "http"
path = "/api"
[servers.api.routes."GET /files"]
scope = "archive:read"
[proofs]
mode = "required"
[[proofs.roots]]
name = "Owner"
public_key_file = "owner.key.pub"
"""


def test_one_delegation_for_several_servers_is_refused_at_none_for_the_scope_of_another(tmp_path: Path) -> None:
    world = World()
    write_key(tmp_path / "owner.key", world.owner)
    file = tmp_path / "accredit.toml"
    file.write_text(PROVED)
    scopes = ("email:read", "calendar:read", "archive:read")
    grant = Grant(subject=world.agent.public_key, cert_id="c1" * 16, scope=scopes, issued_at=NOW, expires_at=NOW + DAY)
    chain = (issue_delegation(world.owner.signer(), grant, vocabulary=scopes),)

    loaded = load(file, {}, {})
    settings = [*build_all_settings(loaded, {}), build_settings(loaded, {}, server="mail")]
    assert [each.server for each in settings] == ["mail", "calendar", "api", "", "mail"]
    for each in settings:
        assert each.proofs is not None
        judged = verify_chain(chain, now=NOW, vocabulary=each.proofs.policy.vocabulary)
        assert judged.valid, (each.server, judged.error_reason)
