"""A child's three pipes and its exit, as the event loop reports them. I/O through the loop's transports only.

Not `asyncio.subprocess`: there `wait` returns only when the pipes are closed too, and a grandchild that holds one
keeps it waiting for ever (CPython 3.11).
"""

import asyncio
from collections.abc import Callable
from typing import cast

from accredit.gateway.stdio.stderr import StderrLog
from accredit.limits import PIPE_BUFFER_BYTES

STDIN, STDOUT, STDERR = 0, 1, 2


class Pipes(asyncio.SubprocessProtocol):
    """The event loop's side of one child process; `on_exit` is called when it has ended."""

    def __init__(self) -> None:
        self.process: asyncio.SubprocessTransport
        self.input: asyncio.WriteTransport
        self.input_open = True
        self.writable = asyncio.Event()
        self.writable.set()
        self.exited = asyncio.Event()
        self.on_exit: Callable[[], None] | None = None
        self._stdout: asyncio.ReadTransport
        self._chunks: list[bytes] = []
        self._size = 0
        self._news = asyncio.Event()
        self._unheard = False
        self._output_ended = asyncio.Event()
        self._log = StderrLog()
        self._loop = asyncio.get_running_loop()

    async def read(self) -> bytes:
        """All of its output that has come since the last call, at least something; b"" at the end."""
        while not self._chunks and not self._output_ended.is_set():
            self._news.clear()
            await self._news.wait()
        text = b"".join(self._chunks)
        self._forget()
        return text

    def close_input(self) -> None:
        """Lets the child see the end of its stdin, after what was written."""
        self.input_open = False
        self.writable.set()
        self.input.close()

    def ignore_output(self) -> None:
        """From now on its output is read and thrown away."""
        self._unheard = True
        self._forget()

    async def close(self, patience: float) -> None:
        """Gives the pipes back once the output has ended, or after `patience` seconds: somebody may hold it."""
        try:
            async with asyncio.timeout(patience):
                await self._output_ended.wait()
        except TimeoutError:
            self._end_output()
        self.process.close()

    def _forget(self) -> None:
        self._chunks.clear()
        if self._size > PIPE_BUFFER_BYTES and not self._output_ended.is_set():
            self._stdout.resume_reading()
        self._size = 0

    def _end_output(self) -> None:
        self._output_ended.set()
        self._news.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The child runs (asyncio's callback, as those below)."""
        self.process = cast("asyncio.SubprocessTransport", transport)
        self.input = cast("asyncio.WriteTransport", self.process.get_pipe_transport(STDIN))
        self.input.set_write_buffer_limits(high=PIPE_BUFFER_BYTES)
        self._stdout = cast("asyncio.ReadTransport", self.process.get_pipe_transport(STDOUT))
        self._log.pid = self.process.get_pid()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """It wrote something."""
        if fd == STDERR:
            self._log.feed(data, self._loop.time())
        elif not self._unheard:
            self._chunks.append(data)
            paused = self._size > PIPE_BUFFER_BYTES
            self._size += len(data)
            if self._size > PIPE_BUFFER_BYTES and not paused:
                self._stdout.pause_reading()
            self._news.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """It closed a pipe, or we did."""
        if fd == STDIN:
            self.input_open = False
            self.writable.set()
        elif fd == STDOUT:
            self._end_output()
        else:
            self._log.close()

    def pause_writing(self) -> None:
        """It does not read as fast as we write."""
        self.writable.clear()

    def resume_writing(self) -> None:
        """It has caught up."""
        self.writable.set()

    def process_exited(self) -> None:
        """It ended; its pipes may be open still."""
        self.exited.set()
        if self.on_exit is not None:
            self.on_exit()
