"""Replaces old records of the log by their digests and a signed note. Blocking I/O: the log's file.

For each writer, in the order of its chain:

- [records] Records from before the given time are removed. Pruning stops at the first record that is newer, or whose
  call is still open. It also stops at the outcome of a decision that stays in another chain: without its outcome, that
  call would be open again. The new note is signed for all that was ever pruned. So it is checked first that each record
  follows the one before it, that the digests match the earlier note, and that a trusted key has signed that note and
  the last record.
- [digests] Each removed record is replaced by its SHA-256, and the last one by a note signed for all of them.
- [checkpoints] Checkpoints that the note covers are removed as well. The log's newest entry stays: otherwise its number
  would be used again, and a follower of the log would miss the new entry with that number.

This is done in steps, each one complete transaction, so that a running gateway waits for only milliseconds. Deleted
bytes are overwritten in the file (`secure_delete`). The write-ahead log also holds them, so it is checkpointed and
truncated. That is impossible while somebody reads an older state of the log, and is then reported. Not guaranteed: a
file system, a disk (SSD) or a backup may keep overwritten bytes.
"""

import contextlib
import hashlib
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from accredit.attest import (
    CallRecord,
    Checkpoint,
    Envelope,
    LogSigner,
    Pruning,
    Stored,
    decode_statement,
    pruning_payload,
    timestamp,
)
from accredit.attest.statements import GENESIS
from accredit.errors import AttestationError
from accredit.limits import RECORDS_OF_A_CALL
from accredit.stores.audit_log.author import Keys, check_pruned, read_phases
from accredit.stores.audit_log.file_tables import key_number, payloads_of, read_stored
from accredit.stores.sqlite.database import STORE_RETRY_SECONDS, Database

EMPTY_LOG_SECONDS = 5.0
"""After pruning, how long to wait until readers and writers of the log let its write-ahead log be truncated. Each needs
a moment. One that verifies or exports the log may need minutes, and is not waited for."""
PRUNE_ENTRIES = 2_000
"""Entries of the log handled in one step of pruning: some 30 ms, for which a running gateway waits."""


_TAKE_OUT = "DELETE FROM log_entries WHERE entry = ? AND entry < (SELECT max(entry) FROM log_entries)"


class PruneReport(NamedTuple):
    """How many records were removed, and whether their bytes are gone from the log's files as well."""

    records: int
    overwritten: bool


class PrunedChain(NamedTuple):
    """The pruned part of a writer's chain: a SHA-256 object that has taken the digests of all its records but the last,
    and the last record's number and digest."""

    digests: Any
    last: int
    head: str

    @property
    def digests_sha256(self) -> str:
        """The SHA-256 of the digests of all its records, as a note of pruning has it."""
        whole = self.digests.copy()
        whole.update(bytes.fromhex(self.head))
        return whole.hexdigest()


UNPRUNED = PrunedChain(hashlib.sha256(), 0, GENESIS)
"""A chain of which nothing was pruned."""


class Pruner(NamedTuple):
    """What one pruning needs: records from before the time `before` are pruned, the notes have the time `now`, `keys`
    are those that sign the log, and `signer` signs the notes."""

    signer: LogSigner
    keys: Keys
    before: str
    now: str

    def restore(self, stored: Stored, digests: Any) -> PrunedChain:
        """Return the part of a chain that an earlier note covers. `digests` is a SHA-256 object that has taken the
        digests kept for that part. Raises `AttestationError`."""
        check_pruned(stored, self.keys)
        statement = decode_statement(stored.envelope.payload)
        note = statement.predicate
        if isinstance(note, Pruning) and stored.place == f"{note.writer}/{note.last}":
            chain = PrunedChain(digests, note.last, statement.sha256)
            if chain.digests_sha256 == note.digests_sha256:
                return chain
        raise damaged_chain(stored.place)

    def extend(
        self, chain: PrunedChain, writer: str, records: Sequence[str], last: Stored
    ) -> tuple[PrunedChain, list[bytes], Envelope]:
        """Return the chain with further `records` pruned, the digests to keep, and the note to put in place of the last
        of these records.

        `records` are given by their SHA-256; `last` is the entry of the last one. The digests to keep are those of all
        `records` but the last, and that of the record whose place the earlier note took. Raises `AttestationError`.
        """
        check_pruned(last, self.keys)
        *gone, head = map(bytes.fromhex, [*([chain.head] if chain.last else []), *records])
        digests = chain.digests.copy()
        digests.update(b"".join(gone))
        longer = PrunedChain(digests, chain.last + len(records), head.hex())
        note = Pruning(
            writer=writer,
            last=longer.last,
            before=self.before,
            digests_sha256=longer.digests_sha256,
            time=self.now,
        )
        return longer, gone, self.signer.summary(pruning_payload(note, longer.head))

    def is_newer(self, record: CallRecord) -> bool:
        """Return whether a record, or its call, is not old enough to be pruned. The call's time is checked as well,
        since the clock may have been set back between the call and the record. An outcome whose decision was pruned is
        judged by its call's time."""
        return max(record.times.recorded, record.times.received) >= self.before


def check_follows(record: CallRecord, place: str, last: int, head: str) -> None:
    """Check that a record at this place (`WRITER/NUMBER`) follows the one with this number and digest. Raises
    `AttestationError`."""
    log = record.log
    if (place, log.sequence, log.previous) != (f"{log.writer}/{last + 1}", last + 1, head):
        raise damaged_chain(place)


def damaged_chain(place: str) -> AttestationError:
    """Return the error for a place of a chain that does not hold what belongs there."""
    return AttestationError(f"{place} is damaged, or is not what follows there", place)


class _Old(NamedTuple):
    entry: int
    number: int
    sha256: str


def prune(
    path: Path,
    signer: LogSigner,
    *,
    before_ms: int,
    now_ms: int,
    on_progress: Callable[[int], None],
    trusted: Keys = (),
) -> PruneReport:
    """Prune what was recorded before `before_ms` (unix milliseconds). `trusted` are keys that sign this log, too,
    beside those of `signer`.

    `on_progress` is called with the number of records so far. Raises `StoreUnavailable`, or `AttestationError` if the
    log is damaged before that time: verify it first.
    """
    database = Database(path, "FULL")
    pruning = _FilePruning(Pruner(signer, (*trusted, *signer.keys), timestamp(before_ms), timestamp(now_ms)))
    try:
        while not pruning.done:
            pruning = database.transact_waiting(pruning.step, writes=True)
            on_progress(pruning.count)
    finally:
        database.close()
    return PruneReport(pruning.count, _truncate_wal(path))


def _truncate_wal(path: Path) -> bool:
    """Truncate the write-ahead log. Return False if others still read an older state of the log."""
    deadline = time.monotonic() + EMPTY_LOG_SECONDS
    try:
        # Each attempt fails at once: SQLite's own waiting would block all writers.
        with contextlib.closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
            while time.monotonic() < deadline:
                with contextlib.suppress(sqlite3.OperationalError):  # locked counts as busy
                    busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                    if not busy:
                        return True
                time.sleep(STORE_RETRY_SECONDS)
    except sqlite3.Error:
        pass
    return False


class _FilePruning:
    """The state of pruning after some entries of the file."""

    def __init__(self, pruner: Pruner) -> None:
        self._pruner = pruner
        self._after = 0
        self._pruned: dict[int, tuple[PrunedChain, int]] = {}
        """For each writer, what was pruned so far, and the entry of its note."""
        self._ended: frozenset[int] = frozenset()
        self._going: set[str] = set()
        self.count = 0
        self.done = False

    def step(self, connection: sqlite3.Connection) -> "_FilePruning":
        """Handle the next entries, and return the state after them. `self` stays as it is, so a step can be rolled back
        and repeated."""
        connection.execute("PRAGMA secure_delete = ON")
        following = _FilePruning(self._pruner)
        following._pruned, following._ended, following._going = dict(self._pruned), self._ended, set(self._going)
        rows = connection.execute(
            "SELECT entry, writer FROM log_entries WHERE entry > ? AND payload IS NOT NULL ORDER BY entry LIMIT ?",
            (self._after, PRUNE_ENTRIES),
        ).fetchall()
        old: dict[int, list[_Old]] = {}
        for entry, writer in rows:
            if writer not in following._ended:
                following._look(connection, old, read_stored(connection, entry), entry, writer)
        for writer, records in old.items():
            following._replace(connection, writer, records)
        following.count = self.count + sum(map(len, old.values()))
        following._after = rows[-1][0] if rows else self._after
        following.done = len(rows) < PRUNE_ENTRIES
        return following

    def _look(
        self, connection: sqlite3.Connection, old: dict[int, list[_Old]], stored: Stored, entry: int, writer: int
    ) -> None:
        payload = stored.envelope.payload
        match decode_statement(payload).predicate:
            case CallRecord() as record:
                newer = self._pruner.is_newer(record)
                if newer or _is_open(connection, record) or self._outlives(connection, record):
                    self._ended |= {writer}
                    return
                check_follows(record, stored.place, *self._end(old, writer))
                old.setdefault(writer, []).append(_Old(entry, record.log.sequence, hashlib.sha256(payload).hexdigest()))
            case Checkpoint():
                if int(stored.place.partition("/")[2]) <= self._end(old, writer)[0]:
                    connection.execute(_TAKE_OUT, (entry,))
            case Pruning():
                self._pruned[writer] = self._pruner.restore(stored, _kept_digests(connection, writer)), entry

    def _outlives(self, connection: sqlite3.Connection, record: CallRecord) -> bool:
        """Return whether a record is an outcome whose decision stays. That decision comes before the outcome in the
        log, in whatever chain."""
        if not comes_alone(record, self._going):
            return False
        payloads = payloads_of(connection, record.call.id, RECORDS_OF_A_CALL)
        return (record.call.id, "decision") in read_phases(payloads)

    def _end(self, old: dict[int, list[_Old]], writer: int) -> tuple[int, str]:
        """Return the number and the digest of the last record of a chain that was pruned so far."""
        if writer in old:
            return old[writer][-1].number, old[writer][-1].sha256
        pruned, _ = self._pruned.get(writer, (UNPRUNED, 0))
        return pruned.last, pruned.head

    def _replace(self, connection: sqlite3.Connection, writer: int, records: list[_Old]) -> None:
        pruned, note = self._pruned.get(writer, (UNPRUNED, 0))
        (name,) = connection.execute("SELECT name FROM log_writers WHERE writer = ?", (writer,)).fetchone()
        *entries, last = [*([note] if note else []), *(each.entry for each in records)]
        pruned, gone, envelope = self._pruner.extend(
            pruned, name, [each.sha256 for each in records], read_stored(connection, last)
        )
        connection.executemany(
            "UPDATE log_entries SET key = NULL, payload = NULL, ed25519 = NULL, ml_dsa_65 = NULL, members = NULL,"
            " proof = NULL, digest = ? WHERE entry = ?",
            zip(gone, entries, strict=True),
        )
        ed25519, ml_dsa_65 = (signature.data for signature in envelope.signatures)
        connection.execute(
            "UPDATE log_entries SET key = ?, payload = ?, ed25519 = ?, ml_dsa_65 = ?, members = NULL, proof = NULL"
            " WHERE entry = ?",
            (key_number(connection, self._pruner.signer.id), envelope.payload, ed25519, ml_dsa_65, last),
        )
        connection.execute(
            "UPDATE log_writers SET checkpointed = max(checkpointed, ?) WHERE writer = ?", (pruned.last, writer)
        )
        self._pruned[writer] = pruned, last


def comes_alone(record: CallRecord, going: set[str]) -> bool:
    """Return whether a record to prune is an outcome whose decision is not pruned. `going` holds the calls whose
    decisions were pruned; a call leaves it when its outcome is pruned, too."""
    call = record.call.id
    if record.decision is not None:
        if record.goes_on:
            going.add(call)
        return False
    is_alone = call not in going
    going.discard(call)
    return is_alone


def _kept_digests(connection: sqlite3.Connection, writer: int) -> Any:
    kept = hashlib.sha256()
    query = "SELECT digest FROM log_entries WHERE writer = ? AND length(digest) = 32 ORDER BY number"
    for (digest,) in connection.execute(query, (writer,)):
        kept.update(digest)
    return kept


def _is_open(connection: sqlite3.Connection, record: CallRecord) -> bool:
    row = connection.execute("SELECT 1 FROM log_open WHERE call = ?", (record.call.id,)).fetchone()
    return row is not None
