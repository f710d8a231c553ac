"""The interface of sinks: a sink is a receiver of a log's entries, to which they are sent in batches. No I/O.

A sink's position is in the store of the log, so a log that is restored from a copy also restores the position. It
advances only after the sink has taken the entries before it: after a crash no entry is left out, but some may be sent
twice.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, NamedTuple, Self

from accredit.attest import Envelope
from accredit.errors import AttestationError, ConfigurationError

SINK_BATCH, SINK_BATCH_BYTES = 512, 1_048_576
"""A batch is full after so many entries, or so many bytes of their payloads. It is kept in memory, and sent again after
a failure. A single entry may be longer (`MAX_ATTESTATION_BYTES`)."""


class Batch(NamedTuple):
    """The next batch for a sink: its entries, and how many records can't be sent because they were pruned. `to` is the
    position after the batch, None if unchanged. With `more`, another batch can be taken at once."""

    envelopes: tuple[Envelope, ...]
    pruned: int
    to: Any
    more: bool
    note: str = ""


class Sink(ABC):
    """A receiver of the log, by name, to be opened as `with sink`. One process at a time has it."""

    def __enter__(self) -> Self:
        try:
            self.open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def open(self) -> None:
        """Open the sink. Raises `ConfigurationError` if another process has it, and `StoreUnavailable`."""

    @abstractmethod
    def take(self) -> Batch:
        """Return the next batch, and release the log. Raises `AttestationError` if the log is damaged, and
        `StoreUnavailable`."""

    @abstractmethod
    def taken(self, batch: Batch) -> None:
        """Advance the position past a batch that was sent. If the log was replaced meanwhile, do nothing. Raises
        `StoreUnavailable`."""

    @abstractmethod
    def close(self) -> None:
        """Release the sink."""


class BatchBuilder:
    """A batch's entries while it is filled."""

    def __init__(self) -> None:
        self.envelopes: list[Envelope] = []
        self.pruned = 0
        self.stopped = False
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether no more entries are added."""
        return self.stopped or len(self.envelopes) >= SINK_BATCH or self._bytes >= SINK_BATCH_BYTES

    def add(self, envelope: Envelope) -> None:
        """Add an entry."""
        self.envelopes.append(envelope)
        self._bytes += len(envelope.payload)


def readable(entries: Iterable[Any], filling: BatchBuilder) -> Iterable[Any]:
    """Yield entries up to the first damaged one. Its error is raised only if the batch is still empty: otherwise the
    entries before it are sent first, and the next batch raises it."""
    try:
        yield from entries
    except AttestationError:
        if not filling.envelopes:
            raise
        filling.stopped = True


def is_followed(name: str) -> ConfigurationError:
    """Return the error for a sink that another process has opened."""
    return ConfigurationError(
        f"sink {name} is followed by another process", "end that one, or name another sink with --sink"
    )
