"""The quickstarts of hosts are done here as they are written, with a host's file in place of the host."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.world import adopting
from tests.world.command import environment
from tests.world.connected import Connected
from tests.world.up import Newcomer, Up
from tests.world.warm import path

from accredit.hosts.table import HOSTS, Places

pytestmark = pytest.mark.slow

PAGES = Path(__file__).parents[2] / "docs" / "quickstart"
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
TOKEN = {"TOKEN": "s3cret"}
NAMES = ("claude-desktop", "claude-code", "cursor", "vscode")


def shell(command: str, person: Newcomer) -> subprocess.CompletedProcess[str]:
    """Runs what a user types, who has said yes."""
    done = subprocess.run(
        ["bash", "-c", command], cwd=person.work, env=environment({**person.env, "PATH": path()}),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("name", NAMES)
def test_the_page_leads_from_a_host_s_servers_to_calls_that_are_signed_and_on_record(
    name: str, tmp_path: Path, free_port: Callable[[], int]
) -> None:
    person = Newcomer(tmp_path, free_port())
    person.env["ACCREDIT_GATEWAY__PORT"] = str(person.port)  # in place of 8484, which may be somebody else's
    host = HOSTS[name]
    file = host.file(Places(person.env))
    file.parent.mkdir(parents=True, exist_ok=True)
    tools = ["list_inbox", "search", "send_email"]
    server = {"command": sys.executable, "args": [adopting.__file__, "--tools", ",".join(tools)], "env": TOKEN}
    old = json.dumps({"theme": "dark", host.table: {"mail": server}}, indent=4)
    file.write_text(old)
    install, listed, suggested, reload, back = BLOCK.findall((PAGES / f"{name}.md").read_text("utf-8"))
    install, up = install.splitlines()
    secret = f"--passphrase-file {shlex.quote(str(person.secret))}"
    shell(f"{install} --yes {secret}", person)
    words = shlex.split(up.replace("~", str(person.home)))[1:]
    with Up(person, [*words, "--no-browser", "--passphrase-file", str(person.secret)]):
        entry = json.loads(file.read_text())[host.table]["mail"]
        connect, url, *options = entry["args"]
        assert connect == "connect"
        with Connected(tmp_path, url, *options, **person.env) as connected:
            connected.initialize()
            assert passes(connected, "list_inbox"), "it is signed, though the host lists nothing"
            assert passes(connected, "send_email"), "all works as before"
        shown = [line for line in shell(listed, person).stdout.splitlines() if "list_inbox" in line and "ok" in line]
        assert [line for line in shown if "passed (would be: deny unknown_tool)" in line], "as the page says"
        check, suggest = suggested.splitlines()
        assert "tables for list_inbox of mail, search of mail, send_email of mail" in shell(check, person).stderr
        proposed = shell(suggest, person).stdout
        assert not re.search(r"PRINCIPAL-|AGENT-|\[servers|nobody signed", proposed), proposed
        plain, sensitive = [line for line in proposed.splitlines() if line.startswith("accredit grant")]
        assert "send_email" not in plain, "what is sensitive has a line of its own"
        assert "send_email" in sensitive
        for grant in (plain, sensitive):
            shell(f"{grant} {secret}", person)
        config = person.home / "accredit/accredit.toml"
        config.write_text(config.read_text().replace('mode = "observe"', 'mode = "required"'))
        shell(reload, person)
        with Connected(tmp_path, url, *options, "--hold", "1", **person.env) as connected:
            connected.initialize()
            listed = connected.ask("tools/list")["result"]["tools"]
            assert sorted(each["name"] for each in listed) == tools, "none is gone"
            assert passes(connected, "list_inbox")
            assert passes(connected, "send_email")
            assert "accredit approve " in text(connected, "search"), "it waits, and the desk asks"
            assert "accredit check --fix" in text(connected, "new"), "what has no scope can't be asked for"
    shell(f"{back.strip()} --yes", person)
    assert file.read_text() == old


def text(connected: Connected, tool: str) -> str:
    """What the host's model gets of a call."""
    told = connected.ask("tools/call", {"name": tool, "arguments": {}})
    return told["result"]["content"][0]["text"]


def passes(connected: Connected, tool: str) -> bool:
    return json.loads(text(connected, tool))["token"] == TOKEN["TOKEN"]
