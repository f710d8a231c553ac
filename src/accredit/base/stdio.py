"""Our own stdin and stdout, towards the host that started this process. Reads and writes them, in threads.

They may be pipes, files or a terminal, and other processes may share them. So they stay in blocking mode, and a thread
waits on each. The threads are daemons: a thread that waits for an idle host must not keep this process alive.
"""

import asyncio
import contextlib
import os
import queue
import threading
from collections.abc import Callable
from functools import partial

from accredit.limits import PIPE_BUFFER_BYTES

_CHUNK = 65_536


class StdioHost:
    """Reads the host's messages in chunks, and writes lines to it. `gone` is set once nothing reads our stdout any
    more."""

    def __init__(self, stdin: int = 0, stdout: int = 1) -> None:
        self.gone = asyncio.Event()
        self._stdin = stdin
        self._stdout = stdout
        self._loop = asyncio.get_running_loop()
        self._input: asyncio.Queue[bytes] = asyncio.Queue()
        self._taken = threading.Semaphore(1)
        self._output: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._unwritten = 0
        self._written = asyncio.Event()
        for work in (self._read, self._write):
            threading.Thread(target=work, name=f"accredit-host{work.__name__}", daemon=True).start()

    async def read(self) -> bytes:
        """Return the next bytes from the host, or b"" once it has closed its side. Nothing more is read until the next
        call."""
        chunk = await self._input.get()
        self._taken.release()
        return chunk

    def send(self, line: bytes) -> None:
        """Queue a line for the host. `drained` waits until it is written."""
        self._unwritten += len(line)
        self._output.put(line)

    async def drained(self, limit: int = PIPE_BUFFER_BYTES) -> None:
        """Wait until at most `limit` bytes are unwritten, or nothing reads them any more."""
        while self._unwritten > limit and not self.gone.is_set():
            self._written.clear()
            await self._written.wait()

    def _read(self) -> None:
        chunk = b"-"
        while chunk:
            self._taken.acquire()
            try:
                chunk = os.read(self._stdin, _CHUNK)
            except OSError:
                chunk = b""
            self._tell(partial(self._input.put_nowait, chunk))

    def _write(self) -> None:
        while True:
            line = self._output.get()
            try:
                left = memoryview(line)
                while left:
                    left = left[os.write(self._stdout, left) :]
            except OSError:
                self._tell(self._lost)
                return
            self._tell(partial(self._wrote, len(line)))

    def _lost(self) -> None:
        self.gone.set()
        self._written.set()

    def _wrote(self, size: int) -> None:
        self._unwritten -= size
        self._written.set()

    def _tell(self, callback: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody is waiting
            self._loop.call_soon_threadsafe(callback)
