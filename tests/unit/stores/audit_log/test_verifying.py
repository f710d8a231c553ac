"""A log that several processes verify has the verdict that one gives it, whatever was done to it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.world.records import Chained, gateway

from accredit.attest import Digest, Entry, Envelope, Head, Stored, encode_envelope, verify_log
from accredit.errors import AttestationError, StoreUnavailable
from accredit.stores.audit_log import verifying
from accredit.stores.audit_log.verifying import Verifiers

pytestmark = [pytest.mark.slow, pytest.mark.holds("stores/audit_log/verifying")]

KEYS = [gateway()[1]]
Log = list[Entry | Envelope | bytes | str]


def entries(*chains: list[Envelope]) -> Log:
    """The entries of chains, which take turns, with their places as a store has them."""
    return [Stored(each, "") for turn in zip(*chains, strict=True) for each in turn]


GOOD = entries(*(Chained(writer=f"{number:032x}").calls(20) for number in range(3)))


def spoiled(log: Log, place: int, how: str) -> Log:
    """The log with something done to one entry."""
    entry = log[place]
    assert isinstance(entry, Stored)
    envelope = entry.envelope
    first = envelope.signatures[0]
    change: dict[str, Log] = {
        "removed": [],
        "twice": [entry, entry],
        "another payload": [Stored(envelope._replace(payload=envelope.payload[:-1] + b" "))],
        "no statement": [Stored(envelope._replace(payload=b"{}"))],
        "another signature": [Stored(envelope._replace(signatures=(first._replace(data=bytes(64)),)))],
        "another key": [Stored(envelope._replace(signatures=(first._replace(key_id="x"),)))],
        "another place": [entry._replace(place="00/1")],
        "another kind": [entry._replace(kind="note")],
        "a digest": [Digest("0" * 32, 1, bytes(32))],
        "no envelope": [b"{"],
        "a line": [encode_envelope(envelope)],
    }
    return [*log[:place], *change[how], *log[place + 1 :]]


HOW = (
    *("removed", "twice", "another payload", "no statement", "another signature", "another key", "another place"),
    *("another kind", "a digest", "no envelope", "a line"),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 100), st.sampled_from(HOW)), max_size=2), st.integers(1, 9))
def test_the_verdict_is_that_of_one_process__to_the_letter(what: list[tuple[int, str]], at_a_time: int) -> None:
    log = GOOD
    for place, how in what:
        if isinstance(log[place], Stored):
            log = spoiled(log, place, how)
    kept = [Head("1".zfill(32), 7, "00" * 32)] if at_a_time == 1 else []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verifying, "VERIFIED_ENTRIES", at_a_time)
        with Verifiers(KEYS, 3) as examiner:
            assert verify_log(iter(log), KEYS, kept, examiner=examiner) == verify_log(iter(log), KEYS, kept)


def test_what_can_not_be_read_is_told_after_what_was_read_before(monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(log: Log) -> Iterator[Entry | Envelope | bytes | str]:
        yield from log[:40]
        raise AttestationError("the file is damaged")

    monkeypatch.setattr(verifying, "VERIFIED_ENTRIES", 7)
    for log in (GOOD, spoiled(GOOD, 20, "removed")):
        with Verifiers(KEYS, 2) as examiner:
            found = verify_log(damaged(log), KEYS, examiner=examiner)
        assert found == verify_log(damaged(log), KEYS)
        assert found.records == (40 if log is GOOD else 22)


def test_with_one_core_there_is_no_other_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_core(_pid: int) -> set[int]:
        return {0}

    monkeypatch.setattr(os, "sched_getaffinity", one_core)
    with Verifiers(KEYS) as examiner:
        assert examiner._processes == []
        assert verify_log(GOOD, KEYS, examiner=examiner).valid


def test_no_more_is_read_than_the_processes_have_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "VERIFIED_ENTRIES", 2)
    read = 0

    def watched() -> Iterator[Entry | Envelope | bytes | str]:
        nonlocal read
        for entry in GOOD:
            read += 1
            yield entry

    with Verifiers(KEYS, 2) as examiner:
        for number, _ in enumerate(examiner(watched()), 1):
            assert read <= number + 3 * 2
    assert read == len(GOOD)


def test_large_entries_are_passed_on_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "VERIFIED_BYTES", 10)
    assert [len(some) for some in verifying._batches(GOOD)] == [1] * len(GOOD)


def test_a_process_that_is_killed_leaves_no_verdict() -> None:
    with Verifiers(KEYS, 2) as examiner:
        for process in examiner._processes:
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
            process.join()
        with pytest.raises(StoreUnavailable, match="has ended"):
            verify_log(GOOD, KEYS, examiner=examiner)


_ORPHANS = """
import os, signal
from accredit.stores.audit_log.verifying import Verifiers
with Verifiers([], 2) as examiner:
    print(*(process.pid for process in examiner._processes), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_processes_end_with_the_one_that_reads__however_that_ends() -> None:
    # Each of them holds an end of the pipe that is read here: it ends when they have.
    done = subprocess.run([sys.executable, "-c", _ORPHANS], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(done.stdout.split()) == 2
