"""A progress line on the terminal, for work of more than two seconds. I/O: stderr, a thread.

- The line goes to stderr, and only if that is a terminal. There is none with `--json`, none while results go
  to the same terminal (`hidden`), and none inside another progress.
- The line is not shown in the first two seconds, and is removed when the work ends, in whatever way.
- Other output to stderr must remove the line first (`clear`). It is shown again afterwards.
"""

import sys
import threading
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Self, TypeVar

from accredit.base.deferred import Deferred
from accredit.base.standard import is_for_programs

if TYPE_CHECKING:
    import shutil
else:  # for what is shown
    shutil = Deferred("shutil")

PROGRESS_ENTRIES = 500
"""How many entries are verified (in 40 ms) between two updates of the count that is shown."""
PROGRESS_AFTER_SECONDS = 2.0
"""After how many seconds a terminal shows the progress of the work. Nobody needs it before."""
PROGRESS_SECONDS = 0.2
"""How often the progress line is shown again, in seconds."""


_T = TypeVar("_T")
_lock = threading.Lock()
_begun = threading.Lock()
"""The lock held by the progress whose line is shown."""
_on_screen: set[str] = set()
"""The line on the screen, if any."""


class Progress:
    """The progress of some work. Use it as `with Progress("verifying", total=1_000) as progress`, and set
    `progress.done = 500` now and then.

    `what` names the work; `unit` is what `done` counts. Without a `total` only `done` is shown, and while that is 0
    only the time.
    """

    def __init__(self, what: str, *, unit: str = "", total: int | None = None, hidden: bool = False) -> None:
        self.done = 0
        self._what, self._unit, self._total = what, unit, total
        self._ended = threading.Event()
        self._hidden = hidden or is_for_programs() or sys.stdout is sys.stderr or not sys.stderr.isatty()
        self._thread: threading.Thread | None = None
        self._began = 0.0

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        if not self._hidden and _begun.acquire(blocking=False):
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            clear()
            _begun.release()

    def over(self, items: Iterable[_T]) -> Iterator[_T]:
        """Yield the items, and count them."""
        for number, item in enumerate(items, 1):
            yield item
            if number % PROGRESS_ENTRIES == 0:
                self.done = number

    def _run(self) -> None:
        wait = PROGRESS_AFTER_SECONDS
        while not self._ended.wait(wait):
            _show(self._line())
            wait = PROGRESS_SECONDS

    def _line(self) -> str:
        seconds = f"{time.monotonic() - self._began:.0f} s"
        if not self.done:
            return f"{self._what}: {seconds}"
        many = f"{self.done:,} {self._unit}".rstrip()
        if self._total:
            many = f"{self.done:,} of {self._total:,} {self._unit}".rstrip() + f", {100 * self.done // self._total}%"
        return f"{self._what}: {many}, {seconds}"


def clear() -> None:
    """Remove the progress line. Call this before output that is to stay."""
    with _lock:
        for line in tuple(_on_screen):
            sys.stderr.write(f"\r{' ' * len(line)}\r")
            _on_screen.discard(line)
        sys.stderr.flush()


def _show(line: str) -> None:
    line = line[: shutil.get_terminal_size().columns - 1]
    with _lock:
        before = max(map(len, _on_screen), default=0)
        sys.stderr.write(f"\r{line.ljust(before)}")
        sys.stderr.flush()
        _on_screen.clear()
        _on_screen.add(line.ljust(before))
