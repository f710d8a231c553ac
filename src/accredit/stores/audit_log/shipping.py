"""Sends a log on to a sink: the next entries, and the position. No I/O.

A sink's position is in the store of the log, so a log that is restored from a copy brings its own. It advances only
after the sink has taken the entries before it: after any crash nothing is left out, and some may be sent twice.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from types import TracebackType
from typing import Any, NamedTuple, Self

from accredit.attest import Envelope
from accredit.errors import AttestationError, ConfigurationError

SINK_BATCH, SINK_BATCH_BYTES = 512, 1_048_576
"""Entries, and bytes of their payloads, after which a batch is full: that much is kept in memory, and sent again after
a failure. A single entry may be longer (`MAX_ATTESTATION_BYTES`)."""


class Batch(NamedTuple):
    """The next batch for a sink: entries, and how many records can't be sent, as they were pruned before. `to` is the
    position after it, None if unchanged; with `more` the next batch can be taken at once."""

    envelopes: tuple[Envelope, ...]
    pruned: int
    to: Any
    more: bool
    note: str = ""


class Sink(ABC):
    """A receiver of the log, by name: `with sink`. One process has it at a time."""

    def __enter__(self) -> Self:
        try:
            self.open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def open(self) -> None:
        """Start. Raises `ConfigurationError` if another process has this sink, `StoreUnavailable`."""

    @abstractmethod
    def take(self) -> Batch:
        """Return the next batch, and release the log. Raises `AttestationError` if that is damaged,
        `StoreUnavailable`."""

    @abstractmethod
    def taken(self, batch: Batch) -> None:
        """Advance the position after a sent batch; do nothing if the log was replaced meanwhile. Raises
        `StoreUnavailable`."""

    @abstractmethod
    def close(self) -> None:
        """Release the sink."""


class Filling:
    """A batch's entries while it is filled."""

    def __init__(self) -> None:
        self.envelopes: list[Envelope] = []
        self.pruned = 0
        self.stopped = False
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether nothing more is added."""
        return self.stopped or len(self.envelopes) >= SINK_BATCH or self._bytes >= SINK_BATCH_BYTES

    def add(self, envelope: Envelope) -> None:
        """Add an entry."""
        self.envelopes.append(envelope)
        self._bytes += len(envelope.payload)


def readable(entries: Iterable[Any], filling: Filling) -> Iterable[Any]:
    """Yield entries up to a damaged one. That error is raised only if the batch is empty, so with the next batch."""
    try:
        yield from entries
    except AttestationError:
        if not filling.envelopes:
            raise
        filling.stopped = True


def is_followed(name: str) -> ConfigurationError:
    """Return the error for a sink that another process has."""
    return ConfigurationError(
        f"sink {name} is followed by another process", "end that one, or name another sink with --sink"
    )
