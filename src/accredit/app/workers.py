"""Several processes that serve one socket. Forks, so it runs before any event loop or thread.

The parent only waits for signals:

- SIGCHLD: a worker has ended, and is replaced after `RESTART_SECONDS`. If it could not start, everything ends;
- SIGHUP: the configuration is reloaded (`two_phases`), and once more if another SIGHUP comes meanwhile;
- SIGTERM or SIGINT: the parent closes the lifeline, a pipe that every worker watches, and each worker finishes its open
  calls. After the time limit, or at a second signal, the workers that are left are killed.

The lifeline also closes if the parent dies in any way, so no worker outlives it.
"""

import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import NamedTuple

from accredit.app.configured import ConfigurationChange, Start, check_change
from accredit.app.pid_file import PidFile
from accredit.app.reloading import Reports
from accredit.app.two_phases import TwoPhases
from accredit.base.log_events import log_event
from accredit.keys import ReadFiles
from accredit.limits import RELOAD_LOOK_SECONDS, RESTART_SECONDS

_STOP = {signal.SIGTERM, signal.SIGINT}
_WAITED = _STOP | {signal.SIGCHLD, signal.SIGALRM, signal.SIGHUP}
_MARGIN_SECONDS = 2
_NOT_STARTED = 3
"""The exit code of a worker that would fail again if it were restarted."""

_logger = logging.getLogger("accredit.app")


class WorkerStart(NamedTuple):
    """A worker's socket for reloads, and the state in which the worker starts. `files` are those of a reloaded
    configuration, if there was a reload. `problem` says why the last reload was refused, if it was. `number` is the
    worker's slot, from 0, unique among living workers."""

    socket: socket.socket
    files: bytes | None = None
    problem: str | None = None
    number: int = 0


class Reading(NamedTuple):
    """What is needed to read the configuration again: the inputs at the gateway's start (`start`), and the files that
    were read then."""

    start: Start
    files: bytes
    pid_file: PidFile | None


Serve = Callable[[int, bool, WorkerStart], int]


def run_workers(
    count: int, listener: socket.socket, serve: Serve, *, ending_seconds: int, reading: Reading | None = None
) -> int:
    """Keep `count` processes running `serve(lifeline, first, orders)` until told to stop; return the exit code.

    `listener` is what they serve; it is closed here when the shutdown begins, so that clients are refused once no
    worker accepts. Shutdown may take `ending_seconds`. `first` is true for one worker at the start. `serve` returns 0
    after a requested stop, and another number if it could not start. Without a `reading`, SIGHUP does nothing.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED)
    return _Workers(count, listener, serve, ending_seconds, reading).run()


class _Workers:
    def __init__(
        self, count: int, listener: socket.socket, serve: Serve, ending_seconds: int, reading: Reading | None
    ) -> None:
        self._count = count
        self._listener = listener
        self._serve = serve
        self._ending_seconds = ending_seconds
        self._workers: dict[int, socket.socket] = {}
        self._numbers: dict[int, int] = {}
        self._watched, self._held = os.pipe()
        self._stopping = False
        self._exit_code = 0
        self._reading = reading
        self._reports = Reports(reading.pid_file if reading is not None else None)
        self._reload: TwoPhases | None = None
        self._again = False
        self._short = False
        """Whether there are too few workers, because a reload kept new ones from being started."""
        self._in_force: ConfigurationChange | None = None
        self._problem: str | None = None

    def run(self) -> int:
        self._fill(announcing=True)
        while self._workers or not self._stopping:
            received = self._next_signal()
            if received == signal.SIGCHLD:
                self._reap()
            elif received == signal.SIGALRM and not self._stopping:
                self._fill(announcing=False)
            elif received == signal.SIGHUP and not self._terminal_gone():
                self._again = not self._stopping
                self._read_again()
            elif received is None:
                self._look()
            elif self._stopping:
                self._kill()
            else:
                self._stop()
        return self._exit_code

    def _next_signal(self) -> int | None:
        """Return the next signal. During a reload, return None if none comes for a moment."""
        if self._reload is None:
            return signal.sigwait(_WAITED)
        info = signal.sigtimedwait(_WAITED, RELOAD_LOOK_SECONDS)
        return info.si_signo if info is not None else None

    def _terminal_gone(self) -> bool:
        return self._reading is not None and self._reading.start.terminal_gone()

    def _read_again(self) -> None:
        """Begin a reload, if one is pending and none is under way."""
        if not self._again or self._reload is not None or self._reading is None or self._stopping:
            return
        self._again = False
        reading, files = self._reading, self._in_force.files if self._in_force is not None else self._reading.files

        def check() -> ConfigurationChange:
            os.close(self._held)
            self._listener.close()
            if reading.pid_file is not None:
                reading.pid_file.leave()
            return check_change(reading.start, ReadFiles.of(files))

        self._reload = TwoPhases(self._reports.begun(), check, self._workers)

    def _look(self) -> None:
        reload = self._reload
        if reload is None:
            return
        reload.look()
        if not reload.over:
            return
        self._reload = None
        if reload.change is not None:
            self._in_force, self._problem = reload.change, None
            self._ending_seconds = reload.change.ending_seconds
            self._reports.changed(reload.change.told)
        else:
            self._problem = reload.problem
            self._reports.refused(reload.problem, reload.remedy)
        reload.close()
        if self._short and not self._stopping:
            self._fill(announcing=False)
        self._read_again()

    def _fill(self, *, announcing: bool) -> None:
        self._short = self._reload is not None
        while len(self._workers) < self._count and not self._short:
            self._fork(announcing)
            announcing = False

    def _fork(self, first: bool) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        number = min(set(range(self._count)) - set(self._numbers.values()))
        pid = os.fork()
        if pid:
            theirs.close()
            self._workers[pid], self._numbers[pid] = ours, number
            return
        code = 1
        try:
            os.close(self._held)
            for each in (ours, *self._workers.values()):
                each.close()
            if self._reading is not None and self._reading.pid_file is not None:
                self._reading.pid_file.leave()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.signal(signal.SIGHUP, _ignore)  # it is for the parent, if the whole group gets it
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _WAITED)
            files = self._in_force.files if self._in_force is not None else None
            orders = WorkerStart(theirs, files, self._problem, number)
            code = _NOT_STARTED if self._serve(self._watched, first, orders) else 0
        except BaseException as error:
            log_event(_logger, logging.CRITICAL, "a worker failed", exc_info=error)
        finally:
            os._exit(code)  # never back into the parent's stack

    def _reap(self) -> None:
        while self._workers or self._reload is not None:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            if self._reload is not None and self._reload.ended(pid, code):
                continue
            orders = self._workers.pop(pid, None)
            self._numbers.pop(pid, None)
            if orders is not None:
                orders.close()
            if self._stopping or orders is None:
                continue
            log_event(_logger, logging.ERROR, "a worker ended", pid=pid, exit_code=code)
            if code == _NOT_STARTED:
                self._exit_code = 1
                self._stop()
            else:
                signal.alarm(RESTART_SECONDS)

    def _stop(self) -> None:
        self._stopping = True
        if self._reload is not None:
            self._reload.give_up()
        os.close(self._held)
        self._listener.close()
        signal.alarm(0)
        # A pending alarm belongs to a worker's replacement, not to the end of the grace.
        if signal.SIGALRM in signal.sigpending():
            signal.sigwait({signal.SIGALRM})
        signal.alarm(self._ending_seconds + _MARGIN_SECONDS)

    def _kill(self) -> None:
        for pid in self._workers:
            os.kill(pid, signal.SIGKILL)


def _ignore(*_: object) -> None: ...
