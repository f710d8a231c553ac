"""Several servers as one, with the real commands and servers: from a configuration to the log, in both eras."""

import json
import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from tests.world.command import Serving, accredit, environment, wait_until
from tests.world.raw_server import PATIENCE
from tests.world.warm import python

from accredit.config.pins import read_lock_file

pytestmark = [pytest.mark.slow, pytest.mark.holds("config/build")]

MAIL_SERVER = str(Path(__file__).parents[2] / "examples/mail_server.py")
CONFIG = ("--config", "accredit.toml")
AGENT = ("--key", "agent.key", "--delegation", "delegation.json")
EMAIL = ("--arg", "to=ada@example.org", "--arg", "subject=Hello")
TOOLS = {f"{server}__{tool}" for server in ("mail", "calendar") for tool in ("list_inbox", "search", "send_email")}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two servers, each with its lock, as one as well, and an agent that may do at `mail` what there is to do."""
    folder = tmp_path_factory.mktemp("gateway")
    server = ("--", python(), MAIL_SERVER)
    grant = ("grant", "--issuer", "owner.key", "--agent", "agent.key.pub", "--yes", "--out", "delegation.json")
    for command in (
        ("init", "--server", "mail", *server),
        ("add", "calendar", *server),
        ("keys", "new", "owner.key", "--kind", "human", "--no-passphrase"),
        ("keys", "new", "agent.key", "--kind", "agent"),
        (*grant, "--tool", "mail__send_email", "--tool", "mail__list_inbox", *CONFIG),
    ):
        done = accredit(*command, folder=folder)
        assert done.returncode == 0, (command, done.stderr)
    file = folder / "accredit.toml"
    file.write_text(file.read_text("utf-8").replace("[gateway]\n", "[gateway]\nmerge = true\n"), "utf-8")
    assert accredit("config", "check", folder=folder).returncode == 0
    shown = json.loads(accredit("config", "show", "--json", folder=folder).stdout)
    assert shown["gateway"]["merge"]["value"] is True
    return folder


@pytest.fixture(scope="module")
def gateway(made: Path) -> Generator[Serving]:
    with Serving(*CONFIG, folder=made) as serving:
        yield serving


def at(gateway: Serving) -> str:
    return f"http://127.0.0.1:{gateway.port}/mcp"


def test_a_call_by_the_merged_name_is_made_at_its_server__and_the_log_says_which(made: Path, gateway: Serving) -> None:
    wait_until(lambda: f"listening on {at(gateway)} (1 worker)" in gateway.stderr)
    way = ("--url", at(gateway), *AGENT)
    sent = accredit("call", "mail__send_email", *EMAIL, *way, folder=made)
    assert (sent.returncode, "sent to ada" in sent.stdout) == (0, True), sent.stderr
    refused = accredit("call", "calendar__send_email", *EMAIL, *way, folder=made)
    assert (refused.returncode, "custom:calendar:send_email" in refused.stderr) == (1, True), refused.stderr
    nobodys = accredit("call", "send_email", *EMAIL, *way, folder=made)
    assert nobodys.returncode == 1
    known = json.loads((made / "known_gateways.json").read_bytes())
    assert known == {at(gateway): json.loads((made / "gateway.key.pub").read_bytes())["id"]}
    rows = [json.loads(line) for line in accredit("log", "list", "--json", folder=made).stdout.splitlines()]
    allowed = [row for row in rows if row["target"] == "mail__send_email" and row["server"] == "mail"]
    assert allowed
    assert {row["server"] for row in rows if row["target"] == "calendar__send_email"} == {"calendar"}
    assert accredit("log", "verify", folder=made).returncode == 0
    text = accredit("log", "show", allowed[-1]["call"], "--json", folder=made).stdout
    assert (read_lock_file(made / "accredit.lock")["mail"].tools["send_email"].sha256 or "none") in text


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_host_has_all_servers_as_one(made: Path, gateway: Serving, mode: str) -> None:
    words = ["-m", "accredit", "connect", at(gateway), *AGENT]
    command = StdioServerParameters(command=python(), args=words, env=environment(), cwd=made)
    async with Client(stdio_client(command), mode=mode, read_timeout_seconds=PATIENCE) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert tools == TOOLS - {"calendar__send_email"}  # what the delegation does not cover is not listed
        assert not (await client.call_tool("mail__list_inbox")).is_error
        assert not (await client.call_tool("calendar__search", {"word": "engine"})).is_error


def test_a_server_that_says_something_else_is_shown_and_called_no_more__the_other_as_before(
    made: Path, tmp_path: Path
) -> None:
    own = tmp_path / "mail_server.py"
    own.write_text(Path(MAIL_SERVER).read_text("utf-8"), "utf-8")
    text = (made / "accredit.toml").read_text("utf-8")
    first, rest = text.split("[servers.mail]", 1)
    changed = first + "[servers.mail]" + rest.replace(MAIL_SERVER, str(own), 1)
    (made / "changed.toml").write_text(changed, "utf-8")
    own.write_text(own.read_text("utf-8").replace('"""Sends a message."""', '"""Sends a message, and a copy to me."""'))
    with Serving("--config", "changed.toml", folder=made) as serving:
        own_id = json.loads((made / "gateway.key.pub").read_bytes())["id"]
        way = ("--url", at(serving), *AGENT, "--gateway-id", own_id)
        refused = accredit("call", "mail__send_email", *EMAIL, *way, folder=made)
        assert (refused.returncode, "no tool mail__send_email is listed" in refused.stderr) == (1, True), refused.stderr
        assert accredit("call", "mail__list_inbox", *way, folder=made).returncode == 0
        os.kill(serving.process.pid, signal.SIGTERM)
        assert serving.process.wait(PATIENCE) == 0
