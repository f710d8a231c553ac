"""`accredit log` on a database that gateways write: the real commands, a real PostgreSQL."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.integration.test_log_follow import Following
from tests.integration.test_postgres_gateways import Fleet, url_of
from tests.world.command import accredit
from tests.world.logs import Log, by_database_thread
from tests.world.postgres import a_user, cluster, database_for
from tests.world.records import DENY, OK, allowed_by_a_person, decided
from tests.world.running import run

from accredit.attest import CallDecision
from accredit.keys import log_signer, make_key, write_key
from accredit.stores import PostgresDatabase
from accredit.stores.postgres.schema import VERSION

pytestmark = [
    pytest.mark.slow,
    pytest.mark.holds("cli/commands/config"),
    pytest.mark.holds("ops/log_list"),
    pytest.mark.holds("ops/log_place"),
    pytest.mark.holds("stores/postgres/log_reader"),
    pytest.mark.holds("stores/postgres/log_pruning"),
]

KEY = make_key("gateway", "Mail gateway", 1_800_000_000)
COMMANDS = (
    ("list",),
    ("list", "-f"),
    ("show", "ab" * 16),
    ("verify", "--key", "gateway.key.pub"),
    ("export",),
    ("export", "--call", "ab" * 16),
    ("checkpoint",),
    ("prune", "--before", "1d", "--key", "gateway.key"),
)


@pytest.fixture(autouse=True)
def in_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Log, "executors", staticmethod(by_database_thread))


class Kept(NamedTuple):
    """A folder with the gateway's key, its database, and calls: one that ended, one that was refused, one that is
    open."""

    folder: Path
    database: PostgresDatabase
    done: CallDecision
    refused: CallDecision
    open: CallDecision

    def log(self, command: str, *arguments: str, code: int = 0, user: str | None = None) -> str:
        """What `accredit log ...` writes to stdout, or to stderr if it fails."""
        store = url_of(self.database if user is None else cluster().named(self.database.database, user))
        done = accredit("log", command, *arguments, "--store", store, folder=self.folder)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr if code else done.stdout


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    write_key(tmp_path / "gateway.key", KEY)
    calls = allowed_by_a_person(), decided(decision=DENY), decided("list_inbox")

    async def main() -> None:
        signer = log_signer(KEY)
        async with Log(tmp_path / "accredit.db", signer=signer) as first:
            for call in calls[:2]:
                await first.port.begin(call)
            await first.port.finish(calls[0], OK)
        second = Log(tmp_path / "accredit.db", signer=signer)
        await second.port.begin(calls[2])
        await second.die()

    with database_for(tmp_path) as database:
        cluster().renew(database)
        run(main())
        yield Kept(tmp_path, database, *calls)


def test_every_command_reads_a_database(kept: Kept) -> None:
    listed = [json.loads(line) for line in kept.log("list", "--json").splitlines()]
    assert [each["call"] for each in listed] == [kept.open.call.id, kept.refused.call.id, kept.done.call.id]
    assert [each["outcome"] for each in listed] == ["open", None, "ok"]
    assert kept.open.call.id in kept.log("list", "--outcome", "open", "--agent", "bbbb")
    shown = kept.log("show", kept.done.call.id[:10], "--key", "gateway.key.pub")
    assert shown.index("decision ") < shown.index("outcome ")
    assert shown.split().count("good") == 2
    kept.log("show", "ab" * 16, code=1)

    (checkpoint,) = kept.log("checkpoint").splitlines()
    (kept.folder / "kept.checkpoint").write_text(checkpoint)
    verify = ("verify", "--key", "gateway.key.pub", "--since", "kept.checkpoint")
    assert "ok: 4 records of 2 writers verify" in kept.log(*verify)

    kept.log("export", "--out", "all.jsonl")
    kept.log("export", "--call", kept.done.call.id, "--bundle", "--out", "call.json")
    for file in ("all.jsonl", "call.json"):
        done = accredit("log", "verify", file, "--key", "gateway.key.pub", folder=kept.folder)
        assert done.returncode == 0, done.stdout
    bundle = json.loads((kept.folder / "call.json").read_text())
    assert len(bundle["envelopes"]) == 2
    assert bundle["certificates"]
    assert bundle["checkpoint"]

    assert json.loads(kept.log("prune", "--before", "2100-01-01T00:00:00Z", "--key", "gateway.key", "--json")) == {
        "pruned": 3,
        "overwritten": True,
        "before": "2100-01-01T00:00:00.000Z",
    }
    report = json.loads(kept.log(*verify, "--json"))
    assert (report["valid"], report["records"], report["pruned"], report["kept_checkpoints"]) == (True, 4, 3, 1)
    assert kept.log("list", "--json").count("\n") == 1  # the open one

    cluster().run("UPDATE log_entries SET ed25519 = '' WHERE kind = 0", database=kept.database.database)
    assert "BAD: " in accredit("log", *verify, "--store", url_of(kept.database), folder=kept.folder).stdout
    cluster().run("TRUNCATE log_entries, log_writers, log_pruned", database=kept.database.database)
    assert "it was there" in accredit("log", *verify, "--store", url_of(kept.database), folder=kept.folder).stdout


def test_the_log_is_the_one_of_the_configuration(kept: Kept) -> None:
    Fleet(kept.folder, url_of(kept.database))
    done = accredit("log", "verify", "--config", "accredit.toml", folder=kept.folder)
    assert done.returncode == 0, done.stderr
    assert "4 records" in done.stdout
    assert kept.refused.call.id in accredit("log", "list", "--json", folder=kept.folder).stdout


def test_a_gateways_role_may_read_and_not_prune(kept: Kept) -> None:
    user = a_user("IN ROLE accredit_gateway")
    assert "ok: 4 records" in kept.log("verify", "--key", "gateway.key.pub", user=user)
    told = kept.log("prune", "--before", "1s", "--key", "gateway.key", user=user, code=2)
    assert "needs one of accredit_admin" in told
    stranger = kept.log("list", user=a_user(), code=2)
    assert "42501" in stranger
    assert len(stranger.splitlines()) == 2


async def test_a_log_is_pruned_and_verified_while_a_gateway_writes_it(kept: Kept) -> None:
    """Each record is in its chain, pruned or not, though all of today is pruned again and again."""
    prune = ("prune", "--before", "2100-01-01T00:00:00Z", "--key", "gateway.key")

    async def prune_thrice() -> set[int]:
        store = ("--store", url_of(kept.database))
        done = [await asyncio.to_thread(accredit, "log", *prune, *store, folder=kept.folder) for _ in range(3)]
        for each in done:
            assert "Traceback" not in each.stderr
        return {each.returncode for each in done}

    written: list[int] = []
    async with Log(kept.folder / "accredit.db", signer=log_signer(KEY)) as log:
        pruning = asyncio.create_task(prune_thrice())
        while not pruning.done():
            await log.call()
            written.append(2)
        assert pruning.result() <= {0, 1}
    kept.log(*prune)
    report = json.loads(kept.log("verify", "--key", "gateway.key.pub", "--json"))
    assert report["valid"], report["fault"]
    assert report["records"] >= 4 + sum(written)  # the call that was left open is closed, too
    assert report["pruned"] >= sum(written)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_database_that_is_not_there__has_no_tables__or_others__is_said_in_two_lines(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    write_key(tmp_path / "gateway.key", KEY)
    other = cluster().fresh()
    cluster().run(f"UPDATE accredit_schema SET version = {VERSION + 1}", database=other.database)
    stores = {
        "postgresql://u@/db?host=/nowhere": "try again",
        url_of(cluster().named("no_such_database")): "try again",
        url_of(cluster().empty()): "store migrate",
        url_of(other): "store migrate",
    }
    for store, remedy in stores.items():
        done = accredit("log", *command, "--store", store, folder=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert len(done.stderr.splitlines()) == 2
        assert remedy in done.stderr


async def test_a_database_is_followed__whichever_gateway_writes__and_over_a_connection_that_was_lost(
    tmp_path: Path,
) -> None:
    with database_for(tmp_path) as database:
        cluster().renew(database)
        path = tmp_path / "accredit.db"
        async with Log(path) as first, Log(path) as second:
            slow = await first.call(outcome=None)
            before = [await first.call(), await second.call()]
            async with Following(url_of(database)) as following:
                assert [await following.next(), await following.next()] == [each.call.id for each in before]
                for log in (first, second, first):
                    new = await log.call()
                    assert await following.next() == new.call.id
                # The one that follows keeps no older state alive, and comes back when its connection is gone.
                await asyncio.to_thread(cut_off_readers)
                assert "waiting for the log" in await following.note()
                await first.port.finish(slow, OK)
                assert await following.next() == slow.call.id


def cut_off_readers() -> None:
    """Ends the server's processes for who reads a log: they are idle between two looks, and write nothing."""
    reader = cluster().wait_for("query = 'ROLLBACK' AND state = 'idle'")
    cluster().run(f"SELECT pg_terminate_backend({reader})")
