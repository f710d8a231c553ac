"""`accredit replay`: what another configuration would decide otherwise, and what the log does not say."""

import asyncio
import json
import sqlite3
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.ops.conftest import Folder
from tests.world.authorization import Trust
from tests.world.in_process import Run
from tests.world.recorded import thread
from tests.world.records import NOW_MS, POLICY, decided

from accredit.attest import CallDecision, RecordedChain, RecordedDecision, recorded_chain
from accredit.keys import log_signer, write_key
from accredit.ops.replay import MAX_REPLAYED_CHANGES
from accredit.policy.suggesting import MAX_SUGGESTED_OF_AGENT
from accredit.ratify import encode_delegation_cert
from accredit.stores.audit_log.queue import QueuedRecords

CONFIG = """
[gateway]
id = "mail-gateway"
[upstream]
url = "http://127.0.0.1:9/mcp"
[proofs]
mode = "required"
[[proofs.roots]]
name = "Owner"
public_key_file = "owner.key.pub"
[store]
url = "sqlite:///accredit.db"
"""
TOOLS = '[tools.send_email]\nscope = "email:send"\n[tools.pay]\nscope = "payments:send"\n'
pytestmark = [pytest.mark.slow, pytest.mark.holds("ops/replay")]
OWN = 4
"""The calls that the log holds already, on certificates that are none."""


def batched(calls: Sequence[CallDecision], number: int) -> Iterator[Sequence[CallDecision]]:
    for first in range(0, len(calls), number):
        yield calls[first : first + number]


class World:
    """The folder, with an owner who is trusted, and calls of an agent on a real chain."""

    def __init__(self, folder: Path, key: Any) -> None:
        self.folder, self._key = folder, key
        self.trust = Trust()
        write_key(folder / "owner.key", self.trust.owner)
        # The records of the world are of a moment to come.
        self._links = self.trust.chain("email:send", ends=400 * 86_400)
        self._recorded = recorded_chain(encode_delegation_cert(cert) for cert in self._links)
        (folder / "accredit.db").unlink()
        self.write(*(decided() for _ in range(OWN)))

    @property
    def chain(self) -> RecordedChain:
        return self._recorded

    def call(self, target: str, error: str | None = None, **more: Any) -> CallDecision:
        decision = RecordedDecision(verdict="deny" if error else "allow", error=error, enforced=False)
        made = decided(target, decision, certificates=self._recorded.text, token=None, **more)
        assert made.authority is not None
        authority = replace(made.authority, principal_id=self.trust.owner.id, agent_id=self.trust.agent.id, bound=True)
        return replace(made, authority=authority, received_ms=self._links[0].issued_at * 1000 + 86_400_000)

    def write(self, *calls: CallDecision) -> None:
        async def main() -> None:
            records = QueuedRecords(
                thread(self.folder / "accredit.db", log_signer(self._key), durable=False),
                durable=True,
                policy_digest=POLICY,
                on_problem=pytest.fail,
                clock=lambda: NOW_MS,
            )
            for some in batched(calls, 1_000):
                await asyncio.gather(*map(records.begin, some))
            await records.aclose()

        asyncio.run(main())

    def configure(self, text: str) -> None:
        (self.folder / "new.toml").write_text(CONFIG + text, "utf-8")


@pytest.fixture
def world(folder: Folder, gateway_key: Any) -> World:
    return World(folder.path, gateway_key)


def test_what_is_decided_otherwise_is_told_with_its_number__and_the_exit_code_says_so(world: World, run: Run) -> None:
    world.write(world.call("send_email"), world.call("send_email"), world.call("drop", "unknown_tool"))
    world.configure(TOOLS)
    alike = run("replay", "--config", "new.toml", "--json")
    found = json.loads(alike.out)
    assert (alike.code, found["otherwise"], found["same"]["calls"]) == (0, [], 3)
    assert [(each["reason"], each["calls"]) for each in found["cant_tell"]] == [("chain", OWN)]
    world.configure(TOOLS.replace("send_email", "send_mail"))
    other = run("replay", "--config", "new.toml", "--json")
    (change,) = json.loads(other.out)["otherwise"]
    assert other.code == 1
    assert (change["target"], change["before"], change["now"], change["calls"]) == (
        "send_email",
        "allow",
        "unknown_tool",
        2,
    )
    assert change["agent_id"] == world.trust.agent.id
    printed = run("replay", "--config", "new.toml")
    assert printed.code == 1
    assert "decided otherwise: 2 calls" in printed.out
    assert f'allow -> unknown_tool: tools/call "send_email" by {world.trust.agent.id}: 2 calls' in printed.out
    assert "can't tell, as their certificates are not in the log: 4 calls" in printed.out
    assert "not looked at: revocations, uses, ages of challenges" in printed.out
    world.configure(TOOLS + '[tools.drop]\nscope = "email:send"\n')
    allowed = json.loads(run("replay", "--config", "new.toml", "--json").out)["otherwise"]
    assert [(each["before"], each["now"]) for each in allowed] == [("unknown_tool", "allow")]


def test_what_somebody_wrote_into_the_store_is_not_decided_again(world: World, run: Run) -> None:
    world.write(world.call("send_email"))
    world.configure(TOOLS)
    with closing(sqlite3.connect(world.folder / "accredit.db")) as log, log:
        newest = "(SELECT max(entry) FROM log_entries WHERE instr(payload, CAST('\"decision\"' AS BLOB)))"
        log.execute(
            "INSERT INTO log_entries SELECT -9223372036854775808, writer, number, key, CAST(replace(CAST(payload AS"
            " TEXT), 'send_email', 'pay') AS BLOB), zeroblob(64), ml_dsa_65, digest, members, proof FROM log_entries"
            f" WHERE entry = {newest}"
        )
    done = run("replay", "--config", "new.toml", "--json")
    found = json.loads(done.out)
    assert (done.code, found["otherwise"], found["same"]["calls"]) == (0, [], 1)
    assert found["unverified"]["entries"] == 1
    assert "left out, as it does not verify: 1 record" in run("replay", "--config", "new.toml").out


def test_a_chain_that_is_not_the_one_of_the_record_decides_nothing(world: World, run: Run) -> None:
    world.write(world.call("send_email"))
    world.configure(TOOLS)
    with closing(sqlite3.connect(world.folder / "accredit.db")) as log, log:
        log.execute("UPDATE log_delegations SET certificates = CAST(certificates || ' ' AS BLOB)")
    found = json.loads(run("replay", "--config", "new.toml", "--json").out)
    assert [(each["reason"], each["calls"]) for each in found["cant_tell"]] == [("chain", OWN + 1)]


def test_what_was_only_observed_is_told_apart_from_what_was_refused(world: World, run: Run) -> None:
    refused = world.call("send_email", "ratify_scope_denied")
    enforced = replace(
        refused, call=replace(refused.call, id="0e" * 16), decision=replace(refused.decision, enforced=True)
    )
    world.write(refused, enforced)
    world.configure(TOOLS)
    found = json.loads(run("replay", "--config", "new.toml", "--json").out)
    assert [(each["before"], each["now"], each["observed"]) for each in found["otherwise"]] == [
        ("ratify_scope_denied", "allow", False),
        ("ratify_scope_denied", "allow", True),
    ]
    assert "ratify_scope_denied (only observed) -> allow" in run("replay", "--config", "new.toml").out


def test_only_calls_since_then_are_looked_at(world: World, run: Run) -> None:
    world.write(world.call("send_email"))
    world.configure("")
    assert run("replay", "--config", "new.toml").code == 1
    late = run("replay", "--config", "new.toml", "--since", "2100-01-01T00:00:00Z", "--json")
    assert (late.code, json.loads(late.out)["same"]["calls"]) == (0, 0)


def test_a_hostile_name_ends_no_line(world: World, run: Run) -> None:
    world.write(world.call("x\n  allow -> deny: \x1b[2J\u202e"))
    world.configure(TOOLS)
    done = run("replay", "--config", "new.toml")
    assert done.out.isascii()
    assert all(line.isprintable() for line in done.out.splitlines())
    assert len([line for line in done.out.splitlines() if "->" in line]) == 1


def test_a_configuration_that_does_not_hold_is_told_before_anything_is_read(world: World, run: Run) -> None:
    world.configure('[tools.x]\nscop = "a:b"\n')
    done = run("replay", "--config", "new.toml")
    assert (done.code, done.out) == (2, "")
    assert "scop" in done.err


def test_memory_stays_flat_over_a_long_log(world: World, run: Run) -> None:
    """Names that are all different are the worst there can be."""
    few, many = 1_200, 3_600
    world.configure(TOOLS)
    taken: list[int] = []
    for number in (1, few, many - few):  # what a first run imports is no memory of a log's
        world.write(*(world.call(f"tool_{n}") for n in range(number)))
        for command in ("suggest", "replay"):
            tracemalloc.start()
            assert run(command, "--config", "new.toml", "--json").code in (0, 1)
            taken.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert few > max(MAX_SUGGESTED_OF_AGENT, MAX_REPLAYED_CHANGES)
    assert taken[4] < taken[2] * 1.3, taken
    assert taken[5] < taken[3] * 1.3, taken
