"""A reload led by the parent of workers, so that they never serve different configurations. Forks; never waits.

- [check-child] A child process reads and checks the configuration, so that only the child can hang. It copies the files
  to an anonymous file, which all workers then read.
- [prepare] Each worker prepares that configuration (`reloading`). If one fails or is late, all keep the old one.
- [confirm] All workers are told to switch. One that doesn't confirm in time is killed: it might wake up later with the
  old configuration.

Workers that end meanwhile are not waited for. No worker is started until the reload is over. New workers then start
with the configuration in force.
"""

import contextlib
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from typing import BinaryIO, Literal

import msgspec
from msgspec import Struct

from accredit.app.configured import ConfigurationChange
from accredit.app.reloading import RELOAD_CHECK_SECONDS, RELOAD_PREPARE_SECONDS, ReloadMessage, read_order, words_for
from accredit.base.log_events import log_event
from accredit.base.values import decodable
from accredit.errors import ConfigurationError
from accredit.keys import memory_file
from accredit.limits import MAX_RELOAD_TEXT

RELOAD_SWAP_SECONDS = 5.0
"""How many seconds a worker may take to switch. One that takes longer is killed and replaced: it must not wake up later
and serve the old configuration."""


_logger = logging.getLogger("accredit.app")
_LATE = "a worker did not make the new configuration ready in time"
_REMEDY = "see the log for what it waits for, and reload again"


@decodable
class _Checked(Struct, frozen=True):
    """What the checking child reports: a change, or a problem."""

    told: str = ""
    ending_seconds: int = 0
    problem: str = ""
    remedy: str = ""


class TwoPhases:
    """One reload. `workers` maps process ids to sockets. Once `over`, `change` is the configuration in force, or
    `problem` and `remedy` say why nothing has changed."""

    def __init__(
        self, number: int, check: Callable[[], ConfigurationChange], workers: Mapping[int, socket.socket]
    ) -> None:
        """`check` runs in the child, and must close what the child shouldn't hold open."""
        self.change: ConfigurationChange | None = None
        self.problem = self.remedy = ""
        self.over = False
        self._number = number
        self._workers = dict(workers)
        self._waiting: set[int] = set()
        self._step: Literal["check", "prepare", "swap"] = "check"
        self._due = time.monotonic() + RELOAD_CHECK_SECONDS
        self._files, self._said = memory_file(), memory_file()
        self._checked = _Checked()
        self.checker = _fork_check(check, self._files, self._said)

    def look(self) -> None:
        """Read the workers' answers, and check the deadline."""
        for pid, orders in self._workers.items():
            with contextlib.suppress(OSError):  # nothing more was said
                while True:
                    self._hear(pid, read_order(orders.recv(MAX_RELOAD_TEXT, socket.MSG_DONTWAIT)))
        if not self.over and time.monotonic() >= self._due:
            self._late()

    def ended(self, pid: int, code: int) -> bool:
        """Note that a child has ended; return whether it was the checking one."""
        if pid == self.checker:
            if self._step == "check" and not self.over:
                self._checked_by(code)
            return True
        self._workers.pop(pid, None)
        self._done_with(pid)
        return False

    def give_up(self) -> None:
        """Abort the reload, because the gateway ends."""
        self.over = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.checker, signal.SIGKILL)

    def close(self) -> None:
        """Close the reload's files."""
        self._files.close()
        self._said.close()

    def _checked_by(self, code: int) -> None:
        if code:
            self._stay("the configuration could not be checked", "see the log, and reload again")
            return
        self._checked = msgspec.msgpack.decode(_content(self._said), type=_Checked)
        if self._checked.problem:
            self._stay(self._checked.problem, self._checked.remedy)
            return
        self._begin("prepare", RELOAD_PREPARE_SECONDS)
        for pid in list(self._waiting):
            self._send(pid, ReloadMessage("prepare", self._number), [self._files.fileno()])
        self._done_with(None)

    def _hear(self, pid: int, order: ReloadMessage) -> None:
        if order.number != self._number or self.over:
            return
        if order.kind == "unable" and self._step == "prepare":
            self._stay(order.text, order.remedy)
        elif (order.kind, self._step) in (("ready", "prepare"), ("done", "swap")):
            self._done_with(pid)

    def _begin(self, step: Literal["prepare", "swap"], seconds: float) -> None:
        self._step, self._due = step, time.monotonic() + seconds
        self._waiting = set(self._workers)

    def _done_with(self, pid: int | None) -> None:
        """Stop waiting for this worker; after the last one, begin the next step."""
        self._waiting.discard(pid or 0)
        if self.over or self._waiting or self._step == "check":
            return
        if self._step == "swap":
            self.over = True
            return
        # In force from here on: a worker that can't be told must not serve.
        self.change = ConfigurationChange(_content(self._files), self._checked.told, self._checked.ending_seconds)
        self._begin("swap", RELOAD_SWAP_SECONDS)
        for each in list(self._waiting):
            if not self._send(each, ReloadMessage("swap", self._number)):
                self._kill(each)
        self.over = not self._workers

    def _late(self) -> None:
        if self._step == "check":
            self.give_up()
            self._stay(*words_for(TimeoutError()))
        elif self._step == "prepare":
            self._stay(_LATE, _REMEDY)
        else:
            for pid in self._waiting:
                self._kill(pid)
            self.over = True

    def _stay(self, problem: str, remedy: str) -> None:
        self.over, self.problem, self.remedy = True, problem, remedy
        for pid in self._workers:
            self._send(pid, ReloadMessage("stay", self._number, problem))

    def _send(self, pid: int, order: ReloadMessage, descriptors: list[int] | None = None) -> bool:
        try:
            socket.send_fds(self._workers[pid], [order.sent()], descriptors or [], socket.MSG_DONTWAIT)
        except OSError:  # it is about to end, or has stood still for many reloads
            return False
        return True

    def _kill(self, pid: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _fork_check(check: Callable[[], ConfigurationChange], files: BinaryIO, said: BinaryIO) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})
        try:
            change = check()
            files.write(change.files)
            found = _Checked(change.told, change.ending_seconds)
        except ConfigurationError as error:
            problem, remedy = words_for(error)
            found = _Checked(problem=problem[: MAX_RELOAD_TEXT // 4], remedy=remedy[: MAX_RELOAD_TEXT // 4])
        said.write(msgspec.msgpack.encode(found))
        code = 0
    except BaseException as error:
        log_event(_logger, logging.CRITICAL, "a reload failed", exc_info=error)
    finally:
        os._exit(code)  # never back into the parent's stack


def _content(file: BinaryIO) -> bytes:
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0)
