"""What the log has of calls is held against what clients and the server saw."""

import pytest
from tests.chaos.agents import ANSWERED, UNKNOWN, Call, Exchange
from tests.chaos.records import compared, digest_of
from tests.chaos.upstream import Forwarded

from accredit.attest import Call as RecordedCall
from accredit.attest import CallRecord, Outcome, Place, RecordedDecision, Statement
from accredit.attest.statements import GENESIS, Times

CALL = Call("mail://1", "resources/read", {"uri": "mail://1"}, {}, "agent")
RESULT = {"sha256": "ab" * 32}
JOURNAL = [Forwarded(0.5, "mail://1", "n1", "agent", RESULT)]
OK = Outcome(status="ok", result={"sha256": "ab" * 32})


def exchange(outcome: str) -> Exchange:
    return Exchange(CALL, "g1", "n1", 0, 1, 0, outcome)


def record(decision: RecordedDecision | None = None, outcome: Outcome | None = None, id: str = "01" * 16) -> Statement:
    call = RecordedCall(id=id, method="resources/read", target="mail://1")
    times = Times(received="2026-01-01T00:00:00.000Z", recorded="2026-01-01T00:00:00.000Z")
    place = Place(writer="aa" * 16, sequence=1, previous=GENESIS)
    phase = "decision" if outcome is None else "outcome"
    return Statement(CallRecord("gateway", phase, call, times, place, decision, outcome=outcome), digest_of(CALL))


ALLOWED = record(RecordedDecision(verdict="allow"))
DENIED = record(RecordedDecision(verdict="deny"))
ENDED = record(outcome=OK)


@pytest.mark.parametrize(
    ("statements", "outcome"),
    [([ALLOWED, ENDED], ANSWERED), ([DENIED, ALLOWED, ENDED], ANSWERED), ([ALLOWED], UNKNOWN)],
    ids=["answered", "a copy was refused", "open still"],
)
def test_nothing_is_said_of_a_call_that_is_recorded(statements: list[Statement], outcome: str) -> None:
    assert compared(statements, [exchange(outcome)], JOURNAL) == []


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        ([], "not recorded before"),
        ([DENIED], "not recorded before"),
        ([ALLOWED], r"recorded as \[\]"),
        ([ALLOWED, record(outcome=Outcome(status="unknown"))], "recorded as"),
        ([ALLOWED, record(outcome=Outcome(status="ok", result={"sha256": "cd" * 32}))], "recorded as"),
        ([ALLOWED, ENDED, ENDED], "2 outcomes"),
        ([ALLOWED, record(RecordedDecision(verdict="allow"), id="02" * 16), ENDED], "allowed 2 times"),
    ],
    ids=["nothing", "refused", "open", "unknown", "another answer", "two outcomes", "allowed twice"],
)
def test_a_record_that_is_missing__or_says_something_else__is_said(statements: list[Statement], said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        assert compared(statements, [exchange(ANSWERED)], JOURNAL) == []
