"""A subprocess: its start, its three pipes, its exit. I/O: a process, pipes, a thread.

The event loop's own subprocesses are not suitable. With uvloop a child inherits file descriptors that it must not have
(a listening socket among them). With asyncio, waiting for a child lasts until its grandchildren have closed its pipes.
So `subprocess` starts the process, its pipes are connected to the loop, and a thread waits for its exit.
"""

import asyncio
import contextlib
import logging
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar, cast

from accredit.base.log_events import Pace, log_event
from accredit.limits import PIPE_BUFFER_BYTES

STDERR_LINE_CHARS = 1_000
"""How many characters of one line of a child's stderr are logged. The rest of the line is left out."""
STDERR_LINES_PER_SECOND = 50
"""How many lines of one child's stderr are logged per second. The rest are only counted."""


_log = logging.getLogger("accredit.gateway.stdio")
_T = TypeVar("_T", bound=asyncio.BaseTransport)


def watch_exit(process: subprocess.Popen[bytes], exited: Callable[[], None]) -> None:
    """Call `exited` in this event loop once a process has exited and was waited for."""
    loop = asyncio.get_running_loop()

    def wait() -> None:
        process.wait()
        with contextlib.suppress(RuntimeError):  # the loop was closed: nothing waits
            loop.call_soon_threadsafe(exited)

    threading.Thread(target=wait, name=f"accredit-wait-{process.pid}", daemon=True).start()


class _Pipe(asyncio.BaseProtocol, Generic[_T]):
    """The gateway's end of a pipe to a process."""

    _transport: _T | None = None

    def close(self) -> None:
        """Close the pipe, ended or not."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the pipe's transport. Called by `asyncio`."""
        self._transport = cast("_T", transport)


class _Input(_Pipe[asyncio.WriteTransport]):
    """The pipe to a process's stdin. `writable` is set while the buffer is low, and once the reader is gone."""

    def __init__(self) -> None:
        self.open = True
        self.writable = asyncio.Event()
        self.writable.set()

    def write(self, text: bytes) -> None:
        """Write, in order; do nothing if the reader is gone."""
        if self._transport is not None and self.open:
            self._transport.write(text)

    def close(self) -> None:
        """Close the process's stdin after everything that was written."""
        self._shut()
        super().close()

    def abort(self) -> None:
        """Close the pipe, dropping whatever is still buffered."""
        self.close()
        if self._transport is not None and self._transport.get_write_buffer_size():
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the pipe, with a bound on what is buffered."""
        super().connection_made(transport)
        cast("asyncio.WriteTransport", transport).set_write_buffer_limits(high=PIPE_BUFFER_BYTES)

    def connection_lost(self, exc: Exception | None) -> None:
        """The reader is gone."""
        self._transport = None
        self._shut()

    def pause_writing(self) -> None:
        """The buffer rose above the high-water mark."""
        self.writable.clear()

    def resume_writing(self) -> None:
        """The buffer drained below the low-water mark."""
        self.writable.set()

    def _shut(self) -> None:
        self.open = False
        self.writable.set()


class _Output(_Pipe[asyncio.ReadTransport], asyncio.Protocol):
    """The pipe from a process's stdout. At most `PIPE_BUFFER_BYTES` are read ahead. More unread output stays in the
    pipe, and blocks the process."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self._chunks: list[bytes] = []
        self._size = 0
        self._paused = False
        self._ignored = False
        self._news = asyncio.Event()

    async def read(self) -> bytes:
        """Wait until bytes have come since the last call, and return them all; b"" at the end."""
        while not self._chunks and not self.ended.is_set():
            self._news.clear()
            await self._news.wait()
        text = b"".join(self._chunks)
        self._forget()
        return text

    def ignore(self) -> None:
        """Discard everything from now on."""
        self._ignored = True
        self._forget()

    def close(self) -> None:
        """Close the pipe, ended or not."""
        super().close()
        self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        """The writer is gone."""
        self._transport = None
        self._end()

    def data_received(self, data: bytes) -> None:
        """Buffer the data."""
        if self._ignored:
            return
        self._chunks.append(data)
        self._size += len(data)
        if self._size > PIPE_BUFFER_BYTES and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._news.set()

    def _end(self) -> None:
        self.ended.set()
        self._news.set()

    def _forget(self) -> None:
        self._chunks.clear()
        self._size = 0
        if self._paused and not self.ended.is_set() and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()


class _Errors(_Pipe[asyncio.BaseTransport], asyncio.Protocol):
    """Logs a process's stderr."""

    def __init__(self, pid: int) -> None:
        self._log = StderrLog(pid)
        self._loop = asyncio.get_running_loop()

    def data_received(self, data: bytes) -> None:
        """Log the data."""
        self._log.feed(data, self._loop.time())

    def connection_lost(self, exc: Exception | None) -> None:
        """The writer is gone."""
        self._log.close(self._loop.time())


class Process:
    """A process in a session and a group of its own, both with its id. `on_exit` is called when it has exited.

    Its owner must call `close`.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], folder: str | None) -> None:
        """Start it. Raises `OSError`; `ValueError` for a NUL in an argument; `RuntimeError` when no thread starts."""
        self._popen = subprocess.Popen(  # noqa: S603 - the operator's command
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
        self.pid = self._popen.pid
        self.input = _Input()
        self.output = _Output()
        self.exited = asyncio.Event()
        self.on_exit: Callable[[], None] | None = None
        self._errors = _Errors(self.pid)
        watch_exit(self._popen, self._has_exited)

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._popen.returncode if self.exited.is_set() else None

    async def connect(self) -> None:
        """Connect the pipes to the event loop, all of them even if this is cancelled. Raises `OSError`.

        If uvloop is cancelled here, it closes the descriptor but does not take over the file object. That would close
        the same number again when it is garbage-collected, and by then the number may be in use for something else.
        """
        connecting = asyncio.ensure_future(self._connect())
        try:
            await asyncio.shield(connecting)
        except asyncio.CancelledError:
            await asyncio.wait([connecting])
            raise

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.connect_write_pipe(lambda: self.input, self._popen.stdin)
        await loop.connect_read_pipe(lambda: self.output, self._popen.stdout)
        await loop.connect_read_pipe(lambda: self._errors, self._popen.stderr)

    async def close(self, patience: float) -> None:
        """Close the pipes once the output has ended, but after `patience` seconds at the latest: another process may
        hold the output open."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self.output.ended.wait()
        self.input.abort()
        self.output.close()
        self._errors.close()

    def _has_exited(self) -> None:
        self.exited.set()
        if self.on_exit is not None:
            self.on_exit()


class StderrLog:
    """A child's stderr as lines of our log, bounded in length and in number. Times are the event loop's, in seconds.

    The child's output is read at once, so that it never blocks; what exceeds the bounds is left out.
    """

    __slots__ = ("_line", "_pace", "_pid")

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._line = bytearray()
        self._pace = Pace(STDERR_LINES_PER_SECOND)

    def feed(self, data: bytes, now: float) -> None:
        """Add output of the child."""
        *ended, rest = data.split(b"\n")
        for part in ended:
            self._keep(part)
            self._log(now)
        self._keep(rest)

    def close(self, now: float) -> None:
        """Log the rest: the last line may be unterminated."""
        self._log(now)
        self._log_skipped()

    def _keep(self, part: bytes) -> None:
        # Four bytes hold any character.
        self._line += part[: max(4 * STDERR_LINE_CHARS - len(self._line), 0)]

    def _log(self, now: float) -> None:
        text = self._line.decode("utf-8", "replace").strip()
        self._line.clear()
        if not text or not self._pace.admits(now):
            return
        self._log_skipped()
        line = "".join(char if char.isprintable() else "?" for char in text[:STDERR_LINE_CHARS])
        log_event(_log, logging.INFO, "upstream_stderr", line=line, pid=self._pid)

    def _log_skipped(self) -> None:
        skipped = self._pace.skipped()
        if skipped:
            log_event(_log, logging.WARNING, "upstream_stderr_dropped", lines=skipped, pid=self._pid)
