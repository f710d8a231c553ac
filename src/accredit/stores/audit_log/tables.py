"""The interface of the log's tables, in a file or a database. No I/O of its own.

The rules (`requests`) are coroutines over `LogTables`. Over a file (`file_tables`) they never wait, and
`at_once` runs them to their end. Over a database (`stores.postgres.log_tables`) they wait for its answers. The writer
verifies the tables' contents (`author`).

Rows may change after they were read. So `LogTables.write` writes only if the chain still ends at the place that was
read, and the calls that the change closes are still open.

A signature's members are not signed, and verification may not cover every bit of them, or of the signature's bytes. So
a SHA-256 of both is kept with the members (`encode_members`). It is not signed either, but reveals damage.
"""

import hashlib
import re
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from accredit.attest import Envelope, Signature, Stored
from accredit.errors import StoreUnavailable

MAX_RECORDS_OF_A_CALL_BYTES = 67_108_864
"""How many bytes of one call's records are read: two of the longest records. Without this bound, somebody who can write
to the store could give one call records of a gibibyte in all."""


T = TypeVar("T")

WRITER_ID = re.compile("[0-9a-f]{32}")
"""The form of a writer's name, which its lock file has as well. Any other name is invalid."""

RECORD, CHECKPOINT = 0, 1
"""Kinds of entries. There is a third, the note of pruning, which `LogTables` never writes."""


class ChainEnded(StoreUnavailable):
    """This writer was declared dead: its calls are closed, and no record may be added to its chain."""

    def __init__(self, writer: str, why: str = "") -> None:
        self.writer = writer
        super().__init__(why or f"another process took writer {writer} for dead, and has ended its chain")


class ChainTaken(ChainEnded):
    """Somebody else has changed this writer's chain. The writer abandons the chain and starts another one."""

    def __init__(self, writer: str) -> None:
        super().__init__(writer, f"the chain of writer {writer} was changed by somebody else, and is left")


class ChainMoved(StoreUnavailable):
    """A chain, or a call, has changed since it was read: it must be read again."""


class ChainEnd(NamedTuple):
    """The end of a writer's chain. `name` and `writer` are the writer's name and number. `records` is how many records
    the chain has, and `checkpointed` how many of them a checkpoint covers. `head` is the SHA-256 of the last one.
    `turn` is the last turn of the writer's queue that was written. `over` says that the chain has ended for good."""

    name: str
    writer: int
    records: int
    head: str
    checkpointed: int
    turn: int
    over: bool


class NewEntry(NamedTuple):
    """An entry to add. Its number is a record's sequence, or how many records a checkpoint counts. `proof` is the
    packed proof to keep with a decision."""

    kind: int
    number: int
    envelope: Envelope
    proof: bytes | None = None


class ChainChange(NamedTuple):
    """Rows that are written together, by which a chain moves from `before` to `after`.

    `opened` maps calls that begin to the numbers of their decisions' records. `resumes` maps some of these calls to the
    keys by which they can be claimed. `closed` are calls that end; the list of open calls had them under the writer
    `closed_of`. `certificates` are certificate chains, by their SHA-256.
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
    """A call in the list of open calls, and the entry of its decision (None if that is missing or damaged). `call` is
    "" if the row's value is not text. `is_left` says that no writer is left to close the call; it is False if that was
    not read."""

    call: str
    decision: Stored | None
    is_left: bool = False


class NewestEntry(NamedTuple):
    """A chain's end and its newest entry. If the search has not found that entry yet, `further` says where to continue;
    otherwise it is None."""

    end: ChainEnd
    entry: Stored | None
    further: int | None = None


class OpenWriters(NamedTuple):
    """Writers that have not ended. `found` are those that may have died. `still` are those that were left open before
    and have not ended yet. `odd` is how many have invalid names."""

    found: Sequence[str]
    still: Sequence[str]
    odd: int = 0


class LogTables(Protocol):
    """The tables of a log. All methods raise `StoreUnavailable`. `name` is always a writer's."""

    async def add_writer(self, name: str) -> None:
        """Add a writer, unless it exists."""
        ...

    async def find_others(self, name: str, left: Sequence[str]) -> OpenWriters:
        """Record that this writer is alive. Return the other writers that may have died before they ended their chains.

        `left` names those whose chains were left open before: they are not judged again, and other gateways may close
        them. Raises `ChainEnded`.
        """
        ...

    async def end_of(self, name: str) -> ChainEnd:
        """Return the end of a writer's chain, as its row has it. If the writer has no row, it is added."""
        ...

    async def newest_of(self, name: str, further: int | None = None) -> NewestEntry:
        """Return the end as it is now, and the chain's newest entry. Raises `AttestationError` if that entry is
        damaged."""
        ...

    async def open_among(self, name: str, calls: Sequence[str]) -> set[str]:
        """Return which of these calls are open, and this writer's to close."""
        ...

    async def open_calls(self, name: str, after: str, most: int) -> Sequence[OpenCall]:
        """Return a writer's open calls with ids after `after`, in the order of their ids, at most `most`."""
        ...

    async def payloads_of(self, call: str, most: int) -> Sequence[bytes]:
        """Return the payloads recorded for a call, in any chain: at most `most`, maybe some of other calls. Once they
        exceed `MAX_RECORDS_OF_A_CALL_BYTES`, the rest is not read, and each is returned empty."""
        ...

    async def open_by(self, resume: bytes) -> Sequence[OpenCall]:
        """Return the open calls with the key `resume`, or at least two of them if there are several."""
        ...

    async def claim(self, name: str, open_call: OpenCall, resume: bytes) -> None:
        """Make this writer responsible for closing an open call, instead of any other writer. Raises `ChainMoved` if
        the call is no longer found."""
        ...

    async def write(self, change: ChainChange) -> None:
        """Write all of a change, or nothing. Raises `ChainMoved`."""
        ...

    async def touch(self, name: str) -> None:
        """Write without changing anything. Once that write is confirmed, earlier ones are known to be kept, too."""
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


_DIGEST_BYTES = 32


def encode_members(signature: Signature) -> bytes | None:
    """Encode a signature's members, without its bytes."""
    return _digest(signature) + signature.members if signature.members else None


def restore_members(signature: Signature, members: object) -> Signature | None:
    """Return the signature with the members that its entry holds; None if the signature or the members are damaged."""
    if members is None:
        return signature
    if not isinstance(members, bytes):
        return None
    whole = signature._replace(members=members[_DIGEST_BYTES:])
    return whole if whole.members and _digest(whole) == members[:_DIGEST_BYTES] else None


def _digest(signature: Signature) -> bytes:
    return hashlib.sha256(b"%d %b%b" % (len(signature.data), signature.data, signature.members)).digest()
