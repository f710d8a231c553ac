"""What a log asks of the one that writes its file: each request is one transaction (`transactions`). No I/O of its own.

Whoever writes is a thread of this process or a process beside it (`LogExecutor`). What is recorded of calls is encoded
where it is queued: what can't be written is known there, and what waits has a size.
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
    """One transaction. `ANSWER` is the type of what comes of it."""

    ANSWER: ClassVar[Any]

    def run(self, connection: sqlite3.Connection, signer: LogSigner) -> T_co:
        """Do it. Raises `StoreUnavailable` and `AttestationError`."""
        ...


class LogExecutor(Protocol):
    """Who runs requests on a log's file, one after the other."""

    path: Path
    turn_records: int
    """How many records are written in one request at most."""

    async def run(self, request: Request[T]) -> T:
        """Return a request's answer, once it is committed. Raises `StoreUnavailable`, also for what may be done
        later."""
        ...

    async def aclose(self) -> None:
        """Give everything back, after what was asked for."""
        ...


class _Asked(Struct, frozen=True, tag=True):
    writer: str


class Begin(_Asked, frozen=True):
    """A writer begins its life; which others have not ended in order?"""

    ANSWER: ClassVar[Any] = list[str]

    def run(self, connection: sqlite3.Connection, signer: LogSigner) -> list[str]:
        """Return their names."""
        return add_and_list_writers(connection, self.writer)


class Touch(_Asked, frozen=True):
    """Can anything be written?"""

    ANSWER: ClassVar[Any] = None

    def run(self, connection: sqlite3.Connection, signer: LogSigner) -> None:
        """Write what is there already."""
        touch_writer(connection, self.writer)


class Turn(_Asked, frozen=True):
    """What has happened, as `encoded` has it. Turns are numbered from 1; one that was written before is passed over."""

    ANSWER: ClassVar[Any] = list[str | None]

    number: int
    events: list[Raw]

    def run(self, connection: sqlite3.Connection, signer: LogSigner) -> list[str | None]:
        """Of each what kept it from being recorded, or None."""
        chain = Chain(self.writer, signer)
        return chain.turn(connection, self.number, [_decode_event(event) for event in self.events])


class CloseCalls(_Asked, frozen=True):
    """The calls that `dead` left open, or this writer at its end, become `unknown`."""

    ANSWER: ClassVar[Any] = bool

    dead: str
    now_ms: int
    policy_digest: str

    def run(self, connection: sqlite3.Connection, signer: LogSigner) -> bool:
        """Return whether none is left."""
        return Chain(self.writer, signer).close_calls(connection, self.dead, self.now_ms, self.policy_digest)


class Sign(_Asked, frozen=True):
    """A checkpoint is to cover a chain, this writer's or that of a dead one."""

    ANSWER: ClassVar[Any] = Head | None

    chain: str
    now_ms: int

    def run(self, connection: sqlite3.Connection, signer: LogSigner) -> Head | None:
        """Return its head, where there is a record."""
        Chain(self.writer, signer).checkpoint(connection, self.chain, self.now_ms)
        return signed_head(connection, self.chain)


class End(_Asked, frozen=True):
    """A writer, this one or a dead one, has ended, unless calls of it are open."""

    ANSWER: ClassVar[Any] = bool

    def run(self, connection: sqlite3.Connection, signer: LogSigner) -> bool:
        """Return whether it has."""
        return end_writer(connection, self.writer)


AnyRequest = Begin | Touch | Turn | CloseCalls | Sign | End


def encoded(event: Event) -> Raw:
    """Return an event for `Turn`. Raises `AttestationError` for texts that no record can hold (a lone surrogate)."""
    try:
        return Raw(_encode_event(event))
    except UnicodeEncodeError:
        pass
    try:  # texts for people can always be written
        return Raw(_encode_event(_clipped(event)))
    except UnicodeEncodeError:
        raise AttestationError("a lone surrogate in a record") from None


def in_short(decided: CallDecision) -> CallDecision:
    """Return what the record of an outcome needs of a call: arguments may be long."""
    return replace(decided, params=RecordedParams(decided.params.sha256), certificates=None)


def _clipped(event: Event) -> Event:
    decided, now_ms, outcome = event
    if outcome is not None:
        return Event(decided, now_ms, replace(outcome, detail=clipped(outcome.detail or "")))
    decision = replace(decided.decision, reason=clipped(decided.decision.reason or ""))
    return Event(replace(decided, decision=decision), now_ms)
