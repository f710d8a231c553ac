"""Races and edges of a decision: revocations that come in its middle, times to the second, clocks that step."""

from collections.abc import Callable
from datetime import datetime

import pytest
from tests.unit.ratify.world import NOW, constraint
from tests.world.decisions import Deployment, call, granted, prove, proven, with_proof

from accredit.limits import CLOCK_LEAD_SECONDS
from accredit.ports import Spending
from accredit.ratify import VerifierContext
from accredit.stores import MemoryStore


def test_a_revocation_while_a_challenge_is_pending_is_honoured__and_the_challenge_is_not_spent() -> None:
    here, chain = Deployment(), granted()
    asked = call("wipe")
    second = with_proof(asked, prove(chain, challenge=here.challenge_for(asked)))
    here.known.revoked.add(chain[0].cert_id)
    assert here.error(second) == "ratify_revoked"
    here.known.revoked.clear()
    assert here.error(second) == ""


DAY = 86_400


class Slow(MemoryStore):
    """A store during whose spending something happens."""

    def __init__(self, happens: Callable[[], None]) -> None:
        super().__init__()
        self._happens = happens

    async def spend(self, *asked: object, **more: object) -> Spending:
        self._happens()
        return await super().spend(*asked, **more)  # pyright: ignore[reportArgumentType]


def test_a_revocation_between_the_look_and_the_spending_counts_from_the_next_call_on() -> None:
    here, chain = Deployment(), granted()
    here.store = Slow(lambda: here.known.revoked.add(chain[0].cert_id))
    assert here.error(proven(call(), chain)) == ""
    assert here.error(proven(call(), chain)) == "ratify_revoked"


def test_a_delegation_begins_and_ends_with_its_seconds() -> None:
    here = Deployment()
    for begins, ends, expected in (
        (NOW, NOW, ""),
        (NOW - 1, NOW, ""),
        (NOW - 9, NOW - 1, "ratify_expired"),
        (NOW + 1, NOW + 9, "ratify_invalid"),
    ):
        assert here.error(proven(call(), granted(issued_at=begins, expires_at=ends))) == expected


def test_a_proof_is_fresh_to_the_second__and_a_clock_that_steps_back_makes_none_of_a_spent_one() -> None:
    here = Deployment()
    lead = CLOCK_LEAD_SECONDS
    for age, expected in ((30, ""), (31, "ratify_invalid"), (-lead, ""), (-lead - 1, "ratify_invalid")):
        assert here.error(proven(call(), at=NOW - age)) == expected, age
    again = proven(call())
    assert here.error(again) == ""
    assert [here.error(again, now) for now in (NOW - DAY, NOW - 1, NOW, NOW + 1, NOW + DAY)] == ["ratify_replayed"] * 5


def test_a_spent_proof_is_not_good_again__though_a_clock_ran_ahead_for_an_hour_with_calls_and_is_set_back() -> None:
    here, ahead = Deployment(), NOW + 4_000
    again = proven(call())
    assert here.error(again) == ""
    for number in range(3):
        assert here.error(proven(call(), granted(expires_at=ahead + DAY), at=ahead + number), ahead + number) == ""
    refusal = here.decides(again).refusal
    assert refusal is not None
    assert (refusal.code, refusal.data["error"]) == (-31003, "ratify_invalid")
    assert "the clock was set back" in str(refusal.data["reason"])
    assert here.error(proven(call())) == "ratify_invalid"  # nobody knows of it either
    # Proofs that were made later than the last that was forgotten are good, an hour before the clock is there again.
    assert here.error(proven(call(), at=NOW + 1), NOW + 1) == ""


def test_a_challenge_is_good_to_its_last_second__in_no_other_store__and_once() -> None:
    here, other = Deployment(), Deployment()
    asked = call("wipe")
    challenge = here.challenge_for(asked)
    late = with_proof(asked, prove(challenge=challenge, at=NOW + 61))
    assert here.error(late, NOW + 61) == "ratify_challenge_required"
    good = with_proof(asked, prove(challenge=challenge, at=NOW + 60))
    assert other.error(good, NOW + 60) == "ratify_challenge_required"
    assert here.error(good, NOW + 60) == ""
    assert here.error(good, NOW + 60) == "ratify_replayed"


def test_of_two_gateways_with_one_store_each_takes_what_is_bound_to_it__and_together_they_take_it_once() -> None:
    here, there = Deployment(), Deployment(verifier_id="gateway.two")
    there.store = here.store
    asked = call("wipe")
    bound = with_proof(asked, prove(to=asked, challenge=here.challenge_for(asked)))
    assert there.error(bound) == "ratify_invalid"
    assert here.error(bound) == ""
    unbound = proven(call())
    assert [there.error(unbound), here.error(unbound)] == ["", "ratify_replayed"]


@pytest.mark.parametrize(
    ("start", "end", "zone", "at", "expected"),
    [
        ("12:00", "12:00", "UTC", "2026-01-01T11:59:59+00:00", False),
        ("12:00", "12:00", "UTC", "2026-01-01T12:00:59+00:00", True),
        ("12:00", "12:00", "UTC", "2026-01-01T12:01:00+00:00", False),
        ("22:00", "06:00", "UTC", "2026-01-01T06:00:59+00:00", True),
        ("22:00", "06:00", "UTC", "2026-01-01T06:01:00+00:00", False),
        ("23:59", "00:00", "UTC", "2026-01-01T00:01:00+00:00", False),
        # In the night of the gap there is no half past two; in that of the overlap there are two.
        ("02:00", "02:59", "Europe/Berlin", "2026-03-29T00:59:59+00:00", False),
        ("02:00", "02:59", "Europe/Berlin", "2026-03-29T01:00:00+00:00", False),
        ("02:00", "02:59", "Europe/Berlin", "2026-10-25T00:30:00+00:00", True),
        ("02:00", "02:59", "Europe/Berlin", "2026-10-25T01:30:00+00:00", True),
        ("00:00", "23:59", "posix/Europe/Berlin", "2026-01-01T12:00:00+00:00", False),
        ("00:00", "23:59", "Europe/Berlin\0", "2026-01-01T12:00:00+00:00", False),
        ("00:00", "24:00", "UTC", "2026-01-01T12:00:00+00:00", False),
        ("\u0660\u0660:00", "23:59", "UTC", "2026-01-01T12:00:00+00:00", False),
    ],
)
def test_a_time_window_is_open_in_its_minutes_on_its_clocks_alone(
    start: str, end: str, zone: str, at: str, expected: bool
) -> None:
    now = int(datetime.fromisoformat(at).timestamp())
    window = constraint(type="time_window", start=start, end=end, tz=zone)
    outcome = window.judge(VerifierContext(), "", now)
    assert (outcome is None) is expected
