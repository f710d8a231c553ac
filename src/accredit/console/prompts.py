"""Asks for the passphrase: on the desk's own terminal, else with `pinentry`. Never on the page. I/O: terminal,
processes.

A prompt can be cancelled at any moment: the terminal's modes are then restored, and pinentry is ended.
"""

import asyncio
import contextlib
import os
import shutil
import sys
import termios
from collections.abc import Mapping
from typing import Protocol

from accredit.base.terminal import rows, width_of
from accredit.base.text import one_line
from accredit.limits import MAX_PASSPHRASE_BYTES

_LOCAL_FLAGS = 3
"""The index of a terminal's local modes (termios)."""


class Prompt(Protocol):
    """A way to ask a person for a passphrase."""

    @property
    def place(self) -> str:
        """Where the prompt appears ("in the terminal of the desk"), as a text for a person who is looking elsewhere."""
        ...

    async def ask(self, text: str) -> str | None:
        """Return what the person typed, or None if they cancelled or can't be asked."""
        ...


def find_prompt(environ: Mapping[str, str]) -> Prompt | None:
    """Return a prompt that reaches the person who started this process, or None if there is none."""
    if sys.stdin is not None and sys.stdin.isatty() and sys.stderr is not None:
        return TerminalPrompt(sys.stdin.fileno(), sys.stderr.fileno())
    program = shutil.which("pinentry", path=environ.get("PATH", os.defpath))
    graphical = sys.platform == "darwin" or environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")
    return Pinentry(program) if program and graphical else None


class TerminalPrompt:
    """The terminal in which the desk runs. Typing is not echoed."""

    place = "in the terminal of the desk"

    def __init__(self, source: int, to: int) -> None:
        self._source = source
        self._to = to

    async def ask(self, text: str) -> str | None:
        """Return the next line that is typed, without its line end. Return None if the terminal's input has ended."""
        loop = asyncio.get_running_loop()
        line: asyncio.Future[bytes] = loop.create_future()
        try:
            if os.tcgetpgrp(self._source) != os.getpgrp():
                return None  # in the background: changing the terminal's modes would stop the whole process
            before = termios.tcgetattr(self._source)
            silent = [*before]
            silent[_LOCAL_FLAGS] &= ~termios.ECHO
            termios.tcsetattr(self._source, termios.TCSAFLUSH, silent)
        except (termios.error, OSError):
            return None
        try:
            folded = rows(f"{one_line(text)}: ", width_of(sys.stderr))
            os.write(self._to, "\n".join(folded).encode())
            loop.add_reader(self._source, self._read, line)
            typed = await line
        finally:
            loop.remove_reader(self._source)
            with contextlib.suppress(termios.error, OSError):
                termios.tcsetattr(self._source, termios.TCSANOW, before)
                os.write(self._to, b"\n")
        return typed.rstrip(b"\r\n").decode("utf-8", "surrogateescape") if typed else None

    def _read(self, line: asyncio.Future[bytes]) -> None:
        try:
            typed = os.read(self._source, MAX_PASSPHRASE_BYTES + 2)
        except OSError:
            typed = b""
        if not line.done():
            line.set_result(typed)


class Pinentry:
    """GnuPG's passphrase dialog (the Assuan protocol, a line each way)."""

    place = "in the window that has opened"

    def __init__(self, program: str) -> None:
        self._program = program

    async def ask(self, text: str) -> str | None:
        """Return what was typed into the dialog. Return None if it was closed, or could not be shown."""
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                self._program, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL
            )
        except OSError:
            return None
        try:
            for command in (None, f"SETDESC {_escape(text)}", "SETPROMPT Passphrase", "SETTITLE accredit desk"):
                if not (await _send_command(process, command))[0]:
                    return None
            good, data = await _send_command(process, "GETPIN")
            return data.decode("utf-8", "surrogateescape") if good else None
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _send_command(process: asyncio.subprocess.Process, command: str | None) -> tuple[bool, bytes]:
    """Send a command (None: send nothing, only read). Return whether pinentry accepted it, and the data that it
    returned."""
    reader, writer = process.stdout, process.stdin
    if reader is None or writer is None:  # both are pipes
        return False, b""
    data = b""
    with contextlib.suppress(ConnectionError, ValueError):
        if command is not None:
            writer.write(command.encode() + b"\n")
            await writer.drain()
        while line := await reader.readline():
            if line.startswith(b"D "):
                data += _unescape(line[2:].rstrip(b"\n"))
            elif line.startswith((b"OK", b"ERR")):
                return line.startswith(b"OK"), data[: MAX_PASSPHRASE_BYTES + 1]
    return False, b""


def _escape(text: str) -> str:
    return one_line(text).replace("%", "%25")


def _unescape(data: bytes) -> bytes:
    for code, char in ((b"%0A", b"\n"), (b"%0D", b"\r"), (b"%25", b"%")):
        data = data.replace(code, char)
    return data
