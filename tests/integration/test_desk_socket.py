"""The desk's socket, attacked: the real process, and an agent that wants more than it was given."""

import asyncio
import contextlib
import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.world.asked import once
from tests.world.command import accredit, environment
from tests.world.delegations import World
from tests.world.desk import Agent, Desk, Line
from tests.world.warm import COMMAND

from accredit.client.desk_socket import DeskConnection, DeskGone
from accredit.consent.answers import Answer, chain_allowed, read_answer
from accredit.console.book import MAX_PENDING_ASKS_OF_NEW
from accredit.console.client import desk_runs
from accredit.console.socket import MAX_DESK_LINE_BYTES
from accredit.keys import PrivateKeyFile
from accredit.ratify import Grant, issue_delegation

pytestmark = [
    pytest.mark.holds("console"),
    pytest.mark.holds("console/socket"),
    pytest.mark.holds("console/client"),
    pytest.mark.holds("base/peers"),
    pytest.mark.holds("console/serving"),
    pytest.mark.holds("cli/commands/desk"),
    pytest.mark.holds("cli/commands/desk"),
    pytest.mark.holds("cli/actions/approve"),
    pytest.mark.holds("cli/actions/desk"),
]


@pytest.mark.holds("console/socket", "permissions")
def test_the_socket_is_the_users_alone(desk: Desk) -> None:
    assert stat.S_IMODE(desk.socket.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(desk.socket.stat().st_mode) == 0o600
    journal = desk.folder / "state" / "accredit" / "journal.jsonl"
    assert stat.S_IMODE(journal.stat().st_mode) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="another user can only be had as root")
@pytest.mark.holds("console/socket", "same-user")
def test_another_user_is_cut_off_without_a_word(desk: Desk) -> None:
    for folder in (desk.folder, *desk.folder.parents):
        if folder != Path("/"):
            folder.chmod(0o755)
    for folder in (desk.socket.parent.parent, desk.socket.parent):
        folder.chmod(0o755)
    desk.socket.chmod(0o666)
    code = (
        "import os, socket\n"
        "os.setgid(65534); os.setuid(65534)\n"
        f"s = socket.socket(socket.AF_UNIX); s.connect({str(desk.socket)!r})\n"
        "try: s.sendall(b'{\"ping\": true}\\n'); print(s.recv(100))\n"
        "except (ConnectionResetError, BrokenPipeError): print(b'')\n"
    )
    done = subprocess.run(["/usr/bin/env", "python3", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "b''"
    assert desk.tell({"ping": True})["pong"] == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="another user can only be had as root")
@pytest.mark.parametrize("whose", ["nobody's", "one's own"])
def test_whoever_listens_at_ones_socket_in_the_desks_place_is_told_nothing(tmp_path: Path, whose: str) -> None:
    """The file is one's own; the system says who listens there."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder != Path("/"):
            folder.chmod(0o755)
    place = tmp_path / "place"
    place.mkdir()
    place.chmod(0o777)
    path = place / "desk.sock"
    user = 65_534 if whose == "nobody's" else os.geteuid()
    code = (
        f"import os, socket; os.setgid({user}); os.setuid({user})\n"
        f"s = socket.socket(socket.AF_UNIX); s.bind({str(path)!r}); s.listen(); print('listens', flush=True)\n"
        "while True:\n  c = s.accept()[0]; print(c.recv(9), flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as impostor:
        assert impostor.stdout is not None
        assert impostor.stdout.readline() == "listens\n"
        os.chown(path, os.geteuid(), os.getegid())

        async def ask() -> bool:
            try:
                desk = await DeskConnection.open([path])
            except DeskGone:
                return False
            desk.say({"ask": "secret"})
            desk.close()
            return True

        assert asyncio.run(ask()) == desk_runs([path]) == (whose == "one's own")
        heard = [impostor.stdout.readline() for _ in range(2)]
        impostor.kill()
    assert ("ask" in "".join(heard)) == (whose == "one's own")


def test_an_ask_that_was_forged_changed_or_swapped_is_not_shown(desk: Desk) -> None:
    agent, other = Agent(), Agent()
    ask = agent.ask()
    changed = [
        replace(ask, params={"name": "send_email", "arguments": {"to": "eve@example.org"}}),
        replace(ask, target="pay", params={"name": "pay", "arguments": {}}),
        replace(ask, agent=other.ask().agent),
        replace(ask, signature=other.ask().signature),
        replace(ask, expires_at=ask.expires_at + 1),
    ]
    for each in changed:
        assert desk.tell({"ask": each.to_dict()})["error"] == "bad_ask"
    assert desk.tell({"list": True}) == {"asks": []}
    for broken in ({}, {"accredit_ask": 2}, {**ask.to_dict(), "more": 1}):
        assert desk.tell({"ask": broken})["error"] == "bad_ask"


def test_a_replayed_ask_gets_no_second_certificate(desk: Desk) -> None:
    ask = Agent().ask()
    said = desk.tell({"ask": ask.to_dict()})
    assert desk.tell({"deliver": allowed_by(desk.owner, ask).to_dict()}) == {"state": "allowed"}
    with Line(desk.socket) as line:  # the answer was lost: the same ask gets the same one
        again = line.tell({"ask": ask.to_dict()})
        assert (again["code"], again["state"]) == (said["code"], "allowed")
        first = line.next()["answer"]
    with Line(desk.socket) as line:
        line.tell({"ask": ask.to_dict()})
        assert line.next()["answer"] == first
    # the same id once more, for another call
    assert desk.tell({"ask": Agent().ask(id=ask.id).to_dict()})["error"] == "bad_ask"


def test_after_a_restart_a_decided_ask_is_over(tmp_path: Path) -> None:
    with Desk(tmp_path) as desk:
        ask = Agent().ask()
        code = desk.tell({"ask": ask.to_dict()})["code"]
        desk.tell({"deny": code})
        desk.stop()
    with Desk(tmp_path, owner=desk.owner) as desk:
        assert desk.tell({"ask": ask.to_dict()})["error"] == "bad_ask"


def allowed_by(issuer: PrivateKeyFile, ask: object, **changes: object) -> Answer:
    """An answer with a certificate of anybody's."""
    grant = Grant(
        subject=ask.agent.public_key,  # type: ignore[attr-defined]
        cert_id="c" * 32,
        scope=("custom:mail:send_email",),
        issued_at=ask.asked_at,  # type: ignore[attr-defined]
        expires_at=ask.asked_at + 500,  # type: ignore[attr-defined]
        constraints=once(ask),  # type: ignore[arg-type]
    )
    grant = replace(grant, **changes)
    cert = issue_delegation(issuer.signer(), grant, vocabulary=grant.scope)
    return Answer(ask=ask.digest.hex(), decision="allow", certificates=(cert,))  # type: ignore[attr-defined]


@pytest.mark.holds("console/desk", "certificate")
def test_an_agent_that_answers_its_own_ask_gets_nothing(desk: Desk) -> None:
    agent = Agent()
    ask = agent.ask()
    with Line(desk.socket) as line:
        line.tell({"ask": ask.to_dict()})
        for issuer in (agent.key, World().owner):
            assert desk.tell({"deliver": allowed_by(issuer, ask).to_dict()})["error"] == "not_signed"
        for word in ("allow", "approve", "sign"):
            assert desk.tell({word: ask.code})["error"] == "unknown"
        # signed by the person, and not for this
        other = agent.ask({"name": "pay", "arguments": {}})
        wide = allowed_by(desk.owner, ask, constraints=())
        for answer in (wide, replace(allowed_by(desk.owner, other), ask=ask.digest.hex())):
            assert desk.tell({"deliver": answer.to_dict()})["error"] == "not_signed"
        assert desk.tell({"show": ask.code})["state"] == "pending"
        assert desk.tell({"deliver": allowed_by(desk.owner, ask).to_dict()}) == {"state": "allowed"}
        answer = read_answer(json.dumps(line.next()["answer"]).encode())
    assert chain_allowed(answer, ask, ask.asked_at)[0].issuer_id == desk.owner.id


def test_no_link_to_the_page_comes_over_the_socket(desk: Desk) -> None:
    ask = Agent().ask()
    told = [desk.tell({"ping": True}), desk.tell({"ask": ask.to_dict()}), desk.tell({"open": True})]
    told += [desk.tell({"show": ask.code}), desk.tell({"list": True})]
    assert "#k=" not in json.dumps(told)


@pytest.mark.holds("console/socket", "bounds")
def test_a_line_past_its_bound_ends_the_connection(desk: Desk) -> None:
    with Line(desk.socket) as connection, contextlib.suppress(ConnectionError):  # it is cut off before the end
        connection.send(b"a" * (MAX_DESK_LINE_BYTES * 8) + b"\n")
        assert connection.next() in ({}, {"error": "too_long", "reason": "a line has at most 131072 bytes"})
    assert desk.tell({"ping": True})["pong"] == 1


@pytest.mark.slow
def test_a_thousand_asks_are_bounded__and_the_person_can_still_work(desk: Desk) -> None:
    known = Agent("Known")
    first = known.ask()
    desk.tell({"ask": first.to_dict()})
    desk.tell({"deliver": allowed_by(desk.owner, first).to_dict()})
    agents = [Agent(f"Flood {number}") for number in range(20)]
    told = [
        desk.tell({"ask": agent.ask({"name": "send_email", "arguments": {"n": number}}).to_dict()})
        for number in range(50)
        for agent in agents
    ]
    assert len([each for each in told if each.get("state") == "pending"]) == MAX_PENDING_ASKS_OF_NEW
    assert {each["error"] for each in told if "error" in each} == {"rate"}
    assert len(desk.tell({"list": True})["asks"]) == MAX_PENDING_ASKS_OF_NEW
    # whom the person knows is still heard, and the person can still answer
    asked = known.ask({"name": "send_email", "arguments": {"to": "bob@example.org"}})
    assert desk.tell({"ask": asked.to_dict()})["state"] == "pending"
    assert desk.tell({"deny": asked.code})["state"] == "denied"
    assert len(desk.journal.splitlines()) < 40


def test_an_ask_outlives_its_connection__and_is_withdrawn_by_it_alone(desk: Desk) -> None:
    ask = Agent().ask()
    with Line(desk.socket) as line:
        line.tell({"ask": ask.to_dict()})
        assert desk.tell({"withdraw": ask.digest.hex()})["error"] == "unknown"
    assert desk.tell({"show": ask.code})["state"] == "pending"
    with Line(desk.socket) as line:
        line.tell({"ask": ask.to_dict()})
        assert line.tell({"withdraw": ask.digest.hex()}) == {"state": "withdrawn"}
    assert desk.tell({"list": True}) == {"asks": []}


def test_a_second_desk_does_not_take_the_place_of_the_first(desk: Desk) -> None:
    done = accredit("desk", "--no-browser", "--port", "0", folder=desk.folder, env=desk.env)
    assert done.returncode == 2
    assert "a desk is running already" in done.stderr
    assert desk.tell({"ping": True})["pong"] == 1


@pytest.mark.holds("console/serving", "shutdown")
def test_a_desk_that_was_killed_lets_its_askers_go__and_the_next_one_takes_its_place(tmp_path: Path) -> None:
    with Desk(tmp_path) as desk, Line(desk.socket) as line:
        ask = Agent().ask()
        line.tell({"ask": ask.to_dict()})
        desk.kill()
        assert line.next() == {}
    with Desk(tmp_path, owner=desk.owner) as desk:
        assert desk.tell({"ask": ask.to_dict()})["state"] == "pending"
        assert desk.stop() == 0
        assert not desk.socket.exists()


@pytest.mark.holds("console/serving", "memory")
def test_no_other_program_of_the_user_reads_the_desks_memory(desk: Desk) -> None:
    limits = Path(f"/proc/{desk.process.pid}/limits").read_text("ascii")
    assert re.search(r"Max core file size +0 +0 ", limits)
    assert Path(f"/proc/{desk.process.pid}/mem").stat().st_uid == 0  # the system's, not the user's


def test_without_a_terminal_nothing_is_approved(desk: Desk) -> None:
    ask = Agent().ask()
    desk.tell({"ask": ask.to_dict()})
    for option in ("--once", "--like"):
        done = accredit("approve", ask.code, option, folder=desk.folder, env=desk.env)
        assert done.returncode == 2
        assert "needs a terminal" in done.stderr
    assert desk.tell({"show": ask.code})["state"] == "pending"


@pytest.mark.slow
def test_commands_without_a_desk_say_how_to_start_one(tmp_path: Path) -> None:
    env = {"XDG_RUNTIME_DIR": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    for command in (("asked",), ("deny", "7KQ4-M2"), ("desk", "open"), ("desk", "lock")):
        done = accredit(*command, folder=tmp_path, env=env)
        assert (done.returncode, "start one: accredit desk" in done.stderr) == (2, True), command


@pytest.mark.slow
def test_the_desk_says_what_is_wrong_with_its_files(tmp_path: Path) -> None:
    config = tmp_path / "config" / "accredit"
    config.mkdir(parents=True)
    env = {"XDG_RUNTIME_DIR": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    done = subprocess.run(
        [*COMMAND, "desk", "--no-browser"], capture_output=True, text=True, env=environment(env), check=False
    )
    assert done.returncode == 2
    assert "keys new" in done.stderr
    (config / "desk.toml").write_text('[desk]\nunlock = "never"\n')
    done = accredit("desk", "--no-browser", folder=tmp_path, env=env)
    assert (done.returncode, "unlock" in done.stderr) == (2, True)
