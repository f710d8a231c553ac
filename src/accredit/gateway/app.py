"""The gateway as one ASGI application: which path goes where, and its life.

It may be mounted in another application. What it needs (connections, children) it makes at first use and gives
back at the end of its lifespan.
"""

import asyncio
from collections.abc import Callable, Sequence

from msgspec import Raw

from accredit.errors import AccreditError, ClientGone, TokenError, UpstreamUnavailable
from accredit.gateway.admission.bearer import bearer_for
from accredit.gateway.admission.gate import Gate
from accredit.gateway.admission.identity import KEYS_PATH
from accredit.gateway.admission.tool_directory import ToolDirectory
from accredit.gateway.counters import Counters
from accredit.gateway.front.asgi import AsgiExchange, Receive, Scope, Send
from accredit.gateway.front.authenticator import HttpAuthenticator
from accredit.gateway.front.cors import is_preflight, preflight
from accredit.gateway.front.endpoint import Endpoint
from accredit.gateway.front.exchange import Exchange
from accredit.gateway.front.health import ALIVE, READY, Health
from accredit.gateway.front.legacy_sse import MESSAGES_PATH, SSE_PATH, LegacySse
from accredit.gateway.front.passthrough import forward, named, refuse
from accredit.gateway.front.resource_metadata import Resource
from accredit.gateway.front.session_binding import sessions_of
from accredit.gateway.headers import JSON
from accredit.gateway.recording.recorder import recorder_of
from accredit.gateway.replies import refusal
from accredit.gateway.room import Rooms
from accredit.gateway.settings import GatewaySettings, HttpUpstream, StdioUpstream
from accredit.gateway.trace import set_current
from accredit.gateway.upstream.backend import Backend
from accredit.gateway.upstream.http.own_token import AccessTokensFor
from accredit.gateway.upstream.http.relay import HttpRelay
from accredit.gateway.upstream.stdio.backend import StdioBackend
from accredit.jsonrpc.long_text import Steps
from accredit.ports import KeySets, ProofStore, Records, Revocations, TaskStore
from accredit.stores import MemoryTasks


def create_app(
    upstream: GatewaySettings | str | Sequence[str],
    *,
    store: ProofStore | None = None,
    revocations: Revocations | None = None,
    records: Records | None = None,
    key_sets: KeySets | None = None,
    tasks: TaskStore | None = None,
    on_tools: Callable[[Raw], Steps[None]] | None = None,
    access_tokens: AccessTokensFor | None = None,
) -> "Gateway":
    """Return an ASGI application in front of one upstream.

    `upstream` is a URL, a command (a list of strings), or complete settings. If these require proofs, `store` and
    `revocations` answer the decisions' questions; if they take tokens, `key_sets` has the issuers' keys; if they say
    that calls are recorded, `records` is the log. `tasks` remembers whose tasks are, by default in this process.
    `access_tokens` gives what gets the gateway's own tokens for a server, where the settings say that it needs some.
    `on_tools` is shown the result of each `tools/list` as the upstream sent it, in steps; if it raises `FrameError`,
    the answer is invalid. At its end the application closes all but the revocations. Raises `ConfigurationError`.
    """
    if isinstance(upstream, str):
        upstream = GatewaySettings(HttpUpstream(upstream))
    elif not isinstance(upstream, GatewaySettings):
        upstream = GatewaySettings(StdioUpstream(tuple(upstream)))
    if upstream.guards and tasks is None:
        tasks = MemoryTasks()
    return Gateway(upstream, store, revocations, key_sets, records, tasks, on_tools, access_tokens)


class Gateway:
    """The application. `drain` and `end_streams` are for the server that runs it, and is told to stop."""

    def __init__(
        self,
        settings: GatewaySettings,
        store: ProofStore | None = None,
        revocations: Revocations | None = None,
        key_sets: KeySets | None = None,
        records: Records | None = None,
        tasks: TaskStore | None = None,
        on_tools: Callable[[Raw], Steps[None]] | None = None,
        access_tokens: AccessTokensFor | None = None,
    ) -> None:
        self._settings = settings
        self._store = store
        self._counters = Counters()
        self.rooms = Rooms(settings.max_request_bytes, proving=settings.proving)
        self.surroundings = (self.rooms, settings.allowed_origins)
        """What an exchange needs to know of its gateway."""
        self._recorder = recorder_of(settings, self._counters, records)
        self._key_sets = key_sets
        directory = ToolDirectory(on_tools)
        bearer = bearer_for(settings, key_sets, directory)
        tokens = settings.tokens
        self._resource = Resource(tokens, settings.path) if tokens is not None else None
        sessions = sessions_of(settings, live_here=isinstance(settings.upstream, StdioUpstream))
        authenticator = HttpAuthenticator(bearer, sessions) if bearer is not None else None
        self._tasks = tasks
        gate = Gate(
            settings,
            self._counters,
            directory,
            store=store,
            revocations=revocations,
            bearer=bearer,
            recorder=self._recorder,
            tasks=tasks,
        )
        self._backend: Backend
        self._http: HttpRelay | None = None
        if isinstance(settings.upstream, HttpUpstream):
            self._backend = self._http = HttpRelay(
                settings, settings.upstream, self._counters, directory, access_tokens
            )
            self._sse = LegacySse(
                settings, settings.upstream.url, gate, self._http, self._counters, sessions, authenticator
            )
        else:
            self._backend = StdioBackend(settings, settings.upstream, self._counters, directory)
        self._endpoint = Endpoint(settings, gate, self._backend, sessions, authenticator)
        self._health = Health(
            self._backend, self._counters, authenticator, self._recorder, store, revocations, key_sets, gate.pinned
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] == "http":
            set_current(None)  # the server's task may have served another one
            await self.serve(AsgiExchange(scope, receive, send, *self.surroundings))
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    @property
    def endpoint_path(self) -> str:
        """The path whose POSTs are MCP's."""
        return self._settings.path

    @property
    def refused(self) -> dict[str, int]:
        """What this process has refused since it started, by kind, for whoever mounts the application."""
        return dict(self._counters.counts)

    @property
    def draining(self) -> bool:
        """Whether the end has begun."""
        return self._health.draining

    def drain(self) -> None:
        """Begin the end: `/readyz` says so, and everything is served as before."""
        self._health.draining = True

    def end_streams(self) -> None:
        """End standing streams, and let calls finish: the process is about to stop."""
        self._backend.drain()

    async def aclose(self) -> None:
        """Release all resources."""
        await self._backend.aclose()
        if self._recorder is not None:
            await self._recorder.aclose()
        if self._store is not None:
            await self._store.aclose()
        if self._tasks is not None:
            await self._tasks.aclose()
        if self._key_sets is not None:
            await self._key_sets.aclose()

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                if self._recorder is not None:
                    await self._recorder.ready()  # calls that a dead process left open are closed now
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.aclose()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def serve(self, exchange: Exchange) -> None:
        """Answer one request, whatever carries it.

        If its answer can't be brought to an end, its carrier has to show that: by closing the connection.
        """
        try:
            if self._resource is not None:
                exchange.take_credentials()
            if exchange.head.path == self._settings.path and exchange.head.method != "OPTIONS":
                await self._endpoint.serve(exchange)
            else:
                await self._route(exchange)
        except ClientGone:
            pass
        except AccreditError as error:
            await self._refuse(exchange, error)
        except asyncio.CancelledError:
            if exchange.started:
                raise
            # The server stops, and its grace was too short for this call. Its own answer would be no JSON-RPC.
            await self._refuse(exchange, UpstreamUnavailable("the gateway has stopped before the answer came"))
        finally:
            exchange.over()

    async def _refuse(self, exchange: Exchange, error: AccreditError) -> None:
        self._counters.refused(error)
        if not exchange.started:  # else nothing more can be said: the server closes the connection
            answer = refusal(error, self._resource.metadata_url if self._resource is not None else "")
            id = exchange.request_id if isinstance(error, TokenError) else None
            await exchange.reply(answer.status, answer.frame(id), [JSON, *answer.headers])

    async def _route(self, exchange: Exchange) -> None:
        head, path = exchange.head, exchange.head.path
        if is_preflight(head.method, head.headers) and self._endpoint.is_of_listed(exchange):
            await exchange.reply(204, headers=preflight(head.headers, self._settings.forward_headers))
            return
        if path == self._settings.path:
            await self._endpoint.serve(exchange)
            return
        self._endpoint.check_source(exchange)
        if path in (ALIVE, READY):
            await self._health.serve(exchange, path)
        elif path == KEYS_PATH and self._http is not None and self._http.identity is not None:
            await self._http.identity.serve(exchange)
        elif self._resource is None or not await self._resource.serve(exchange, path):
            await self._elsewhere(exchange, path)

    async def _elsewhere(self, exchange: Exchange, path: str) -> None:
        head = exchange.head
        if self._http is None:
            raise refuse(path)
        if path == SSE_PATH and head.method == "GET":
            await self._sse.stream(exchange, head.root)
        elif path == MESSAGES_PATH and head.method == "POST":
            await self._sse.message(exchange)
        elif named(path, self._settings.passthrough):
            target = head.raw_path.removeprefix(head.root.encode("utf-8"))
            if head.query:
                target += b"?" + head.query
            await forward(exchange, target, self._http.client, self._settings, self._http.forwarding)
        else:
            raise refuse(path)
