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
    server = {"command": sys.executable, "args": [adopting.__file__], "env": {"TOKEN": "s3cret"}}
    old = json.dumps({"theme": "dark", host.table: {"mail": server}}, indent=4)
    file.write_text(old)
    install, listed, suggested, back = BLOCK.findall((PAGES / f"{name}.md").read_text("utf-8"))
    install, up = install.splitlines()
    shell(f"{install} --yes --passphrase-file {shlex.quote(str(person.secret))}", person)
    words = shlex.split(up.replace("~", str(person.home)))[1:]
    with Up(person, [*words, "--no-browser", "--passphrase-file", str(person.secret)]):
        entry = json.loads(file.read_text())[host.table]["mail"]
        connect, url, *options = entry["args"]
        assert connect == "connect"
        call = {"name": "told", "arguments": {}}
        with Connected(tmp_path, url, *options, **person.env) as connected:
            connected.initialize()
            assert [each["name"] for each in connected.ask("tools/list")["result"]["tools"]] == ["told"]
            told = connected.ask("tools/call", call)["result"]
            assert json.loads(told["content"][0]["text"])["token"] == "s3cret"
        (row,) = [line for line in shell(listed, person).stdout.splitlines() if "told" in line]
        assert "ok" in row
        proposed = shell(suggested, person).stdout
        tables, grants = proposed.split("# For whoever signs")
        agent = person.own / "agents" / name / "agent.key"
        config = person.home / "accredit/accredit.toml"
        config.write_text(config.read_text().replace('mode = "observe"', 'mode = "required"') + tables)
        (grant,) = [line for line in grants.splitlines() if line.startswith("accredit grant")]
        grant = re.sub(r"PRINCIPAL-\S+", str(person.own / "owner.key"), grant)
        grant = re.sub(r"AGENT-\S+", f"{agent}.pub", grant)
        grant = re.sub(r"--out (\S+)", rf"--out {agent.parent}/grants/\1", grant)
        shell("accredit reload --config ~/accredit/accredit.toml", person)
        with Connected(tmp_path, url, *options, "--ask", "off", **person.env) as connected:
            connected.initialize()
            assert "nobody has allowed" in str(connected.ask("tools/call", call))
        shell(f"{grant} --passphrase-file {shlex.quote(str(person.secret))} --yes", person)
        with Connected(tmp_path, url, *options, **person.env) as connected:
            connected.initialize()
            assert connected.ask("tools/call", call)["result"]["content"] == told["content"]
    shell(f"{back.strip()} --yes", person)
    assert file.read_text() == old
