"""Appends records to the end of a writer's chain. No I/O.

Nothing reaches the tables until the caller writes what `ChainAppender.change` returns. So all records of a
transaction are written together.
"""

from collections.abc import Callable

from accredit.attest import LogSigner, Place, checkpoint_payload, sha256_hex
from accredit.stores.audit_log.author import ProvenEnd
from accredit.stores.audit_log.tables import CHECKPOINT, RECORD, ChainChange, NewEntry

CHECKPOINT_RECORDS = 1_000
"""A writer signs a checkpoint after so many records (0.7 ms with ML-DSA-65), however little time has passed."""


class ChainAppender:
    """A chain that grows from its end, which has been verified."""

    def __init__(self, proved: ProvenEnd, signer: LogSigner) -> None:
        end = proved.end
        self._before = end
        self._name = end.name
        self._signer = signer
        self._records, self._head, self._checkpointed = end.records, end.head, proved.covered
        self._entries: list[NewEntry] = []

    def append(self, payload_of: Callable[[Place], bytes], now_ms: int, proof: bytes | None = None) -> int:
        """Append a record, with the proof to keep with it, and return its number. Raises `AttestationError` before
        anything has changed."""
        place = Place(writer=self._name, sequence=self._records + 1, previous=self._head)
        payload = payload_of(place)
        self._entries.append(NewEntry(RECORD, place.sequence, self._signer.record(payload), proof))
        self._records, self._head = place.sequence, sha256_hex(payload)
        if self._records - self._checkpointed >= CHECKPOINT_RECORDS:
            self.checkpoint(now_ms)
        return place.sequence

    def checkpoint(self, now_ms: int) -> None:
        """Append a checkpoint of all records so far, unless there is one."""
        if self._records > self._checkpointed:
            payload = checkpoint_payload(self._name, self._records, self._head, now_ms)
            self._entries.append(NewEntry(CHECKPOINT, self._records, self._signer.summary(payload)))
            self._checkpointed = self._records

    def change(self, turn: int | None = None) -> ChainChange:
        """Return the change to write, with no calls opened or closed. `turn` is the number of the queue's turn that was
        appended, if it was one."""
        after = self._before._replace(
            records=self._records,
            head=self._head,
            checkpointed=self._checkpointed,
            turn=self._before.turn if turn is None else turn,
        )
        return ChainChange(self._before, after, self._entries, closed_of=self._name)
