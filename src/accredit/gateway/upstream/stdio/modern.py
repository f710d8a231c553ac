"""Starts the shared child at the first request, and again, with back-off, after it died.

The first restart is immediate; if the child dies before it has answered anything, the wait doubles each time. Meanwhile
requests fail at once: nobody waits for a server that does not come up.
"""

import asyncio

from accredit.errors import UpstreamUnavailable
from accredit.gateway.admission.tool_directory import ToolDirectory
from accredit.gateway.counters import Counters
from accredit.gateway.settings import GatewaySettings, StdioUpstream
from accredit.gateway.upstream.large_answers import SERVER, Held, LargeAnswers
from accredit.gateway.upstream.reply import Reply
from accredit.gateway.upstream.stdio.child import Child
from accredit.gateway.upstream.stdio.orphan_guard import OrphanGuard
from accredit.gateway.upstream.stdio.shared import SharedChild
from accredit.jsonrpc.frames import Request
from accredit.jsonrpc.responses import Edit
from accredit.limits import BACKOFF_FIRST_SECONDS, BACKOFF_MAX_SECONDS


class SharedUpstream:
    """Routes the modern era's requests to the child."""

    def __init__(
        self,
        settings: GatewaySettings,
        upstream: StdioUpstream,
        guard: OrphanGuard,
        counters: Counters,
        tools: ToolDirectory,
        large: LargeAnswers,
    ) -> None:
        self._settings = settings
        self._upstream = upstream
        self._guard = guard
        self._counters = counters
        self._life: SharedChild | None = None
        self._lives: set[SharedChild] = set()
        self._starting = asyncio.Lock()
        self._deaths = 0
        self._not_before = 0.0
        self._tools = tools
        self._large = large

    def go_by(self, settings: GatewaySettings) -> None:
        """Apply these settings from now on."""
        self._settings = settings
        for life in self._lives:
            life.go_by(settings)

    async def post(self, reply: Reply, request: Request, edit: Edit | None, held: Held) -> None:
        """Forward a request and answer the client. Raises `AccreditError`."""
        life = await self._living()
        if request.method == "tools/call":
            await self._tools.check_headers(request, reply.head.headers, life.ask)
        await life.post(reply, request, edit, held)

    async def ask(self, request: Request, held: Held) -> bytes | None:
        """Send one of the gateway's own requests; return the response's text, or None. Raises `AccreditError`."""
        return await (await self._living()).ask(request, held)

    def resting(self) -> bool:
        """Return whether the child died and waits to be restarted."""
        return self._life is None and asyncio.get_running_loop().time() < self._not_before

    def drain(self) -> None:
        """End the streams of subscriptions."""
        if self._life is not None:
            self._life.drain()

    async def aclose(self) -> None:
        """End the child, and the remains of earlier ones."""
        await asyncio.gather(*(life.aclose() for life in self._lives))

    async def _living(self) -> SharedChild:
        async with self._starting:
            if self._life is not None:
                return self._life
            if self.resting():
                raise UpstreamUnavailable("the upstream has ended repeatedly, and is not started again yet")
            child = await Child.start(self._upstream, self._guard, self._settings.max_event_bytes)
            life = self._life = SharedChild(child, self._settings, self._counters, lost=self._lost)
            life.line = self._large.of(SERVER)
            self._lives.add(life)
            life.over.add_done_callback(lambda _: self._lives.discard(life))
            return life

    def _lost(self, life: SharedChild) -> None:
        self._life = None
        self._deaths = 1 if life.proved else self._deaths + 1
        wait = min(BACKOFF_FIRST_SECONDS * 2 ** (self._deaths - 2), BACKOFF_MAX_SECONDS) if self._deaths > 1 else 0.0
        self._not_before = asyncio.get_running_loop().time() + wait
