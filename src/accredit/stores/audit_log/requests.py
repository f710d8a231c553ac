"""The requests to the writer of a log; each is one transaction (`transactions`). No I/O of its own.

They are run by a thread of this process or by a process beside it (`LogExecutor`). Events are encoded when they are
queued: so a text that can't be written is found at once, and waiting events have a known size.
"""

from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from accredit.attest import LogKey
from accredit.attest.statements import clip_text
from accredit.errors import AttestationError, StoreUnavailable
from accredit.stores.audit_log.author import Author
from accredit.stores.audit_log.tables import LogTables, OpenWriters
from accredit.stores.audit_log.transactions import Chain, Claimed, Closed, Event, Signed
from accredit.stores.audit_log.writer_locks import SessionLock, WriterLock, acquire_in_thread
from accredit.stores.postgres.address import DatabaseAddress
from accredit.stores.sqlite.database import Synchronous

MAX_RECORD_BYTES = 33_554_432
"""The most bytes of a call's record. A longer record could not be read again: its base64 would exceed
`MAX_ATTESTATION_BYTES`."""
LOG_SILENT_SECONDS = 60.0
"""How long a writer in a database may be silent and unconnected before it counts as dead. The writer that declares it
dead must have been connected for as long. A failover, in which all may be silent, takes less. With `LOG_LOOK_SECONDS`,
the calls of a lost machine are closed within 90 s."""


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_encode_event = msgspec.msgpack.Encoder().encode
_decode_event = msgspec.msgpack.Decoder(Event).decode


class FileLog(Struct, frozen=True, tag=True):
    """A log in an SQLite file. `gateway` is the writing gateway's id. `trusted` are keys that sign for this gateway
    beside its own (`author`)."""

    path: Path
    synchronous: Synchronous = "FULL"
    gateway: str = ""
    trusted: tuple[LogKey, ...] = ()

    @property
    def name(self) -> str:
        """The file, for people and logs."""
        return str(self.path)

    async def lock_writer(self, writer: str) -> WriterLock | None:
        """Take the lock of a writer that is to begin, or that has died. Return None if the writer lives. Raises
        `StoreUnavailable`."""
        return await acquire_in_thread(self.path, writer)


class DatabaseLog(Struct, frozen=True, tag=True):
    """A log in a database, with `gateway` and `trusted` as in `FileLog`. `host` is the machine's name, for people. A
    writer that is silent for `silent_seconds` may be dead."""

    database: DatabaseAddress
    gateway: str
    host: str
    silent_seconds: float
    trusted: tuple[LogKey, ...] = ()

    @property
    def name(self) -> str:
        """The database, for people and logs."""
        return self.database.name

    async def lock_writer(self, writer: str) -> WriterLock | None:
        """Return a lock that does nothing. The writer's session shows that it is alive: only a writer whose session has
        ended can be found dead (`find_others`)."""
        return SessionLock()


LogPlace = FileLog | DatabaseLog
"""Where a log is."""


class WriterRequest(Protocol[T_co]):
    """One transaction of the writer that is called `writer`. `ANSWER` is the type of its result."""

    ANSWER: ClassVar[Any]

    @property
    def writer(self) -> str:
        """The name of the requesting writer."""
        ...

    async def run(self, tables: LogTables, author: Author) -> T_co:
        """Run the request. Raises `StoreUnavailable` (`ChainEnded`, `ChainMoved`) and `AttestationError`."""
        ...


class LogWriter(Protocol):
    """Runs requests on a log in the event loop of its caller, which it blocks while it makes signatures."""

    turn_records: int
    """The maximum number of records written in one request."""

    async def run(self, request: WriterRequest[T], deadline: float) -> T:
        """Return a request's answer once it is committed. After `deadline` (seconds of the monotonic clock), nobody
        waits for it any more. Raises `StoreUnavailable`."""
        ...

    async def aclose(self) -> None:
        """Finish the requests, and release all resources."""
        ...


def check_in_time(deadline: float, now: float) -> None:
    """Refuse a request whose caller waits no longer. Raises `StoreUnavailable`."""
    if now >= deadline:
        raise StoreUnavailable("what was asked before took too long")


class LogExecutor(Protocol):
    """Has a writer run requests beside its caller's event loop, one after the other: in a process or in a thread."""

    place: LogPlace
    turn_records: int
    """The maximum number of records written in one request."""

    async def run(self, request: WriterRequest[T]) -> T:
        """Return a request's answer once it is committed. Raises `StoreUnavailable`; the request may then still be run
        later."""
        ...

    async def aclose(self) -> None:
        """Finish the requests, and release all resources."""
        ...


class _OfWriter(Struct, frozen=True, tag=True):
    writer: str


class Begin(_OfWriter, frozen=True):
    """Register a writer."""

    ANSWER: ClassVar[Any] = None

    async def run(self, tables: LogTables, author: Author) -> None:
        """Add the writer."""
        await tables.add_writer(self.writer)


class Heartbeat(_OfWriter, frozen=True):
    """Report that this writer lives, and look for others that may have died. Those in `left`, which were left open
    before, are not examined again."""

    ANSWER: ClassVar[Any] = OpenWriters

    left: list[str] = []

    async def run(self, tables: LogTables, author: Author) -> OpenWriters:
        """Return the names of the others."""
        return await tables.find_others(self.writer, self.left)


class CheckWritable(_OfWriter, frozen=True):
    """Test whether anything can be written to the log."""

    ANSWER: ClassVar[Any] = None

    async def run(self, tables: LogTables, author: Author) -> None:
        """Write without changing anything."""
        await tables.touch(self.writer)


class AppendEvents(_OfWriter, frozen=True):
    """Append events, each from `encode_for_turn`. Events that are appended together are a turn; turns are numbered from
    1. A turn that was written before is skipped. If it was first sent to another writer's chain (`elsewhere`), that
    chain is searched as well."""

    ANSWER: ClassVar[Any] = list[str | None]

    number: int
    events: list[Raw]
    elsewhere: bool = False

    async def run(self, tables: LogTables, author: Author) -> list[str | None]:
        """Return, for each event, why it was not recorded, or None."""
        chain = Chain(self.writer, author)
        events = [_decode_event(event) for event in self.events]
        return await chain.turn(tables, self.number, events, elsewhere=self.elsewhere)


class Claim(_OfWriter, frozen=True):
    """Take over the open call with the key `resume`, whose answer has arrived in this process."""

    ANSWER: ClassVar[Any] = Claimed

    resume: bytes

    async def run(self, tables: LogTables, author: Author) -> Claimed:
        """Return the result."""
        return await Chain(self.writer, author).claim(tables, self.resume)


class CloseCalls(_OfWriter, frozen=True):
    """Close, as `unknown`, open calls of the writer `dead`, or of this writer at its end. Only calls with ids after
    `after` are closed."""

    ANSWER: ClassVar[Any] = Closed

    dead: str
    now_ms: int
    policy_digest: str
    after: str = ""

    async def run(self, tables: LogTables, author: Author) -> Closed:
        """Return how far the closing got."""
        chain = Chain(self.writer, author)
        return await chain.close_calls(tables, self.dead, self.after, self.now_ms, self.policy_digest)


class Sign(_OfWriter, frozen=True):
    """Make sure that a checkpoint covers a chain, this writer's or a dead one's."""

    ANSWER: ClassVar[Any] = Signed

    chain: str
    now_ms: int

    async def run(self, tables: LogTables, author: Author) -> Signed:
        """Return the chain's head, or why it was not signed."""
        return await Chain(self.writer, author).checkpoint(tables, self.chain, self.now_ms)


class End(_OfWriter, frozen=True):
    """End a chain, this writer's or a dead one's, unless it has open calls."""

    ANSWER: ClassVar[Any] = bool

    chain: str

    async def run(self, tables: LogTables, author: Author) -> bool:
        """Return whether it has ended."""
        return await tables.end(self.chain)


AnyRequest = Begin | Heartbeat | CheckWritable | AppendEvents | Claim | CloseCalls | Sign | End


def encode_for_turn(event: Event) -> Raw:
    """Encode an event for `AppendEvents`. Raises `AttestationError` for a text that no record can hold (a lone
    surrogate), and for a record of more than `MAX_RECORD_BYTES`."""
    try:
        record = _encode_event(event)
    except UnicodeEncodeError:
        try:  # texts for people can always be written, once clipped
            record = _encode_event(_clip_event(event))
        except UnicodeEncodeError:
            raise AttestationError("a lone surrogate in a record") from None
    if len(record) > MAX_RECORD_BYTES:
        raise AttestationError(f"a record of more than {MAX_RECORD_BYTES} bytes")
    return Raw(record)


def _clip_event(event: Event) -> Event:
    decided, now_ms, outcome = event
    if outcome is not None:
        return Event(decided, now_ms, replace(outcome, detail=clip_text(outcome.detail or "")))
    decision = replace(decided.decision, reason=clip_text(decided.decision.reason or ""))
    return Event(replace(decided, decision=decision), now_ms)
