"""Runs gateway and desk as two processes in the foreground, which end together. I/O: processes, signals.

- The gateway has its own process group. So a Ctrl-C in the terminal reaches it only once, through this process: a
  second signal would kill it. The desk stays in the terminal's group, to ask for passphrases; it ignores a second
  signal.
- On SIGINT, SIGTERM or SIGHUP (unless ignored, as by `nohup`), this process ends both and waits for them. A second
  signal kills them, unless it comes with the first (a parent may forward what the terminal sends to all). They are also
  killed if they have not ended by the gateway's own deadline.
- A process that ends after such a signal counts as ended by it, even if that process got the signal first.
- If one ends by itself, the other is ended, and the message names the one that ended first. If a desk ends because it
  finds another one running, the gateway continues.
- Neither outlives this process, however that ends (on Linux).
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Self

import click

from accredit.errors import ConfigurationError
from accredit.terminal.output import tell

UP_LOOK_SECONDS = 0.1
"""How often `accredit up` checks whether the processes that it has started are ready, in seconds."""
UP_START_SECONDS = 60.0
"""How many seconds gateway and desk may take to start. On a machine that is not busy they take some 2."""
UP_MARGIN_SECONDS = 5.0
"""How many seconds `accredit up` waits beyond the gateway's own deadline before it kills the processes."""
UP_AGAIN_SECONDS = 1.0
"""For how many seconds after a signal to end another one counts as the same: a terminal's Ctrl-C may arrive in two
ways."""


_STOP = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
_PR_SET_PDEATHSIG = 1
"""The option of Linux's prctl(2) that has a process signalled when its parent dies."""


class Subprocess:
    """One of the two processes: its name, its words after `accredit`, and a check that it is ready. If the process ends
    before it is ready, `is_needed` returns whether that ends the other one, too."""

    def __init__(
        self,
        name: str,
        words: Sequence[str],
        is_there: Callable[[int], bool],
        *,
        is_needed: Callable[[], bool] = lambda: True,
        own_group: bool = False,
    ) -> None:
        self.name = name
        self.is_there = is_there
        self.is_needed = is_needed
        self.is_seen = False
        self._words = words
        self._own_group = own_group
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id; 0 if there is no process."""
        return self._process.pid if self._process is not None else 0

    def start(self) -> None:
        """Start the process. Raises `ConfigurationError`."""
        parent, libc = os.getpid(), ctypes.CDLL(None)

        def before_it_runs() -> None:
            if sys.platform == "linux":
                libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
                if os.getppid() != parent:  # which was gone before that was said
                    os._exit(1)

        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-P", "-m", "accredit", *self._words],
                stdin=subprocess.DEVNULL if self._own_group else None,
                process_group=0 if self._own_group else None,
                preexec_fn=before_it_runs,
            )
        except OSError as error:
            raise ConfigurationError(f"the {self.name} can't be started: {error.strerror}", "try again") from None

    def ended(self) -> int | None:
        """Return the exit code, None while the process runs; 0 if there is no process."""
        return self._process.poll() if self._process is not None else 0

    def send(self, number: int) -> None:
        """Send a signal to the process, if it runs."""
        if self._process is not None:
            self._process.send_signal(number)


def run_together(
    parts: Sequence[Subprocess], ending_seconds: float, ask: Callable[[], None], on_start: Callable[[], None]
) -> int:
    """Run all until told to stop, or until one ends; return the exit code. Once all are ready, `ask` is called, which
    may wait for the person, and then `on_start`."""
    with _Signals() as signals:

        def begin() -> None:
            if signals.during(ask):
                on_start()

        return _Together(list(parts), ending_seconds, begin, signals).run()


class _Signals:
    """Waits for signals without losing any: inside its `with` block they are written to a pipe."""

    def __enter__(self) -> Self:
        self._reading, self._writing = os.pipe()
        for end in (self._reading, self._writing):
            os.set_blocking(end, False)
        self._wakeup = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        self._asking = False
        heard = {each for each in _STOP if signal.getsignal(each) is not signal.SIG_IGN} | {signal.SIGCHLD}
        self._before = {each: signal.signal(each, self._on_signal) for each in heard}
        return self

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        """If the person is being asked and this is a signal to stop, end the asking. Any other signal only wakes the
        waiting thread."""
        if self._asking and number in _STOP:
            self._asking = False
            raise click.Abort

    def wait(self, seconds: float) -> set[int]:
        """Wait for a signal, at most `seconds`; return those that came."""
        select.select([self._reading], [], [], seconds)
        with contextlib.suppress(BlockingIOError):
            return set(os.read(self._reading, 64))
        return set()

    def during(self, ask: Callable[[], None]) -> bool:
        """Call `ask`, but interrupt it at a signal to end; return whether it finished. `wait` still returns that
        signal."""
        try:
            self._asking = True
            ask()
            self._asking = False
        except click.Abort:
            self._asking = False
            return False
        return True

    def __exit__(self, *_: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._reading)
        os.close(self._writing)


class _Together:
    def __init__(
        self, parts: list[Subprocess], ending_seconds: float, on_start: Callable[[], None], signals: _Signals
    ) -> None:
        self._parts = parts
        self._signals = signals
        self._ending_seconds = ending_seconds + UP_MARGIN_SECONDS
        self._on_start: Callable[[], None] | None = on_start
        self._late_at = time.monotonic() + UP_START_SECONDS
        self._kill_at: float | None = None
        self._again_at = 0.0
        self._code = 0

    def run(self) -> int:
        try:
            for part in self._parts:
                part.start()
            while self._parts:
                self._look()
                if self._signals.wait(UP_LOOK_SECONDS if self._on_start or self._kill_at else 1.0) & _STOP:
                    self._stop()
        finally:
            for part in self._parts:  # after an error: nobody is left to wait for them
                part.send(signal.SIGKILL)
                part.ended()
        return self._code

    def _look(self) -> None:
        gone = [each for each in self._parts if each.ended() is not None]
        if gone and self._signals.wait(0.0) & _STOP:  # a Ctrl-C reaches the desk, too, which may end before this looks
            self._stop()
        for part in gone:
            self._parts.remove(part)
            if self._kill_at is None:
                self._lost(part)
        now = time.monotonic()
        if self._kill_at is not None and now > self._kill_at:
            self._kill()
        elif self._kill_at is None and self._on_start is not None and self._parts:
            for part in self._parts:
                part.is_seen = part.is_seen or part.is_there(part.pid)
            if all(part.is_seen for part in self._parts):
                on_start, self._on_start = self._on_start, None
                on_start()
            elif now > self._late_at:
                slow = next(part.name for part in self._parts if not part.is_seen)
                self._fail(f"the {slow} has not begun within {UP_START_SECONDS:.0f} s")

    def _lost(self, part: Subprocess) -> None:
        """End the other process if this one ended by itself."""
        if not part.is_seen and not part.is_needed():
            return
        code = part.ended() or 0
        how = f"of signal {-code}" if code < 0 else f"with exit code {code}"
        self._fail(f"the {part.name} has ended by itself, {how}")

    def _fail(self, what: str) -> None:
        self._code = 1
        rest = " and ".join(f"the {part.name}" for part in self._parts)
        tell(f"error: {what}" + (f": {rest} ends, too" if rest else ""))
        tell("help: what it said is above; `accredit up` starts both again, `accredit doctor` says what is wrong")
        self._stop()

    def _stop(self) -> None:
        now = time.monotonic()
        if self._kill_at is not None:
            if now > self._again_at:
                self._kill()
            return
        self._kill_at, self._again_at = now + self._ending_seconds, now + UP_AGAIN_SECONDS
        for part in self._parts:
            part.send(signal.SIGTERM)

    def _kill(self) -> None:
        self._kill_at = time.monotonic() + self._ending_seconds
        self._code = self._code or 1
        for part in self._parts:
            with contextlib.suppress(ProcessLookupError):
                part.send(signal.SIGKILL)
