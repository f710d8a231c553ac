"""A reload as the parent of workers leads it: with workers that are sockets here, and say what a test has them say."""

import faulthandler
import os
import signal
import socket
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

import pytest
from tests.world.command import wait_until

from accredit.app import two_phases
from accredit.app.configured import ConfigurationChange
from accredit.app.reloading import ReloadMessage, read_order
from accredit.app.two_phases import TwoPhases
from accredit.errors import ConfigurationError
from accredit.limits import MAX_RELOAD_TEXT

pytestmark = pytest.mark.slow

OPEN: list[TwoPhases] = []
CHANGE = ConfigurationChange(b"all that was read", "tools", 12)


class Worker:
    """A process that does nothing, and a socket that speaks for it."""

    def __init__(self) -> None:
        self.theirs, self.ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.pid = os.fork()
        if not self.pid:
            signal.pause()
            os._exit(0)

    def heard(self) -> tuple[ReloadMessage, bytes]:
        """The next order, and the files that came with it."""
        self.ours.settimeout(10)
        text, descriptors, _, _ = socket.recv_fds(self.ours, MAX_RELOAD_TEXT, 1)
        files = b""
        for each in descriptors:
            files = os.pread(each, os.fstat(each).st_size, 0)
            os.close(each)
        return read_order(text), files

    def says(self, kind: str, number: int = 1, text: str = "") -> None:
        """Answers."""
        self.ours.send(ReloadMessage(kind, number, text, "do this").sent())  # type: ignore[arg-type]

    def end(self) -> int:
        """Ends the process; returns how."""
        os.kill(self.pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@contextmanager
def three() -> Generator[list[Worker]]:
    workers = [Worker() for _ in range(3)]
    try:
        yield workers
    finally:
        for each in OPEN:
            each.close()
            with suppress(ChildProcessError):
                os.waitpid(each.checker, 0)
        OPEN.clear()
        for each in workers:
            each.theirs.close()
            each.ours.close()
            with suppress(ProcessLookupError, ChildProcessError):
                each.end()


def started(number: int, check: Callable[[], ConfigurationChange], workers: list[Worker]) -> TwoPhases:
    """A reload, which is closed with its workers."""
    OPEN.append(TwoPhases(number, check, {each.pid: each.theirs for each in workers}))
    return OPEN[-1]


def begun(workers: list[Worker], check: Callable[[], ConfigurationChange] = lambda: CHANGE) -> TwoPhases:
    """A reload whose check has ended."""
    reload = started(1, check, workers)
    _, status = os.waitpid(reload.checker, 0)
    assert reload.ended(reload.checker, os.waitstatus_to_exitcode(status))
    return reload


@pytest.mark.holds("app/two_phases", "prepare", "confirm")
def test_nobody_goes_over_before_all_are_able_to__and_then_all_do() -> None:
    with three() as workers:
        reload = begun(workers)
        for each in workers:
            assert each.heard() == (ReloadMessage("prepare", 1), CHANGE.files)
        for each in workers[:2]:
            each.says("ready")
        workers[2].says("ready", number=0)  # to an earlier one
        reload.look()
        assert (reload.change, reload.over) == (None, False)
        workers[2].says("ready")
        reload.look()
        assert reload.change == CHANGE
        for each in workers:
            assert each.heard()[0] == ReloadMessage("swap", 1)
            each.says("done")
        assert not reload.over
        reload.look()
        assert reload.over


@pytest.mark.holds("app/two_phases", "prepare")
def test_if_one_is_not_able_to_none_goes_over() -> None:
    with three() as workers:
        reload = begun(workers)
        for each in workers:
            each.heard()
        for each in workers[:2]:
            each.says("ready")
        workers[2].says("unable", text="no such program")
        reload.look()
        assert (reload.over, reload.change, reload.problem, reload.remedy) == (True, None, "no such program", "do this")
        assert {each.heard()[0].kind for each in workers} == {"stay"}


def test_a_worker_that_is_lost_between_the_two_is_not_waited_for__and_the_others_go_over() -> None:
    with three() as workers:
        reload = begun(workers)
        for each in workers:
            each.heard()
        for each in workers[1:]:
            each.says("ready")
        reload.look()
        assert reload.change is None
        assert not reload.ended(workers[0].pid, workers[0].end())
        assert reload.change == CHANGE
        for each in workers[1:]:
            assert each.heard()[0].kind == "swap"
        workers[1].says("done")
        reload.look()
        assert not reload.over
        reload.ended(workers[2].pid, workers[2].end())
        assert reload.over


@pytest.mark.holds("app/two_phases", "confirm")
def test_one_that_stands_still_is_killed_before_it_can_go_by_what_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(two_phases, "RELOAD_SWAP_SECONDS", 0.0)
    with three() as workers:
        reload = begun(workers)
        for each in workers:
            each.says("ready")
        reload.look()
        assert (reload.over, reload.change) == (True, CHANGE)
        for each in workers:
            assert os.waitstatus_to_exitcode(os.waitpid(each.pid, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize(("late", "seconds"), [("RELOAD_CHECK_SECONDS", 0.0), ("RELOAD_PREPARE_SECONDS", 0.0)])
def test_what_takes_too_long_changes_nothing(late: str, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(two_phases, late, seconds)
    with three() as workers:
        reload = started(1, lambda: CHANGE, workers)
        if late == "RELOAD_PREPARE_SECONDS":
            _, status = os.waitpid(reload.checker, 0)
            reload.ended(reload.checker, os.waitstatus_to_exitcode(status))
        reload.look()
        assert (reload.over, reload.change) == (True, None)
        assert "in time" in reload.problem


@pytest.mark.holds("app/two_phases", "check-child")
def test_a_check_that_fails_hangs_or_crashes_reaches_no_worker() -> None:
    def wrong() -> ConfigurationChange:
        raise ConfigurationError("this is wrong", "do that")

    def crashes() -> ConfigurationChange:
        faulthandler.disable()  # a traceback in the run's output would look like a fault of the test
        os.kill(os.getpid(), signal.SIGSEGV)
        time.sleep(60)
        return CHANGE

    def hangs() -> ConfigurationChange:
        signal.pause()
        return CHANGE

    with three() as workers:
        reload = begun(workers, wrong)
        assert (reload.over, reload.problem, reload.remedy) == (True, "this is wrong", "do that")
        reload = begun(workers, crashes)
        assert (reload.over, reload.problem) == (True, "the configuration could not be checked")
        assert {each.heard()[0].kind for each in workers} == {"stay"}
        reload = started(2, hangs, workers)
        reload.give_up()
        wait_until(lambda: os.waitpid(reload.checker, os.WNOHANG)[0] == reload.checker)
