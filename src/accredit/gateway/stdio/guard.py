"""The gateway's side of the reaper: which process groups must not outlive this process. Starts the reaper.

1. The reaper runs before the first child does.
2. A group is made known before its child may run the upstream's command (`child.Child.start`).
3. A reaper that dies takes all children with it: without it, a gateway that is killed would leave them behind.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

from accredit.errors import UpstreamUnavailable
from accredit.gateway.logs import log_event
from accredit.gateway.stdio import reaper
from accredit.limits import STOP_GRACE_SECONDS

_log = logging.getLogger("accredit.gateway.stdio")


class OrphanGuard:
    """One per backend. Its reaper is started when it is first needed."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._helper: _Helper | None = None
        self._starting = asyncio.Lock()

    async def ready(self) -> None:
        """Sees to it that the reaper runs. Raises `UpstreamUnavailable`."""
        async with self._starting:
            if self._helper is None:
                self._helper = await _Helper.start(self._lost)

    def add(self, group: int) -> None:
        """Makes a group known: when this returns, it can't outlive the gateway. Raises `UpstreamUnavailable`."""
        if self._helper is None or not self._helper.tell(b"+%d\n" % group):
            raise UpstreamUnavailable("the process that watches over the upstream is gone")
        self._groups.add(group)

    def remove(self, group: int) -> None:
        """Forgets a group in which nobody is left."""
        self._groups.discard(group)
        if self._helper is not None:
            self._helper.tell(b"-%d\n" % group)

    async def aclose(self) -> None:
        """Ends the reaper, which ends whatever group is still known."""
        if self._helper is not None:
            helper, self._helper = self._helper, None
            await helper.aclose()

    def _lost(self) -> None:
        self._helper = None
        log_event(_log, logging.ERROR, "the reaper died, the children are ended", groups=len(self._groups))
        for group in self._groups:
            reaper.sent(group, signal.SIGKILL)


class _Helper(asyncio.SubprocessProtocol):
    """The reaper's process, and the pipe to it. `lost` is called when it ends before it was told to."""

    def __init__(self, lost: Callable[[], None], pipe: int) -> None:
        self._lost: Callable[[], None] | None = lost
        # Not a transport: a group must be known when `tell` returns, not at some later turn of the loop.
        self._pipe = pipe
        self._exited = asyncio.Event()
        self._transport: asyncio.SubprocessTransport

    @classmethod
    async def start(cls, lost: Callable[[], None]) -> "_Helper":
        theirs, ours = os.pipe()
        os.set_blocking(ours, False)
        helper = cls(lost, ours)
        try:
            await asyncio.get_running_loop().subprocess_exec(
                lambda: helper,
                *(sys.executable, "-I", "-S", str(Path(reaper.__file__)), str(STOP_GRACE_SECONDS)),
                stdin=theirs,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
        except BaseException as error:
            os.close(ours)
            if isinstance(error, OSError):
                raise UpstreamUnavailable("the process that watches over the upstream can't start") from error
            raise
        finally:
            os.close(theirs)
        return helper

    def tell(self, line: bytes) -> bool:
        """Writes a line; False when nobody reads it. One who does not read is of no use, and is ended."""
        try:
            os.write(self._pipe, line)
        except OSError:
            if not self._exited.is_set():
                self._transport.kill()
            return False
        return True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def process_exited(self) -> None:
        self._exited.set()
        if self._lost is not None:
            os.close(self._pipe)
            self._lost()

    async def aclose(self) -> None:
        if self._exited.is_set():
            return
        self._lost = None
        os.close(self._pipe)
        try:
            async with asyncio.timeout(3 * STOP_GRACE_SECONDS):
                await self._exited.wait()
        except TimeoutError:
            self._transport.kill()
            await self._exited.wait()
        finally:
            self._transport.close()
