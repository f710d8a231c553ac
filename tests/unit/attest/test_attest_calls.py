"""A log whose chains are whole, all signed by the gateway's own key, is none if its records say of a call what no
gateway does: each test fails where only chains are verified."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.world.records import DENY, NOW_MS, OK, Chained, decided, gateway

from accredit.attest import (
    CallDecision,
    Digest,
    Entry,
    Envelope,
    Mark,
    Outcome,
    Pruning,
    RecordedDecision,
    Stored,
    pruning_payload,
    sha256_hex,
    timestamp,
    verify_log,
)
from accredit.attest.calls import GOES_ON, OUTCOME, REFUSED, MarksInMemory, first_fault

ONE, TWO = "01" * 16, "02" * 16
KEYS = [gateway()[1]]
CHALLENGE = RecordedDecision(verdict="challenge", error="ratify_challenge_required")
OBSERVED = replace(DENY, enforced=False)
UNKNOWN = Outcome(status="unknown")


def of(decision: RecordedDecision) -> CallDecision:
    return decided(decision=decision)


def fault(*chains: Chained) -> str | None:
    """What is found in chains that come one after the other, as those of a database do."""
    entries = [Stored(each) for chain in chains for each in chain.envelopes]
    found = verify_log(entries, KEYS).fault
    return found and f"{found.place}: {found.reason}".replace(ONE, "01").replace(TWO, "02")


def two_outcomes(chain: Chained, other: Chained) -> None:
    call = decided()
    chain.decision(call)
    chain.outcome(call)
    chain.outcome(call, UNKNOWN)


def two_outcomes_in_two_chains(chain: Chained, other: Chained) -> None:
    call = decided()
    chain.decision(call)
    chain.outcome(call)
    other.outcome(call, UNKNOWN)


def two_decisions(chain: Chained, other: Chained) -> None:
    call = decided()
    chain.decision(call)
    chain.decision(call)


def a_refusal_after_an_allowance(chain: Chained, other: Chained) -> None:
    call = decided()
    chain.decision(call)
    chain.outcome(call)
    chain.decision(replace(call, decision=DENY))


def an_allowance_in_another_chain(chain: Chained, other: Chained) -> None:
    call = of(DENY)
    chain.decision(call)
    other.decision(replace(call, decision=RecordedDecision(verdict="allow")))


def an_outcome_of_a_refusal(chain: Chained, other: Chained) -> None:
    call = of(DENY)
    chain.decision(call)
    chain.outcome(call)


def an_outcome_of_a_challenge(chain: Chained, other: Chained) -> None:
    call = of(CHALLENGE)
    chain.decision(call)
    other.outcome(call, UNKNOWN)


def an_outcome_alone(chain: Chained, other: Chained) -> None:
    chain.outcome(decided())


def an_outcome_first(chain: Chained, other: Chained) -> None:
    call = decided()
    chain.outcome(call)
    chain.decision(call)


BAD: dict[Callable[[Chained, Chained], None], str] = {
    two_outcomes: "01/5: a second outcome of its call (the other record is 01/4)",
    two_outcomes_in_two_chains: "02/3: a second outcome of its call (the other record is 01/4)",
    two_decisions: "01/4: a second decision on its call (the other record is 01/3)",
    a_refusal_after_an_allowance: "01/5: a second decision on its call (the other record is 01/3)",
    an_allowance_in_another_chain: "02/3: a second decision on its call (the other record is 01/3)",
    an_outcome_of_a_refusal: "01/4: an outcome of a call that did not go on (the other record is 01/3)",
    an_outcome_of_a_challenge: "02/3: an outcome of a call that did not go on (the other record is 01/3)",
    an_outcome_alone: "01/3: an outcome, and the decision on its call is not there",
    an_outcome_first: "01/3: an outcome before the decision on its call (the other record is 01/4)",
}


@pytest.mark.holds("attest/verify", "calls")
@pytest.mark.holds("attest/calls", "once", "outcome", "pruning")
@pytest.mark.parametrize("what", BAD, ids=[each.__name__ for each in BAD])
def test_what_a_gateway_says_of_no_call_is_found__though_its_own_key_signed_it(
    what: Callable[[Chained, Chained], None],
) -> None:
    chain, other = Chained(writer=ONE), Chained(writer=TWO)
    chain.calls(1)
    other.calls(1)
    what(chain, other)
    chain.calls(1)
    other.calls(1)
    assert fault(chain, other) == BAD[what]


@pytest.mark.holds("attest/calls", "outcome")
def test_what_a_gateway_does_say_of_calls_is_good() -> None:
    """Open ones; one closed by another writer, whose chain may be read first; one that was refused, or only watched."""
    chain, other = Chained(writer=ONE), Chained(writer=TWO)
    left_open, closed, watched = decided(), decided(), of(OBSERVED)
    chain.decision(left_open)
    chain.decision(closed)
    chain.decision(of(DENY))
    chain.decision(of(CHALLENGE))
    chain.decision(watched)
    other.outcome(watched, Outcome(status="error", detail="refused all the same: definition_changed"))
    other.outcome(closed, UNKNOWN)
    assert fault(chain, other) is None
    assert fault(other, chain) is None


def without_beginning(log: Sequence[Envelope], last: int, before_ms: int) -> list[Entry]:
    """A chain whose first records were pruned."""
    digests = [bytes.fromhex(sha256_hex(each.payload)) for each in log[:last]]
    note = Pruning(
        writer=ONE,
        last=last,
        before=timestamp(before_ms),
        digests_sha256=sha256_hex(b"".join(digests)),
        time=timestamp(before_ms),
    )
    signed = gateway()[0].summary(pruning_payload(note, digests[-1].hex()))
    gone: list[Entry] = [Digest(ONE, number, digest) for number, digest in enumerate(digests[:-1], 1)]
    return [*gone, Stored(signed), *map(Stored, log[last:])]


@pytest.mark.holds("attest/calls", "pruning")
@pytest.mark.parametrize("in_another_chain", [False, True])
def test_a_decision_that_was_pruned_is_no_fault__and_hides_no_later_one(in_another_chain: bool) -> None:
    chain, other = Chained(writer=ONE), Chained(writer=TWO)
    chain.decision(of(DENY))
    old = decided()
    chain.decision(old)
    (other if in_another_chain else chain).outcome(old)
    left = without_beginning(chain.envelopes, 2, NOW_MS + 1_000)
    assert verify_log([*left, *map(Stored, other.envelopes)], KEYS).fault is None
    other.outcome(replace(decided(), received_ms=NOW_MS + 1_000))
    found = verify_log([*left, *map(Stored, other.envelopes)], KEYS).fault
    assert found is not None
    assert found.reason == "an outcome, and the decision on its call is not there"


def test_of_several_faults_the_one_that_was_read_first_is_told() -> None:
    chain = Chained(writer=ONE)
    calls = [of(DENY) for _ in range(8)]
    for call in calls:
        chain.decision(call)
    for call in calls:
        chain.outcome(call, OK)
    assert str(fault(chain)).startswith("01/9: ")


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), st.sampled_from([REFUSED, GOES_ON, OUTCOME]))))
def test_a_log_is_good_exactly_if_each_call_has_one_decision_and_then_at_most_one_outcome(
    said: list[tuple[int, int, int]],
) -> None:
    """Against the rule said otherwise, call by call."""
    marks, numbers = MarksInMemory(), [0, 0]
    for order, (call, chain, says) in enumerate(said):
        numbers[chain] += 1
        marks.add(Mark(f"{call:032x}", order, chain, numbers[chain], says, timestamp(NOW_MS)))
    found = first_fault(marks.by_call(), "")
    for call in {each[0] for each in said}:
        own = [(chain, says) for which, chain, says in said if which == call]
        says = [each for _, each in own]
        is_good = says in ([REFUSED], [GOES_ON], [GOES_ON, OUTCOME]) or (
            says == [OUTCOME, GOES_ON] and len({chain for chain, _ in own}) == 2
        )
        if not is_good:
            assert found is not None
            return
    assert found is None
