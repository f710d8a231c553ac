"""The real `accredit` command: what it prints, what it refuses, and that a refusal starts nothing."""

import json
import re
import ssl
import stat
import subprocess
import sys
from contextlib import closing
from email.utils import parsedate_to_datetime
from http.client import HTTPSConnection
from pathlib import Path

import pytest
from tests.world.certificates import write_certificate
from tests.world.command import COMMAND, Serving, accepts, accredit, environment, wait_until
from tests.world.ports import reserved_port
from tests.world.raw_server import PATIENCE
from tests.world.warm import Warm

from accredit.base.version import version_text
from accredit.keys import make_key, write_key

pytestmark = [
    pytest.mark.holds("cli/actions/serve"),
    pytest.mark.holds("ops/config"),
    pytest.mark.holds("cli/commands/config"),
]


ISSUER = '[[tokens.issuers]]\nissuer = "a"\naudience = "b"\njwks_url = "https://a.example/k"\n'
URL = '[upstream]\nurl = "http://127.0.0.1:9/mcp"\n'
TOKENS = URL + '[tokens]\nmode = "required"\n[[tokens.issuers]]\nissuer = "a"\naudience = "b"\n'
ROOT = '[[proofs.roots]]\nname = "Owner"\npublic_key_file = "owner.key.pub"\n'


def write(folder: Path, text: str) -> None:
    (folder / "accredit.toml").write_text(text, "utf-8")


def refused(folder: Path, *arguments: str, env: dict[str, str] | None = None) -> tuple[str, str]:
    """Runs a command that must refuse: exit code 2, nothing on stdout, two lines on stderr, nothing listening."""
    with reserved_port() as port:
        own = {"ACCREDIT_GATEWAY__PORT": str(port), "RES_OPTIONS": "timeout:1 attempts:1"}  # a DNS may not answer
        done = accredit(*arguments, folder=folder, env={**own, **(env or {})})
        assert not accepts(port)
    assert done.returncode == 2, done
    assert done.stdout == ""
    what, remedy = done.stderr.splitlines()
    assert what.startswith("error: ")
    assert remedy.startswith("help: ")
    return what, remedy


def test_the_version_is_printed(tmp_path: Path) -> None:
    done = accredit("--version", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"accredit {version_text()}\n")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((), "Missing command"),
        (("serv",), "'serve'"),
        (("keys", "new", "x"), "'--kind'. Choose from: human, agent, gateway"),
        (("serve", "--prot", "1"), "--port"),
        (("serve", "--workers", "many"), "--workers"),
        (("serve", "http://127.0.0.1:9/mcp", "extra"), "extra"),
        (("serve", "http://127.0.0.1:9/mcp", "--", "cat"), "a URL and a command"),
        (("serve", "--log-format", "xml", "http://127.0.0.1:9/mcp"), "--log-format"),
        (("serve", "--workers", "2", "--", "cat"), "2 workers"),
        (("serve",), "no upstream"),
        (("serve", "--", "no-such-program-here"), "no-such-program-here"),
        (("serve", "ftp://127.0.0.1/mcp"), "upstream.url (URL)"),
        (("serve", "http://127.0.0.1:9/mcp", "--host", "0.0.0.0"), "TLS"),
        (("serve", "http://127.0.0.1:9/mcp", "--host", "no.such.host.invalid", "--insecure"), "no address"),
        (("serve", "http://127.0.0.1:9/mcp", "--config", "missing.toml"), "missing.toml"),
        (("wrap",), "no upstream"),
        (("wrap", "--", "no-such-program-here"), "no-such-program-here"),
        (("config", "check"), "no accredit.toml"),
        (("config", "show", "--config", "missing.toml"), "missing.toml"),
    ],
)
def test_wrong_use_is_two_lines_and_exit_code_2(arguments: tuple[str, ...], word: str, tmp_path: Path) -> None:
    what, _ = refused(tmp_path, *arguments)
    assert word in what


def test_who_misspells_an_option_is_sent_to_the_help_of_that_command(tmp_path: Path) -> None:
    assert refused(tmp_path, "keys", "new", "x.key", "--kind", "robot") == (
        "error: Invalid value for '--kind': 'robot' is not one of 'human', 'agent', 'gateway'.",
        "help: `accredit keys new --help` says what there is, with an example",
    )
    assert refused(tmp_path, "keys", "new", "x.key")[0] == (
        "error: Missing option '--kind'. Choose from: human, agent, gateway"
    )


def test_help_is_as_wide_as_the_terminal(tmp_path: Path) -> None:
    page = accredit("init", "--help", folder=tmp_path, env={"COLUMNS": "200"}).stdout
    assert '(a gateway with upstream.identity = "jwt" makes identity.key later). Read-only tools share the' in page


@pytest.mark.parametrize(
    ("text", "what_word", "remedy_word"),
    [
        ("[gateway]\nprot = 1\n", "gateway.prot", "gateway.port"),
        ("[gatway]\nport = 1\n", "gatway", "[gateway]"),
        ("port = 1\n", "port", "gateway.port"),
        ("[upstream]\nmax_event_bytes = 1\n", "upstream.max_event_bytes", "gateway.max_event_bytes"),
        ('[gateway]\nport = "8484"\n', "gateway.port", "TCP port"),
        ("[gateway]\nport = true\n", "gateway.port", "TCP port"),
        ("[gateway]\nport = 65536\n", "gateway.port", "TCP port"),
        ("[gateway]\nmax_request_bytes = 0\n", "gateway.max_request_bytes", "bytes"),
        ("[gateway]\nupstream_timeout_seconds = nan\n", "gateway.upstream_timeout_seconds", "seconds"),
        ('[gateway]\npath = "mcp"\n', "gateway.path", "MCP endpoint"),
        ('[gateway]\npath = "/healthz"\n', "gateway.path", "MCP endpoint"),
        ('[gateway]\nallowed_hosts = "all"\n', "gateway.allowed_hosts", "list"),
        ("gateway = 1\n", "gateway", "[gateway]"),
        ("[[gateway]]\nport = 1\n", "gateway", "[gateway]"),
        ('[gateway]\n"a\\nb" = 1\n', "a\\nb", "gateway"),
        ("[gateway\n", "not TOML", "line 1"),
        ('[validation]\nresponses = "off"\n', "validation.responses", '"observe"'),
        ('[upstream]\nurl = "http://127.0.0.1:9/"\ncommand = ["cat"]\n', "exclude each other", "keep the one"),
        ('[upstream]\nurl = "http://user:hidden@host/"\n', "user name", "URL"),
        ('[upstream]\ncommand = "cat"\n', "upstream.command", "list"),
        ("[upstream]\ncommand = []\n", "upstream.command", "list"),
        ('[upstream]\ncommand = ["./no-such-file"]\n', "no-such-file", "executable"),
        ('[upstream]\ncommand = ["cat"]\nheaders = { A = "b" }\n', "upstream.headers", "remove"),
        (URL + 'env = { A = "b" }\n', "upstream.env", "remove"),
        (URL + "headers = { A = 1 }\n", "upstream.headers.A", "NAME"),
        (URL + 'headers = { A = { env = "NOT_SET" } }\n', "NOT_SET", "NOT_SET"),
        (URL + 'headers = { A = { evn = "X" } }\n', "upstream.headers.A", "NAME"),
        (URL + 'headers = { Host = "a" }\n', "Host", "upstream.headers"),
        (URL + '[gateway]\ntls_cert_file = "c.pem"\n', "tls_key_file", "tls_key_file"),
        (URL + '[gateway]\ntls_cert_file = "c.pem"\ntls_key_file = "k.pem"\n', "c.pem", "tls_cert_file"),
        (URL + '[gateway]\nhost = "0.0.0.0"\n', "0.0.0.0", "--insecure"),
        (URL + '[attest]\nmode = "durable"\n', "attest.key_file is not set", "accredit keys new"),
        (
            URL + '[attest]\nmode = "durable"\nkey_file = "no.key"\n',
            "attest.key_file: there is no ",
            "accredit keys new",
        ),
        ('[attest]\nmode = "on"\n', "attest.mode", '"durable"'),
        (URL + '[tokens]\nmode = "required"\n', "tokens.mode", "[[tokens.issuers]]"),
        (URL + '[[tokens.issuers]]\nissuer = "a"\naudience = "b"\n', "tokens.mode is not", '"required"'),
        (URL + '[tools.a]\nscope = "a:b"\ntoken_scope = "c"\n', "tools.a.token_scope", '"required"'),
        (TOKENS, "tokens.issuers[0]: no keys", "jwks_url"),
        (TOKENS + 'jwks_url = "http://issuer.example/k"\n', "tokens.issuers.jwks_url", "https"),
        (TOKENS + 'jwks_url = "https://a.example/k"\njwks_file = "k"\n', "jwks_url and jwks_file exclude", "one of"),
        (TOKENS + 'jwks_file = "k.json"\n', "tokens.issuers[0].jwks_file", "name a file"),
        (TOKENS + 'jwks_url = "https://a.example/k"\nalgorithms = ["HS256"]\n', "HS256", "ES256"),
        (TOKENS + 'jwk_url = "https://a.example/k"\n', "tokens.issuers[0].jwk_url ", "tokens.issuers[0].jwks_url"),
        (URL + '[tokens]\nmode = "optional"\nbind_agent = "sub"\n' + ISSUER, "tokens.bind_agent", '"required"'),
        ("[rounds]\nstate_seconds = 86401\n", "rounds.state_seconds", "seconds"),
        (URL + '[rounds]\nkeys_file = "no.keys"\n', "no.keys", "openssl rand -base64 32"),
        (URL + '[proofs]\nmode = "required"\n', "proofs.mode", "[[proofs.roots]]"),
        (URL + ROOT, "proofs.mode is not", '"required"'),
        (URL + '[proofs]\nmode = "required"\n' + ROOT, "there is no ", "accredit keys new"),
        (ROOT + "nam = 1\n", "proofs.roots[0].nam ", "proofs.roots[0].name"),
        ("[proofs]\nroots = [1]\n", "proofs.roots[0]", "proofs.roots is"),
        ('[proofs.revocation]\nfile = ["a"]\n', "proofs.revocation.file ", "proofs.revocation.files"),
        ("[proofs]\nfreshness_seconds = 301\n", "proofs.freshness_seconds", "seconds"),
        ('[proofs]\ndefault_tool_scope = "email:*"\n', "proofs.default_tool_scope", "[tools]"),
        ('[tools.pay]\nscop = "a:b"\n', "tools.pay.scop ", "tools.pay.scope"),
        ("[tools.pay]\n", "tools.pay.scope", "email:send"),
        ('[tools.pay]\nscope = "payments:*"\n', "tools.pay.scope", "email:send"),
        ('[tools.pay]\nscope = "a:b"\naccepts = [""]\n', "tools.pay.accepts[0]", "tools.pay.accepts is"),
        ('[tools.pay]\nscope = "a:b"\nfacts = { amont = "/a" }\n', "tools.pay.facts", "JSON Pointers"),
        ('tools.pay = "payments:send"\n', "tools.pay", "[tools.pay]"),
        ('[resources]\nscop = "a:b"\n', "resources.scop ", "resources.scope"),
        ('[resources."file:///"]\nfacts = {}\n', "resources.file:///.facts", "resources.file:///."),
        ('[prompts]\nscope = ""\n', "prompts.scope", "prompts"),
        ('[store]\nurl = "postgresql://u:hidden@host"\n', "store.url", '"memory:"'),
    ],
)
def test_a_wrong_configuration_stops_the_start(text: str, what_word: str, remedy_word: str, tmp_path: Path) -> None:
    write(tmp_path, text)
    what, remedy = refused(tmp_path, "serve")
    assert what_word in what
    assert remedy_word in (what if remedy_word == "line 1" else remedy)
    assert "hidden" not in what + remedy


@pytest.mark.parametrize(
    ("name", "value", "what_word", "remedy_word"),
    [
        ("ACCREDIT_GATWAY__PORT", "1", "ACCREDIT_GATWAY__PORT", "ACCREDIT_GATEWAY__PORT"),
        ("ACCREDIT_UPSTREAM__ENV__A", "1", "ACCREDIT_UPSTREAM__ENV__A", "ACCREDIT_UPSTREAM__ENV"),
        ("ACCREDIT_GATEWAY__MAX_EVENT_BYTES", "many", "ACCREDIT_GATEWAY__MAX_EVENT_BYTES", "gateway.max_event"),
        ("ACCREDIT_GATEWAY__ALLOWED_HOSTS", "a,b", "ACCREDIT_GATEWAY__ALLOWED_HOSTS", "list"),
        ("ACCREDIT_ATTEST__MODE", "durable", "attest.key_file", "accredit keys new"),
        ("ACCREDIT_PROOFS__MODE", "on", "ACCREDIT_PROOFS__MODE", '"required"'),
        ("ACCREDIT_PROOFS__MODE", "required", "proofs.mode", "[[proofs.roots]]"),
        ("ACCREDIT_TOOLS__PAY", '{"scope": "a:b"}', "ACCREDIT_TOOLS__PAY", "[tools.NAME]"),
        ("ACCREDIT_CONFIG", "missing.toml", "missing.toml", "ACCREDIT_CONFIG"),
    ],
)
def test_a_wrong_environment_stops_the_start(
    name: str, value: str, what_word: str, remedy_word: str, tmp_path: Path
) -> None:
    what, remedy = refused(tmp_path, "serve", "http://127.0.0.1:9/mcp", env={name: value})
    assert what_word in what
    assert remedy_word in remedy


def test_a_file_that_can_not_be_read_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "accredit.toml").mkdir()
    what, _ = refused(tmp_path, "serve")
    assert "accredit.toml" in what


def test_check_says_what_is_well(tmp_path: Path) -> None:
    write(tmp_path, URL)
    done = accredit("config", "check", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"ok: {tmp_path}/accredit.toml is valid",
        "ok: the upstream is a URL",
        "ok: tokens are off",
        "ok: proofs are off",
        "ok: records are off",
        "ok: TLS is off",
    ]


def test_check_says_what_serve_will_need(tmp_path: Path) -> None:
    write(tmp_path, '[gateway]\nhost = "0.0.0.0"\n[proofs]\nmode = "off"\n')
    done = accredit("config", "check", folder=tmp_path)
    assert done.returncode == 0
    assert "needs a URL or a command" in done.stdout
    assert "needs --insecure" in done.stdout


@pytest.mark.parametrize(
    ("text", "upstream", "exposed"),
    [
        (URL, "url", False),
        ('[upstream]\ncommand = ["cat"]\n', "command", False),
        ('[gateway]\nhost = "::"\n', None, True),
    ],
)
def test_check_says_it_as_json(text: str, upstream: str | None, exposed: bool, tmp_path: Path) -> None:
    write(tmp_path, text)
    done = accredit("config", "check", "--json", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert bool(found.pop("exposed")) is exposed
    modes = {"tokens": "off", "proofs": "off", "records": "off", "signer": False, "tls": False}
    assert found == {"ok": True, "file": f"{tmp_path}/accredit.toml", "upstream": upstream, **modes}


@pytest.mark.slow
def test_a_gateway_does_not_start_without_a_list_that_it_names__and_does_with_the_one_that_the_remedy_makes(
    tmp_path: Path,
) -> None:
    write_key(tmp_path / "owner.key", make_key("human", "Owner", 1_800_000_000))
    proofs = '[gateway]\nid = "mail"\n[proofs]\nmode = "required"\n'
    write(tmp_path, URL + proofs + ROOT + '[proofs.revocation]\nfiles = ["revoked.json"]\n')
    for command in (("config", "check"), ("serve",)):
        done = accredit(*command, folder=tmp_path)
        assert done.returncode == 2
        assert f"{tmp_path}/revoked.json: can't be read" in done.stderr
        remedy = re.search(r"`accredit (revoke --list \S+ --empty --issuer) KEY`", done.stderr)
        assert remedy is not None, done.stderr
    told = accredit("doctor", "--config", "accredit.toml", "--json", folder=tmp_path, env={"HOME": str(tmp_path)})
    assert any(
        "can't be read" in each["what"] for each in json.loads(told.stdout)["findings"] if each["level"] == "bad"
    )
    assert accredit(*remedy[1].split(), "owner.key", folder=tmp_path).returncode == 0
    assert accredit("config", "check", folder=tmp_path).returncode == 0


def test_show_masks_secrets_and_names_origins(tmp_path: Path) -> None:
    write(tmp_path, '[upstream]\nurl = "http://h/?k=hidden"\nheaders = { A = "hidden", B = { env = "C" } }\n')
    env = {"ACCREDIT_GATEWAY__PORT": "9000", "ACCREDIT_TOKEN": "hidden"}
    done = accredit("config", "show", "--host", "::1", folder=tmp_path, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert 'gateway.host = "::1"  # command line --host' in lines
    assert "gateway.port = 9000  # environment ACCREDIT_GATEWAY__PORT" in lines
    assert 'gateway.path = "/mcp"  # default' in lines
    assert f'upstream.url = "http://h/?***"  # file {tmp_path}/accredit.toml' in lines
    assert f'upstream.headers = {{"A": "***", "B": {{"env": "C"}}}}  # file {tmp_path}/accredit.toml' in lines
    assert "hidden" not in done.stdout


def test_show_as_json(tmp_path: Path) -> None:
    done = accredit("config", "show", "--json", "--", "cat", "-u", folder=tmp_path)
    shown = json.loads(done.stdout)
    assert shown["upstream"]["command"] == {
        "value": ["cat", "-u"],
        "origin": "command line",
        "source": "-- COMMAND",
    }
    assert shown["gateway"]["port"] == {"value": 8484, "origin": "default", "source": None}


def test_the_schema_is_json_schema(tmp_path: Path) -> None:
    schema = json.loads(accredit("config", "schema", folder=tmp_path).stdout)
    assert schema["$defs"]["Gateway"]["properties"]["port"]["default"] == 8484
    assert schema["additionalProperties"] is False
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$defs"]["Tools"]["additionalProperties"] == {"$ref": "#/$defs/Tool"}


def test_a_validating_proxy_says_what_it_is_not(tmp_path: Path) -> None:
    with Serving("http://127.0.0.1:9/mcp", folder=tmp_path) as gateway:
        assert gateway.url == f"http://127.0.0.1:{gateway.port}/mcp"
        assert "tokens, proofs and records are off" in gateway.stderr
        assert "`accredit init URL`" in gateway.stderr
        gateway.stop()
        assert gateway.wait() == 0


def test_it_says_so_of_a_command_too(tmp_path: Path) -> None:
    with Serving("--", "cat", folder=tmp_path) as gateway:
        assert "`accredit init -- COMMAND`" in gateway.stderr


def test_with_a_file_there_is_no_such_line(tmp_path: Path) -> None:
    write(tmp_path, URL)
    with Serving(folder=tmp_path, env={"ACCREDIT_GATEWAY__PATH": "/other"}) as gateway:
        assert gateway.url.endswith("/other")
        assert "are off" not in gateway.stderr


def test_a_command_in_the_file_runs_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "server.py").write_text("open('ran', 'w').close()", "utf-8")
    write(tmp_path / "etc", f'[upstream]\ncommand = ["{sys.executable}", "server.py"]\n')
    with Warm(
        [*COMMAND, "wrap", "--config", "etc/accredit.toml"],
        cwd=tmp_path, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as wrap:  # fmt: skip
        wait_until((tmp_path / "etc" / "ran").exists)  # then only its input ends: the end of that could be first
        assert wrap.communicate(timeout=PATIENCE)[0] == b""


@pytest.mark.slow
def test_what_is_said_to_a_closed_stderr_does_not_land_in_the_protocol(tmp_path: Path) -> None:
    line = '{"jsonrpc":"2.0","id":1,"result":{}}'
    words = f"{sys.executable} -m accredit wrap -- sh -c 'read -r x' 2>&-"
    done = subprocess.run(
        ["sh", "-c", words],
        check=False, capture_output=True, text=True, cwd=tmp_path, env=environment(), timeout=PATIENCE, input=line,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("", "")


def test_certificate_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    write_certificate(tmp_path / "etc")
    assert stat.S_IMODE((tmp_path / "etc" / "key.pem").stat().st_mode) == 0o600
    write(tmp_path / "etc", URL + '[gateway]\ntls_cert_file = "cert.pem"\ntls_key_file = "key.pem"\n')
    with Serving("--config", "etc/accredit.toml", folder=tmp_path) as gateway:
        assert gateway.url == f"https://127.0.0.1:{gateway.port}/mcp"
        trusting = ssl.create_default_context(cafile=tmp_path / "etc" / "cert.pem")
        client = HTTPSConnection("127.0.0.1", gateway.port, context=trusting, timeout=PATIENCE)
        with closing(client):
            client.request("GET", "/healthz")
            answer = client.getresponse()
            assert answer.status == 200
            assert parsedate_to_datetime(answer.headers["Date"]).year > 2000  # clocks are compared with it
