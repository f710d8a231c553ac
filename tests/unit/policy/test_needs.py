"""Who answers a decision's questions: each goes to its port with all that it says, and what a port raises is a no."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.unit.ratify.world import NOW, constraint
from tests.world.decisions import Deployment, Known, call, draw, finished, granted, policy, proven

from accredit.errors import ChallengesFull, StoreUnavailable
from accredit.policy.decide import decide
from accredit.policy.decision import Decision, drive
from accredit.ports import RateLimit, Spending
from accredit.ratify import IssuedChallenge


class Ports(Known):
    """A store and revocations that say yes, write down what they are asked, and raise where they are told to."""

    def __init__(self, raising: str = "", error: Exception | None = None) -> None:
        super().__init__()
        self.asked: list[tuple[Any, ...]] = []
        self._raising, self._error = raising, error

    def _note(self, name: str, *what: object) -> None:
        self.asked.append((name, *what))
        if name == self._raising and self._error is not None:
            raise self._error

    async def issue(self, request_hash: bytes, *, expires_at: int) -> IssuedChallenge:
        self._note("issue", request_hash, expires_at)
        return IssuedChallenge(draw(), expires_at)

    async def look(self, challenge: bytes, request_hash: bytes, *, issued: bool, now: int) -> Spending:
        self._note("look", challenge, request_hash, issued, now)
        return Spending.FIRST

    async def spend(
        self, challenge: bytes, request_hash: bytes, *, issued: bool, keep_until: int, now: int
    ) -> Spending:
        self._note("spend", challenge, request_hash, issued, keep_until, now)
        return Spending.FIRST

    async def uses(self, cert_id: str, window_s: int, *, now: int) -> int:
        self._note("uses", cert_id, window_s, now)
        return 0

    async def use(self, limits: Sequence[RateLimit], *, now: int) -> bool:
        self._note("use", limits, now)
        return True

    async def room_at(self, limit: RateLimit, *, now: int) -> int | None:
        self._note("room_at", limit, now)
        return now

    async def ready(self) -> bool:
        return True

    async def aclose(self) -> None: ...

    async def is_revoked(self, cert_id: str) -> bool:
        self._note("is_revoked", cert_id)
        return False


RATED = granted(constraints=(constraint(type="max_rate", count=2, window_s=60),))


def decided(ports: Ports, **changes: Any) -> Decision:
    asked = proven(call(), RATED, challenge=b"c" * 32)
    return finished(drive(decide(asked, policy(**changes), NOW), ports, ports, NOW))


def test_every_question_goes_to_its_port_with_all_that_it_says() -> None:
    ports = Ports()
    assert decided(ports).refusal is None
    request_hash = call().request_hash("email:read")
    used = ports.asked[3][1]
    assert ports.asked == [
        ("look", b"c" * 32, request_hash, False, NOW),
        ("is_revoked", RATED[0].cert_id),
        ("spend", b"c" * 32, request_hash, False, NOW + 301, NOW),
        ("uses", used, 60, NOW),
        ("use", (RateLimit(used, 60, 2),), NOW),
    ]


def test_a_challenge_is_asked_for_with_its_life() -> None:
    ports = Ports()
    asked = call("wipe")
    finished(drive(decide(asked, policy(challenge_seconds=45), NOW), ports, ports, NOW))
    assert ports.asked == [("issue", asked.request_hash("comms:email:delete"), NOW + 45)]


def test_a_sensitive_call_looks_for_what_was_issued_and_spends_that() -> None:
    ports = Ports()
    finished(drive(decide(proven(call("wipe")), policy(), NOW), ports, ports, NOW))
    assert [asked[:1] + asked[3:4] for asked in ports.asked if asked[0] in {"look", "spend"}] == [
        ("look", True),
        ("spend", True),
    ]


@pytest.mark.parametrize("name", ["look", "is_revoked", "spend", "uses", "use"])
@pytest.mark.parametrize("error", [StoreUnavailable("locked"), OSError(28, "disk full"), KeyError("x"), TimeoutError()])
def test_what_a_port_raises_is_a_no(name: str, error: Exception) -> None:
    ports = Ports(name, error)
    decision = decided(ports)
    assert decision.refusal is not None
    assert (decision.refusal.error, decision.fault) == ("ratify_invalid", error)
    assert ports.asked[-1][0] == name


def test_a_store_that_is_full_says_so() -> None:
    decision = decided(Ports("spend", ChallengesFull("full")))
    assert decision.refusal is not None
    assert decision.refusal.code == -31007


async def test_who_gives_up_waiting_gets_no_decision_and_spends_nothing() -> None:
    deployment = Deployment()
    asked = proven(call())

    class Slow(Ports):
        async def is_revoked(self, cert_id: str) -> bool:
            await asyncio.Event().wait()
            return False

    task = asyncio.create_task(drive(decide(asked, deployment.policy, NOW), deployment.store, Slow(), NOW))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert deployment.error(asked) == ""
