"""Which of several delegations `accredit connect` presents, files that change under it, and advice that is followed."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.world.agents import AgentFiles, agent_files, save_delegation
from tests.world.authorization import GATEWAY, Trust
from tests.world.command import Serving, accredit, wait_until
from tests.world.connected import Connected

from accredit.ratify.constraints import MaxAmount

pytestmark = pytest.mark.slow

SEND: dict[str, Any] = {"name": "send_email", "arguments": {"to": "ada", "subject": "which"}}
READ: dict[str, Any] = {"name": "list_inbox", "arguments": {}}


def text(host: Connected, call: dict[str, Any], id: int) -> str:
    """What the host is told of a call."""
    return json.dumps(host.ask("tools/call", call, id=id))


def limited(files: AgentFiles, trust: Trust, name: str) -> str:
    """A delegation that this gateway can't hold a call against: it knows no amounts."""
    limit = MaxAmount(max_amount=5, currency="EUR")
    chain = trust.chain("email:read", "email:send", constraints=(limit,))
    return str(save_delegation(files.folder / name, chain))


def test_where_the_first_delegation_is_refused_the_next_one_is_presented__after_a_challenge_of_its_own(
    gateway: Serving, trust: Trust, tmp_path: Path
) -> None:
    files = agent_files(tmp_path, trust)
    options = ("--key", str(files.key), "--delegation", limited(files, trust, "limited.json"))
    more = ("--delegation", str(files.delegation), "--gateway-id", GATEWAY)
    with Connected(tmp_path, gateway.url, *options, *more) as host:
        host.initialize()
        assert "sent to ada" in text(host, SEND, 1)
        assert "ada@example.org" in text(host, READ, 2)


def test_the_advice_of_a_refusal_that_is_followed_to_the_letter_lets_the_call_pass(
    gateway: Serving, trust: Trust, tmp_path: Path
) -> None:
    files = agent_files(tmp_path, trust)
    options = ["--key", str(files.key), "--delegation", limited(files, trust, "email-read.json")]
    with Connected(tmp_path, gateway.url, *options) as host:
        host.initialize()
        told = host.ask("tools/call", READ, id=1)["result"]["content"][0]["text"]
    command = re.search(r"^ +accredit (grant .*)$", told, re.MULTILINE)
    added = re.search(r"^Then add (--delegation .*) to the arguments", told, re.MULTILINE)
    assert command, told
    assert added, told
    words = shlex.split(command[1].replace("PATH", str(files.folder / "owner.key")))
    granted = accredit(*words, folder=tmp_path)
    assert granted.returncode == 0, granted.stderr
    with Connected(tmp_path, gateway.url, *options, *shlex.split(added[1])) as host:
        host.initialize()
        assert "ada@example.org" in text(host, READ, 1)


@pytest.mark.holds("client/presenter", "usable")
def test_a_delegation_that_is_renewed_is_taken_without_a_restart__and_half_of_one_changes_nothing(
    gateway: Serving, trust: Trust, tmp_path: Path
) -> None:
    files = agent_files(tmp_path, trust, "email:read")
    with Connected(tmp_path, gateway.url, *files.options) as host:
        host.initialize()
        assert "nobody has allowed this agent send_email" in text(host, SEND, 1)
        whole = files.delegation.read_bytes()
        files.delegation.write_bytes(whole[: len(whole) // 2])
        assert "ada@example.org" in text(host, READ, 2)
        wait_until(lambda: "the delegation that was read before is used" in host.stderr)
        files.delegation.unlink()
        assert "ada@example.org" in text(host, READ, 3)
        save_delegation(files.delegation, trust.chain("email:read", "email:send"))
        assert "sent to ada" in text(host, SEND, 4)
