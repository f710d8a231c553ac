"""The checklist for production: each line finds what it is there to find, in a folder where all the others hold."""

import json
import os
import re
import shlex
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.test_docs_command_lines import parse
from tests.world.certificates import write_certificate
from tests.world.logs import Log
from tests.world.records import ALLOW, DENY, decided, gateway
from tests.world.running import run

from accredit.attest import RecordedDecision
from accredit.base.clock import unix_seconds
from accredit.base.standard import printing_json
from accredit.config.load import load
from accredit.errors import ConfigurationError, StoreUnavailable
from accredit.keys import make_key, write_key
from accredit.ops.doctor.engine import Unknown, run_looks
from accredit.ops.doctor.production.checklist import LINES, facts_of, go_through
from accredit.ops.doctor.production.facts import (
    Facts,
    HealthReport,
    Process,
    SinkFound,
)
from accredit.ops.doctor.production.stored import drill_found
from accredit.pins.definitions import Definitions, read_definition
from accredit.pins.lock import write_lock
from accredit.policy.drill import DRILL
from accredit.stores import PostgresDatabase, SqliteFile
from accredit.stores.postgres.address import DatabaseHost
from accredit.stores.postgres.condition import DatabaseCondition
from accredit.stores.postgres.schema import VERSION
from accredit.stores.rules import DiskSpace, SchemaState
from accredit.stores.sqlite.schema import SCHEMA

pytestmark = [
    pytest.mark.holds("ops/doctor/production/configured"),
    pytest.mark.holds("ops/doctor/production/environment"),
    pytest.mark.holds("ops/doctor/production/facts"),
    pytest.mark.holds("ops/doctor/production/files"),
    pytest.mark.holds("ops/doctor/production/stored"),
    pytest.mark.holds("ops/doctor/production/checklist"),
]

PAGE = Path(__file__).parents[3] / "docs/how-to/run-in-production.md"
DEPLOY = Path(__file__).parents[3] / "deploy"
SECRET = "mark-0f6b1d"
CONFIGURATION = """
[gateway]
id = "mail"
host = "0.0.0.0"
allowed_hosts = ["mcp.example.org"]
tls_cert_file = "cert.pem"
tls_key_file = "key.pem"
drain_seconds = 10

[admin]
port = 9464

[upstream]
url = "http://127.0.0.1:9/mcp"
headers = { "X-Api-Key" = { file = "api.key" } }

[proofs]
mode = "required"
binding = "required"

[[proofs.roots]]
name = "Owner"
public_key_file = "owner.key.pub"

[tools.send]
scope = "mcp:tool"

[store]
url = "sqlite:///accredit.db"

[attest]
mode = "durable"
key_file = "gateway.key"

[rounds]
keys_file = "rounds.keys"

[[quotas]]
by = "agent"
window = "1m"
calls = 60
"""
ON_URL, WITH_KEY = 'url = "http://127.0.0.1:9/mcp"', 'headers = { "X-Api-Key" = { file = "api.key" } }'
OWN_SECRET = 'type = "client_credentials", client_id = "mail", client_secret = { file = "api.key" }'
ISSUED = '[tokens]\nmode = "required"\n[[tokens.issuers]]\nissuer = "https://a.example"\naudience = "https://b.example/mcp"\n'
CURRENT, OLDER = SchemaState(VERSION, VERSION), SchemaState(VERSION - 1, VERSION)
WELL = DatabaseCondition(
    schema=CURRENT, is_synced=True, standbys="ANY 1 (db2, db3)", powers=(), is_open=False, clock_off=0.01
)
_HOSTS = (DatabaseHost("db", 5432),)
DATABASE = PostgresDatabase(_HOSTS, "accredit", "gw", tls=(("sslmode", "verify-full"),), replicas="required")
UNENCRYPTED = PostgresDatabase(_HOSTS, "accredit", "gw", tls=(("sslmode", "prefer"),), replicas="required")
PLACE: dict[str, Any] = {
    "is_synchronised": True,
    "health": HealthReport("ok", {"store": True}),
    "processes": [Process(7, 65532, 65536)],
    "disk_space": DiskSpace(1 << 40, 1 << 41),
    "sinks": [SinkFound("siem", None)],
    "drilled": unix_seconds() - 60,
    "listens_outside": False,
}
"""What a machine of a test does not have."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    write_key(folder / "gateway.key", make_key("gateway", "mail", 1))
    write_key(folder / "owner.key", make_key("human", "Owner", 1))
    (folder / "owner.key").unlink()
    write_certificate(folder, days=60)
    for name in ("rounds.keys", "api.key"):
        (folder / name).touch(0o600)
    (folder / "rounds.keys").write_text("QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=\n")
    (folder / "api.key").write_text(SECRET)
    send = read_definition(b'{"name": "send", "inputSchema": {"type": "object"}}')
    (folder / "accredit.lock").write_bytes(write_lock({"upstream": Definitions({"send": send})}))
    (folder / "accredit.toml").write_text(CONFIGURATION)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "etc")


def found(folder: Path, **place: Any) -> Facts:
    """What is found there, and of the place what is told."""
    loaded = load(folder / "accredit.toml", {}, {})
    return facts_of(loaded, {})._replace(**{**PLACE, **place})


def judged(facts: Facts) -> dict[str, tuple[str, str]]:
    """The lines that don't hold: their states, and all that they say."""
    results = {name: line(facts) for name, line in LINES.items()}
    told = {name: (each.state, f"{each.what} {each.remedy} {each.command}") for name, each in results.items()}
    return {name: each for name, each in told.items() if each[0] != "ok"}


def test_where_all_is_as_it_should_be_every_line_holds(folder: Path) -> None:
    assert judged(found(folder)) == {}
    database = {"store": DATABASE, "database": WELL, "file_schema": None, "disk_space": Unknown("elsewhere")}
    assert judged(found(folder, **database)) == {}


def test_the_page_has_each_line_once__and_no_other() -> None:
    items = re.findall(r"^- \[ \] `(production\.[a-z]+)`:", PAGE.read_text("utf-8"), re.MULTILINE)
    assert items == list(LINES), "in the page's order"
    assert set(re.findall(r"`(production\.[a-z]+)`", PAGE.read_text("utf-8"))) == set(LINES)


def replaced(before: str, after: str) -> Callable[[Path], None]:
    """Something else in the configuration."""

    def change(folder: Path) -> None:
        file = folder / "accredit.toml"
        text = file.read_text()
        assert before in text
        file.write_text(text.replace(before, after))

    return change


def mode(name: str, bits: int) -> Callable[[Path], None]:
    return lambda folder: (folder / name).chmod(bits)


def written(name: str, bits: int) -> Callable[[Path], None]:
    return lambda folder: ((folder / name).touch(), mode(name, bits)(folder))[1]


def pipe(name: str) -> Callable[[Path], None]:
    """A pipe in a file's place: whoever opens it waits."""

    def change(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    return change


def in_the_open(change: Callable[[Path], None]) -> Callable[[Path], None]:
    """A change of the configuration, which others can read."""
    return lambda folder: (change(folder), mode("accredit.toml", 0o644)(folder))[0]


def in_database(**condition: Any) -> dict[str, Any]:
    known = {name: getattr(WELL, name) for name in WELL.__struct_fields__}
    return {"store": DATABASE, "database": DatabaseCondition(**{**known, **condition})}


def run_in(folder: Path) -> None:
    """Has the server's command run in a folder of anybody's."""
    folder.mkdir()
    folder.chmod(0o777)
    replaced(f"{ON_URL}\n{WITH_KEY}", 'command = ["true"]\ncwd = "run"')(folder.parent)


def nothing(_: Path) -> None:
    """Only the place is another."""


BROKEN: list[tuple[str, str, str, Callable[[Path], object], dict[str, Any]]] = [
    ("configuration", "no", "config check", replaced('file = "api.key"', 'file = "none.key"'), {}),
    ("files", "no", "chmod go-w", mode("accredit.lock", 0o666), {}),
    ("files", "no", "is no file", pipe("owner.key.pub"), {}),
    ("files", "no", "the folder in upstream.cwd", lambda folder: run_in(folder / "run"), {}),
    ("files", "unknown", "this look took", nothing, {"files": Unknown("this look took more than 8 s")}),
    ("keys", "no", "chmod 600", mode("gateway.key", 0o644), {}),
    ("keys", "no", "chmod 600", mode("api.key", 0o640), {}),
    ("keys", "no", "the key of the gateway's own tokens", written("identity.key", 0o644), {}),
    ("keys", "no", "is no file", pipe("rounds.keys"), {}),
    ("keys", "no", "the root Owner: its private half", lambda folder: (folder / "owner.key").touch(0o600), {}),
    ("keys", "no", "chmod go-w", lambda folder: moved(folder, "gateway.key"), {}),
    ("keys", "no", "chmod go-w", lambda folder: moved(folder, "rounds.keys"), {}),
    ("keys", "no", "chmod go-w", lambda folder: (anyones(folder / "db"), in_db(folder)), {}),
    ("keys", "no", "not there", lambda folder: (folder / "key.pem").unlink(), {}),
    ("tls", "no", "ends in 5 days", nothing, {"certificate_until": unix_seconds() + 6 * 86_400 - 43_200}),
    ("tls", "no", "the certificate ends in", lambda folder: longer_chain(folder), {}),
    ("tls", "no", "is not good before", lambda folder: write_certificate(folder, days=60, begins=2), {}),
    ("tls", "no", "no certificate", lambda folder: (folder / "cert.pem").write_text("-"), {}),
    ("tls", "no", "is not a regular file", pipe("cert.pem"), {}),
    ("tls", "no", "without TLS", replaced('tls_cert_file = "cert.pem"\ntls_key_file = "key.pem"', ""), {}),
    ("tls", "no", "from outside", lambda folder: unsecured(folder), {"listens_outside": True}),
    (
        "keys",
        "no",
        "upstream.headers.X-Team",
        lambda folder: (told(folder, "headers"), mode("accredit.toml", 0o644)(folder)),
        {},
    ),
    (
        "keys",
        "no",
        "upstream.env.API_KEY",
        lambda folder: (told(folder, "env"), mode("accredit.toml", 0o644)(folder)),
        {},
    ),
    *(
        ("keys", "no", held, in_the_open(replaced(before, after)), {})
        for held, before, after in (
            ("upstream.url", "9/mcp", "9/mcp?api_key=1"),
            ("upstream.url", "9/mcp", "9/s/sk-live-0f6b1d2e3c4a5b6d/mcp"),
            ("upstream.urls", 'url = "http://127.0.0.1:9/mcp"', 'urls = ["https://a.example/mcp?key=1"]'),
            ("upstream.command", f"{ON_URL}\n{WITH_KEY}", 'command = ["true", "--api-key", "mark-0f6b1d"]'),
            ("upstream.auth", WITH_KEY, f'auth = {{ {OWN_SECRET}, token_url = "https://a.example/token?key=1" }}'),
            ("telemetry.endpoint", "[store]", '[telemetry]\nendpoint = "https://otel.example?key=1"\n[store]'),
            ("tokens.issuers", "[store]", f'{ISSUED}jwks_url = "https://a.example/jwks?key=1"\n[store]'),
        )
    ),
    ("keys", "no", "records.pem", lambda folder: signing(folder, "records.pem"), {}),
    ("files", "no", "records.pem.pub", lambda folder: signing(folder, "records.pem.pub"), {}),
    ("keys", "no", "oauth.idp.client_secret: others can read", lambda folder: logging_in(folder, "idp.secret"), {}),
    ("keys", "no", "oauth.idp.key_file: others can read", lambda folder: logging_in(folder, "front.key"), {}),
    ("files", "no", "oauth.idp.delegation: ", lambda folder: logging_in(folder, "front.json"), {}),
    (
        "outgoing",
        "no",
        "upstream.url is plain http to mcp.example.com",
        replaced("//127.0.0.1:9", "//mcp.example.com"),
        {},
    ),
    (
        "outgoing",
        "no",
        "upstream.urls",
        replaced('url = "http://127.0.0.1:9/mcp"', 'urls = ["http://10.0.0.5/mcp"]'),
        {},
    ),
    (
        "outgoing",
        "no",
        "oauth.private_documents",
        replaced("[store]", "[oauth]\nenabled = true\nprivate_documents = true\n[store]"),
        {},
    ),
    ("outgoing", "no", "servers.mail.url is plain", lambda folder: several(folder), {}),
    (
        "outgoing",
        "no",
        "telemetry.endpoint",
        replaced("[store]", '[telemetry]\nendpoint = "http://otel:4318"\n[store]'),
        {},
    ),
    (
        "outgoing",
        "no",
        "tokens.issuers[0].issuer",
        lambda folder: issued(folder, "http://a.example", "https://a.example"),
        {},
    ),
    ("outgoing", "no", "sslmode=verify-full", nothing, {**in_database(), "store": UNENCRYPTED}),
    (
        "hosts",
        "no",
        "http://evil.example",
        replaced("drain_seconds = 10", 'allowed_origins = ["http://evil.example"]'),
        {},
    ),
    (
        "proofs",
        "no",
        "is shown what all",
        replaced('binding = "required"', 'binding = "required"\nfilter_tools = false'),
        {},
    ),
    ("outgoing", "unknown", "passthrough", lambda folder: (several(folder), passing(folder)), {}),
    ("scopes", "unknown", "passthrough", lambda folder: (several(folder), passing(folder)), {}),
    ("scopes", "unknown", "who may call one may call all", lambda folder: alike(folder), {}),
    ("answers", "unknown", "vendor/run", replaced("drain_seconds = 10", 'methods = ["vendor/run"]'), {}),
    ("hosts", "no", "name what clients put", replaced('allowed_hosts = ["mcp.example.org"]', ""), {}),
    ("admin", "unknown", "--except", replaced("port = 9464", 'port = 9464\nhost = "0.0.0.0"'), {}),
    ("proofs", "no", '"observe"', replaced('[proofs]\nmode = "required"', '[proofs]\nmode = "observe"'), {}),
    ("proofs", "no", "bound to nothing", replaced('binding = "required"', ""), {}),
    (
        "proofs",
        "no",
        "no table names",
        replaced("[[proofs.roots]]", 'default_tool_scope = "a:b"\n[[proofs.roots]]'),
        {},
    ),
    ("definitions", "no", "accredit pin", lambda folder: (folder / "accredit.lock").unlink(), {}),
    ("definitions", "no", '"warn"', replaced("[store]", '[pins]\nmode = "warn"\n[store]'), {}),
    ("definitions", "no", 'is "off"', replaced("[store]", '[pins]\nmode = "off"\n[store]'), {}),
    ("definitions", "no", "drop has a table", replaced("[store]", '[tools.drop]\nscope = "a:b"\n[store]'), {}),
    ("answers", "no", "enforce", replaced("[store]", '[validation]\nresponses = "observe"\n[store]'), {}),
    ("answers", "unknown", "unread", replaced("drain_seconds = 10", 'passthrough = ["/admin/*"]'), {}),
    ("tokens", "no", '"optional"', replaced("[store]", '[tokens]\nmode = "optional"\n[store]'), {}),
    ("revocation", "no", "--empty", lambda folder: (revoked(folder, ""), (folder / "gone.json").unlink()), {}),
    ("revocation", "no", "not a revocation", lambda folder: revoked(folder, "{}"), {}),
    ("revocation", "no", "not a regular file", lambda folder: (revoked(folder, ""), pipe("gone.json")(folder)), {}),
    ("quotas", "no", "[[quotas]]", replaced('[[quotas]]\nby = "agent"\nwindow = "1m"\ncalls = 60\n', ""), {}),
    ("quotas", "no", "is for sned", replaced("calls = 60", 'calls = 60\ntools = ["sned"]'), {}),
    ("store", "no", "in memory", replaced('[store]\nurl = "sqlite:///accredit.db"', ""), {}),
    ("store", "no", "of this one", replaced("[rounds]", "[cluster]"), {}),
    ("schema", "no", "newer accredit", nothing, {"file_schema": SchemaState(len(SCHEMA) + 1, len(SCHEMA))}),
    (
        "schema",
        "no",
        "accredit store migrate --store postgresql://ADMIN@",
        nothing,
        in_database(schema=OLDER),
    ),
    ("schema", "unknown", "gone", nothing, {"store": DATABASE, "database": Unknown("gone")}),
    ("synchronous", "no", "synchronous_standby_names", nothing, in_database(standbys="")),
    ("synchronous", "no", "fsync", nothing, in_database(is_synced=False)),
    ("role", "no", "accredit_gateway", nothing, in_database(powers=("it is a superuser",))),
    ("connections", "no", "FROM PUBLIC", nothing, in_database(is_open=True)),
    ("room", "no", "log prune", nothing, {"disk_space": DiskSpace(1 << 20, 1 << 30)}),
    ("clock", "no", "timedatectl", nothing, {"is_synchronised": False}),
    ("clock", "no", "differ by 3.0 s", nothing, in_database(clock_off=3.0)),
    ("clock", "unknown", "may not", nothing, {"is_synchronised": Unknown("the kernel may not be asked")}),
    ("sealing", "no", "rounds.keys_file", replaced('[rounds]\nkeys_file = "rounds.keys"', ""), {}),
    ("records", "no", "may be lost", replaced('mode = "durable"', 'mode = "record"'), {}),
    ("evidence", "no", "gateway's word", replaced('binding = "required"', ""), {}),
    ("evidence", "no", "gateway's word", replaced('[proofs]\nmode = "required"', '[proofs]\nmode = "observe"'), {}),
    ("evidence", "no", 'set attest.proofs = "keep"', replaced("[attest]", '[attest]\nproofs = "digest"'), {}),
    ("evidence", "no", "nothing is recorded", replaced('mode = "durable"', 'mode = "off"'), {}),
    ("shipping", "no", "log follow", nothing, {"sinks": []}),
    ("shipping", "no", "siem is 1", nothing, {"sinks": [SinkFound("siem", unix_seconds() - 7_200)]}),
    ("drill", "no", "accredit drill", nothing, {"drilled": None}),
    ("drill", "no", "40 days ago", nothing, {"drilled": unix_seconds() - 40 * 86_400 - 43_200}),
    ("ready", "no", "store", nothing, {"health": HealthReport("not ready", {"store": False, "upstream": True})}),
    ("ready", "no", "draining", nothing, {"health": HealthReport("draining", {"store": True})}),
    ("ready", "unknown", "no gateway", nothing, {"health": Unknown("no gateway runs here")}),
    ("user", "no", "as root", nothing, {"processes": [Process(7, 0, 65536)]}),
    ("descriptors", "no", "LimitNOFILE", nothing, {"processes": [Process(7, 1, 65536), Process(8, 1, 1024)]}),
    ("stopping", "unknown", "TimeoutStopSec", replaced("drain_seconds = 10", "drain_seconds = 60"), {}),
    ("stopping", "no", "drain_seconds = 10", replaced("drain_seconds = 10", ""), in_database()),
    ("metrics", "no", "admin.port", replaced("port = 9464", ""), {}),
]


def told(folder: Path, section: str) -> None:
    """A value that stands in the configuration itself."""
    if section == "headers":
        replaced('{ file = "api.key" }', '{ file = "api.key" }, "X-Team" = "mail"')(folder)
    else:
        replaced('url = "http://127.0.0.1:9/mcp"', 'command = ["true"]\nenv = { API_KEY = "1" }')(folder)
        replaced('headers = { "X-Api-Key" = { file = "api.key" } }', "")(folder)


def signing(folder: Path, open_to_all: str) -> None:
    """Another key signs the records; one of its halves is anybody's to write."""
    replaced(
        'key_file = "gateway.key"',
        'key_file = "gateway.key"\nsigner = "file2:records.pem"\nsigner_public_key_file = "records.pem.pub"',
    )(folder)
    for each, bits in (("records.pem", 0o600), ("records.pem.pub", 0o644)):
        (folder / each).touch()
        (folder / each).chmod(0o666 if each == open_to_all else bits)


def logging_in(folder: Path, open_to_all: str) -> None:
    """People log in at a provider; one of the files for that is anybody's to read and write."""
    table = 'issuer = "https://idp.example"\nclient_id = "gw"\nclient_secret = { file = "idp.secret" }\n'
    table += 'key_file = "front.key"\ndelegation = "front.json"\n'
    replaced("[store]", f'[oauth]\nenabled = true\nconsent = "idp"\n[oauth.idp]\n{table}[store]')(folder)
    for each in ("idp.secret", "front.key", "front.json"):
        (folder / each).touch()
        (folder / each).chmod(0o666 if each == open_to_all else 0o600)


def several(folder: Path) -> None:
    """Two servers in the place of one."""
    replaced("[upstream]", "[servers.mail]")(folder)
    replaced("http://127.0.0.1:9/mcp", "http://mcp.example.com/mcp")(folder)
    replaced("[tools.send]", '[servers.files]\nurl = "https://mcp.example.com/mcp"\n[servers.mail.tools.send]')(folder)


def issued(folder: Path, issuer: str, keys: str) -> None:
    """Tokens of somebody."""
    table = f'issuer = "{issuer}"\naudience = "https://mcp.example.org/mcp"\njwks_url = "{keys}"\n'
    replaced("[store]", f'[tokens]\nmode = "required"\n[[tokens.issuers]]\n{table}[store]')(folder)


passing = replaced("drain_seconds = 10", 'passthrough = ["/admin/*"]')


def alike(folder: Path) -> None:
    """A second tool, which the delegation for the first one allows, too."""
    replaced("[tools.send]", '[tools.drop]\nscope = "mcp:tool"\n[tools.send]')(folder)


def anyones(folder: Path) -> Path:
    """A folder in which anybody may put another file in a file's place."""
    folder.mkdir()
    folder.chmod(0o777)
    return folder


def moved(folder: Path, name: str) -> None:
    """A link to a file that anybody may replace, though nobody may read it."""
    place = anyones(folder / "anyones") / name
    (folder / name).rename(place)
    (folder / name).symlink_to(place)


in_db = replaced("sqlite:///accredit.db", "sqlite:///db/accredit.db")


def longer_chain(folder: Path) -> None:
    """A certificate that is good for long, signed by one that is not."""
    (folder / "ca").mkdir()
    write_certificate(folder / "ca", days=5)
    with (folder / "cert.pem").open("ab") as chain:
        chain.write((folder / "ca" / "cert.pem").read_bytes())


def unsecured(folder: Path) -> None:
    """For a proxy of this machine alone."""
    replaced('tls_cert_file = "cert.pem"\ntls_key_file = "key.pem"', "")(folder)
    replaced('host = "0.0.0.0"', 'host = "127.0.0.1"')(folder)


def revoked(folder: Path, text: str) -> None:
    (folder / "gone.json").write_text(text)
    replaced("[[proofs.roots]]", '[proofs.revocation]\nfiles = ["gone.json"]\n[[proofs.roots]]')(folder)


@pytest.mark.parametrize(("name", "state", "said", "breaks", "place"), BROKEN)
def test_each_line_finds_what_it_is_there_for__and_says_what_mends_it(
    folder: Path, name: str, state: str, said: str, breaks: Callable[[Path], object], place: dict[str, Any]
) -> None:
    breaks(folder)
    told = judged(found(folder, **place))
    assert told[f"production.{name}"][0] == state, told
    assert said in told[f"production.{name}"][1]
    for command in re.findall(
        r"(?:^| )(accredit (?:config|pin|store|log prune)[^`]* --config \S+)", told[f"production.{name}"][1]
    ):
        parse(shlex.split(command)[1:])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a b'c $(touch bad)", "-rf", "x\ny"])
def test_what_is_to_be_pasted_names_the_very_file__or_is_not_there(folder: Path, name: str) -> None:
    there = folder.rename(folder.parent / name)
    (there / "accredit.lock").chmod(0o666)
    facts = found(there, sinks=[], drilled=None, disk_space=DiskSpace(1, 2))
    for line in LINES.values():
        result = line(facts)
        assert result.command.isprintable()
        for command in (result.command, *re.findall(r"`(accredit log follow[^`]*)`", result.remedy)):
            assert not command or str(there / "accredit.") in " ".join(shlex.split(command)), command
        assert f"--config {there}" not in result.remedy or shlex.quote(str(there)) == str(there), result.remedy
    result = LINES["production.files"](found(there))
    subprocess.run(["sh", "-c", result.command], check=True, cwd=folder.parent)
    assert not LINES["production.files"](found(there)).command


def test_a_file_without_tables_has_no_lists(folder: Path) -> None:
    (folder / "accredit.db").touch(0o600)
    assert "production.revocation" not in judged(found(folder))


@pytest.mark.parametrize(("file", "bits", "line"), [("gateway.key", 0o644, "keys"), ("accredit.lock", 0o666, "files")])
def test_the_command_of_a_line_mends_it(folder: Path, file: str, bits: int, line: str) -> None:
    (folder / file).chmod(bits)
    result = LINES[f"production.{line}"](found(folder))
    subprocess.run(["sh", "-c", result.command], check=True)
    assert judged(found(folder)) == {}


def test_each_line_has_a_harm_that_it_finds() -> None:
    assert {f"production.{name}" for name, state, *_ in BROKEN if state == "no" or name in ("admin", "scopes")} | {
        "production.stopping"
    } == set(LINES)


def test_a_drill_is_one_of_which_a_call_was_allowed__not_what_a_stranger_had_recorded(folder: Path) -> None:
    async def recorded(decision: RecordedDecision, target: str) -> None:
        async with Log(folder / "accredit.db", clock=lambda: 1_000_000_000_000) as log:
            await log.port.begin(decided(target, decision))

    file, keys = SqliteFile(folder / "accredit.db"), [gateway()[1]]
    assert isinstance(drill_found(keys, file), Unknown)
    observed = RecordedDecision(verdict="allow", enforced=False)
    for decision, target in ((DENY, DRILL), (ALLOW, f"{DRILL}.not"), (ALLOW, f"x{DRILL}"), (observed, DRILL)):
        run(recorded(decision, target))
        assert drill_found(keys, file) is None
    run(recorded(ALLOW, DRILL))
    assert drill_found(keys, file) == 1_000_000_000
    assert drill_found([gateway("stranger")[1]], file) is None, "whoever writes to the store makes no drill"
    assert isinstance(drill_found([], file), Unknown)


def everything_in(folder: Path) -> dict[str, tuple[int, int, int]]:
    found = {str(each): each.lstat() for each in [folder, *folder.rglob("*")]}
    return {name: (each.st_size, each.st_mtime_ns, each.st_mode) for name, each in found.items()}


async def test_nothing_is_changed_or_made__and_no_secret_is_shown(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Log(folder / "accredit.db") as log:
        await log.call()
    before = everything_in(folder)
    for as_json in (False, True):
        with printing_json(wanted=as_json):
            assert go_through(folder / "accredit.toml", (), {}) == 1
    shown = capsys.readouterr().out
    assert everything_in(folder) == before
    key = json.loads((folder / "gateway.key").read_text())
    for secret in (SECRET, "QUFBQUFB", *key["seed"].values(), "BEGIN PRIVATE"):
        assert secret not in shown
    assert "production.shipping: nobody has the log but the store" in shown


def test_what_is_left_out_by_name_does_not_count__but_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "accredit.db").touch(0o600)
    with printing_json():
        assert go_through(folder / "accredit.toml", list(LINES), {}) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is True
    assert {each["id"]: each["left_out"] for each in told["checks"]} == dict.fromkeys(LINES, True)
    assert "unknown" in {each["state"] for each in told["checks"]}
    with pytest.raises(ConfigurationError, match="no such line"):
        go_through(folder / "accredit.toml", ["production.none"], {})


def test_what_counts_of_a_link_is_where_it_leads(folder: Path) -> None:
    secret = folder.parent / "elsewhere.key"
    (folder / "gateway.key").rename(secret)
    (folder / "gateway.key").symlink_to(secret)
    assert judged(found(folder)) == {}
    secret.chmod(0o604)
    assert judged(found(folder))["production.keys"][0] == "no"


def in_manifest(overlay: str, folder: Path, made: Path) -> Facts:
    """What is found of a manifest's own configuration, with the secrets that its how-to has one make."""
    for name in ("accredit.toml",):
        shutil.copy(DEPLOY / "kubernetes" / overlay / name, folder)
    for name, of in {"tls.crt": "cert.pem", "tls.key": "key.pem", "cluster.keys": "rounds.keys"}.items():
        shutil.copy(made / of, folder / name)
    for name in ("gateway.key", "owner.key.pub", "rounds.keys"):
        shutil.copy(made / name, folder)
    (folder / "db.password").touch(0o600)
    environ = {} if overlay == "base" else {"ACCREDIT_STORE__URL": f"sqlite:///{folder}/store.db"}
    live = {"database": WELL, "file_schema": None, "lists": (0, 0)} if overlay == "base" else {}
    return facts_of(load(folder / "accredit.toml", environ, {}), environ)._replace(**{**PLACE, **live})


THEIRS = {
    "production.definitions": "what is pinned is what your server says",
    "production.quotas": "how much is enough is yours to say",
    "production.outgoing": "whether the cluster's network encrypts is not seen from inside",
    "production.admin": "the NetworkPolicy lets in who reads metrics, and nobody sees that from inside",
}


def test_the_manifests_own_configurations_lack_only_what_is_yours_to_add(made: Path, tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "sqlite").mkdir()
    told = judged(in_manifest("base", tmp_path / "base", made))
    assert told.keys() == {*THEIRS, "production.synchronous"}, "whether there is a standby is yours to say"
    assert judged(in_manifest("sqlite", tmp_path / "sqlite", made)).keys() == THEIRS.keys()


def test_a_configuration_that_can_t_be_read_or_may_be_somebody_else_s_has_no_lines(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = {"HOME": str(folder)}
    monkeypatch.chdir(folder)
    with pytest.raises(ConfigurationError, match="somebody else's"):
        go_through(None, (), home)
    pipe("other.toml")(folder)
    (folder / "wrong.toml").write_text("[")
    for name, why in {"other.toml": "not a regular file", "wrong.toml": "not TOML", "none.toml": "there is no"}.items():
        with pytest.raises(ConfigurationError, match=why):
            go_through(Path(name), (), home)


@pytest.mark.slow
def test_what_never_answers__or_fails__keeps_nobody_waiting_for_the_other_lines() -> None:
    stop = threading.Event()

    def fails() -> None:
        raise StoreUnavailable("gone")

    try:
        told = run_looks({"late": stop.wait, "wrong": fails, "well": lambda: 1}, seconds=1)
    finally:
        stop.set()
    assert told == {
        "late": Unknown("this look took more than 1 s", "see what it waits for"),
        "wrong": Unknown("gone", "see what is there"),
        "well": 1,
    }


async def test_a_sink_that_has_not_come_far_is_seen_in_the_log_itself(folder: Path) -> None:
    async with Log(folder / "accredit.db", clock=lambda: 1_000_000_000_000) as log:
        await log.call()
        await log.call()
    place = {"sinks": facts_of(load(folder / "accredit.toml", {}, {}), {}).sinks}
    assert place["sinks"] == []
    with SqliteFile(folder / "accredit.db").open_sink("siem") as sink:
        sink.take()
        while (batch := sink.take()).to is None:
            pass
    place = {"sinks": facts_of(load(folder / "accredit.toml", {}, {}), {}).sinks}
    assert "siem is" in judged(found(folder, **place))["production.shipping"][1]
    with SqliteFile(folder / "accredit.db").open_sink("siem") as sink:
        while (batch := sink.take()).envelopes or batch.more:
            sink.taken(batch)
    assert facts_of(load(folder / "accredit.toml", {}, {}), {}).sinks == [SinkFound("siem", None)]
