"""The process that writes a log: it goes on where it was, is never waited for too long, and gives nothing away."""

import asyncio
import fcntl
import os
import resource
import signal
import socket
import sqlite3
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from threading import Thread

import pytest
from msgspec.structs import replace
from tests.world.children import children
from tests.world.logs import Log, by_process, in_short, records_in
from tests.world.recorded import verified
from tests.world.records import GATEWAY, OK, decided, gateway

from accredit.attest import RecordSigner
from accredit.errors import AttestationError, StoreUnavailable
from accredit.stores.audit_log import process as log_process
from accredit.stores.audit_log import writer_main as log_writer
from accredit.stores.audit_log.places import FileLock, FileLog
from accredit.stores.audit_log.process import LENGTH, NOT_OK, LogProcess, WriterSetup, encode_opening, encode_request
from accredit.stores.audit_log.process import OK as DONE
from accredit.stores.audit_log.requests import Begin, CheckWritable, End

pytestmark = [pytest.mark.slow, pytest.mark.holds("stores/audit_log/writer_main")]

SIGNER, KEY = gateway()
OPENING = WriterSetup(FileLog(Path("/nowhere")), SIGNER.id, SIGNER.ed25519, SIGNER.ml_dsa_65)
WRITER = "ab" * 16


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(Log, "executors", staticmethod(by_process))
    return tmp_path / "accredit.db"


def writing() -> int:
    """The process that writes."""
    (found,) = children()
    return found


async def until_it_is_back(log: Log) -> bool:
    """Waits until records can be written."""
    async with asyncio.timeout(30):
        while True:
            with suppress(StoreUnavailable):
                await log.call()
                return True
            await asyncio.sleep(0.01)


async def refused(log: Log) -> None:
    with pytest.raises(StoreUnavailable):
        await log.call()


@pytest.mark.slow
async def test_a_process_that_was_killed_is_replaced__and_the_chain_goes_on(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_process, "RESTART_SECONDS", 0)

    async with Log(path) as each:
        await each.call()
        killed = writing()
        os.kill(killed, signal.SIGSTOP)
        waiting = asyncio.create_task(each.call())
        await asyncio.sleep(0)
        os.kill(killed, signal.SIGKILL)
        with pytest.raises(StoreUnavailable, match="has ended"):
            await waiting
        assert each.port.problem() is not None
        await each.call()
        assert writing() != killed
        assert each.port.problem() is None
    report = verified(path)
    assert report.valid
    assert len(report.writers) == 1
    assert [status for _, status in in_short(records_in(path))].count("ok") == 2


async def test_that_a_process_was_replaced_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_process, "RESTART_SECONDS", 0)
    told = list[int | None]()

    process = LogProcess(FileLog(path, gateway=GATEWAY), SIGNER, on_replaced=told.append)
    await process.run(Begin(WRITER))
    os.kill(writing(), signal.SIGKILL)
    for _ in range(2):  # the first one may still be asked of the dead one
        with suppress(StoreUnavailable):
            await process.run(CheckWritable(WRITER))
    await process.run(End(WRITER, WRITER))
    os.kill(writing(), signal.SIGKILL)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await process.run(CheckWritable(WRITER))
    await process.aclose()
    assert told == [-signal.SIGKILL] * 2  # once for each


class Clock:
    """The machine's, put forward."""

    ahead = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead


@pytest.mark.slow
async def test_a_process_that_ends_at_once_is_not_started_all_the_time(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, long = Clock(), 600.0  # a machine that stalls may take longer than `RESTART_SECONDS` to start one
    monkeypatch.setattr(log_process, "RESTART_SECONDS", long)
    monkeypatch.setattr(log_process, "time", clock)

    async with Log(path) as each:
        await each.call()
        os.kill(writing(), signal.SIGKILL)
        await refused(each)
        await refused(each)
        assert len(each.problems) == 1
        assert "has ended" in each.problems[0]
        clock.ahead = long
        assert await until_it_is_back(each)
    assert verified(path).valid


async def test_a_process_that_hangs_is_not_waited_for__and_its_late_answers_are_nobody_elses(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Log(path) as each:
        await each.call()
        os.kill(writing(), signal.SIGSTOP)
        monkeypatch.setattr(log_process, "STORE_WAIT_SECONDS", 0.05)
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match=r"not answered in 0\.05 s"):
                await each.port.begin(decided())
        monkeypatch.undo()
        os.kill(writing(), signal.SIGCONT)
        last = await each.call()
        assert await each.port.ready() in (True, False)
        assert in_short(records_in(path))[-1] == (last.call.id, "ok")
    found = [status for _, status in in_short(records_in(path))]
    assert found.count("ok") == 2
    assert found.count("decision") - 2 == found.count("error")  # what was written late was not forwarded
    assert verified(path).valid


async def test_a_process_that_hangs_at_the_end_is_killed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Log(path) as each:
        await each.call()
        os.kill(writing(), signal.SIGSTOP)
        monkeypatch.setattr(log_process, "STORE_WAIT_SECONDS", 0.05)
    monkeypatch.undo()


def test_a_request_that_nobody_waits_for_any_more_is_not_done(tmp_path: Path) -> None:
    path = tmp_path / "accredit.db"
    ours, theirs = socket.socketpair()
    thread = Thread(target=log_writer.main, args=(theirs.detach(),))
    thread.start()
    with ours:
        ours.sendall(encode_opening(replace(OPENING, place=FileLog(path, gateway=GATEWAY))))
        ours.sendall(encode_request(Begin(WRITER), time.monotonic() - 1))
        ours.sendall(encode_request(CheckWritable(WRITER), time.monotonic() + 60))
        ours.sendall(b"\xff\0")  # a frame that is cut off is no request
        ours.shutdown(socket.SHUT_WR)
        received = b"".join(iter(lambda: ours.recv(4096), b""))
    thread.join()
    bodies = list[bytes]()
    while received:
        (size,) = LENGTH.unpack_from(received)
        bodies.append(received[LENGTH.size : LENGTH.size + size])
        received = received[LENGTH.size + size :]
    assert [body[:1] for body in bodies] == [DONE, NOT_OK, DONE]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM log_writers").fetchone() == (0,)


def test_a_gateway_that_is_gone_before_it_has_said_what_to_write_leaves_no_process() -> None:
    for said in (b"", b"\xff", encode_opening(OPENING)[:-1]):
        ours, theirs = socket.socketpair()
        ours.sendall(said)
        ours.close()
        log_writer.main(theirs.detach())


async def test_signals_to_the_process_group_are_the_gateways_to_hear(path: Path) -> None:
    async with Log(path) as each:
        await each.call()
        before = writing()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(before, number)
        await each.call()
        assert writing() == before
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()


async def test_the_key_is_in_no_process_list__and_no_descriptor_is_the_processes_but_its_own(path: Path) -> None:
    with socket.socket() as other:  # such as the one that the gateway listens on
        os.set_inheritable(other.fileno(), True)
        async with Log(path) as each:
            await each.call()
            process = Path(f"/proc/{writing()}")
            shown = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
            for secret in (SIGNER.ed25519, SIGNER.ml_dsa_65):
                assert secret not in shown
                assert secret.hex().encode() not in shown
            names = [os.readlink(each) for each in (process / "fd").iterdir()]
            # the gateway's, and the two with which an event loop wakes itself
            assert sum(name.startswith("socket:") for name in names) == 3
            assert f"socket:[{os.fstat(other.fileno()).st_ino}]" not in names
            assert os.readlink(process / "fd" / "1") == "/dev/null"  # stdout may be a conversation


def test_another_signer_is_not_handed_to_a_process__its_key_is_not_ours_to_tell(path: Path) -> None:
    other = RecordSigner("other", lambda message: SIGNER.record(message).signatures[0], lambda signature, message: None)
    with pytest.raises(ValueError, match="another signer"):
        LogProcess(FileLog(path, gateway=GATEWAY), replace(SIGNER, records=other))


async def test_no_process_is_a_refusal(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Log(path) as each:
        monkeypatch.setattr(sys, "executable", "/nowhere/python")
        with pytest.raises(StoreUnavailable, match="no process to write"):
            await each.call()
        monkeypatch.undo()


async def test_no_descriptor_for_a_process_is_a_refusal(path: Path) -> None:
    process = LogProcess(FileLog(path, gateway=GATEWAY), SIGNER)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + 1, hard))
    try:
        with pytest.raises(StoreUnavailable, match="Too many open files"):
            await process.run(CheckWritable(WRITER))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    await process.aclose()


async def test_a_program_that_is_not_ours_is_a_refusal(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Log(path) as each:
        monkeypatch.setattr(sys, "executable", "/bin/true")
        with pytest.raises(StoreUnavailable, match="has ended"):
            await each.call()
        monkeypatch.undo()


async def test_a_log_that_was_closed_starts_no_process(path: Path) -> None:
    each = LogProcess(FileLog(path, gateway=GATEWAY), SIGNER)
    await each.aclose()
    with pytest.raises(StoreUnavailable, match="was closed"):
        await each.run(CheckWritable(WRITER))
    each = LogProcess(FileLog(path, gateway=GATEWAY), SIGNER)
    await each.run(Begin(WRITER))
    await each.aclose()
    with pytest.raises(StoreUnavailable, match="was closed"):
        await each.run(CheckWritable(WRITER))


async def test_too_many_requests_at_once_are_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    each = LogProcess(FileLog(path, gateway=GATEWAY), SIGNER)
    await each.run(Begin(WRITER))
    os.kill(writing(), signal.SIGSTOP)
    monkeypatch.setattr(log_process, "MAX_STORE_JOBS", 3)
    asked = [each.run(CheckWritable(WRITER)) for _ in range(3)]
    with pytest.raises(StoreUnavailable, match="3 jobs are waiting"):
        await each.run(CheckWritable(WRITER))
    os.kill(writing(), signal.SIGCONT)
    await asyncio.gather(*asked)
    assert await each.run(End(WRITER, WRITER))
    await each.aclose()


async def test_a_writer_that_was_taken_for_dead_goes_on_in_another_chain__and_gives_no_answer_of_what_was_closed(
    path: Path,
) -> None:
    """Its gateway stood still, and what it was at comes after a later writer has ended its chain."""

    async with Log(path) as each:
        call, first = await each.call(None), each.records.writer
        assert isinstance(each.records._lock, FileLock)
        fcntl.flock(each.records._lock._descriptor, fcntl.LOCK_UN)
        async with Log(path) as later:
            await later.records.start()
            with pytest.raises(AttestationError, match="is not open"):
                await each.port.finish(call, OK)
            assert await each.port.ready()
            assert each.records.writer != first
            await each.call()
            assert await later.port.ready()
    assert [status for _, status in in_short(records_in(path))] == ["decision", "unknown", "decision", "ok"]
    report = verified(path)
    assert (report.valid, len(report.writers)) == (True, 3)
