"""The rules for a call's records, across all chains of a log. No I/O.

- [once] A call has at most one decision and one outcome.
- [outcome] An outcome needs a decision that let the call proceed. If both are in one chain, the outcome comes after the
  decision. The order between chains is not signed, so an outcome in another chain may be read first.
- [pruning] An outcome without its decision is accepted only if the decision may have been pruned: the call arrived
  before the time of the latest note of pruning.

While a log is read, each record leaves one mark. Calls are judged at the end, by the marks. `Marks` keeps them, and
returns them grouped by call. The reader of a long log can choose where they are kept.
"""

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple, Protocol

from accredit.attest.statements import CallRecord

REFUSED, GOES_ON, OUTCOME = range(3)
"""What a record says about its call: that it was refused, that it may proceed (so it has an outcome), or its
outcome."""


class Step(NamedTuple):
    """What a record says about its call, and when the call was received, according to the record."""

    call: str
    says: int
    received: str


class Mark(NamedTuple):
    """The note about one record of a call. `order` is the position at which the record was read, and `sequence` its
    number in its chain."""

    call: str
    order: int
    chain: int
    sequence: int
    says: int
    received: str


class Marks(Protocol):
    """Keeps marks. It returns the marks of each call together, in the order in which they were read."""

    def add(self, mark: Mark) -> None:
        """Keep a mark."""
        ...

    def by_call(self) -> Iterable[Mark]:
        """Yield all marks, grouped by call."""
        ...


class MarksInMemory:
    """Keeps the marks of a short log in memory."""

    def __init__(self) -> None:
        self._marks: list[Mark] = []

    def add(self, mark: Mark) -> None:
        """Keep a mark."""
        self._marks.append(mark)

    def by_call(self) -> Iterable[Mark]:
        """Yield all marks, grouped by call."""
        return sorted(self._marks)


class CallFault(NamedTuple):
    """The fault of a call, and the record that shows it. `other` is the call's other record, if the reason mentions
    it."""

    at: Mark
    reason: str
    other: Mark | None = None


def step_of(record: CallRecord) -> Step:
    """Return what a record says about its call."""
    says = OUTCOME if record.decision is None else GOES_ON if record.goes_on else REFUSED
    return Step(record.call.id, says, record.times.received)


def first_fault(marks: Iterable[Mark], pruned_before: str) -> CallFault | None:
    """Return the fault whose record was read first, or None. `marks` come in the order of `Marks.by_call`.
    `pruned_before` is the time of the latest note of pruning, "" if there is none."""
    first: CallFault | None = None
    for _, of_call in groupby(marks, attrgetter("call")):
        first = _earlier(first, _fault_of(of_call, pruned_before))
    return first


def _fault_of(marks: Iterable[Mark], pruned_before: str) -> CallFault | None:
    """Return the first fault of one call."""
    first: CallFault | None = None
    decision: Mark | None = None
    outcome: Mark | None = None
    for mark in marks:
        if mark.says == OUTCOME:
            if outcome is not None:
                first = first or CallFault(mark, "a second outcome of its call", outcome)
            outcome = outcome or mark
        else:
            if decision is not None:
                first = first or CallFault(mark, "a second decision on its call", decision)
            decision = decision or mark
    return _earlier(first, _of_both(decision, outcome, pruned_before))


def _of_both(decision: Mark | None, outcome: Mark | None, pruned_before: str) -> CallFault | None:
    """Return what is wrong with a call's outcome, by [outcome] and [pruning]; or None."""
    if outcome is None:
        return None
    if decision is None:
        gone = outcome.received < pruned_before
        return None if gone else CallFault(outcome, "an outcome, and the decision on its call is not there")
    if decision.says == REFUSED:
        return CallFault(outcome, "an outcome of a call that did not go on", decision)
    if decision.chain == outcome.chain and outcome.sequence < decision.sequence:
        return CallFault(outcome, "an outcome before the decision on its call", decision)
    return None


def _earlier(one: CallFault | None, other: CallFault | None) -> CallFault | None:
    if one is None or other is None:
        return one or other
    return min(one, other, key=lambda fault: fault.at.order)
