"""The tables and roles in a database. No I/O.

`SCHEMA` has one step per version: a database of version n has had the first n steps. New steps are only ever appended.
No key contains bytes of unknown length, because PostgreSQL allows an index entry 2,700 bytes at most.

Entries of the log are only ever added. Each day has its own table (UTC, by the database's clock), so that a day can be
dropped whole. A gateway's role has no rights to the table of a day, only to the log as a whole. It creates the tables
of the next days by calling `log_make_days`, which can remove nothing.
"""

from accredit.limits import MAX_ATTESTATION_BYTES, MAX_PROOF_BUNDLE_BYTES, MAX_STATEMENT_BYTES
from accredit.stores.audit_log.schema import CALL_KEY_CHARS, CALL_MARK
from accredit.stores.door.rows import TABLE as DOOR

LOG_DAYS_AHEAD = 7
"""For how many days ahead a database has tables for the log's entries. Gateways create another one each day. If that
fails, there is a week to find out why."""
LOG_COPIED, LOG_COPIED_BYTES = 10_000, 33_554_432
"""When today's table is rebuilt, the most entries and bytes that may be copied while all gateways wait (0.1 s)."""


_MAKE_DAYS = f"""
CREATE FUNCTION log_make_days() RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  today date := (clock_timestamp() AT TIME ZONE 'UTC')::date;
  later date;
  name text;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('accredit log_make_days'));
  FOR ahead IN 0..{LOG_DAYS_AHEAD} LOOP
    later := today + ahead;
    name := 'log_entries_' || to_char(later, 'YYYYMMDD');
    IF to_regclass('public.' || name) IS NULL THEN
      -- Attached, not made as a part: that would wait for all who read the log, and all who write would wait for it.
      EXECUTE format('CREATE TABLE public.%I (LIKE public.log_entries INCLUDING DEFAULTS INCLUDING STORAGE)', name);
      EXECUTE format('ALTER TABLE public.log_entries ATTACH PARTITION public.%I FOR VALUES FROM (%L) TO (%L)',
        name, later, later + 1);
    END IF;
  END LOOP;
END $$"""

_GOES_ON = """
CREATE FUNCTION log_writer_goes_on() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF has_table_privilege('public.log_writers', 'DELETE') THEN
    RETURN NEW;
  END IF;
  RAISE insufficient_privilege USING MESSAGE = 'permission denied: a chain of the log only goes on, until it has ended';
END $$"""

CALL_KEY = (
    f"substring(payload FROM position('\\x{CALL_MARK.hex()}'::bytea IN payload) + {len(CALL_MARK)}"
    f" FOR {CALL_KEY_CHARS})"
)
"""SQL: the prefix of a call's id, taken from its record."""
SHORT_PROOF = f"CASE WHEN octet_length(e.proof) > {MAX_PROOF_BUNDLE_BYTES} THEN ''::bytea ELSE e.proof END"
"""SQL: the proof kept with an entry, or b"" if it is too long to be one."""
SHORT_CERTIFICATES = (
    f"SELECT CASE WHEN octet_length(certificates) <= {MAX_STATEMENT_BYTES} THEN certificates END FROM log_delegations"  # noqa: S608 - of constants
)
"""SQL: certificate chains, or NULL for what is too long to be one."""


def short(of: str = "", most: int = MAX_ATTESTATION_BYTES) -> str:
    """Return SQL for an entry's byte columns. If together they have more than `most` bytes, they are not read, and all
    are NULL."""
    names = [f"{of}{each}" for each in ("payload", "ed25519", "ml_dsa_65", "members")]
    size = " + ".join(f"coalesce(octet_length({each}), 0)" for each in names)
    return ", ".join(f"CASE WHEN {size} <= {most} THEN {each} END" for each in names)


def _clear_day(create: str, *indexes: str, sized: str = "payload") -> str:
    """Return the statement that creates the database's function log_clear_day. No entries are added to a past day, so
    its remaining ones can be copied and indexed before gateways have to wait. The bytes to copy are measured by the
    columns `sized`."""
    size = " + ".join(f"coalesce(octet_length({each}), 0)" for each in sized.split(", "))
    quoted = [each.replace("'", "''") for each in indexes]
    made = "".join(f"\n    EXECUTE format('{each}', copy);" for each in quoted)
    return f"""
{create} FUNCTION log_clear_day(cleared date) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  is_over boolean := cleared < (clock_timestamp() AT TIME ZONE 'UTC')::date;
  name text := 'log_entries_' || to_char(cleared, 'YYYYMMDD');
  copy text := name || '_left';
  has_any boolean;
  has_many boolean;
BEGIN
  IF to_regclass('public.' || name) IS NULL THEN
    RETURN true;
  END IF;
  IF is_over THEN
    EXECUTE format('LOCK TABLE public.%I IN SHARE ROW EXCLUSIVE MODE', name);
  ELSE
    LOCK TABLE public.log_entries IN ACCESS EXCLUSIVE MODE;
  END IF;
  EXECUTE format('SELECT count(*) > 0, count(*) > {LOG_COPIED} OR sum({size}) > {LOG_COPIED_BYTES}'
    ' FROM (SELECT {sized} FROM public.%I LIMIT {LOG_COPIED} + 1) AS kept', name) INTO has_any, has_many;
  IF has_many AND NOT is_over THEN
    RETURN false;
  END IF;
  IF has_any OR NOT is_over THEN
    EXECUTE format('CREATE TABLE public.%I (LIKE public.log_entries INCLUDING DEFAULTS INCLUDING STORAGE,'
      ' CHECK (day IS NOT NULL AND day >= %L AND day < %L))', copy, cleared, cleared + 1);
    EXECUTE format('INSERT INTO public.%I SELECT * FROM public.%I', copy, name);
    EXECUTE format('ALTER TABLE public.%I ADD PRIMARY KEY (writer, kind, number, day)', copy);{made}
  END IF;
  LOCK TABLE public.log_entries IN ACCESS EXCLUSIVE MODE;
  EXECUTE format('DROP TABLE public.%I', name);
  IF has_any OR NOT is_over THEN
    EXECUTE format('ALTER TABLE public.%I RENAME TO %I', copy, name);
    EXECUTE format('ALTER TABLE public.log_entries ATTACH PARTITION public.%I FOR VALUES FROM (%L) TO (%L)',
      name, cleared, cleared + 1);
  END IF;
  RETURN true;
END $$"""  # noqa: S608 - of constants


_CALLS_OF_DAY = f"CREATE INDEX ON public.%I ({CALL_KEY}) WHERE kind = 0"

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
        # An issuer's signed list in wire form; `version` grows with each change.
        "CREATE TABLE revocations (issuer_id text PRIMARY KEY, version bigint NOT NULL, list bytea NOT NULL)",
    ),
    (
        # A process's life and its chain, as in `stores.audit_log.schema`; the gateway's id and its machine's name are
        # for people. `beat` is when the process last said that it lives; it also holds a lock while it is connected.
        "CREATE TABLE log_writers (writer bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL UNIQUE,"
        " gateway text NOT NULL, host text NOT NULL, records bigint NOT NULL, head text NOT NULL,"
        " checkpointed bigint NOT NULL, turn bigint NOT NULL, over boolean NOT NULL, beat timestamptz NOT NULL)",
        "CREATE TABLE log_keys (key integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text NOT NULL UNIQUE)",
        # `kind` is 0 for a record, 1 for a checkpoint, 2 for a note of pruning; `number` is a record's sequence, a
        # checkpoint's count, the last record that a note covers. `entry` puts a list for people in order, no more:
        # transactions that overlap are committed in any order.
        "CREATE SEQUENCE log_entry",
        "CREATE TABLE log_entries (entry bigint NOT NULL DEFAULT nextval('public.log_entry'), day date NOT NULL,"
        " writer bigint NOT NULL, kind smallint NOT NULL, number bigint NOT NULL, key integer NOT NULL,"
        " payload bytea NOT NULL, ed25519 bytea NOT NULL, ml_dsa_65 bytea, members bytea,"
        " PRIMARY KEY (writer, kind, number, day)) PARTITION BY RANGE (day)",
        "ALTER TABLE log_entries ALTER payload SET STORAGE EXTERNAL",
        # Calls that were allowed and have no outcome yet. `writer` has to close it; its decision is the record `number`
        # of the chain of `decided_by`, which is another one's where the call was claimed. By `resume` it is found for a
        # stream that is resumed: the SHA-256 of session and request.
        'CREATE TABLE log_open (call text COLLATE "C" PRIMARY KEY, writer bigint NOT NULL, decided_by bigint NOT NULL,'
        " number bigint NOT NULL, day date NOT NULL, resume bytea)",
        "CREATE INDEX log_open_resumes ON log_open (resume) WHERE resume IS NOT NULL",
        # Chains of certificates that calls were made on: JSON arrays, leaf first, by their SHA-256.
        'CREATE TABLE log_delegations (sha256 text COLLATE "C" PRIMARY KEY, certificates bytea NOT NULL)',
        # What is left of pruned records: the SHA-256 of each, 32 bytes one after the other, from `first` to `last`.
        "CREATE TABLE log_pruned (writer bigint, first bigint, last bigint NOT NULL, digests bytea NOT NULL,"
        " PRIMARY KEY (writer, first))",
        _MAKE_DAYS,
        "REVOKE ALL ON FUNCTION log_make_days() FROM PUBLIC",
        # Rebuilds a day's table from its remaining entries, or drops an empty one, so that deleted bytes are gone.
        # Returns false if the day is not over, and too much is left to make all others wait.
        _clear_day("CREATE"),
        "REVOKE ALL ON FUNCTION log_clear_day(date) FROM PUBLIC",
    ),
    (
        # By the prefixes of their calls' ids.
        f"CREATE INDEX log_calls ON log_entries ({CALL_KEY}) WHERE kind = 0",
        _clear_day("CREATE OR REPLACE", _CALLS_OF_DAY),
    ),
    (
        # The log's sinks: of each chain the last record, and the last checkpoint, sent to one.
        'CREATE TABLE log_sinks (name text COLLATE "C", writer bigint, record bigint NOT NULL,'
        " checkpoint bigint NOT NULL, PRIMARY KEY (name, writer))",
    ),
    (
        # A role that may not delete a writer can't undo its row either: a chain only grows, and an ended one stays. Its
        # content is checked by whoever signs for it (`stores.audit_log.author`).
        _GOES_ON,
        "CREATE TRIGGER log_writer_goes_on BEFORE UPDATE ON log_writers FOR EACH ROW"
        " WHEN (OLD.over OR NEW.records < OLD.records OR (NEW.records = OLD.records AND NEW.head <> OLD.head))"
        " EXECUTE FUNCTION log_writer_goes_on()",
    ),
    (
        # The proof of an allowed call, packed (`attest.canonical`), with the record of its decision.
        "ALTER TABLE log_entries ADD COLUMN proof bytea",
        "ALTER TABLE log_entries ALTER proof SET STORAGE EXTERNAL",
        _clear_day("CREATE OR REPLACE", _CALLS_OF_DAY, sized="payload, proof"),
    ),
    # The front door's clients, grants, codes and logins, sealed.
    (
        *(each.format(small="smallint", bytes="bytea", big="bigint") for each in DOOR),
        # Asks that wait for a person (`ports.HeldAsk`); `text` is sealed.
        "CREATE TABLE asks (key bytea PRIMARY KEY, asker bytea NOT NULL, person bytea NOT NULL,"
        " code bytea NOT NULL UNIQUE, text bytea NOT NULL, answer bytea NOT NULL, tries bigint NOT NULL,"
        " keep_until bigint NOT NULL)",
        "CREATE INDEX ask_ends ON asks (keep_until)",
        "CREATE INDEX ask_askers ON asks (asker)",
        "CREATE INDEX ask_people ON asks (person)",
    ),
)
VERSION = len(SCHEMA)
OLDEST = VERSION - 1
"""The oldest version of tables that gateways work with, so that gateways can be replaced before the tables are changed.
A step of the schema only adds, and removes nothing that the previous version uses."""

GATEWAY, ADMIN = "accredit_gateway", "accredit_admin"

_FORGETFUL = "spent, use_series, uses, tasks, asks"
"""Tables from which a gateway deletes expired rows."""
READ_ONLY = ("accredit_schema", "store_state", "challenge_key", "revocations", "log_pruned")
"""Tables that a gateway only reads."""
_KNOWN = ", ".join(READ_ONLY)
_ADDED = {
    "log_entries": "day, writer, kind, number, key, payload, ed25519, ml_dsa_65, members, proof",
    "log_keys": "id",
    "log_writers": "name, gateway, host, records, head, checkpointed, turn, over, beat",
}
"""The columns that a gateway may set in new rows. The database itself sets the others: the order of entries, and the
numbers of keys and writers."""
_CHANGED = {
    "spent": "keep_until",
    "use_series": "total, latest, keep_until",
    "uses": "before",
    "tasks": "owner, method, target, facts, flow, keep_until",
    "asks": "answer, tries, keep_until",
    "forgotten": "until",
    "log_sinks": "record, checkpoint",
    "log_writers": "records, head, checkpointed, turn, over, beat",
    "log_open": "writer",
    "door": "parent, value, ends",
}
"""Tables in which a gateway changes rows, and the columns that it may change."""
_OWNED = f"{_FORGETFUL}, door, forgotten, log_sinks, log_open, log_writers"
KEPT = ("log_entries", "log_keys", "log_delegations")
"""Tables to which a gateway adds rows, which it never changes or deletes."""


def behind(version: int | None) -> str | None:
    """Return a notice if a version is the previous one."""
    if version is None or version == VERSION:
        return None
    return f"its tables are of schema {version}: once all gateways are of this version, accredit store migrate"


MAKE_ROLES = {role: f"CREATE ROLE {role} NOLOGIN" for role in (GATEWAY, ADMIN)}

GRANTS = (
    f"GRANT SELECT, DELETE ON {_FORGETFUL}, door, log_open TO {GATEWAY}",
    f"GRANT SELECT ON {_KNOWN}, forgotten, log_sinks, log_writers, {', '.join(KEPT)} TO {GATEWAY}",
    f"GRANT INSERT ON {_FORGETFUL}, door, forgotten, log_sinks, log_open, log_delegations TO {GATEWAY}",
    *(f"GRANT INSERT ({columns}) ON {table} TO {GATEWAY}" for table, columns in _ADDED.items()),
    *(f"GRANT UPDATE ({columns}) ON {table} TO {GATEWAY}" for table, columns in _CHANGED.items()),
    f"GRANT USAGE ON SEQUENCE log_entry TO {GATEWAY}",
    f"GRANT EXECUTE ON FUNCTION log_make_days() TO {GATEWAY}, {ADMIN}",
    f"GRANT EXECUTE ON FUNCTION log_clear_day(date) TO {ADMIN}",
    f"GRANT ALL ON {_OWNED}, {_KNOWN}, {', '.join(KEPT)} TO {ADMIN}",
    f"GRANT ALL ON SEQUENCE log_entry TO {ADMIN}",
)
RIGHTS = (
    f"REVOKE INSERT, UPDATE ON {_OWNED}, {', '.join(KEPT)} FROM {GATEWAY}",  # an earlier version granted more
    *GRANTS,
)
_TABLES = f"{_OWNED}, {_KNOWN}, {', '.join(KEPT)}, log_entry"
IS_OWNER = f"""
SELECT bool_and(pg_has_role(owner, 'USAGE')) FROM (
  SELECT relowner FROM pg_class WHERE oid = ANY ('{{{_TABLES}}}'::regclass[])
  UNION SELECT proowner FROM pg_proc WHERE oid IN ('log_make_days()'::regprocedure, 'log_clear_day(date)'::regprocedure)
) AS made (owner)"""  # noqa: S608 - of constants
"""SQL: whether this user owns all that `RIGHTS` are about. Whoever has rights, but may not pass them on, gets a warning
from the server for these, and no error."""
