"""The interface of the log's tables, in whichever engine. No I/O of its own.

The rules (`transactions`, `appender`) are coroutines over `LogTables`. Over a file (`file_tables`) they never wait, and
`at_once` runs them to their end; over a database (`stores.postgres.log_tables`) they wait for its answers. The writer
decides what it believes of them (`author`).

What was read may have changed before a write: `LogTables.write` writes only if the chain still ends there, and the
calls that it closes are still open.
"""

import re
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from accredit.attest import Envelope, Stored
from accredit.errors import StoreUnavailable

MAX_RECORDS_OF_A_CALL_BYTES = 67_108_864
"""Bytes of these together that are read: two of the longest. Whoever writes to the store could make each as long as an
envelope may be, a gibibyte in all."""


T = TypeVar("T")

WRITER_ID = re.compile("[0-9a-f]{32}")
"""The name of a writer, which is also that of its lock file; any other name is invalid."""

RECORD, CHECKPOINT = 0, 1
"""Kinds of entries. A third, the note of pruning, is never written here."""


class ChainEnded(StoreUnavailable):
    """The writer was declared dead: its calls are closed, and no record may be added to its chain."""

    def __init__(self, writer: str, why: str = "") -> None:
        self.writer = writer
        super().__init__(why or f"another process took writer {writer} for dead, and has ended its chain")


class ChainTaken(ChainEnded):
    """Somebody else has changed the writer's chain: it is abandoned, and another one is started."""

    def __init__(self, writer: str) -> None:
        super().__init__(writer, f"the chain of writer {writer} was changed by somebody else, and is left")


class ChainMoved(StoreUnavailable):
    """A chain, or a call, has changed since it was read: read again."""


class ChainEnd(NamedTuple):
    """The end of a writer's chain: the writer's name and number, how many records it has, the SHA-256 of the last, how
    many of them a checkpoint covers, and the last turn of its queue that was written. `over` says that it has ended."""

    name: str
    writer: int
    records: int
    head: str
    checkpointed: int
    turn: int
    over: bool


class NewEntry(NamedTuple):
    """An entry to add: its number is a record's sequence, or the records that a checkpoint counts. `proof` is the
    packed one kept with a decision."""

    kind: int
    number: int
    envelope: Envelope
    proof: bytes | None = None


class ChainChange(NamedTuple):
    """What is written together: a chain moves from `before` to `after`.

    `opened` are calls by the numbers of the records of their decisions, `resumes` the keys by which some can be
    claimed. `closed` are open calls of the writer named `closed_of`. `certificates` are certificate chains, by their
    SHA-256.
    """

    before: ChainEnd
    after: ChainEnd
    entries: Sequence[NewEntry]
    opened: Mapping[str, int] = {}
    resumes: Mapping[str, bytes] = {}
    closed: Sequence[str] = ()
    closed_of: str = ""
    certificates: Mapping[str, bytes] = {}


class OpenCall(NamedTuple):
    """A call in the list of open calls, and the entry of its decision: None if it is missing or damaged. `call` is ""
    if it is no text. `is_left` says that no writer has to close it, as far as that was read."""

    call: str
    decision: Stored | None
    is_left: bool = False


class Others(NamedTuple):
    """Writers that have not ended: those `found` that may have died, which of those left open are `still` there, and
    how many have invalid names."""

    found: Sequence[str]
    still: Sequence[str]
    odd: int = 0


class LogTables(Protocol):
    """The tables of a log. All methods raise `StoreUnavailable`. `name` is a writer's."""

    @property
    def version(self) -> int:
        """The version of the records that are written: tables of the previous version keep no proof."""
        ...

    async def add_writer(self, name: str) -> None:
        """Add a writer, unless it exists."""
        ...

    async def find_others(self, name: str, left: Sequence[str]) -> Others:
        """Record that this writer is alive, and return the others that may have died without ending. Those that were
        `left` open are not judged, and other gateways may take them. Raises `ChainEnded`."""
        ...

    async def end_of(self, name: str) -> ChainEnd:
        """Return the end of a chain, from its row; a missing writer is added."""
        ...

    async def newest_of(self, name: str) -> tuple[ChainEnd, Stored | None]:
        """Return the current end, with the chain's newest entry. Raises `AttestationError` if that is damaged."""
        ...

    async def open_among(self, name: str, calls: Sequence[str]) -> set[str]:
        """Return which of these calls are open, and this writer's to close."""
        ...

    async def open_calls(self, name: str, after: str, most: int) -> Sequence[OpenCall]:
        """Return a writer's open calls after that one, in the order of their ids, at most so many."""
        ...

    async def payloads_of(self, call: str, most: int) -> Sequence[bytes]:
        """Return what is recorded of a call, anywhere: at most so many payloads, maybe some of others. Beyond the bytes
        of a call (`MAX_RECORDS_OF_A_CALL_BYTES`) the rest is empty, unread."""
        ...

    async def open_by(self, resume: bytes) -> Sequence[OpenCall]:
        """Return the open calls with the key `resume`: if there are several, not all need be returned."""
        ...

    async def claim(self, name: str, open_call: OpenCall, resume: bytes) -> None:
        """Make an open call this writer's to close, whichever had it. Raises `ChainMoved` if it is no longer found."""
        ...

    async def write(self, change: ChainChange) -> None:
        """Write all of a change, or nothing. Raises `ChainMoved`."""
        ...

    async def touch(self, name: str) -> None:
        """Rewrite an existing value: its answer proves that earlier writes are kept, too."""
        ...

    async def end(self, name: str) -> bool:
        """End a writer unless it has open calls, and return whether it has ended."""
        ...


def limit_payloads(payloads: Iterable[bytes | None], most: int) -> list[bytes]:
    """Limit payloads as `LogTables.payloads_of` does; None stands for one that was not read."""
    read: list[bytes] = []
    size = 0
    for payload in payloads:
        size += len(payload or b"")
        if payload is None or size > MAX_RECORDS_OF_A_CALL_BYTES:
            return [*read, *[b""] * (most - len(read))]
        read.append(payload)
    return read


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits, and return its result."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    work.close()
    raise RuntimeError("what works on a file has nothing to wait for")
