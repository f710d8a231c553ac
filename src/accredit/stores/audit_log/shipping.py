"""What of a log is sent on to somebody else, a sink, and how far that has come. No I/O.

A sink's position is in the store that has the log, so a log that is restored from a copy brings its own. It moves only
after the sink has taken what was before it: whatever is killed when, nothing is left out, and some may come twice.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from types import TracebackType
from typing import Any, NamedTuple, Self

from accredit.attest import Envelope
from accredit.errors import AttestationError, ConfigurationError

SINK_BATCH, SINK_BATCH_BYTES = 512, 1_048_576
"""Entries, and bytes of their payloads, after which no more is added to what a sink gets at once: what is kept in
memory, and sent again where it was not taken. A single entry may be longer (`MAX_ATTESTATION_BYTES`)."""


class Batch(NamedTuple):
    """What comes next for a sink: entries, and how many records can't be sent, as they were pruned before. `to` is the
    position after it, None if it is where the sink is already; with `more` the next batch can be taken at once."""

    envelopes: tuple[Envelope, ...]
    pruned: int
    to: Any
    more: bool
    note: str = ""


class Sink(ABC):
    """Somebody who gets a log, by name: `with sink`. One process has it at a time."""

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
        """Begin. Raises `ConfigurationError` if another process has this sink, `StoreUnavailable`."""

    @abstractmethod
    def take(self) -> Batch:
        """Return what comes next; nothing of the log is kept open. Raises `AttestationError` if that is damaged,
        `StoreUnavailable`."""

    @abstractmethod
    def taken(self, batch: Batch) -> None:
        """Move on, as the sink has a batch. Does nothing if the log was replaced meanwhile. Raises
        `StoreUnavailable`."""

    @abstractmethod
    def close(self) -> None:
        """Give the sink back."""


class Filling:
    """Entries of a batch that is being made."""

    def __init__(self) -> None:
        self.envelopes: list[Envelope] = []
        self.pruned = 0
        self.stopped = False
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether nothing more is to be added."""
        return self.stopped or len(self.envelopes) >= SINK_BATCH or self._bytes >= SINK_BATCH_BYTES

    def add(self, envelope: Envelope) -> None:
        """Add an entry."""
        self.envelopes.append(envelope)
        self._bytes += len(envelope.payload)


def readable(entries: Iterable[Any], filling: Filling) -> Iterable[Any]:
    """Yield entries up to one that is damaged. It is raised if nothing is before it, so with the next batch."""
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
