"""The gateway's side of the reaper: it knows the process groups that must not outlive this process. Starts the reaper.

- [first] The reaper runs before the first child does.
- [registered] A group is registered before its child may run the upstream's command (`child.Child.start`).
- [reaper] If the reaper dies, all children are ended. Without it, a gateway that is killed would leave them behind.
"""

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from accredit.base.log_events import log_event
from accredit.errors import UpstreamUnavailable
from accredit.gateway.upstream.stdio import reaper
from accredit.gateway.upstream.stdio.process import watch_exit
from accredit.limits import STOP_GRACE_SECONDS

_log = logging.getLogger("accredit.gateway.stdio")


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
            env={name: text for name, text in os.environ.items() if not name.startswith("ACCREDIT_")},
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
