"""Several processes that serve one socket. Forks; so it runs before any event loop or thread.

The parent only waits for signals:

- a worker ended: it is replaced after `RESTART_SECONDS`; one that could not start ends everything;
- SIGTERM or SIGINT: it closes the lifeline, the pipe whose other end every worker watches, and each finishes what
  is open. After the time that this may take, or at a second signal, what is left is killed.

The lifeline closes by itself when the parent dies, however that happens: so no worker outlives it.
"""

import logging
import os
import signal
import socket
import sys
from collections.abc import Callable

from accredit.base.log_events import log_event
from accredit.limits import RESTART_SECONDS

_STOP = {signal.SIGTERM, signal.SIGINT}
_WAITED = _STOP | {signal.SIGCHLD, signal.SIGALRM}
_MARGIN_SECONDS = 2
_NOT_STARTED = 3
"""A worker's exit code: starting it again would not help."""

_logger = logging.getLogger("accredit.app")


def run_workers(count: int, listener: socket.socket, serve: Callable[[int, bool], int], *, ending_seconds: int) -> int:
    """Keep `count` processes at `serve(lifeline, first)` until told to stop; return the exit code.

    `listener` is what they serve: it is closed here when the end begins, so that clients are refused as soon as no
    worker accepts any more. Their end may take `ending_seconds`. `first` is true for one worker at the start. `serve`
    returns 0 after a stop that was requested, and another number if it could not start.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED)
    return _Workers(count, listener, serve, ending_seconds).run()


class _Workers:
    def __init__(
        self, count: int, listener: socket.socket, serve: Callable[[int, bool], int], ending_seconds: int
    ) -> None:
        self._count = count
        self._listener = listener
        self._serve = serve
        self._ending_seconds = ending_seconds
        self._pids: set[int] = set()
        self._watched, self._held = os.pipe()
        self._stopping = False
        self._exit_code = 0

    def run(self) -> int:
        self._fill(announcing=True)
        while self._pids or not self._stopping:
            received = signal.sigwait(_WAITED)
            if received == signal.SIGCHLD:
                self._reap()
            elif received == signal.SIGALRM and not self._stopping:
                self._fill(announcing=False)
            elif self._stopping:
                self._kill()
            else:
                self._stop()
        return self._exit_code

    def _fill(self, *, announcing: bool) -> None:
        while len(self._pids) < self._count:
            self._pids.add(self._fork(announcing))
            announcing = False

    def _fork(self, first: bool) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            os.close(self._held)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _WAITED)
            code = _NOT_STARTED if self._serve(self._watched, first) else 0
        except BaseException as error:
            log_event(_logger, logging.CRITICAL, "a worker failed", exc_info=error)
        finally:
            os._exit(code)  # never back into the parent's stack

    def _reap(self) -> None:
        while self._pids:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            self._pids.discard(pid)
            code = os.waitstatus_to_exitcode(status)
            if self._stopping:
                continue
            log_event(_logger, logging.ERROR, "a worker ended", pid=pid, exit_code=code)
            if code == _NOT_STARTED:
                self._exit_code = 1
                self._stop()
            else:
                signal.alarm(RESTART_SECONDS)

    def _stop(self) -> None:
        self._stopping = True
        os.close(self._held)
        self._listener.close()
        signal.alarm(0)
        # An alarm that is pending was set for a worker's replacement, not for the end of the grace.
        if signal.SIGALRM in signal.sigpending():
            signal.sigwait({signal.SIGALRM})
        signal.alarm(self._ending_seconds + _MARGIN_SECONDS)

    def _kill(self) -> None:
        for pid in self._pids:
            os.kill(pid, signal.SIGKILL)
