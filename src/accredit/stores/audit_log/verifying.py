"""Verifies a log on several cores. I/O: processes, which are forked.

One process reads the entries and compares them with their chains. The others decode statements and verify signatures,
in batches. The results come in the order of the entries, so the verdict and the place of the first fault are the same
as without these processes. The number of batches in progress is bounded. The processes end when the reading one does.
"""

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Self, cast

from accredit.attest import Digest, Entry, Envelope, Examined, LogKey, RecordKey, Stored, examine
from accredit.errors import AttestationError, StoreUnavailable
from accredit.stores.audit_log.proving import Judge
from accredit.stores.audit_log.reading import EntryWithEvidence

MAX_VERIFIERS = 16
"""The most processes that verify a log together: the one process that reads can't keep more of them busy."""
VERIFIED_ENTRIES, VERIFIED_BYTES = 128, 1_048_576
"""How many entries of a log are in one batch (10 ms of work), and after how many bytes a batch with fewer is full."""


_Entry = Entry | Envelope | EntryWithEvidence | bytes | str
_Examine = Callable[[Any], Examined | Digest]


class Verifiers:
    """`with Verifiers(keys) as examiner`: an `attest.Examiner` for one log, on the cores that this process may use.

    Enter it before threads are started: it forks.
    """

    def __init__(
        self, keys: Iterable[LogKey | RecordKey], processes: int | None = None, *, judge: Judge | None = None
    ) -> None:
        """`processes` defaults to the number of cores. If it is one, this process verifies by itself."""
        known = {key.id: key for key in keys}
        self._examine: _Examine = partial(examine if judge is None else judge.examine, keys=known)
        cores = min(_cores(), MAX_VERIFIERS) if processes is None else processes
        self._wanted = cores if cores > 1 else 0
        self._processes: list[BaseProcess] = []
        self._links: list[Connection] = []

    def __enter__(self) -> Self:
        context = multiprocessing.get_context("fork")  # keys may hold what can't be pickled
        for _ in range(self._wanted):
            ours, theirs = cast("tuple[Connection, Connection]", context.Pipe())
            self._links.append(ours)
            process = context.Process(target=_verify, args=(theirs, self._links, self._examine), daemon=True)
            process.start()
            self._processes.append(process)
            theirs.close()
        return self

    def __exit__(self, *_: object) -> None:
        for link in self._links:
            link.close()
        for process in self._processes:
            process.kill()
            process.join()

    def __call__(self, entries: Iterable[_Entry]) -> Iterator[Examined | Digest]:
        """Yield the result for each entry, in order. Raises `StoreUnavailable` if a process has died. An error in
        reading the entries is raised after all results for what was read before."""
        if not self._links:
            yield from map(self._examine, entries)
            return
        idle, busy = deque(self._links), deque[Connection]()
        try:
            for some in _batches(entries):
                if not idle:
                    yield from _receive(busy[0])
                    idle.append(busy.popleft())
                _send(idle[0], some)
                busy.append(idle.popleft())
        except AttestationError:
            yield from _all_received(busy)
            raise
        yield from _all_received(busy)


def _cores() -> int:
    """Return how many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not every system can tell
        return os.cpu_count() or 1


def _batches(entries: Iterable[_Entry]) -> Iterator[list[_Entry]]:
    """Yield the entries in batches. An error in reading them is raised after those that were read before."""
    some: list[_Entry] = []
    size = 0
    failure = None
    try:
        for entry in entries:
            some.append(entry)
            size += _size(entry)
            if len(some) >= VERIFIED_ENTRIES or size >= VERIFIED_BYTES:
                yield some
                some, size = [], 0
    except AttestationError as error:
        failure = error
    if some:
        yield some
    if failure is not None:
        raise failure


def _size(entry: _Entry) -> int:
    if isinstance(entry, EntryWithEvidence):
        return _size(entry.entry) + len(entry.proof or b"") + len(entry.certificates or b"")
    if isinstance(entry, Stored):
        entry = entry.envelope
    return len(entry.payload if isinstance(entry, Envelope) else entry)


def _send(link: Connection, some: list[_Entry]) -> None:
    try:
        link.send(some)
    except OSError:
        raise _ended_error() from None


def _receive(link: Connection) -> Sequence[Examined | Digest]:
    try:
        return link.recv()
    except (EOFError, OSError):
        raise _ended_error() from None


def _all_received(busy: Iterable[Connection]) -> Iterator[Examined | Digest]:
    for link in busy:
        yield from _receive(link)


def _ended_error() -> StoreUnavailable:
    return StoreUnavailable("a process that verifies the log has ended, as if it was killed")


def _verify(link: Connection, others: Sequence[Connection], examine_entry: _Examine) -> None:
    """Answer each batch, until the reading process has ended. `others` are the reading process's ends of sockets, which
    the fork has copied. They are closed here: while a copy is open, nobody notices that the reading process has ended.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that reads
    for other in others:
        other.close()
    while True:
        try:
            some: list[_Entry] = link.recv()
            link.send(list(map(examine_entry, some)))
        except (EOFError, OSError):
            return
