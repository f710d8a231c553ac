"""Commands that know the servers behind one gateway by their names, as processes: from `init` to `log verify`."""

import asyncio
import json
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client
from tests.world.command import Serving, accredit, environment
from tests.world.honest_server import HonestServer
from tests.world.raw_server import PATIENCE, RawServer
from tests.world.running import run
from tests.world.warm import python

from accredit.client import AccreditedClient
from accredit.keys import DelegationFile

pytestmark = [
    pytest.mark.slow,
    pytest.mark.holds("signing/grant_lookup"),
    pytest.mark.holds("cli/actions/call_way"),
    pytest.mark.holds("setup/check"),
]

MAIL_SERVER = str(Path(__file__).parents[2] / "examples/mail_server.py")
CONFIG = ("--config", "accredit.toml")
AGENT = ("--key", "agent.key", "--delegation", "delegation.json")
EMAIL = ("send_email", "--arg", "to=ada@example.org", "--arg", "subject=Hello")
GRANT = ("grant", "--issuer", "owner.key", "--agent", "agent.key.pub", "--yes", "--force", "--out")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `init` and `add` wrote, an owner's and an agent's keys, and a delegation of what mail can do."""
    folder = tmp_path_factory.mktemp("gateway")
    server = ("--", python(), MAIL_SERVER)
    for command in (
        ("init", "--server", "mail", *server),
        ("add", "calendar", *server),
        ("keys", "new", "owner.key", "--kind", "human", "--no-passphrase"),
        ("keys", "new", "agent.key", "--kind", "agent"),
        (*GRANT, "delegation.json", "--tool", "mail__send_email", "--tool", "mail__list_inbox", *CONFIG),
        ("config", "check"),
        ("check",),
    ):
        done = accredit(*command, folder=folder)
        assert done.returncode == 0, (command, done.stderr)
    return folder


@pytest.fixture(scope="module")
def gateway(made: Path) -> Generator[Serving]:
    with Serving(*CONFIG, folder=made) as serving:
        yield serving


def at(gateway: Serving) -> str:
    return f"http://127.0.0.1:{gateway.port}/mcp"


def signed(folder: Path, name: str) -> tuple[str, ...]:
    (cert,) = DelegationFile.decode((folder / name).read_bytes()).delegations
    return cert.scope


def test_a_call_by_a_servers_name_is_for_its_gateway_alone__and_the_log_lists_it_under_that_name(
    made: Path, gateway: Serving
) -> None:
    way = ("--url", at(gateway), *AGENT)
    sent = accredit("call", *EMAIL, *way, "--server", "mail", folder=made)
    assert (sent.returncode, "sent to ada" in sent.stdout) == (0, True), sent.stderr
    refused = accredit("call", *EMAIL, *way, "--server", "calendar", folder=made)
    assert (refused.returncode, "custom:calendar:send_email" in refused.stderr) == (1, True)
    own = json.loads((made / "gateway.key.pub").read_bytes())["id"]
    known = json.loads((made / "known_gateways.json").read_bytes())
    assert known == {f"{at(gateway)}/mail": f"{own}/mail", f"{at(gateway)}/calendar": f"{own}/calendar"}
    for name in ("mail", "calendar"):  # the gateway's own id is enough, and is not taken for the server's
        assert accredit("call", "list_inbox", *way, "--server", name, "--gateway-id", own, folder=made).returncode == 0
    wrong = accredit("call", "list_inbox", *way, "--server", "mail", "--gateway-id", f"{own}/mail", folder=made)
    assert (wrong.returncode, "gateway_changed" in wrong.stderr) == (1, True)
    nowhere = accredit("call", "list_inbox", *way, folder=made)
    assert (nowhere.returncode, "of several servers name one: --server NAME" in nowhere.stderr) == (1, True)
    rows = [json.loads(line) for line in accredit("log", "list", "--json", folder=made).stdout.splitlines()]
    assert {each["server"] for each in rows} == {"mail", "calendar"}
    only = accredit("log", "list", "--server", "calendar", "--json", folder=made).stdout.splitlines()
    assert [json.loads(line) for line in only] == [each for each in rows if each["server"] == "calendar"]
    table = accredit("log", "list", "--server", "mail", folder=made).stdout.splitlines()
    assert table[0].split()[:4] == ["received", "call", "server", "target"]
    assert {line.split()[2] for line in table[1:]} == {"mail"}
    assert accredit("log", "verify", folder=made).returncode == 0


def test_a_host_reaches_a_server_by_its_name(made: Path, gateway: Serving) -> None:
    async def main() -> list[str]:
        words = ["-m", "accredit", "connect", at(gateway), "--server", "mail", *AGENT]
        command = StdioServerParameters(command=python(), args=words, env=environment(), cwd=made)
        async with Client(stdio_client(command), read_timeout_seconds=PATIENCE) as client:
            return sorted(tool.name for tool in (await client.list_tools()).tools)

    assert run(main()) == ["list_inbox", "search", "send_email"]


def test_one_of_several_is_called_through_the_configurations_own_gate__and_all_where_they_are_merged(
    made: Path, tmp_path: Path
) -> None:
    done = accredit("call", *EMAIL, *CONFIG, "--server", "mail", *AGENT, folder=made)
    assert (done.returncode, "sent to ada" in done.stdout) == (0, True), done.stderr
    unnamed = accredit("call", *EMAIL, *CONFIG, *AGENT, folder=made)
    assert (unnamed.returncode, "name it with --server: mail, calendar" in unnamed.stderr) == (2, True)
    nobody = accredit("call", *EMAIL, *CONFIG, "--server", "files", *AGENT, folder=made)
    assert (nobody.returncode, "name one of mail, calendar" in nobody.stderr) == (2, True)
    text = (made / "accredit.toml").read_text("utf-8").replace("[gateway]\n", "[gateway]\nmerge = true\n")
    (made / "merged.toml").write_text(text, "utf-8")
    tool, *arguments = EMAIL
    done = accredit("call", f"mail__{tool}", *arguments, "--config", "merged.toml", *AGENT, folder=made)
    assert (done.returncode, "sent to ada" in done.stdout) == (0, True), done.stderr


def test_a_host_starts_one_of_several_behind_the_gate(made: Path) -> None:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
    for name, code in (("mail", 0), ("files", 2)):
        done = subprocess.run(
            [python(), "-m", "accredit", "wrap", *CONFIG, "--server", name], cwd=made, env=environment(),
            input=f"{line}\n", capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        assert ('"serverInfo":{"name":"mail"' in done.stdout.replace(" ", "")) == (code == 0)


@pytest.mark.holds("signing/grant_lookup", "several-servers")
def test_scopes_are_looked_up_in_all_catalogs_or_in_one(made: Path) -> None:
    assert signed(made, "delegation.json") == ("custom:mail:send_email", "mcp:tool")
    of_one = accredit(*GRANT, "one.json", "--tool", "send_email", "--server", "calendar", *CONFIG, folder=made)
    assert of_one.returncode == 0, of_one.stderr
    assert signed(made, "one.json") == ("custom:calendar:send_email",)
    done = accredit(*GRANT, "reads.json", "--all-read-only", *CONFIG, folder=made)
    assert (done.returncode, signed(made, "reads.json")) == (0, ("mcp:tool",))
    told = accredit(*GRANT, "told.json", "--tool", "mail__search", *CONFIG, folder=made).stderr
    assert "mcp:tool lets the agent use calendar__list_inbox, calendar__search, mail__list_inbox as well" in told
    bare = accredit(*GRANT, "bare.json", "--tool", "send_email", *CONFIG, folder=made)
    assert (bare.returncode, "is mail__send_email meant?" in bare.stderr) == (2, True), bare.stderr
    facts = accredit(
        *GRANT, "f.json", "--tool", "mail__send_email", "--max-amount", "5USD", *CONFIG, folder=made
    ).stderr
    assert "add to [servers.mail.tools.send_email] in" in facts


def test_each_server_is_checked_or_the_one_that_is_named__and_tables_are_written_for_each(
    made: Path, tmp_path: Path
) -> None:
    text = (made / "accredit.toml").read_text("utf-8")
    lacking = text.replace("[servers.mail.tools.search]", "[servers.mail.tools.gone]")
    (tmp_path / "accredit.toml").write_text(lacking, "utf-8")
    one = accredit("check", "calendar", folder=tmp_path)
    assert (one.returncode, one.stdout) == (0, "ok: 3 tools, each with a scope\n"), one.stderr
    both = accredit("check", folder=tmp_path)
    assert both.returncode == 1
    assert "mail: search: the catalog has no scope for it" in both.stdout
    assert "calendar: ok: 3 tools" in both.stdout
    nobody = accredit("check", "files", folder=tmp_path)
    assert (nobody.returncode, "name one of mail, calendar" in nobody.stderr) == (2, True)
    fixed = accredit("check", "mail", "--fix", folder=tmp_path)
    assert "tables for search of mail" in fixed.stderr
    assert (tmp_path / "accredit.toml").read_text("utf-8").startswith(lacking)
    assert "[servers.mail.tools.search]\n" in (tmp_path / "accredit.toml").read_text("utf-8")


async def test_a_client_at_a_gateway_of_several_servers_reads_to_name_one(gateway: Serving) -> None:
    with pytest.raises(MCPError, match="Not found: /mcp: name the endpoint that `accredit serve` prints"):
        async with AccreditedClient(at(gateway)):
            pass


async def test_what_is_for_one_server_goes_to_no_other(tmp_path: Path) -> None:
    async with RawServer(HonestServer()) as mail, RawServer(HonestServer()) as calendar:
        text = f'[servers.mail]\nurl = "{mail.url}"\n[servers.calendar]\nurl = "{calendar.url}"\n'
        (tmp_path / "accredit.toml").write_text(text, "utf-8")
        grant = (*GRANT, "x.json", "--all-read-only", *CONFIG)
        for words in (("check",), grant, ("check", "mail")):
            command = (*words, "--header", "X-Api-Key=env:KEY")
            done = await asyncio.to_thread(accredit, *command, folder=tmp_path, env={"KEY": "of-the-mail"})
            if "mail" not in words:
                assert (done.returncode, "are for one server" in done.stderr) == (2, True), done.stderr
                assert [*mail.requests, *calendar.requests] == []
        assert {dict(each.headers).get("x-api-key") for each in mail.requests} == {"of-the-mail"}
        assert calendar.requests == []


def test_one_that_can_not_be_asked_is_told_by_its_name__and_hides_nothing_of_the_others(tmp_path: Path) -> None:
    nowhere = "http://127.0.0.1:9/mcp"
    (tmp_path / "accredit.toml").write_text(
        f'[servers.down]\nurl = "{nowhere}"\n[servers.idp]\nurl = "{nowhere}"\n[servers.idp.auth]\n'
        'type = "client_credentials"\ntoken_url = "http://127.0.0.1:9/token"\nclient_id = "gw"\n'
        f'client_secret = {{ env = "SECRET" }}\n[servers.mail]\ncommand = ["{python()}", "{MAIL_SERVER}"]\n',
        "utf-8",
    )
    env = {"SECRET": "s"}
    done = accredit("check", folder=tmp_path, env=env)
    assert done.returncode == 2
    assert "mail: send_email: the catalog has no scope for it" in done.stdout
    assert "error: down: the server did not list its tools" in done.stderr
    assert "error: idp: no token for the server" in done.stderr
    assert "see whether servers.idp.auth names the right URL" in done.stderr
    found = json.loads(accredit("check", "--json", folder=tmp_path, env=env).stdout)
    assert {name: each["ok"] for name, each in found["servers"].items()} == dict.fromkeys(
        ("mail", "down", "idp"), False
    )
    assert len(found["servers"]["mail"]["findings"]) == 3
    one = accredit("check", "idp", folder=tmp_path, env=env)
    assert (one.returncode, "error: idp: no token" in one.stderr) == (2, True)
