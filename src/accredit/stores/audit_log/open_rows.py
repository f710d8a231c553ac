"""Verifies a log's list of open calls against the log's own records. No I/O of its own.

A gateway closes the calls in this list, except for those that don't verify ([open-calls] of `author`). The verification
of a log makes the same check here: each row is compared with its decision's record, and with the call's outcome. A
writer ends only once it has no open call, and only a writer that has not ended can claim one. So if a row's writer has
ended, or is missing, no gateway made that row, and none would ever close it.

`OpenRows` wraps a store of marks (`attest.Marks`). The marks are requested once, when all chains have been read to
their ends. Then the list is read, and the marks that are outcomes of its calls are noted.
"""

import re
from collections.abc import Callable, Iterable, Iterator

from accredit.attest import Fault, Mark, Marks
from accredit.attest.calls import OUTCOME
from accredit.errors import AttestationError
from accredit.stores.audit_log.author import Keys, decision_on
from accredit.stores.audit_log.tables import OpenCall

MAX_VERIFIED_OPEN_CALLS = 100_000
"""The most rows of the list of open calls that `log verify` checks. Gateways never have so many calls open at one time,
so a longer list is a fault. Each row costs a signature verification, and 100 bytes of memory."""


_CALL_ID = re.compile("[0-9a-f]{32}")
_THE_LIST = "the list of open calls"


class OpenRows:
    """The list of open calls, checked during one verification of the log. Once `by_call` has begun, `fault` is the
    first row that does not verify, or None."""

    def __init__(self, marks: Marks, read: Callable[[int], Iterable[OpenCall]], keys: Keys) -> None:
        """`read` is given a number, and yields at most that many open calls. `keys` are the trusted ones."""
        self.fault: Fault | None = None
        self._marks = marks
        self._read = read
        self._keys = keys
        self._open: set[str] = set()

    def add(self, mark: Mark) -> None:
        """Keep a mark."""
        self._marks.add(mark)

    def by_call(self) -> Iterator[Mark]:
        """Yield all marks, and verify the rows meanwhile. Raises `StoreUnavailable`."""
        try:
            self._judge()
        except AttestationError as error:
            self._note(_THE_LIST, str(error))
        for mark in self._marks.by_call():
            if mark.says == OUTCOME and mark.call in self._open:
                self._note(_place(mark.call), "what came of it is on record already")
            yield mark

    def _judge(self) -> None:
        for place, each in enumerate(self._read(MAX_VERIFIED_OPEN_CALLS + 1)):
            if place == MAX_VERIFIED_OPEN_CALLS:
                raise AttestationError(f"it has more than {MAX_VERIFIED_OPEN_CALLS} calls: no more are looked at")
            try:
                decision_on(each, self._keys)
            except AttestationError as error:
                self._note(_place(each.call), str(error))
                continue
            if each.is_left:
                self._note(_place(each.call), "nobody has it to close: its writer has ended, or is not there")
            if each.call in self._open:
                self._note(_place(each.call), "it is there twice")
            self._open.add(each.call)

    def _note(self, place: str, reason: str) -> None:
        self.fault = self.fault or Fault(place, reason)


def _place(call: str) -> str:
    """Return the words that tell a person which row is meant. An invalid call id is not quoted."""
    return f"open call {call}" if _CALL_ID.fullmatch(call) else f"{_THE_LIST}, a row without a call's id"
