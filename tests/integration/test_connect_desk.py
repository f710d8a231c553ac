"""The whole way, with real processes: a host, `connect`, a gateway, its server, a desk, and a person in a terminal."""

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.world.agents import AgentFiles
from tests.world.authorization import Trust
from tests.world.command import Serving, wait_until
from tests.world.connected import Connected
from tests.world.desk import CALL, PASSPHRASE, Desk, write_locked
from tests.world.terminal import Terminal

pytestmark = [pytest.mark.slow, pytest.mark.holds("client/asking"), pytest.mark.holds("console/socket")]

SLOW_TERMINAL = ("--hold", "120")


@pytest.fixture
def desk(trust: Trust, tmp_path: Path) -> Generator[Desk]:
    folder = tmp_path / "person"
    write_locked(folder / "config" / "accredit", trust.owner)
    with Desk(folder) as desk:
        yield desk


def waiting(desk: Desk) -> list[str]:
    return [each["code"] for each in desk.tell({"list": True})["asks"]]


def test_a_person_allows_exactly_this_call_and_it_passes(gateway: Serving, files: AgentFiles, desk: Desk) -> None:
    with Connected(files.folder, gateway.url, *files.options, *SLOW_TERMINAL, **desk.env) as host:
        host.initialize()
        host.say(id=7, method="tools/call", params=CALL)
        wait_until(lambda: bool(waiting(desk)))
        (code,) = waiting(desk)
        with Terminal("approve", code, "--once", folder=desk.folder, env=desk.env) as terminal:
            terminal.wait_for("assphrase")
            assert not terminal.echoes()
            terminal.types(f"{PASSPHRASE}\n")
            assert terminal.end() == 0, terminal.seen
        told = host.hear()
        assert (told["id"], "sent to ada@example.org" in str(told["result"])) == (7, True)
        # The same again, and another one, are asked for anew: one yes is for one call.
        for number, params in enumerate((CALL, {**CALL, "arguments": {"to": "eve@example.org", "subject": "x"}}), 8):
            host.say(id=number, method="tools/call", params=params)
            wait_until(lambda: bool(waiting(desk)))
            desk.tell({"deny": waiting(desk)[0]})
            assert "said no to this call" in str(host.hear()["result"])
    assert PASSPHRASE not in desk.journal + desk.stderr + host.stderr
