"""The tables of the audit log, as steps of `stores.sqlite.schema.SCHEMA`. No I/O.

The log itself is `log_entries`. docs/reference/attestation.md says which cells of the other tables verification uses.
"""

from accredit.limits import MAX_ATTESTATION_BYTES, MAX_PROOF_BUNDLE_BYTES, MAX_STATEMENT_BYTES

CALL_MARK = b'"call":{"id":"'
"""The bytes right before a call's id in a record. No JSON string contains them, so no client's text can imitate them.
"""
CALL_KEY_CHARS = 16
"""How many characters of a call's id are in the index. They have 64 bits, so two calls hardly ever have the same
ones."""
_RUN = 10
"""Entries whose numbers differ only in this many low bits form a run, and the index is ordered by run first. Call ids
are random, so with a single run, each record would change another page of the index: three times slower. With runs,
entries that are written together go to the same few pages."""
CALL_RUN = f"entry >> {_RUN}"
CALL_KEY = f"substr(payload, instr(payload, X'{CALL_MARK.hex()}') + {len(CALL_MARK)}, {CALL_KEY_CHARS})"
HAS_CALL = "ml_dsa_65 IS NULL AND payload IS NOT NULL"
OF_CALL = f"""entry IN (
  WITH RECURSIVE runs (run) AS (
    SELECT min({CALL_RUN}) FROM log_entries WHERE {HAS_CALL}
    UNION ALL
    SELECT (SELECT min({CALL_RUN}) FROM log_entries WHERE {HAS_CALL} AND {CALL_RUN} > run) FROM runs
    WHERE run IS NOT NULL)
  SELECT entry FROM runs CROSS JOIN log_entries
  ON {CALL_RUN} = run AND {HAS_CALL} AND {CALL_KEY} >= ? AND {CALL_KEY} < ?)"""  # noqa: S608 - of constants
"""SQL: the condition for the entries of the calls in a `reading.key_range`. Each run is found by one index lookup,
whatever numbers the entries of a damaged file have."""
SHORT_PROOF = f"CASE WHEN length(proof) > {MAX_PROOF_BUNDLE_BYTES} OR typeof(proof) = 'text' THEN X'' ELSE proof END"
"""SQL: the proof kept with an entry, or b"" if it is too long to be one."""
SHORT_CERTIFICATES = (
    f"SELECT CASE WHEN length(certificates) <= {MAX_STATEMENT_BYTES} THEN certificates END FROM log_delegations"  # noqa: S608 - of constants
)
"""SQL: certificate chains, or NULL for what is too long to be one."""


def short(columns: str, of: str = "") -> str:
    """Return SQL for an entry's byte columns. Two things are not read, and become '' (which counts as damage): a column
    of type text, and all columns of an entry that is too long."""
    names = [f"{of}{each}" for each in columns.split(", ")]
    size = " + ".join(f"coalesce(length({each}), 0)" for each in names)
    return ", ".join(
        f"CASE WHEN typeof({each}) = 'text' OR {size} > {MAX_ATTESTATION_BYTES} THEN '' ELSE {each} END"
        for each in names
    )


LOG_TABLES: tuple[str, ...] = (
    # A process's life and its chain: the number of records, the SHA-256 of the last, and how many a checkpoint covers;
    # `turn` is the last turn of its queue that was written; `over` says that it has ended, and left no call open.
    "CREATE TABLE log_writers (writer INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, records INTEGER NOT NULL,"
    " head TEXT NOT NULL, checkpointed INTEGER NOT NULL, turn INTEGER NOT NULL, over INTEGER NOT NULL)",
    "CREATE TABLE log_keys (key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE)",
    # Records, checkpoints and notes of pruning in the order in which they were made. `number` is a record's sequence,
    # a checkpoint's count, the last record that a note covers. `digest` is all that is left of a pruned record.
    # `ed25519` is the first signature, also where another signer's key (`key`) makes it with another algorithm.
    "CREATE TABLE log_entries (entry INTEGER PRIMARY KEY, writer INTEGER NOT NULL, number INTEGER NOT NULL,"
    " key INTEGER, payload BLOB, ed25519 BLOB, ml_dsa_65 BLOB, digest BLOB)",
    # Chains of certificates that calls were made on: JSON arrays, leaf first, by their SHA-256.
    "CREATE TABLE log_delegations (sha256 TEXT PRIMARY KEY, certificates BLOB NOT NULL) WITHOUT ROWID",
    # Calls that were allowed and have no outcome yet.
    "CREATE TABLE log_open (call TEXT PRIMARY KEY, writer INTEGER NOT NULL, entry INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE INDEX log_open_writers ON log_open (writer)",
)

LOG_MEMBERS: tuple[str, ...] = (
    # What another signer's signature holds beside its bytes (`tables.encode_members`); none for the gateway's own.
    "ALTER TABLE log_entries ADD COLUMN members BLOB",
    # There are never many open calls, and each had to maintain this index.
    "DROP INDEX log_open_writers",
)

LOG_RESUMES: tuple[str, ...] = (
    # The key by which another process finds a call whose answer comes there: the SHA-256 of session and request.
    "ALTER TABLE log_open ADD COLUMN resume BLOB",
)

LOG_CALLS: tuple[str, ...] = (
    # By the prefixes of their calls' ids, in runs of 1,024 entries.
    f"CREATE INDEX log_calls ON log_entries ({CALL_RUN}, {CALL_KEY}) WHERE {HAS_CALL}",
)

LOG_PROOFS: tuple[str, ...] = (
    # The proof of an allowed call, packed (`attest.canonical`), with the record of its decision.
    "ALTER TABLE log_entries ADD COLUMN proof BLOB",
)

LOG_SINKS: tuple[str, ...] = (
    # The log's sinks, and the last entry sent to each.
    "CREATE TABLE log_sinks (name TEXT PRIMARY KEY, entry INTEGER NOT NULL) WITHOUT ROWID",
)
