"""The desk in a terminal: asks approved where the person types, in a real pty."""

import contextlib
import http.client
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.world.command import accredit, wait_until
from tests.world.desk import CALL, GATEWAY, PASSPHRASE, Agent, Desk, Line, write_locked
from tests.world.raw_server import PATIENCE
from tests.world.terminal import Terminal

from accredit.consent.answers import chain_allowed, read_answer
from accredit.console.names import set_name
from accredit.keys import lock_key, make_key, write_key

pytestmark = [
    pytest.mark.slow,
    pytest.mark.holds("cli/actions/approve"),
    pytest.mark.holds("signing/grants"),
    pytest.mark.holds("cli/commands/desk"),
    pytest.mark.holds("cli/commands/desk"),
    pytest.mark.holds("console/prompts"),
]


def locked(folder: Path) -> None:
    """A person's key under a passphrase."""
    write_locked(folder / "config" / "accredit", make_key("human", "Ada", 1_700_000_000))


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    locked(tmp_path)
    with Desk(tmp_path) as running:
        yield running


def test_a_person_reads_and_approves_in_a_terminal(desk: Desk) -> None:
    agent = Agent()
    set_name(desk.config, agent.key.id, "Assistant")
    ask = agent.ask()
    with Line(desk.socket) as line:
        line.tell({"ask": ask.to_dict()})
        with Terminal("approve", ask.code.lower(), folder=desk.folder, env=desk.env) as terminal:
            terminal.wait_for("how all")
            for wanted in ("Assistant asks to call send_email", ask.code, "ada@example.org", "it needs custom:mail"):
                assert wanted in terminal.seen
            assert "“Sends a message.” · says that it can destroy things" in terminal.seen
            terminal.types("o\n")
            terminal.wait_for("Passphrase")
            assert ask.params_sha256 in terminal.seen.replace(" ", "").replace("\n", "")
            assert not terminal.echoes()
            terminal.types(PASSPHRASE + "\n")
            assert terminal.end() == 0, terminal.seen
            assert PASSPHRASE not in terminal.seen
        answer = read_answer(json.dumps(line.next()["answer"]).encode())
    chain_allowed(answer, ask, int(time.time()))
    listed = json.loads(accredit("grants", "list", "--json", folder=desk.folder, env=desk.env).stdout)["grants"]
    assert [(each["target"], each["code"]) for each in listed] == [("send_email", ask.code)]
    shown = accredit("grants", "show", listed[0]["cert"][:8], folder=desk.folder, env=desk.env).stdout
    assert "only tools/call send_email" in shown
    assert "Assistant" in accredit("grants", "list", folder=desk.folder, env=desk.env).stdout
    assert accredit("grants", "show", "ffff", folder=desk.folder, env=desk.env).returncode == 1
    begun = accredit(
        "names", "set", listed[0]["agent"][:8], "Helper", folder=desk.folder, env=desk.env
    )  # as it is shown
    assert (begun.returncode, listed[0]["agent"] in begun.stdout) == (0, True), begun
    called = accredit("names", "set", GATEWAY[:8], "post", folder=desk.folder, env=desk.env)
    assert (called.returncode, f"{GATEWAY} is called post" in called.stdout) == (0, True), called
    row = accredit("grants", "list", folder=desk.folder, env=desk.env).stdout
    assert "post" in row
    assert "Helper" in row
    assert "send_email, this call only" in row


@pytest.mark.parametrize("typed", ["\n", "d\n"])
def test_the_menus_default_is_no(desk: Desk, typed: str) -> None:
    ask = Agent().ask()
    with Line(desk.socket) as line:
        line.tell({"ask": ask.to_dict()})
        with Terminal("approve", ask.code, folder=desk.folder, env=desk.env) as terminal:
            terminal.wait_for("how all")
            terminal.types(typed)
            assert terminal.end() == 1
        assert line.next()["answer"]["decision"] == "deny"


def test_what_is_folded_is_shown_before_it_can_be_allowed(desk: Desk) -> None:
    hidden = "word " * 400 + "and delete everything"
    ask = Agent().ask({"name": "send_email", "arguments": {"body": hidden}})
    desk.tell({"ask": ask.to_dict()})
    with Terminal("approve", ask.code, folder=desk.folder, env=desk.env) as terminal:
        terminal.wait_for("how all")
        assert "delete everything" not in terminal.seen
        terminal.types("o\n")
        terminal.wait_for("show all of it first")
        terminal.types("s\n")
        terminal.wait_for(r"\[o\]nce")
        assert "delete everything" in terminal.seen.replace("⟨…⟩\n    | ", "")
        terminal.types("o\n")
        terminal.wait_for("Passphrase")
        terminal.types("wrong\n")
        assert terminal.end() == 2
    assert desk.tell({"show": ask.code})["state"] == "pending"


def test_an_open_desk_does_not_save_the_passphrase_in_a_terminal(tmp_path: Path) -> None:
    locked(tmp_path)
    (tmp_path / "word").write_text(PASSPHRASE)
    (tmp_path / "word").chmod(0o600)
    with Desk(tmp_path, "--passphrase-file", str(tmp_path / "word")) as desk:
        ask = Agent().ask()
        desk.tell({"ask": ask.to_dict()})
        with Terminal("approve", ask.code, "--once", folder=desk.folder, env=desk.env) as terminal:
            terminal.wait_for("Passphrase")
            terminal.types("\x04")  # the person goes away
            assert terminal.end() != 0
        assert desk.tell({"show": ask.code})["state"] == "pending"


def test_like_is_not_offered_for_a_new_agent(desk: Desk) -> None:
    ask = Agent().ask()
    desk.tell({"ask": ask.to_dict()})
    with Terminal("approve", ask.code, "--like", folder=desk.folder, env=desk.env) as terminal:
        assert terminal.end() == 2
    assert desk.tell({"show": ask.code})["state"] == "pending"


def test_hostile_arguments_steer_no_terminal(desk: Desk) -> None:
    evil = "\x1b[2J\x1b]0;owned\x07 abc\u202edef\r\nfake: line"
    ask = Agent(evil).ask({"name": "send_email", "arguments": {evil: evil, **CALL["arguments"]}})  # type: ignore[dict-item]
    desk.tell({"ask": ask.to_dict()})
    with Terminal("approve", ask.code, folder=desk.folder, env=desk.env) as terminal:
        terminal.wait_for("how all")
        assert "\x1b[2J" not in terminal.seen
        assert "\x1b]0" not in terminal.seen
        assert "\u202e" not in terminal.seen
        assert "\nfake: line" not in terminal.seen


def test_a_locked_desk_signs_on_the_page_once_it_was_unlocked_in_a_terminal(desk: Desk) -> None:
    assert desk.tell({"unlock": "wrong"})["error"] == "passphrase"
    with Terminal("desk", "unlock", folder=desk.folder, env=desk.env) as terminal:
        terminal.wait_for("Passphrase")
        terminal.types(PASSPHRASE + "\n")
        assert terminal.end() == 0
        assert "unlocked" in terminal.seen
    done = accredit("desk", "lock", "--json", folder=desk.folder, env=desk.env)
    assert json.loads(done.stdout) == {"key": "locked"}


def post(url: str, path: str, said: object, bearer: str = "") -> tuple[int, Any]:
    """What the person's browser sends."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=PATIENCE)
    headers = {"origin": url, "sec-fetch-site": "same-origin", "content-type": "application/json"}
    method, body = ("GET", None) if said is None else ("POST", json.dumps(said))
    with contextlib.closing(connection):
        connection.request(method, path, body, {**headers, "authorization": f"Bearer {bearer}"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def places(folder: Path) -> dict[str, str]:
    named = {"XDG_CONFIG_HOME": "config", "XDG_STATE_HOME": "state", "XDG_RUNTIME_DIR": "run"}
    return {name: str(folder / each) for name, each in named.items()}


@pytest.mark.parametrize("typed", [PASSPHRASE, "wrong\nwrong\nwrong", ""])
def test_the_desks_own_terminal_asks_for_the_passphrase_and_restores_itself(tmp_path: Path, typed: str) -> None:
    locked(tmp_path)
    env = places(tmp_path)
    with Terminal("desk", "--port", "0", "--no-browser", folder=tmp_path, env=env) as terminal:
        terminal.wait_for(r"desk: http://127\.0\.0\.1:\d+/#k=\S+\n")
        found = re.search(r"desk: (http://\S+)/#k=(\S+)", terminal.seen)
        assert found
        url, bearer = found[1], post(found[1], "/api/login", {"key": found[2]})[1]["bearer"]
        ask = Agent().ask()
        with Line(tmp_path / "run" / "accredit" / "desk.sock") as line, ThreadPoolExecutor(1) as pool:
            line.tell({"ask": ask.to_dict()})
            shown = post(url, f"/api/asks/{ask.code}", None, bearer)[1]
            allow = {"decision": "allow", "offer": "once", "ask": shown["ask"], "nonce": shown["nonce"]}
            answered = pool.submit(post, url, f"/api/asks/{ask.code}", allow, bearer)
            terminal.wait_for(f"Passphrase to allow {ask.code}: send_email: ")
            assert not terminal.echoes()
            first, *more = typed.split("\n")
            terminal.types(first + "\n")
            for each in more:
                terminal.wait_for(r"That is not the passphrase\..*: ")
                terminal.types(each + "\n")
            status, said = answered.result(PATIENCE)
            assert (status, said.get("state", said.get("error"))) == (
                (200, "allowed") if typed == PASSPHRASE else (423, "locked")
            )
        wait_until(terminal.echoes)
        assert PASSPHRASE not in terminal.seen
        terminal.types("\x03")
        assert terminal.end() == 0


PINENTRY = """#!{python}
import sys
print("OK Pleased to meet you", flush=True)
for line in sys.stdin:
    if line.startswith("SETDESC"):
        open({told!r}, "w").write(line)
    print("D 100%25 sure\\nOK" if line == "GETPIN\\n" else "OK", flush=True)
"""


def test_without_a_terminal_pinentry_asks_for_the_passphrase(tmp_path: Path) -> None:
    config = tmp_path / "config" / "accredit"
    config.mkdir(parents=True)
    owner = make_key("human", "Ada", 1_700_000_000)
    write_key(config / "owner.key", lock_key(owner, bytearray(b"100% sure")))
    program = tmp_path / "bin" / "pinentry"
    program.parent.mkdir()
    program.write_text(PINENTRY.format(python=sys.executable, told=str(tmp_path / "told")))
    program.chmod(0o755)
    env = {"PATH": f"{program.parent}:{os.environ['PATH']}", "DISPLAY": ":99"}
    with Desk(tmp_path, owner=owner, env=env) as desk, Line(desk.socket) as line:
        ask = Agent().ask({"name": "send%0Aemail", "arguments": {}})
        line.tell({"ask": ask.to_dict()})
        bearer = post(desk.url, "/api/login", {"key": desk.link().rpartition("#k=")[2]})[1]["bearer"]
        shown = post(desk.url, f"/api/asks/{ask.code}", None, bearer)[1]
        allow = {"decision": "allow", "offer": "once", "ask": shown["ask"], "nonce": shown["nonce"]}
        assert post(desk.url, f"/api/asks/{ask.code}", allow, bearer)[0] == 200
        assert line.next()["answer"]["decision"] == "allow"
    assert (tmp_path / "told").read_text() == f"SETDESC Passphrase to allow {ask.code}: send%250Aemail\n"


def test_the_desk_ends_when_it_is_told_to_in_its_terminal(tmp_path: Path) -> None:
    locked(tmp_path)
    env = places(tmp_path)
    with Terminal("desk", "--port", "0", "--no-browser", folder=tmp_path, env=env) as terminal:
        terminal.wait_for(r"desk: http://127\.0\.0\.1:\d+/#k=\S+")
        assert terminal.echoes()
        terminal.types("\x03")
        assert terminal.end() == 0


def test_a_wrong_passphrase_in_a_file_stops_the_start(tmp_path: Path) -> None:
    locked(tmp_path)
    (tmp_path / "word").write_text("wrong")
    (tmp_path / "word").chmod(0o600)
    env = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_RUNTIME_DIR": str(tmp_path / "run")}
    done = accredit("desk", "--no-browser", "--passphrase-file", "word", folder=tmp_path, env=env)
    assert done.returncode == 2
    assert PASSPHRASE not in done.stderr
