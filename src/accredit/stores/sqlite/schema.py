"""The tables of a store's SQLite file. No I/O.

`SCHEMA` has one step per version: a file of version n has had the first n steps. New steps are only ever appended.
"""

from accredit.stores.audit_log.schema import LOG_CALLS, LOG_MEMBERS, LOG_PROOFS, LOG_RESUMES, LOG_SINKS, LOG_TABLES
from accredit.stores.door.rows import TABLE as DOOR

SCHEMA: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE issued (challenge BLOB PRIMARY KEY, request_hash BLOB NOT NULL, expires_at INTEGER NOT NULL,"
        " keep_until INTEGER NOT NULL) WITHOUT ROWID",
        "CREATE INDEX issued_ends ON issued (keep_until)",
        "CREATE TABLE spent (challenge BLOB PRIMARY KEY, keep_until INTEGER NOT NULL) WITHOUT ROWID",
        "CREATE INDEX spent_ends ON spent (keep_until)",
        # `mark` as in `stores.rules.mark`; `uses` counts the uses under this mark, `before` those under earlier marks.
        "CREATE TABLE uses (cert_id BLOB, window_s INTEGER, mark INTEGER, before INTEGER NOT NULL,"
        " uses INTEGER NOT NULL, keep_until INTEGER NOT NULL, PRIMARY KEY (cert_id, window_s, mark)) WITHOUT ROWID",
        "CREATE INDEX use_ends ON uses (keep_until)",
        # An issuer's signed list in wire form; `version` grows with each change.
        "CREATE TABLE revocations (issuer_id TEXT PRIMARY KEY, version INTEGER NOT NULL, list BLOB NOT NULL)"
        " WITHOUT ROWID",
    ),
    LOG_TABLES,
    LOG_MEMBERS,
    (
        # The key of issued challenges (`stores.minted`), which are not stored any more. One row.
        "CREATE TABLE challenge_key (id INTEGER PRIMARY KEY CHECK (id = 1), key BLOB NOT NULL)",
        "DROP TABLE issued",
    ),
    (
        "CREATE TABLE tasks (key BLOB PRIMARY KEY, owner BLOB NOT NULL, method BLOB NOT NULL, target BLOB NOT NULL,"
        " facts BLOB NOT NULL, flow BLOB NOT NULL, keep_until INTEGER NOT NULL) WITHOUT ROWID",
        "CREATE INDEX task_ends ON tasks (keep_until)",
        "CREATE INDEX task_owners ON tasks (owner)",
    ),
    # For each table whose rows end, the latest end of those deleted from it (`stores.sqlite.forgetting`).
    ("CREATE TABLE forgotten (kind TEXT PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID",),
    LOG_RESUMES,
    LOG_CALLS,
    LOG_SINKS,
    # The newest revocation list of each issuer, in wire form, that a gateway of this store has had in force.
    ("CREATE TABLE known_lists (issuer_id TEXT PRIMARY KEY, list BLOB NOT NULL) WITHOUT ROWID",),
    LOG_PROOFS,
    # The front door's clients, grants, codes and logins, sealed.
    (
        *(each.format(small="INTEGER", bytes="BLOB", big="INTEGER") for each in DOOR),
        # Asks that wait for a person (`ports.HeldAsk`); `text` is sealed.
        "CREATE TABLE asks (key BLOB PRIMARY KEY, asker BLOB NOT NULL, person BLOB NOT NULL, code BLOB NOT NULL UNIQUE,"
        " text BLOB NOT NULL, answer BLOB NOT NULL, tries INTEGER NOT NULL, keep_until INTEGER NOT NULL)",
        "CREATE INDEX ask_ends ON asks (keep_until)",
        "CREATE INDEX ask_askers ON asks (asker)",
        "CREATE INDEX ask_people ON asks (person)",
    ),
)
