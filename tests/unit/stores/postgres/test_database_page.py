"""The page on the database says what is there: each table, column, index and right, and nothing else."""

import re
from pathlib import Path

import pytest
from tests.world.postgres import Cluster, cluster

from accredit.stores.lasting import PostgresDatabase
from accredit.stores.postgres.migration import migrate
from accredit.stores.postgres.schema import ADMIN, GATEWAY, VERSION

pytestmark = [pytest.mark.slow, pytest.mark.holds("stores/postgres/schema")]

PAGE = (Path(__file__).parents[4] / "docs/reference/database.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^### `(\w+)`\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL))
RIGHTS = re.findall(r"^\| `(\w+)` \| ([A-Z][^|]*) \| (\w+) \|$", PAGE, re.MULTILINE)
QUERIES = re.findall(r"```sql\n(.*?);\n```", PAGE, re.DOTALL)

TABLES = """
SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition"""
COLUMNS = f"""
SELECT a.attrelid::regclass::text, a.attname::text, format_type(a.atttypid, NULL),
  EXISTS (SELECT FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisprimary AND a.attnum = ANY (i.indkey)),
  EXISTS (SELECT FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisunique AND NOT i.indisprimary
    AND a.attnum = ANY (i.indkey)), NOT a.attnotnull
FROM pg_attribute a WHERE a.attrelid IN ({TABLES}) AND a.attnum > 0 AND NOT a.attisdropped"""
INDEXES = f"""
SELECT indrelid::regclass::text, indexrelid::regclass::text, (SELECT string_agg('`' || attname || '`', ', ')
  FROM pg_attribute WHERE attrelid = indexrelid) FROM pg_index WHERE indrelid IN ({TABLES}) AND NOT indisunique"""
OTHERS = """
SELECT proname::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace
UNION SELECT sequencename::text FROM pg_sequences WHERE schemaname = 'public' AND NOT EXISTS (
  SELECT FROM pg_depend WHERE objid = ('public.' || sequencename)::regclass AND deptype = 'i')"""
GRANTED = """
SELECT table_name::text, privilege_type::text FROM information_schema.role_table_grants WHERE grantee = '{role}'"""
GRANTED_COLUMNS = """
SELECT table_name::text, privilege_type::text, column_name::text FROM information_schema.role_column_grants c
WHERE grantee = '{role}' AND NOT EXISTS (SELECT FROM information_schema.role_table_grants t
  WHERE t.grantee = c.grantee AND t.table_name = c.table_name AND t.privilege_type = c.privilege_type)"""


@pytest.fixture(scope="module")
def migrated() -> tuple[Cluster, PostgresDatabase]:
    found = cluster().empty()
    migrate(found)
    return cluster(), found


def rows(migrated: tuple[Cluster, PostgresDatabase], statement: str) -> set[tuple[object, ...]]:
    server, database = migrated
    return {tuple(row) for row in server.run(statement, database=database.database)}


def test_each_column_is_on_the_page_with_its_type__and_no_other(migrated: tuple[Cluster, PostgresDatabase]) -> None:
    told = {
        (table, column, *words.split(", "))
        for table, section in SECTIONS.items()
        for column, words in re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section, re.MULTILINE)
    }
    there = {
        (
            *(table, column, kind),
            *(["primary key"] if is_key else []),
            *(["unique"] if unique else []),
            *(["may be null"] if nullable else []),
        )
        for table, column, kind, is_key, unique, nullable in rows(migrated, COLUMNS)
    }
    assert told == there
    assert len(told) > 40
    assert f"Version {VERSION} of the tables" in PAGE


def test_each_index_is_on_the_page__and_what_else_there_is(migrated: tuple[Cluster, PostgresDatabase]) -> None:
    told = {
        (table, index, columns)
        for table, section in SECTIONS.items()
        for line in re.findall(r"^Index(?:es)?: .*$", section, re.MULTILINE)
        for index, columns in re.findall(r"`(\w+)` \(([^)]*)\)", line)
    }
    assert told == rows(migrated, INDEXES)
    for (name,) in rows(migrated, OTHERS):
        assert f"`{name}`" in PAGE


def test_what_the_page_says_that_a_role_may_do_is_what_it_may(migrated: tuple[Cluster, PostgresDatabase]) -> None:
    told: dict[str, set[str]] = {}
    columns: set[tuple[str, str, str]] = set()
    for table, rights, of_admin in RIGHTS:
        assert of_admin == "all"
        for right, some in re.findall(r"([A-Z]+)(?: \(([^)]*)\))?", rights):
            columns |= {(table, right, column) for column in re.findall(r"`(\w+)`", some)}
            told.setdefault(table, set()).update([] if some else [right])
    of_gateway: dict[str, set[str]] = {}
    for table, right in rows(migrated, GRANTED.format(role=GATEWAY)):
        of_gateway.setdefault(str(table), set()).add(str(right))
    assert told == of_gateway
    assert columns == rows(migrated, GRANTED_COLUMNS.format(role=GATEWAY))
    every = {"SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"}
    assert rows(migrated, GRANTED.format(role=ADMIN)) == {(table, right) for table in SECTIONS for right in every}


def test_an_operator_s_queries_work_for_who_is_no_superuser__and_tell_who_is_connected(
    migrated: tuple[Cluster, PostgresDatabase],
) -> None:
    server, database = migrated
    server.run(f"CREATE ROLE operator LOGIN IN ROLE {ADMIN}")
    assert len(QUERIES) == 6
    for query in QUERIES:
        server.run(query, database=database.database, user="operator")
    add = (
        "INSERT INTO log_writers (name, gateway, host, records, head, checkpointed, turn, over, beat)"
        " SELECT name, 'g', 'h', 0, '', 0, 0, false, now() FROM unnest(ARRAY['alive', 'dead']) AS name"
    )
    lock = "SELECT pg_advisory_lock(hashtextextended('accredit log writer alive', 0))"
    (writers,) = [query for query in QUERIES if "AS connected" in query]
    found = server.run(add, lock, writers, database=database.database)
    assert {(row[0], row[-1]) for row in found} == {("alive", True), ("dead", False)}
