"""The tables and roles in a database. No I/O.

`SCHEMA` has one step per version: a database of version n has had the first n. Steps are only ever appended. Bytes of
unknown length are never keys: an index takes 2,700 bytes at most.
"""

SCHEMA: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE accredit_schema (version integer NOT NULL)",
        # `not_before`: nothing is answered until then (unix seconds), as the database was restored from a copy.
        "CREATE TABLE store_state (name text PRIMARY KEY, value bigint NOT NULL)",
        # The key of issued challenges (`stores.minted`). One row, made with the table.
        "CREATE TABLE challenge_key (id smallint PRIMARY KEY CHECK (id = 1), key bytea NOT NULL)",
        # `owner` is of one attempt to spend, which may be repeated when its answer was lost.
        "CREATE TABLE spent (challenge bytea PRIMARY KEY, owner bytea NOT NULL, keep_until bigint NOT NULL)",
        "CREATE INDEX spent_ends ON spent (keep_until)",
        # A series is of one certificate (the SHA-256 of its id) and one window; `total` counts all of its uses, and
        # `latest` is its latest mark (`stores.rules.mark`).
        "CREATE TABLE use_series (cert bytea, window_s bigint, total bigint NOT NULL, latest bigint NOT NULL,"
        " keep_until bigint NOT NULL, PRIMARY KEY (cert, window_s))",
        "CREATE INDEX use_series_ends ON use_series (keep_until)",
        # `before` counts the uses of a series under earlier marks.
        "CREATE TABLE uses (cert bytea, window_s bigint, mark bigint, before bigint NOT NULL,"
        " keep_until bigint NOT NULL, PRIMARY KEY (cert, window_s, mark))",
        "CREATE INDEX use_ends ON uses (keep_until)",
        "CREATE TABLE tasks (key bytea PRIMARY KEY, owner bytea NOT NULL, method bytea NOT NULL, target bytea NOT NULL,"
        " facts bytea NOT NULL, flow bytea NOT NULL, keep_until bigint NOT NULL)",
        "CREATE INDEX task_ends ON tasks (keep_until)",
        "CREATE INDEX task_owners ON tasks (owner)",
        # For each table whose rows end, the latest end of those that were deleted from it.
        "CREATE TABLE forgotten (kind text PRIMARY KEY, until bigint NOT NULL)",
        # An issuer's signed list as on the wire; `version` grows with each change.
        "CREATE TABLE revocations (issuer_id text PRIMARY KEY, version bigint NOT NULL, list bytea NOT NULL)",
    ),
)
VERSION = len(SCHEMA)

GATEWAY, ADMIN = "accredit_gateway", "accredit_admin"

_FORGETFUL = "spent, use_series, uses, tasks"
"""Tables whose rows a gateway deletes when they have ended."""
_KNOWN = "accredit_schema, store_state, challenge_key, revocations"
"""Tables that a gateway reads only."""

MAKE_ROLES = {role: f"CREATE ROLE {role} NOLOGIN" for role in (GATEWAY, ADMIN)}

GRANTS = (
    f"GRANT SELECT, INSERT, UPDATE, DELETE ON {_FORGETFUL} TO {GATEWAY}",
    f"GRANT SELECT, INSERT, UPDATE ON forgotten TO {GATEWAY}",
    f"GRANT SELECT ON {_KNOWN} TO {GATEWAY}",
    f"GRANT ALL ON {_FORGETFUL}, forgotten, {_KNOWN} TO {ADMIN}",
)
