"""The how-to of the desk is done here as it is written: "approve in a terminal", and "a desk that only reads"."""

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integration.test_tutorial import BLOCK, ROOT, running
from tests.world.agents import agent_files
from tests.world.authorization import Trust
from tests.world.command import Serving, accredit
from tests.world.desk import CALL, Agent, Line
from tests.world.terminal import Terminal

from accredit.consent.asks import AskedGateway
from accredit.keys import make_key, write_key

pytestmark = pytest.mark.slow

PAGE = "docs/how-to/desk.md"
PASSPHRASE = "correct horse battery staple"
_VARIES = re.compile(r"\b[0-9a-f]{8}(?:[0-9a-f]{24})?\b|in \d+ \w+")
"""Ids, and how long it is until something."""


def section(title: str) -> list[str]:
    """The console blocks of a section."""
    text = (ROOT / PAGE).read_text("utf-8").partition(f"## {title}\n")[2].partition("\n## ")[0]
    return [body.strip() for kind, body in BLOCK.findall(text) if kind == "console"]


def alike(line: str) -> str:
    return " ".join(_VARIES.sub("…", line).split())


def test_what_an_agent_asks_is_approved_in_a_terminal(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)} | dict.fromkeys(("XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME"), "")
    home["ACCREDIT_DESK_SOCKET"] = str(tmp_path / "desk.sock")
    set_up, names = section("Set it up")
    folder, own_key, desk = set_up.splitlines()
    assert folder == "mkdir -p ~/.config/accredit"
    (tmp_path / ".config" / "accredit").mkdir(parents=True)
    with Terminal(*own_key.replace("~", str(tmp_path)).split()[1:], folder=tmp_path, env=home) as terminal:
        for prompt in ("New passphrase", "once more"):
            terminal.wait_for(prompt)
            terminal.types(f"{PASSPHRASE}\n")
        assert terminal.end() == 0
    agent = Agent()
    for command in names.splitlines():
        own = command.replace("b4a4c7170a1b2c3d4e5f60718293a4b5", agent.key.id)
        assert accredit(*own.split()[1:], folder=tmp_path, env=home).returncode == 0
    with running(f"{desk} --port 0 --no-browser", "desk: http", tmp_path, **home):
        gateway = AskedGateway("9f0c2d11", "http://127.0.0.1:8484/mcp")
        first, ask = agent.ask({"name": "list_inbox"}, gateway=gateway), agent.ask(CALL, gateway=gateway)
        with Line(tmp_path / "desk.sock") as line:  # to a new agent only the one call is offered
            assert line.tell({"ask": first.to_dict()})["code"] == first.code
            with Terminal("approve", first.code, "--once", folder=tmp_path, env=home) as terminal:
                terminal.wait_for("assphrase")
                terminal.types(f"{PASSPHRASE}\n")
                assert terminal.end() == 0, terminal.seen
        with Line(tmp_path / "desk.sock") as line:
            assert line.tell({"ask": ask.to_dict()})["code"] == ask.code
            (told,) = section("Approve in a terminal")
            listed, _, approved = told.replace("7KQ4-M2", ask.code).partition(f"$ accredit approve {ask.code}\n")
            done = accredit("asked", folder=tmp_path, env=home)
            expected = [alike(each) for each in listed.splitlines()[1:]]
            assert [alike(each) for each in done.stdout.splitlines()] == expected
            with Terminal("approve", ask.code, folder=tmp_path, env=home) as terminal:
                terminal.wait_for("how all")
                terminal.types("o\n")
                terminal.wait_for("assphrase")
                terminal.types(f"{PASSPHRASE}\n")
                assert terminal.end() == 0, terminal.seen
            seen = alike(terminal.seen)  # which is narrower than the page
            for each in approved.splitlines():
                assert alike(each).removesuffix("...").removesuffix(" o") in seen, (each, seen)
            assert line.next()["answer"]["decision"] == "allow"
    grants = accredit("grants", "list", folder=tmp_path, env=home)
    assert (grants.returncode, "send_email" in grants.stdout) == (0, True)


def test_operators_see_a_gateways_calls__without_a_key(tmp_path: Path, free_port: Callable[[], int]) -> None:
    files = agent_files(tmp_path, Trust())
    config = files.folder / "accredit.toml"
    log = '[store]\nurl = "sqlite:///log.db"\n[attest]\nmode = "record"\nkey_file = "gateway.key"\n'
    write_key(files.folder / "gateway.key", make_key("gateway", "mail", int(time.time())))
    config.write_text(config.read_text("utf-8").replace('[store]\nurl = "memory:"\n', log), "utf-8")
    with Serving("--config", "accredit.toml", folder=files.folder):
        pass
    (command,) = section("A desk that only reads")
    with running(f"{command} --port 0 --no-browser", "desk: http", files.folder, XDG_RUNTIME_DIR=str(tmp_path / "run")):
        pass
