"""The process that ends what a gateway leaves behind, and the gateway's side of it."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.world.command import wait_until
from tests.world.raw_server import PATIENCE, until
from tests.world.stdio_processes import alive, descendants

from accredit.errors import UpstreamUnavailable
from accredit.gateway.upstream.stdio import reaper
from accredit.gateway.upstream.stdio.child import OrphanGuard

STUBBORN = "trap '' TERM; echo ready; while :; do sleep 300; done"
POLITE = "echo ready; exec sleep 300"


@contextlib.contextmanager
def group(script: str) -> Generator[int]:
    """A process group of its own; what is left of it at the end is killed."""
    process = subprocess.Popen(["/bin/sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


@contextlib.contextmanager
def running_reaper(grace: float) -> Generator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-I", "-S", str(Path(reaper.__file__)), str(grace)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as process:
        yield process


def test_when_its_stdin_ends_it_ends_what_it_was_told_of_and_has_not_been_told_is_gone() -> None:
    with group(STUBBORN) as stubborn, group(POLITE) as polite, group(POLITE) as other, running_reaper(0.1) as process:
        assert process.stdin is not None
        process.stdin.write(b"+%d\n+%d\n+%d\n-%d\n" % (stubborn, polite, other, other))
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
        wait_until(lambda: not alive(stubborn) and not alive(polite))
        assert alive(other)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_do_not_end_it__whoever_ends_all_processes_at_once_means_the_children_too(
    number: signal.Signals,
) -> None:
    with group(POLITE) as polite, running_reaper(0.1) as process:
        assert process.stdin is not None
        process.stdin.write(b"+%d\n" % polite)
        process.stdin.flush()
        status = Path(f"/proc/{process.pid}/status")

        def ignores() -> bool:
            line = next(line for line in status.read_text().splitlines() if line.startswith("SigIgn:"))
            return bool(int(line.split()[1], 16) & (1 << (number - 1)))

        wait_until(ignores)
        process.send_signal(number)
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
        wait_until(lambda: not alive(polite))


def test_a_group_that_ends_by_itself_is_not_waited_for() -> None:
    with group(POLITE) as polite:
        begun = time.monotonic()
        os.killpg(polite, signal.SIGKILL)
        os.waitpid(polite, 0)
        reaper.end([polite], 300)
        assert time.monotonic() - begun < 60  # not the grace


def test_a_signal_to_nobody_is_no_error() -> None:
    with group("echo ready") as ended:
        os.waitpid(ended, 0)
        assert not reaper.send_signal(ended, signal.SIGTERM)


async def test_a_guard_starts_its_reaper_once_and_ends_it() -> None:
    guard = OrphanGuard()
    guard.ready()
    guard.ready()
    assert len(descendants(os.getpid())) == 1
    await guard.aclose()
    assert not descendants(os.getpid())
    await guard.aclose()


@pytest.mark.holds("gateway/upstream/stdio/child", "reaper")
async def test_a_guard_without_a_reaper_takes_no_group() -> None:
    with pytest.raises(UpstreamUnavailable):
        OrphanGuard().add(1)


async def test_a_group_that_was_not_removed_ends_with_the_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    guard = OrphanGuard()
    with group(STUBBORN) as stubborn, group(POLITE) as removed:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("accredit.gateway.upstream.stdio.child.STOP_GRACE_SECONDS", 0.1)  # the reaper's
            guard.ready()
        # The guard's with the reaper: one that was not done yet would be killed.
        monkeypatch.setattr("accredit.gateway.upstream.stdio.child.STOP_GRACE_SECONDS", PATIENCE)
        guard.add(stubborn)
        guard.add(removed)
        guard.remove(removed)
        await guard.aclose()
        await until(lambda: not alive(stubborn))
        assert alive(removed)


@pytest.mark.holds("gateway/upstream/stdio/child", "reaper")
async def test_children_do_not_outlive_the_reaper__and_the_next_child_gets_a_new_one() -> None:
    guard = OrphanGuard()
    with group(STUBBORN) as stubborn:
        guard.ready()
        (helper,) = descendants(os.getpid()) - {stubborn} - descendants(stubborn)
        guard.add(stubborn)
        os.kill(helper, signal.SIGKILL)
        await until(lambda: not alive(stubborn))
    with pytest.raises(UpstreamUnavailable):
        guard.add(stubborn)
    guard.ready()
    await guard.aclose()


async def test_a_reaper_that_does_not_read_is_replaced() -> None:
    guard = OrphanGuard()
    guard.ready()
    (helper,) = descendants(os.getpid())
    os.kill(helper, signal.SIGSTOP)
    with contextlib.suppress(UpstreamUnavailable):
        for _ in range(100_000):
            guard.add(1 << 30)
        raise AssertionError("a pipe that nobody reads took everything")
    await until(lambda: not alive(helper))
    await guard.aclose()


async def test_a_python_that_can_not_be_run_is_an_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.raises(UpstreamUnavailable):
        OrphanGuard().ready()
