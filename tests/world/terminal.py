"""A command, ours or another, in a terminal of its own: a real pty, which is its controlling one. I/O: processes."""

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.world.command import environment
from tests.world.raw_server import PATIENCE
from tests.world.warm import COMMAND


class Terminal:
    """`with Terminal("keys", "new", ..., folder=folder) as terminal`: what a person sees, and types. `seen` is all that
    was written to the terminal, `code` the exit code once it has ended."""

    def __init__(
        self,
        *arguments: str,
        folder: Path,
        env: Mapping[str, str] | None = None,
        command: Sequence[str] = COMMAND,
        columns: int = 0,
        height: int = 0,
    ) -> None:
        """Of a terminal without `columns` and `height` nobody has said how large it is."""
        self.seen = ""
        self.code: int | None = None
        self._ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (height, columns))
        self._process = subprocess.Popen(
            [*command, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder,
            env=environment({"TERM": "dumb", **(env or {})}), start_new_session=True,
            preexec_fn=lambda: os.login_tty(os.dup(theirs)),
        )  # fmt: skip
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def wait_for(self, pattern: str) -> None:
        """Waits until what was written since the last thing typed matches."""
        start = getattr(self, "_start", 0)
        deadline = time.monotonic() + PATIENCE
        while not re.search(pattern, self.seen[start:]):
            assert time.monotonic() < deadline, f"waited in vain for {pattern!r}: {self.seen!r}"
            assert self._read(), f"it has ended without {pattern!r}: {self.seen!r}"

    def unfolded(self) -> str:
        """What was written, rows that go on after their margin joined: a path's length decides which."""
        return re.sub(r"\s*\n(?:\s*\| )?\s*", " ", self.seen)

    def types(self, text: str) -> None:
        """Types a text, which is echoed unless the command says otherwise."""
        self._start = len(self.seen)
        os.write(self._ours, text.encode())

    def echoes(self) -> bool:
        """Whether what is typed now would show."""
        return bool(termios.tcgetattr(self._ours)[3] & termios.ECHO)

    def command_line(self) -> str:
        """What every user of the machine sees of the command: its arguments and, as its owner, its environment."""
        folder = Path("/proc") / str(self._process.pid)
        return "".join((folder / name).read_text("utf-8", "replace") for name in ("cmdline", "environ"))

    def end(self) -> int:
        """Reads on until the command has ended; returns its exit code."""
        while self._read():
            pass
        self.code = self._process.wait(PATIENCE)
        return self.code

    def _read(self) -> bool:
        if not select.select([self._ours], [], [], PATIENCE)[0]:
            raise AssertionError(f"nothing more came: {self.seen!r}")
        try:
            data = os.read(self._ours, 65_536)
        except OSError:  # EIO: the other side is closed
            return False
        self.seen += data.decode("utf-8", "replace").replace("\r\n", "\n")
        return bool(data)

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(PATIENCE)
        os.close(self._ours)


def screen(written: str, columns: int, wide: int = 1) -> list[str]:
    """The rows that a terminal of so many columns makes of what was written to it, in which a character that is not
    ASCII takes `wide` columns."""
    rows = [""]
    at = 0
    for char in written:
        size = 1 if " " <= char <= "~" else wide
        if char == "\n":
            rows.append("")
            at = 0
            continue
        if at + size > columns:
            rows.append("")
            at = 0
        rows[-1] += char
        at += size
    return rows
