"""One child process that speaks MCP over its stdin and stdout, and the guard that keeps children from outliving the
gateway. I/O: a process, its pipes, its group; the reaper's process.

Its life:

- [group] It starts as a shell that waits for a line on stdin, in a process group of its own. The group is registered
  with the reaper. Only then is the line written, and the shell becomes the upstream's command. So even if the gateway
  is killed at any moment, no child is left behind.
- [bounds] Lines go in and out, both bounded. While the child does not read, nothing is read from the client, and the
  reverse.
- [reaper] The guard starts the reaper before the first child. If the reaper dies, all children are ended. Without it, a
  gateway that is killed would leave them behind.
- [end] To end it, stdin is closed, then its group gets SIGTERM, then SIGKILL, each after a grace. If a child exits by
  itself, the rest of its group is ended too. One that has closed its stdin is ended with the next line for it. Nothing
  remains: no zombie, no pipe, no member of the group.
"""

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from accredit.base.log_events import log_event
from accredit.errors import FrameError, UpstreamTimeout, UpstreamUnavailable
from accredit.gateway.settings import StdioUpstream
from accredit.gateway.upstream.stdio import reaper
from accredit.gateway.upstream.stdio.process import Process, watch_exit
from accredit.jsonrpc.lines import LineSplitter, encode_line
from accredit.limits import STOP_GRACE_SECONDS

EXIT_SECONDS = 2.0
"""How long to wait for a child's exit code after its output has ended. Clients are told the code. On a busy machine,
the exit may follow a while after the end of the output."""
GROUP_POLL_SECONDS = 0.02
"""How often to check whether a process group is empty. The kernel does not report that."""

_log = logging.getLogger("accredit.gateway.stdio")
# The shell reads its line byte by byte (POSIX), so that whatever follows on the pipe reaches the command.
_SHELL = ("/bin/sh", "-c", 'read -r accredit_go && exec "$@"', "accredit")


class OrphanGuard:
    """One per backend. Its reaper is started when it is first needed."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._helper: _Helper | None = None

    def ready(self) -> None:
        """Start the reaper if it does not run. Raises `UpstreamUnavailable`."""
        try:
            self._helper = self._helper or _Helper(self._lost)
        except OSError as error:
            raise UpstreamUnavailable("the process that watches over the upstream can't start") from error

    def add(self, group: int) -> None:
        """Register a group. When this returns, the group can't outlive the gateway. Raises `UpstreamUnavailable`."""
        self._groups.add(group)
        if self._helper is None or not self._helper.tell(b"+%d\n" % group):
            raise UpstreamUnavailable("the process that watches over the upstream does not")

    def remove(self, group: int) -> None:
        """Remove a group that has no members any more."""
        self._groups.discard(group)
        if self._helper is not None:
            self._helper.tell(b"-%d\n" % group)

    async def aclose(self) -> None:
        """End the reaper, which ends the remaining groups."""
        if self._helper is not None:
            helper, self._helper = self._helper, None
            await helper.aclose()

    def _lost(self) -> None:
        self._helper = None
        log_event(_log, logging.ERROR, "reaper_died", groups=len(self._groups))
        for group in self._groups:
            reaper.send_signal(group, signal.SIGKILL)


class _Helper:
    """The reaper's process, and the pipe to it. `lost` is called if it exits unexpectedly."""

    def __init__(self, lost: Callable[[], None]) -> None:
        """Start it. Raises `OSError`."""
        self._popen = subprocess.Popen(  # noqa: S603 - our own file
            (sys.executable, "-I", "-S", str(Path(reaper.__file__)), str(STOP_GRACE_SECONDS)),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
            cwd="/",
            env=_foreign_environment(),
        )
        assert self._popen.stdin is not None  # noqa: S101 - asked for above
        self._pipe = self._popen.stdin
        os.set_blocking(self._pipe.fileno(), False)
        self._lost: Callable[[], None] | None = lost
        self._exited = asyncio.Event()
        watch_exit(self._popen, self._has_exited)

    def tell(self, line: bytes) -> bool:
        """Write a line, at once. Return False if the reaper does not read; such a reaper is ended."""
        try:
            # Not through the event loop: a group must be known when this returns, not at some later turn.
            read = self._pipe.write(line) == len(line)
        except (OSError, ValueError):
            return False
        if not read:
            self._popen.kill()
        return read

    async def aclose(self) -> None:
        self._lost = None
        self._pipe.close()
        try:
            async with asyncio.timeout(3 * STOP_GRACE_SECONDS):
                await self._exited.wait()
        except TimeoutError:
            self._popen.kill()
            await self._exited.wait()

    def _has_exited(self) -> None:
        self._exited.set()
        self._pipe.close()
        if self._lost is not None:
            self._lost()


class Child:
    """A child, made by `start`. Its owner must call `aclose`."""

    def __init__(self, process: Process, guard: OrphanGuard, max_line_bytes: int) -> None:
        self.pid = process.pid
        self._process = process
        self._guard = guard
        self._splitter = LineSplitter(max_line_bytes)
        self._turn = asyncio.Lock()
        self._ending: asyncio.Task[None] | None = None
        process.on_exit = self._end_soon

    @classmethod
    async def start(cls, upstream: StdioUpstream, guard: OrphanGuard, max_line_bytes: int) -> "Child":
        """Run the upstream's command. Raises `UpstreamUnavailable`."""
        program = find_program(upstream)
        if program is None:
            raise UpstreamUnavailable("the upstream's command was not found")
        guard.ready()
        try:
            command = (*_SHELL, program, *upstream.command[1:])
            process = Process(command, child_environment(upstream), upstream.cwd)
        except (OSError, ValueError, RuntimeError) as error:
            raise UpstreamUnavailable("the upstream's command can't be started") from error
        child = cls(process, guard, max_line_bytes)
        try:
            guard.add(child.pid)
            await process.connect()
        except BaseException as error:
            child._end_soon()
            if isinstance(error, OSError):
                raise UpstreamUnavailable("the upstream's pipes can't be used") from error
            raise
        process.input.write(b"\n")
        return child

    async def send(self, text: bytes, timeout: float | None) -> None:
        """Write one message as a line, all of it or nothing.

        Waits while the child is slow to read, for at most `timeout` seconds (`UpstreamTimeout`). Raises
        `UpstreamUnavailable` if the child does not read any more.
        """
        if self._turn.locked() or not self._process.input.writable.is_set():
            try:
                async with asyncio.timeout(timeout), self._turn:
                    await self._process.input.writable.wait()
                    self._write(text)
            except TimeoutError:
                raise UpstreamTimeout("the upstream does not read its input") from None
        else:
            self._write(text)

    def send_now(self, text: bytes) -> None:
        """Write one message if that needs no waiting, else drop it. For messages that the child can do without."""
        if self._process.input.open and self._process.input.writable.is_set() and not self._turn.locked():
            self._write(text)

    def _write(self, text: bytes) -> None:
        if not self._process.input.open:
            self._end_soon()  # else what does not read, but lives, would have the place of one that reads
            raise UpstreamUnavailable(self._fate())
        self._process.input.write(encode_line(text))

    async def lines(self) -> list[bytes | FrameError] | None:
        """Return the next lines of its output, or None at the end. A line over the bound is a `FrameError`."""
        chunk = await self._process.output.read()
        return self._splitter.feed(chunk) if chunk else None

    @property
    def unfinished(self) -> int:
        """How many bytes of an unfinished line are kept."""
        return self._splitter.size

    def give_up_line(self, detail: str) -> None:
        """Drop the unfinished line, for this reason: it becomes a `FrameError`."""
        self._splitter.give_up(detail)

    async def died(self) -> UpstreamUnavailable:
        """Return the error that tells how the child ended. Call this at the end of its output. Waits briefly for its
        exit."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(EXIT_SECONDS):
                await self._process.exited.wait()
        return UpstreamUnavailable(self._fate())

    def _fate(self) -> str:
        code = self._process.returncode
        if code is None:
            return "the upstream closed its input or output"
        return f"the upstream ended with signal {-code}" if code < 0 else f"the upstream ended with code {code}"

    def close_input(self) -> None:
        """Close its stdin, which makes a child exit sooner or later."""
        self._process.input.close()

    async def aclose(self) -> None:
        """End the child and all of its group, within three periods of grace. Its further output is discarded."""
        self._process.output.ignore()
        self._end_soon()
        assert self._ending is not None  # noqa: S101 - set one line above
        await asyncio.shield(self._ending)

    def _end_soon(self) -> None:
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._end())

    async def _end(self) -> None:
        """Close stdin, then send SIGTERM, then SIGKILL, each only if the previous one was not enough ([end])."""
        self._process.input.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_GRACE_SECONDS):
                await self._process.exited.wait()
        _ = await self._signal(signal.SIGTERM) or await self._signal(signal.SIGKILL)
        self._guard.remove(self.pid)
        await self._process.close(STOP_GRACE_SECONDS)

    async def _signal(self, number: signal.Signals) -> bool:
        """Signal the group, if it has members, and wait for a grace until it is empty; return whether it is."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + STOP_GRACE_SECONDS
        present = reaper.send_signal(self.pid, number)
        while present and loop.time() < deadline:
            await asyncio.sleep(GROUP_POLL_SECONDS)
            if self._process.exited.is_set():
                self._bury()
            present = reaper.send_signal(self.pid, 0)
        return not present

    def _bury(self) -> None:
        # In a container's first process, orphaned grandchildren are reparented to the gateway: as zombies they would
        # stay in the group for ever. The child itself was waited for already.
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-self.pid, os.WNOHANG)[0]:
                pass


def child_environment(upstream: StdioUpstream) -> dict[str, str]:
    """Return the gateway's environment without its own variables, and with the configured ones."""
    return _foreign_environment() | dict(upstream.env)


def find_program(upstream: StdioUpstream) -> str | None:
    """Return the command's file, as the child finds it: in its PATH, or from its working folder."""
    name = upstream.command[0]
    if os.sep in name and upstream.cwd is not None:
        name = str(Path(upstream.cwd, name))
    return shutil.which(name, path=child_environment(upstream).get("PATH"))


def _foreign_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("ACCREDIT_")}
