"""What the log asks of its tables, whatever holds them. No I/O of its own.

The rules (`transactions`, `appender`) are coroutines over `LogTables`. Over a file (`file_tables`) they never wait, and
`at_once` runs them to their end; over a database (`stores.postgres.log_tables`) they wait for its answers.

Whatever is read may have changed when it is written: `LogTables.write` writes only if the chain is still where it was,
and the calls that it closes are still open.
"""

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from accredit.attest import Envelope, Head
from accredit.errors import StoreUnavailable

T = TypeVar("T")

RECORD, CHECKPOINT = 0, 1
"""Kinds of entries. A third, the note of pruning, is never written here."""


class ChainEnded(StoreUnavailable):
    """The writer was taken for dead: its calls are closed, and no record may be added to its chain."""

    def __init__(self, writer: str) -> None:
        self.writer = writer
        super().__init__(f"another process took writer {writer} for dead, and has ended its chain")


class ChainMoved(StoreUnavailable):
    """A chain, or a call, is not as it was when it was read: read again."""


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
    """An entry to be added: a record's sequence, or the records that a checkpoint counts, is its number."""

    kind: int
    number: int
    envelope: Envelope


class Change(NamedTuple):
    """What is written together: a chain that was at `before` goes on to `after`.

    `opened` are calls by the numbers of the records of their decisions, `resumes` what some of them can be claimed by.
    `closed` are open calls of the writer
    `closed_of`, by its name. `certificates` are chains of certificates, by their SHA-256.
    """

    before: ChainEnd
    after: ChainEnd
    entries: Sequence[NewEntry]
    opened: Mapping[str, int] = {}
    resumes: Mapping[str, bytes] = {}
    closed: Sequence[str] = ()
    closed_of: str = ""
    certificates: Mapping[str, bytes] = {}


class Claimed(NamedTuple):
    """How many open calls were found; and of one that was claimed the payload of its decision (None if it is gone)."""

    found: int
    payload: bytes | None = None


class LogTables(Protocol):
    """The tables of a log. All methods raise `StoreUnavailable`. `name` is a writer's."""

    async def add_writer(self, name: str) -> None:
        """Add a writer, unless it exists."""
        ...

    async def find_others(self, name: str) -> Sequence[str]:
        """Return the other writers that have not ended, and may have died; say that this one lives. Raises
        `ChainEnded`."""
        ...

    async def end_of(self, name: str) -> ChainEnd:
        """Return the end of a chain; a writer that is not there is added."""
        ...

    async def open_among(self, name: str, calls: Sequence[str]) -> set[str]:
        """Return those of these calls that are open, and this writer's to close."""
        ...

    async def open_calls(self, name: str, most: int) -> Sequence[tuple[str, object]]:
        """Return some of a writer's open calls, each with the payload of its decision (None if it is gone)."""
        ...

    async def claim(self, name: str, resume: bytes) -> Claimed:
        """Make the open call that is found by `resume` this writer's to close, whosever it was, if it is the only
        one."""
        ...

    async def write(self, change: Change) -> None:
        """Write all of a change, or nothing. Raises `ChainMoved`."""
        ...

    async def touch(self, name: str) -> None:
        """Rewrite an existing value: who has the answer knows that what was written before it is kept, too."""
        ...

    async def end(self, name: str) -> bool:
        """End a writer unless it has open calls, and return whether it has ended."""
        ...

    async def signed_head(self, name: str) -> Head | None:
        """Return a writer's head if a checkpoint has signed it, else None."""
        ...


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits, and return its result."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    work.close()
    raise RuntimeError("what works on a file has nothing to wait for")
