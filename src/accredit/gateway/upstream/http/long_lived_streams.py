"""Long-lived streams: they end only when the process is about to stop."""

import asyncio

from accredit.errors import UpstreamUnavailable
from accredit.gateway.upstream.http.sse_relay import EventRelay


class LongLivedStreams:
    """The long-lived streams of one process."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[object]] = set()
        self._draining = False

    async def run(self, relay: EventRelay) -> None:
        """Run a relay in the current task until it is over, or `drain` ends it."""
        task = asyncio.current_task()
        if task is None or self._draining:
            raise UpstreamUnavailable("the gateway is stopping")
        self._tasks.add(task)
        try:
            await relay.run()
        except asyncio.CancelledError:
            if not self._draining or task.uncancel() > 0:
                raise
            await relay.stop(UpstreamUnavailable("the gateway is stopping"))
        finally:
            self._tasks.discard(task)

    def drain(self) -> None:
        """End all of them, and any that come later."""
        self._draining = True
        for task in self._tasks:
            task.cancel()
