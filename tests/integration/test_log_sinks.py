"""`accredit log follow`, the real command: what is recorded comes to its sink, whoever is killed or fails meanwhile."""

import fcntl
import json
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from base64 import b64decode
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NoReturn

import pytest
from tests.integration.test_admin import admin_port, get, number
from tests.integration.test_postgres_gateways import url_of
from tests.world.command import Serving, accredit, environment, wait_until
from tests.world.logs import Log, by_database_thread, by_thread, disconnecting
from tests.world.measured import collecting
from tests.world.postgres import a_user, cluster, database_for
from tests.world.raw_server import PATIENCE
from tests.world.records import NOW_MS, gateway
from tests.world.running import run
from tests.world.small_disk import SmallDisk
from tests.world.warm import Warm

from accredit.attest import LogSigner, timestamp, verify_log
from accredit.errors import CollectorError
from accredit.keys import log_signer, make_key, write_key
from accredit.ops import log_sinks
from accredit.stores import InMemory, PostgresDatabase, parse_store_url

pytestmark = [
    pytest.mark.slow,
    pytest.mark.holds("ops/log_follow"),
    pytest.mark.holds("ops/log_sinks"),
    pytest.mark.holds("telemetry/log_records"),
    pytest.mark.holds("stores/audit_log/shipping"),
    pytest.mark.holds("stores/audit_log/file_sink"),
    pytest.mark.holds("stores/postgres/log_sink"),
]

Place = tuple[int, str, str]


class Store:
    """A folder, and the log in it or in the database that stands for it."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url
        self.file = folder / "calls.jsonl"
        self.path = folder / "accredit.db"

    def follow(self, *arguments: str, sink: str = "siem") -> "Warm":
        """The command; by default to the file."""
        command = self.following(*arguments, sink=sink)
        return Warm(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def following(self, *arguments: str, sink: str = "siem") -> list[str]:
        """What is typed for that."""
        to = arguments or ("--format", "jsonl", "--to", str(self.file))
        return [sys.executable, "-m", "accredit", "log", "follow", "--sink", sink, "--store", self.url, *to]

    def calls(self, number: int, signer: LogSigner | None = None) -> None:
        async def main() -> None:
            async with Log(self.path, signer=signer) as log:
                for _ in range(number):
                    await log.call()

        run(main())

    def export(self) -> set[bytes]:
        done = accredit("log", "export", "--store", self.url, folder=self.folder)
        return set(done.stdout.encode().splitlines())

    def lines(self) -> list[bytes]:
        return self.file.read_bytes().splitlines() if self.file.exists() else []

    def has_all(self) -> bool:
        return self.export() <= set(self.lines())


@pytest.fixture(params=["file", "database"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    with ExitStack() as stack:
        if request.param == "file":
            monkeypatch.setattr(Log, "executors", staticmethod(by_thread))
            yield Store(tmp_path, f"sqlite:///{tmp_path}/accredit.db")
        else:
            monkeypatch.setattr(Log, "executors", staticmethod(by_database_thread))
            yield Store(tmp_path, url_of(stack.enter_context(database_for(tmp_path))))


def ended(process: Any) -> tuple[int, str]:
    """Ends it as an orchestrator does: its exit code, and what it said."""
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=PATIENCE)
    return process.returncode, said.decode()


def chain_places(lines: list[bytes]) -> dict[str, list[int]]:
    """The sequences of the records, by writer, in the order in which they came."""
    found: dict[str, list[int]] = {}
    for line in lines:
        predicate = json.loads(b64decode(json.loads(line)["payload"]))["predicate"]
        if "log" in predicate:
            found.setdefault(predicate["log"]["writer"], []).append(predicate["log"]["sequence"])
    return found


def test_what_was_and_what_comes_is_sent__and_a_new_start_goes_on_there(store: Store) -> None:
    store.calls(5)
    process = store.follow()
    wait_until(store.has_all)
    store.calls(3)
    wait_until(store.has_all)
    assert ended(process) == (0, "")
    before = store.lines()
    assert len(before) == len(set(before))
    report = verify_log(before, [gateway()[1]])
    assert (report.valid, report.records) == (True, 16), report.fault
    store.calls(2)
    process = store.follow()
    wait_until(store.has_all)
    assert ended(process) == (0, "")
    assert store.lines()[: len(before)] == before
    assert len(store.lines()) == len(set(store.lines()))  # nobody was killed, so nothing came twice
    for places in chain_places(store.lines()).values():
        assert places == sorted(places)


@pytest.mark.timeout(120)
def test_whoever_is_killed_at_any_moment__each_entry_is_in_the_file__in_its_chains_order(store: Store) -> None:
    chance = random.Random(11)
    writer = Warm(
        [sys.executable, "-m", "tests.world.record_writer", _place(store), str(NOW_MS)], stdout=subprocess.PIPE
    )
    assert writer.stdout is not None
    try:
        for _ in range(12):
            process = store.follow()
            for _ in range(chance.randrange(1, 400)):
                writer.stdout.readline()
            process.kill()
            process.communicate()
            if chance.random() < 0.5:  # what a machine that loses its power leaves
                with store.file.open("ab") as file:
                    file.write(b'{"payload":"torn')
    finally:
        writer.kill()
        writer.communicate()
    process = store.follow()
    wait_until(store.has_all)
    assert ended(process)[0] == 0
    assert {*store.lines()} == store.export()
    for places in chain_places(store.lines()).values():
        assert list(dict.fromkeys(places)) == list(range(1, max(places) + 1))


def _place(store: Store) -> str:
    return str(store.path) if store.url.startswith("sqlite") else store.url


def test_a_sink_is_followed_once__and_another_one_goes_its_own_way(store: Store) -> None:
    store.calls(1)
    first = store.follow()
    wait_until(store.has_all)
    second = store.follow()
    assert b"siem is followed by another process" in second.communicate(timeout=PATIENCE)[1]
    assert second.returncode == 2
    other = store.follow("--format", "jsonl", sink="other")
    assert other.stdout is not None
    assert {other.stdout.readline().rstrip() for _ in store.export()} == store.export()
    assert ended(other)[0] == ended(first)[0] == 0


def test_a_collector_that_fails_gets_it_when_it_is_back(store: Store) -> None:
    store.calls(3)
    with collecting() as collector:
        collector.status = 503
        process = store.follow("--format", "otlp", "--to", collector.url)
        assert process.stderr is not None
        assert b"siem takes nothing, and is tried again: status 503" in process.stderr.readline()
        store.calls(2)
        collector.status = 200
        wait_until(lambda: store.export() <= bodies(collector))
        assert ended(process)[0] == 0
        records = [each for each in taken(collector) if each.event_name == "accredit.record"]
        facts = {each.key: each.value for each in records[0].attributes}
        assert facts["accredit.log.sequence"].int_value == 1
        assert facts["accredit.decision.verdict"].string_value == "allow"


@pytest.mark.parametrize("path", ["", "/v1/logs"])
def test_without_a_url_it_goes_to_the_configurations_collector(path: str, tmp_path: Path) -> None:
    Store(tmp_path, f"sqlite:///{tmp_path}/accredit.db").calls(1)
    with collecting() as collector:
        configuration = f'[telemetry]\nendpoint = "{collector.url}{path}"\n[store]\nurl = "sqlite:///accredit.db"\n'
        (tmp_path / "accredit.toml").write_text(configuration, "utf-8")
        command = [sys.executable, "-m", "accredit", "log", "follow", "--sink", "siem", "--format", "otlp"]
        config = ["--config", str(tmp_path / "accredit.toml")]
        process = Warm([*command, *config], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_until(lambda: bool(taken(collector)))
        assert ended(process)[0] == 0


def test_whoever_ends_it_waits_for_no_name_server_that_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()

    def silent(*_: object, **__: object) -> NoReturn:
        answers.wait()
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", silent)
    monkeypatch.setattr(log_sinks, "EXPORT_SECONDS", 0.05)
    try:
        with log_sinks.CollectorLogs("http://collector.invalid:4318") as to, pytest.raises(CollectorError):
            to.take(())
        assert [each for each in threading.enumerate() if each.name == "accredit-telemetry-lookup" and each.daemon]
    finally:
        answers.set()


def test_what_a_collector_rejects_for_good_is_told__and_what_comes_after_it_is_sent(store: Store) -> None:
    store.calls(3)
    with collecting() as collector:
        collector.rejects = 2
        process = store.follow("--format", "otlp", "--to", collector.url)
        assert process.stderr is not None
        assert b"note: 2 of the entries sent were rejected" in process.stderr.readline()
        collector.rejects = 0
        store.calls(1)
        wait_until(lambda: store.export() <= bodies(collector))
        assert ended(process) == (0, "")
        assert len(taken(collector)) == len(bodies(collector))  # OTLP: it must not be sent again


def test_how_far_behind_a_sink_is__is_known_where_nobody_follows(store: Store) -> None:
    store.calls(2)
    process = store.follow()
    wait_until(lambda: lag(store) == 0)
    assert store.has_all()
    assert ended(process)[0] == 0
    assert lag(store) == 0
    store.calls(2)
    assert lag(store) >= 4
    ahead(store)
    assert lag(store) >= 8  # all of it will be sent: no alert may be silent


def ahead(store: Store) -> None:
    """Have the sink have more than there is, as after a log that has lost its end."""
    url = parse_store_url(store.url, store.folder)
    if isinstance(url, PostgresDatabase):
        cluster().run("UPDATE log_sinks SET record = 1000000", database=url.database)
        return
    with closing(sqlite3.connect(store.path)) as database:
        database.execute("REPLACE INTO log_sinks VALUES ('siem', 1000000)")
        database.commit()


def lag(store: Store) -> int:
    """How far behind the sink is; -1 before it has anything."""
    url = parse_store_url(store.url, store.folder)
    assert not isinstance(url, InMemory)
    log = url.open_log()
    try:
        log.renew()
        return log.behind("siem") if log.sinks() == ["siem"] else -1
    finally:
        log.close()


def test_the_metrics_of_a_gateway_say_how_far_behind_a_sink_is(tmp_path: Path) -> None:
    store = Store(tmp_path, f"sqlite:///{tmp_path}/accredit.db")
    store.calls(1)
    process = store.follow()
    wait_until(lambda: lag(store) == 0)
    ended(process)
    store.calls(3)
    write_key(tmp_path / "gateway.key", make_key("gateway", "Mail gateway", 1_800_000_000))
    (tmp_path / "accredit.toml").write_text(
        f'[upstream]\nurl = "http://127.0.0.1:1/mcp"\n[admin]\nport = 0\n[store]\nurl = "{store.url}"\n'
        '[attest]\nmode = "durable"\nkey_file = "gateway.key"\n'
    )
    with Serving("--config", "accredit.toml", folder=tmp_path) as gateway:
        port = admin_port(gateway)
        wait_until(lambda: number(get(port, "/metrics")[1], 'accredit_sink_lag_records{sink="siem"}') >= 6)


def taken(collector: Any) -> list[Any]:
    found = (scope.log_records for each in collector.logs for of in each.resource_logs for scope in of.scope_logs)
    return [record for records in found for record in records]


def bodies(collector: Any) -> set[bytes]:
    return {each.body.string_value.encode() for each in taken(collector)}


def test_records_that_were_pruned_before_they_were_sent_are_counted(store: Store) -> None:
    key = make_key("gateway", "Mail gateway", 1_800_000_000)
    write_key(store.folder / "gateway.key", key)
    store.calls(3, log_signer(key))
    prune = ("--before", timestamp(NOW_MS + 1_000), "--key", "gateway.key")
    accredit("log", "prune", *prune, "--store", store.url, folder=store.folder)
    store.calls(1, log_signer(key))
    process = store.follow()
    wait_until(store.has_all)
    code, said = ended(process)
    assert (code, said) == (0, "note: 6 records had been pruned before siem got them\n")


def test_a_file_that_was_moved_away_is_made_anew(store: Store) -> None:
    store.calls(1)
    process = store.follow()
    wait_until(store.has_all)
    moved = store.file.rename(store.folder / "calls.jsonl.1")
    before = set(moved.read_bytes().splitlines())
    store.calls(1)
    wait_until(lambda: store.export() <= before | set(store.lines()))
    assert ended(process)[0] == 0
    assert set(store.lines()).isdisjoint(before)
    assert store.file.stat().st_mode & 0o777 == 0o600


def test_a_disk_that_is_full_tears_no_line_and_loses_none(tmp_path: Path) -> None:
    store = Store(tmp_path, f"sqlite:///{tmp_path}/accredit.db")
    store.calls(8)
    with SmallDisk(tmp_path, 1) as disk:
        disk.fill(but=2)  # so it ends in the midst of a line
        to = ("--format", "jsonl", "--to", str(disk.path / "calls.jsonl"))
        process = Warm([*disk.within, *store.following(*to)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stderr is not None
        assert b"siem takes nothing, and is tried again: No space left on device" in process.stderr.readline()
        disk.make_room()
        store.file = Path(f"/proc/{process.pid}/root{disk.path}/calls.jsonl")
        wait_until(store.has_all)
        assert len(store.lines()) == len(store.export())
        assert ended(process)[0] == 0


def test_a_file_that_was_copied_and_emptied_gets_what_comes_then(store: Store) -> None:
    store.calls(1)
    process = store.follow()
    wait_until(store.has_all)
    before = set(store.lines())
    os.truncate(store.file, 0)  # logrotate's copytruncate
    store.calls(1)
    wait_until(lambda: store.export() <= before | set(store.lines()))
    assert ended(process)[0] == 0
    assert set(store.lines()).isdisjoint(before)


def test_two_sinks_that_have_one_file_mix_no_lines(tmp_path: Path) -> None:
    store = Store(tmp_path, f"sqlite:///{tmp_path}/accredit.db")
    store.calls(50)
    both = [store.follow(sink=name) for name in ("one", "other")]
    wait_until(lambda: len(store.lines()) == 2 * len(store.export()))
    for process in both:
        assert ended(process)[0] == 0
    assert {*store.lines()} == store.export()


def test_a_file_that_another_sink_writes_to_at_the_start_is_waited_for(tmp_path: Path) -> None:
    store = Store(tmp_path, f"sqlite:///{tmp_path}/accredit.db")
    store.calls(2)
    store.file.touch()
    with store.file.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        process = store.follow()
        assert process.stderr is not None
        assert b"siem takes nothing" in process.stderr.readline()
    wait_until(store.has_all)
    assert ended(process)[0] == 0


def test_a_place_beyond_the_end_of_the_log_is_told__and_all_is_sent(tmp_path: Path) -> None:
    store = Store(tmp_path, f"sqlite:///{tmp_path}/accredit.db")
    store.calls(2)
    ahead(store)
    process = store.follow()
    wait_until(store.has_all)
    assert "has lost entries, and is sent from its beginning" in ended(process)[1]


def test_a_gateways_user_may_follow__and_goes_on_after_its_connections_were_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Log, "executors", staticmethod(by_database_thread))
    with database_for(tmp_path) as database:
        user = a_user("IN ROLE accredit_gateway")
        store = Store(tmp_path, url_of(database))
        mine = Store(tmp_path, url_of(cluster().named(database.database, user)))
        store.calls(2)
        process = mine.follow()
        wait_until(store.has_all)
        for _ in range(3):
            cluster().run(*disconnecting(database))
            store.calls(2)
            wait_until(store.has_all)
        assert ended(process)[0] == 0


def test_a_log_that_took_the_place_of_another_is_sent_from_its_beginning__and_a_note_says_so(tmp_path: Path) -> None:
    store = Store(tmp_path, f"sqlite:///{tmp_path}/accredit.db")
    store.calls(4)
    process = store.follow()
    wait_until(store.has_all)
    for name in ("accredit.db", "accredit.db-wal", "accredit.db-shm"):
        if (tmp_path / name).exists():
            (tmp_path / name).rename(tmp_path / f"old-{name}")
    store.calls(1)
    wait_until(store.has_all)
    assert "is another log now" in ended(process)[1]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--sink", "a/../b", "--format", "jsonl"), "not a name"),
        (("--sink", "a", "--format", "otlp"), "needs a URL"),
        (("--sink", "a", "--format", "otlp", "--to", "calls.jsonl"), "needs a URL"),
        (("--sink", "a", "--format", "otlp", "--to", "http://me:pw@127.0.0.1:1"), "a user name or password"),
        (("--sink", "a", "--format", "jsonl", "--to", "http://127.0.0.1:1"), "lines go to a file"),
        (("--sink", "a", "--format", "jsonl", "--to", "pipe"), "can't write pipe"),
        (("--sink", "a", "--format", "jsonl", "--to", "link"), "can't write link"),
        (("--sink", "a", "--format", "jsonl", "--to", "no/file"), "can't write no/file"),
        (("--sink", "a", "--format", "jsonl", "--to", "accredit.db"), "it is no file of envelopes"),
    ],
)
def test_what_can_be_no_sink_is_refused_at_once(arguments: tuple[str, ...], problem: str, tmp_path: Path) -> None:
    store = Store(tmp_path, f"sqlite:///{tmp_path}/accredit.db")
    store.calls(1)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    done = accredit("log", "follow", *arguments, "--store", store.url, folder=tmp_path)
    assert (done.returncode, problem in done.stderr) == (2, True)
    assert not (tmp_path / "target").exists()


def test_what_is_no_log_is_not_made_into_one(tmp_path: Path) -> None:
    done = accredit("log", "follow", "--sink", "a", "--format", "jsonl", "--store", "sqlite:///no.db", folder=tmp_path)
    assert done.returncode == 2
    assert not list(tmp_path.iterdir())
