"""What may run beside what: gateways of this version on the tables of the one before, while these are changed, and what
refuses to run."""

import asyncio
import contextlib
import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.integration.test_postgres_gateways import Fleet, said, url_of
from tests.world.besieged import Reading
from tests.world.command import Serving, accredit
from tests.world.postgres import cluster
from tests.world.raw_client import RawClient
from tests.world.raw_server import RawServer

from accredit.keys import make_key, write_key
from accredit.stores.postgres.migration import status
from accredit.stores.postgres.schema import VERSION
from accredit.stores.sqlite.schema import SCHEMA

pytestmark = [pytest.mark.slow, pytest.mark.holds("stores/postgres/session", "schema")]

BEFORE, AT_ONCE = 12, 4


@pytest.fixture
def gateways(tmp_path: Path) -> Fleet:
    """Two gateways' files, with records, for a database of the version before."""
    fleet = Fleet(tmp_path, url_of(cluster().before()))
    write_key(tmp_path / "gateway.key", make_key("gateway", "mail", 1))
    file = tmp_path / "accredit.toml"
    file.write_text(f'{file.read_text()}[attest]\nmode = "durable"\nkey_file = "gateway.key"\n')
    return fleet


async def ready(port: int) -> dict[str, Any]:
    async with RawClient(port) as client:
        await client.send(b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        return json.loads((await client.answer()).body)


async def test_gateways_run_on_the_tables_of_the_version_before__and_lose_no_call_while_these_are_changed(
    gateways: Fleet,
) -> None:
    folder = gateways.folder
    store = ("--config", "accredit.toml")

    reading = Reading()
    async with RawServer(reading) as server:
        file = folder / "accredit.toml"
        file.write_text(file.read_text().replace("http://127.0.0.1:9/mcp", server.url))
        with contextlib.ExitStack() as stack:
            both = [stack.enter_context(await asyncio.to_thread(gateways.serving().__enter__)) for _ in "12"]
            answered, over = 0, asyncio.Event()

            async def calls(gateway: Serving, name: str) -> None:
                nonlocal answered
                number = 0
                while not over.is_set():
                    told = await said(gateway.port, gateways.call(f"mail://{name}/{number}"))
                    assert "result" in told, told
                    answered, number = answered + 1, number + 1

            async with asyncio.timeout(120), asyncio.TaskGroup() as group:
                for number in range(AT_ONCE):
                    group.create_task(calls(both[number % 2], str(number)))
                while answered < BEFORE:
                    await asyncio.sleep(0.01)
                assert [(await ready(each.port))["schema"] for each in both] == [False, False]
                told = await asyncio.to_thread(accredit, "store", "status", *store, folder=folder)
                assert (told.returncode, "gateways of this version run on it" in told.stdout) == (1, True)
                migrated = await asyncio.to_thread(accredit, "store", "migrate", *store, folder=folder)
                assert migrated.returncode == 0, migrated.stderr
                then = answered
                while answered < then + BEFORE or "schema" in await ready(both[0].port):
                    await asyncio.sleep(0.05)
                over.set()
            assert len(reading.called) == answered
            for each in both:
                each.stop()
                assert await asyncio.to_thread(each.wait) == 0
                for line in each.stderr.splitlines():
                    json.loads(line)  # no line of another form, also from the processes that write the log
    verified = await asyncio.to_thread(accredit, "log", "verify", *store, "--key", "gateway.key.pub", folder=folder)
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_a_migration_that_waits_for_a_table_in_vain_changes_nothing_and_says_so() -> None:
    database = cluster().before()
    held = ("BEGIN", "LOCK TABLE accredit_schema IN SHARE MODE", "SELECT pg_sleep(600)")
    with ThreadPoolExecutor(1) as threads:
        dumping = threads.submit(cluster().run, *held, database=database.database)
        holder = cluster().wait_for(f"datname = '{database.database}' AND wait_event = 'PgSleep'")
        done = accredit("store", "migrate", "--store", url_of(database), folder=Path.cwd())
        cluster().run(f"SELECT pg_terminate_backend({holder})")
        dumping.exception()
    assert (done.returncode, "nothing is changed: try again" in done.stderr) == (2, True), done.stderr
    assert status(database).found == VERSION - 1


def test_what_is_newer_or_older_than_that_is_refused_at_the_start__with_what_to_do(gateways: Fleet) -> None:
    (url,) = [line for line in (gateways.folder / "accredit.toml").read_text().splitlines() if line.startswith("url")][
        1:
    ]
    name = url.partition("@/")[2].partition("?")[0]
    for version, remedy in ((VERSION + 1, "install the accredit"), (VERSION - 2, "accredit store migrate")):
        cluster().run(f"UPDATE accredit_schema SET version = {version}", database=name)
        done = accredit("serve", "--port", "0", "--config", "accredit.toml", folder=gateways.folder)
        assert (done.returncode, f"schema {version}" in done.stderr, remedy in done.stderr) == (2, True, True)


def on_a_file(folder: Path, upstream: str = "http://127.0.0.1:9/mcp") -> Fleet:
    fleet = Fleet(folder, "sqlite:///accredit.db", upstream)
    file = folder / "accredit.toml"
    file.write_text(file.read_text().replace('replicas = "none"\npassword = { file = "password" }\n', ""))
    return fleet


def test_a_file_of_a_newer_version_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    fleet = on_a_file(tmp_path)
    with closing(sqlite3.connect(tmp_path / "accredit.db")) as newer:
        newer.execute("PRAGMA journal_mode = WAL")
        newer.execute("CREATE TABLE revocations (issuer_id TEXT, version INTEGER, list BLOB)")
        newer.execute("CREATE TABLE of_tomorrow (x)")
        newer.execute(f"PRAGMA user_version = {len(SCHEMA) + 1}")
    done = accredit("serve", "--port", "0", "--config", "accredit.toml", folder=fleet.folder)
    assert (done.returncode, "newer accredit" in done.stderr) == (2, True), done.stderr
    with closing(sqlite3.connect(tmp_path / "accredit.db")) as kept:
        assert kept.execute("PRAGMA user_version").fetchone() == (len(SCHEMA) + 1,)


@pytest.mark.parametrize("lacks", ["its newest tables", "the memory of lists", "all tables"])
def test_who_only_checks_the_configuration_leaves_a_file_of_the_version_before_as_it_is(
    tmp_path: Path, lacks: str
) -> None:
    fleet = on_a_file(tmp_path)
    steps = {"its newest tables": len(SCHEMA) - 1, "the memory of lists": 9, "all tables": 0}[lacks]
    with closing(sqlite3.connect(tmp_path / "accredit.db")) as older:
        older.execute("PRAGMA journal_mode = WAL")
        for step in SCHEMA[:steps]:
            for statement in step:
                older.execute(statement)
        older.execute(f"PRAGMA user_version = {steps}")
    checked = accredit("config", "check", "--config", "accredit.toml", folder=fleet.folder)
    assert checked.returncode == 0, checked.stderr
    with closing(sqlite3.connect(tmp_path / "accredit.db")) as kept:
        assert kept.execute("PRAGMA user_version").fetchone() == (steps,)


async def test_a_gateway_refuses_calls_once_a_newer_version_has_opened_its_file__whose_revocations_it_would_miss(
    tmp_path: Path,
) -> None:
    reading = Reading()
    async with RawServer(reading) as server:
        fleet = on_a_file(tmp_path, server.url)
        with await asyncio.to_thread(fleet.serving().__enter__) as gateway:
            assert "result" in await said(gateway.port, fleet.call("mail://before"))
            with closing(sqlite3.connect(tmp_path / "accredit.db")) as newer:
                newer.execute(f"PRAGMA user_version = {len(SCHEMA) + 1}")
            async with asyncio.timeout(60):
                number = 0
                while "result" in (answer := await said(gateway.port, fleet.call(f"mail://{number}"))):
                    number += 1
                while (await ready(gateway.port))["store"]:
                    await asyncio.sleep(0.05)
            assert answer["error"]["code"] == -31003
            forwarded = len(reading.called)
            assert "error" in await said(gateway.port, fleet.call("mail://after"))
            assert len(reading.called) == forwarded
            assert "newer accredit" in gateway.stderr
