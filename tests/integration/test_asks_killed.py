"""Nobody waits for ever when one of the five processes is killed while a call is held: the host, `connect`, the desk,
the gateway, the server. Real processes.

A call is `waiting` while nobody has answered, and `allowed` when the person has, and the gateway has not taken it yet.
"""

import contextlib
import json
import os
import secrets
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.world.agents import MAIL_SERVER, AgentFiles, agent_files
from tests.world.authorization import Trust
from tests.world.command import Serving, wait_until
from tests.world.connected import Connected
from tests.world.desk import CALL, Agent, Desk, Line
from tests.world.warm import python

from accredit.base.clock import unix_seconds
from accredit.consent.answers import Answer
from accredit.consent.asks import Ask, read_ask
from accredit.consent.offers import offers_for
from accredit.console.book import MAX_PENDING_ASKS
from accredit.keys import PrivateKeyFile
from accredit.ratify import issue_delegation

pytestmark = [pytest.mark.slow, pytest.mark.holds("client/asking", "start"), pytest.mark.holds("console/socket")]


@pytest.fixture
def trust() -> Trust:
    return Trust()


@pytest.fixture
def files(trust: Trust, tmp_path: Path) -> AgentFiles:
    files = agent_files(tmp_path, trust, "email:read")
    config = files.folder / "accredit.toml"
    own = json.dumps([sys.executable, str(MAIL_SERVER)])  # a process that is the server's own, and can be killed
    config.write_text(config.read_text("utf-8").replace(json.dumps([python(), str(MAIL_SERVER)]), own), "utf-8")
    return files


@pytest.fixture
def gateway(files: AgentFiles) -> Generator[Serving]:
    with Serving("--config", "accredit.toml", folder=files.folder) as serving:
        yield serving
        with contextlib.suppress(ProcessLookupError):
            os.kill(serving.process.pid, signal.SIGCONT)


@pytest.fixture
def desk(trust: Trust, tmp_path: Path) -> Generator[Desk]:
    with Desk(tmp_path / "person", owner=trust.owner) as desk:
        yield desk


def waiting(desk: Desk) -> list[str]:
    return [each["code"] for each in desk.tell({"list": True})["asks"]]


def allowed(ask: Ask, owner: PrivateKeyFile) -> dict[str, Any]:
    """What `accredit approve` delivers."""
    offer = offers_for(ask, is_new=True)[0]
    grant = offer.grant(ask, secrets.token_hex(16), unix_seconds())
    cert = issue_delegation(owner.signer(), grant, vocabulary=grant.scope)
    return {"deliver": Answer(ask.digest.hex(), "allow", (cert,)).to_dict()}


def allow(desk: Desk, trust: Trust) -> None:
    (code,) = waiting(desk)
    ask = read_ask(json.dumps(desk.tell({"show": code})["ask"]).encode())
    assert desk.tell(allowed(ask, trust.owner)) == {"state": "allowed"}


def servers(gateway: Serving) -> list[int]:
    """The processes of the server behind the gateway."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(MAIL_SERVER).encode() in (folder / "cmdline").read_bytes():
                parent = int((folder / "stat").read_text("utf-8").rpartition(")")[2].split()[1])
                found += [int(folder.name)] if parent == gateway.process.pid else []
    return found


@contextlib.contextmanager
def held(state: str, gateway: Serving, files: AgentFiles, desk: Desk, trust: Trust) -> Generator[Connected]:
    """A host whose call is held."""
    with Connected(files.folder, gateway.url, *files.options, "--hold", "300", **desk.env) as host:
        host.initialize()
        host.say(id=7, method="tools/call", params=CALL)
        wait_until(lambda: bool(waiting(desk)))
        if state == "allowed":
            gateway.stop(signal.SIGSTOP)
            allow(desk, trust)
        yield host


def still_works(desk: Desk) -> None:
    """The person goes on with what others ask."""
    agent = Agent()
    ask = agent.ask()
    assert desk.tell({"ask": ask.to_dict()})["state"] == "pending"
    assert desk.tell({"deny": ask.code})["state"] == "denied"


@pytest.mark.parametrize("state", ["waiting", "allowed"])
def test_a_gateway_that_is_killed(state: str, gateway: Serving, files: AgentFiles, desk: Desk, trust: Trust) -> None:
    with held(state, gateway, files, desk, trust) as host:
        gateway.stop(signal.SIGKILL)
        if state == "waiting":
            allow(desk, trust)
        told = host.hear()
        assert (told["id"], "sent to" not in str(told)) == (7, True)
        host.close_input()
        host.wait()
    still_works(desk)


@pytest.mark.parametrize("state", ["waiting", "allowed"])
def test_a_server_that_is_killed(state: str, gateway: Serving, files: AgentFiles, desk: Desk, trust: Trust) -> None:
    with held(state, gateway, files, desk, trust) as host:
        for pid in servers(gateway):
            os.kill(pid, signal.SIGKILL)
        if state == "waiting":
            allow(desk, trust)
        else:
            gateway.stop(signal.SIGCONT)
        assert host.hear()["id"] == 7
        host.say(id=8, method="ping")
        assert host.hear()["id"] == 8
    still_works(desk)


@pytest.mark.parametrize("state", ["waiting", "allowed"])
@pytest.mark.parametrize("killed", ["connect", "host"])
def test_a_host_or_a_connect_that_is_killed(
    killed: str, state: str, gateway: Serving, files: AgentFiles, desk: Desk, trust: Trust
) -> None:
    with held(state, gateway, files, desk, trust) as host:
        if killed == "connect":
            host.stop(signal.SIGKILL)
        else:
            host.close_input()
        if state == "allowed":
            gateway.stop(signal.SIGCONT)
        host.wait()
        if killed == "host":
            wait_until(lambda: not waiting(desk))  # it is taken back
    still_works(desk)
    with Connected(files.folder, gateway.url, *files.options, **desk.env) as another:
        another.initialize()
        assert "result" in another.ask("tools/list")


def test_a_desk_that_hangs_costs_the_patience_and_no_more(gateway: Serving, files: AgentFiles, desk: Desk) -> None:
    desk.process.send_signal(signal.SIGSTOP)
    with Connected(files.folder, gateway.url, *files.options, "--hold", "0.5", **desk.env) as host:
        host.initialize()
        told = str(host.ask("tools/call", CALL)["result"])
        assert "has not answered yet" in told


def test_a_thousand_asks_are_bounded__and_the_person_goes_on(desk: Desk) -> None:
    """Of ten agents, and of one that makes a key for each ask, as any program of the user can."""
    states: list[str] = []
    agents = [Agent() for _ in range(10)]
    with Line(desk.socket) as line:
        for number in range(1_000):
            agent = agents[number % 10] if number % 20 else Agent()
            params = {"name": "send_email", "arguments": {"to": "ada", "subject": str(number)}}
            told = line.tell({"ask": agent.ask(params).to_dict()})
            states.append(told.get("state") or told["error"])
    assert {"pending", "rate"} <= set(states) <= {"pending", "rate", "busy"}
    listed = waiting(desk)
    assert len(listed) == states.count("pending") <= MAX_PENDING_ASKS
    assert desk.tell({"deny": listed[0]})["state"] == "denied"
    assert waiting(desk) == listed[1:]
