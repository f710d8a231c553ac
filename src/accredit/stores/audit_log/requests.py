"""The requests of a log to whoever writes its file; each is one transaction (`transactions`). No I/O of its own.

The writer is a thread of this process or a process beside it (`LogExecutor`). Events are encoded when they are queued:
a text that can't be written is found there, and waiting events have a known size.
"""

import sqlite3
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from accredit.attest import CallDecision, Head, LogSigner, RecordedParams
from accredit.attest.statements import clipped
from accredit.errors import AttestationError
from accredit.stores.audit_log.transactions import (
    Chain,
    Event,
    add_and_list_writers,
    end_writer,
    signed_head,
    touch_writer,
)

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_encode_event = msgspec.msgpack.Encoder().encode
_decode_event = msgspec.msgpack.Decoder(Event).decode


class Request(Protocol[T_co]):
    """One transaction. `ANSWER` is the type of its result."""

    ANSWER: ClassVar[Any]

    def run(self, connection: sqlite3.Connection, signer: LogSigner) -> T_co:
        """Run it within an open transaction. Raises `StoreUnavailable` and `AttestationError`."""
        ...


class LogExecutor(Protocol):
    """Runs requests on a log's file, one after the other."""

    path: Path
    turn_records: int
    """The maximum number of records written in one request."""

    async def run(self, request: Request[T]) -> T:
        """Return a request's answer once it is committed. Raises `StoreUnavailable`; the request may still be run later
        then."""
        ...

    async def aclose(self) -> None:
        """Finish the requests, and release all resources."""
        ...


class _OfWriter(Struct, frozen=True, tag=True):
    writer: str


class Begin(_OfWriter, frozen=True):
    """Begin a writer's life, and list the others that have not ended properly."""

    ANSWER: ClassVar[Any] = list[str]

    def run(self, connection: sqlite3.Connection, signer: LogSigner) -> list[str]:
        """Return the other writers' names."""
        return add_and_list_writers(connection, self.writer)


class Touch(_OfWriter, frozen=True):
    """Find out whether anything can be written."""

    ANSWER: ClassVar[Any] = None

    def run(self, connection: sqlite3.Connection, signer: LogSigner) -> None:
        """Rewrite an existing value."""
        touch_writer(connection, self.writer)


class Turn(_OfWriter, frozen=True):
    """Append events, each from `encoded`. Turns are numbered from 1; one that was written before is skipped."""

    ANSWER: ClassVar[Any] = list[str | None]

    number: int
    events: list[Raw]

    def run(self, connection: sqlite3.Connection, signer: LogSigner) -> list[str | None]:
        """Return, for each event, why it was not recorded, or None."""
        chain = Chain(self.writer, signer)
        return chain.turn(connection, self.number, [_decode_event(event) for event in self.events])


class CloseCalls(_OfWriter, frozen=True):
    """Close the calls that `dead` left open, or this writer at its end, as `unknown`."""

    ANSWER: ClassVar[Any] = bool

    dead: str
    now_ms: int
    policy_digest: str

    def run(self, connection: sqlite3.Connection, signer: LogSigner) -> bool:
        """Return whether none is left."""
        return Chain(self.writer, signer).close_calls(connection, self.dead, self.now_ms, self.policy_digest)


class Sign(_OfWriter, frozen=True):
    """Make sure that a checkpoint covers a chain, this writer's or a dead one's."""

    ANSWER: ClassVar[Any] = Head | None

    chain: str
    now_ms: int

    def run(self, connection: sqlite3.Connection, signer: LogSigner) -> Head | None:
        """Return the chain's head, or None if it has no record."""
        Chain(self.writer, signer).checkpoint(connection, self.chain, self.now_ms)
        return signed_head(connection, self.chain)


class End(_OfWriter, frozen=True):
    """End a writer, this one or a dead one, unless it has open calls."""

    ANSWER: ClassVar[Any] = bool

    def run(self, connection: sqlite3.Connection, signer: LogSigner) -> bool:
        """Return whether it has ended."""
        return end_writer(connection, self.writer)


AnyRequest = Begin | Touch | Turn | CloseCalls | Sign | End


def encoded(event: Event) -> Raw:
    """Return an event for `Turn`. Raises `AttestationError` for a text that no record can hold (a lone surrogate)."""
    try:
        return Raw(_encode_event(event))
    except UnicodeEncodeError:
        pass
    try:  # texts for people can always be written, once they are clipped
        return Raw(_encode_event(_clipped(event)))
    except UnicodeEncodeError:
        raise AttestationError("a lone surrogate in a record") from None


def in_short(decided: CallDecision) -> CallDecision:
    """Return the part of a decision that the outcome's record needs: arguments may be long."""
    return replace(decided, params=RecordedParams(decided.params.sha256), certificates=None)


def _clipped(event: Event) -> Event:
    decided, now_ms, outcome = event
    if outcome is not None:
        return Event(decided, now_ms, replace(outcome, detail=clipped(outcome.detail or "")))
    decision = replace(decided.decision, reason=clipped(decided.decision.reason or ""))
    return Event(replace(decided, decision=decision), now_ms)
