"""The rules of the log's chains. No I/O.

Each writer (the life of one process) has one chain. In the order of its entries:

- [sequence] A record's sequence is the previous one plus 1, starting at 1. Its `previous` is the SHA-256 of the
  previous record's payload (zeros for the first record).
- [checkpoint] A checkpoint directly follows the last record that it counts, and its subject is that record's SHA-256.
- [pruning] A note of pruning is the first entry of its chain, or it follows the digests of the records that it covers,
  except that of the last one. In the second case it holds the SHA-256 of all these digests, the last one's included.
  Digests occur only before a note.

Entries of several chains may be interleaved. Signatures are not checked here.
"""

import hashlib

from accredit.attest.statements import GENESIS, Checkpoint, Place, Pruning
from accredit.errors import AttestationError


class Chain:
    """The state of one writer's chain: it has `sequence` records so far, and the last one's SHA-256 is `head`."""

    __slots__ = ("_pruned", "checkpointed", "head", "index", "pruned", "sequence")

    def __init__(self, index: int = 0) -> None:
        self.index = index
        """The chain's position among those of its log, in the order in which they began."""
        self.sequence = 0
        self.head = GENESIS
        self.checkpointed = 0
        """How many records a checkpoint or a note covers."""
        self.pruned = 0
        """How many pruned records a note replaces."""
        self._pruned = hashlib.sha256()

    @property
    def awaits_note(self) -> bool:
        """Whether digests were read that no note covers yet."""
        return self.sequence > 0 and self.head == ""

    def record(self, place: Place, sha256: str) -> None:
        """Add a record ([sequence]). `sha256` is that of the record's payload. Raises `AttestationError`."""
        self._expect_no_note()
        self._expect(place.sequence, self.sequence + 1)
        if place.previous != self.head:
            raise AttestationError("it does not follow the record before it")
        self.sequence, self.head = place.sequence, sha256

    def checkpoint(self, checkpoint: Checkpoint, sha256: str) -> None:
        """Add a checkpoint ([checkpoint]). `sha256` is the checkpoint's subject. Raises `AttestationError`."""
        self._expect_no_note()
        self._expect(checkpoint.count, self.sequence)
        if sha256 != self.head:
            raise AttestationError("the checkpoint is of another chain")
        self.checkpointed = self.sequence

    def digest(self, sequence: int, digest: bytes) -> None:
        """Add the SHA-256 (32 bytes) of a pruned record ([pruning]). Raises `AttestationError`."""
        if self.sequence > 0 and not self.awaits_note:
            raise AttestationError("a digest after a record")
        self._expect(sequence, self.sequence + 1)
        self.sequence, self.head = sequence, ""
        self._pruned.update(digest)

    def note(self, note: Pruning, sha256: str) -> None:
        """Add a note of pruning ([pruning]). `sha256` is the note's subject. Raises `AttestationError`."""
        if self.awaits_note or note.last == 1:
            self._expect(note.last, self.sequence + 1)
            self._pruned.update(bytes.fromhex(sha256))
            if self._pruned.hexdigest() != note.digests_sha256:
                raise AttestationError("the digests are not those of the note")
        elif self.sequence:
            raise AttestationError("a note of pruning after a record")
        self.sequence = self.pruned = self.checkpointed = note.last
        self.head = sha256

    def _expect(self, number: int, expected: int) -> None:
        if number != expected:
            raise AttestationError(f"its number is {number}, and {expected} is expected")

    def _expect_no_note(self) -> None:
        if self.awaits_note:
            raise AttestationError("a note of the pruning is expected")
