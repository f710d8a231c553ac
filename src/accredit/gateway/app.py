"""The gateway as one ASGI application: its routes and its lifespan.

The application may be mounted in another one. It opens connections and starts child processes when they are first used,
and releases them at the end of its lifespan.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any

from msgspec import Raw, structs

from accredit import stores
from accredit.base.steps import Steps
from accredit.consent.desk_requests import ASKS_PATH
from accredit.errors import ConfigurationError
from accredit.gateway.admission.bearer import bearer_for
from accredit.gateway.admission.tool_directory import ToolDirectory
from accredit.gateway.counters import Counters
from accredit.gateway.front.asgi import AsgiExchange, Receive, Scope, Send
from accredit.gateway.front.bootstrap import PATH, Bootstrap
from accredit.gateway.front.callers import HttpAuthenticator, sessions_of
from accredit.gateway.front.cors import is_preflight, preflight
from accredit.gateway.front.desk_asks import DeskAsks
from accredit.gateway.front.endpoint import answer, check_host, check_source, is_of_listed
from accredit.gateway.front.exchange import Exchange
from accredit.gateway.front.health import ALIVE, READY, Condition, Health
from accredit.gateway.front.passthrough import refuse
from accredit.gateway.front.ratify_http import PREFIX, RatifyHttp
from accredit.gateway.holding import HeldAsks
from accredit.gateway.oauth_settings import PeopleFor
from accredit.gateway.recording.early_refusals import AnonymousRecordBudget
from accredit.gateway.room import Rooms
from accredit.gateway.server import Server, Shared
from accredit.gateway.settings import ApiUpstream, GatewaySettings, HttpUpstream, StdioUpstream, check_apart
from accredit.gateway.turns import current_server
from accredit.gateway.upstream.http.sending import AccessTokensFor
from accredit.policy.decision import Policy
from accredit.ports import AskStore, ClientSource, DoorStore, KeySets, ProofStore, Records, Revocations, TaskStore
from accredit.telemetry.operations import Telemetry
from accredit.telemetry.tracing import set_current_message

if TYPE_CHECKING:
    from accredit.gateway.api_server import ApiServer
    from accredit.gateway.front.door.server import FrontDoor

MAX_LEAVING_SERVERS = 16
"""How many servers may still be finishing calls after a reload has changed or removed them. Each may have child
processes, which must not pile up if several reloads come within one `grace_seconds`."""


def create_app(
    upstream: GatewaySettings | str | Sequence[str] | Sequence[GatewaySettings],
    *,
    store: ProofStore | None = None,
    revocations: Revocations | None = None,
    records: Records | None = None,
    key_sets: KeySets | None = None,
    tasks: TaskStore | None = None,
    on_tools: Callable[[Raw], Steps[None]] | None = None,
    access_tokens: AccessTokensFor | None = None,
    telemetry: Telemetry | None = None,
    door: DoorStore | None = None,
    asks: AskStore | None = None,
    client_documents: ClientSource | None = None,
    people: PeopleFor | None = None,
) -> "Gateway":
    """Return an ASGI application in front of one upstream, or of several.

    `upstream` is a URL, a command (a list of strings), complete settings, or a list of settings. In a list, each has a
    `server` and a `path` of its own; otherwise they are equal. Some features need an adapter (`ports`): `store` and
    `revocations` if proofs are required; `key_sets`, with the issuers' keys, if tokens are accepted; `records`, the
    log, if calls are recorded; `door`, `asks` and `client_documents` (clients' metadata documents) if OAuth clients are
    let in; and `people`, which makes the client of the identity provider, if people log in.

    `tasks` stores the owners of tasks, by default in this process. `access_tokens` makes the adapter that fetches the
    gateway's own tokens for a server, if the settings require them. `on_tools` gets the result of each `tools/list` as
    the upstream sent it, in steps. If it raises `FrameError`, the upstream's answer counts as invalid. `telemetry`
    measures, if given. When the application ends, it closes all of these except the revocations. Raises
    `ConfigurationError`.
    """
    servers = _servers(upstream)
    if any(each.guards or each.observes for each in servers) and tasks is None:
        tasks = stores.Tasks()
    ports = (store, revocations, key_sets, records, tasks, on_tools, access_tokens)
    counters = Counters()
    if telemetry is not None:
        counters = Counters(invalid=telemetry.invalid, unasked=telemetry.unasked)
    of_door = (door, asks, client_documents, people)
    return Gateway(servers, Shared(counters, *ports, AnonymousRecordBudget(), telemetry, *of_door))


def _servers(upstream: GatewaySettings | str | Sequence[str] | Sequence[GatewaySettings]) -> list[GatewaySettings]:
    if isinstance(upstream, str):
        return [GatewaySettings(HttpUpstream(upstream))]
    if isinstance(upstream, GatewaySettings):
        return [upstream]
    settings = [each for each in upstream if isinstance(each, GatewaySettings)]
    command = tuple(each for each in upstream if isinstance(each, str))
    if not upstream or len(upstream) not in (len(settings), len(command)):
        what = "the upstream is neither a command, all of it texts, nor the settings of servers"
        raise ConfigurationError(what, 'write it like ["python", "server.py"]')
    return settings or [GatewaySettings(StdioUpstream(command))]


class Gateway:
    """The application. The server that runs it calls `drain` and `end_streams` when that server is told to stop.

    All that the settings decide is in `routes`, one value that a reload replaces (`swap`). Each request reads `routes`
    once and keeps that value to its end.
    """

    def __init__(self, servers: Sequence[GatewaySettings], shared: Shared) -> None:
        """`servers` are the settings of each server. They differ only in what belongs to one server."""
        self.condition = Condition()
        self.routes = Routes(servers, shared, self.condition)
        """The routes in force."""
        self._leaving: dict[Server, asyncio.TimerHandle] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] == "http":
            set_current_message(None)  # the server's task may have served another request
            routes = self.routes
            await routes.serve(AsgiExchange(scope, receive, send, *routes.surroundings))
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    @property
    def refused(self) -> dict[str, int]:
        """What this process has refused since it started, by kind, for the application that mounts it."""
        return dict(self.routes.shared.counters.counts)

    def drain(self) -> None:
        """Announce the end: from now on `/readyz` reports it. Everything is still served as before."""
        self.condition.draining = True

    def end_streams(self) -> None:
        """End standing streams, and let calls finish: the process is about to stop."""
        for server in self.routes.servers:
            server.backend.drain()

    def prepare(self, servers: Sequence[GatewaySettings], shared: Shared) -> "Routes":
        """Return the routes that follow from other settings. They have no effect yet. A server that is reached as
        before keeps its state. Raises `ConfigurationError`."""
        return Routes(servers, shared, self.condition, self.routes)

    def swap(self, routes: "Routes", grace_seconds: float) -> None:
        """Put the routes of `prepare` in force. If a server was removed, or is now reached in another way, its streams
        end now. Calls to it may finish within `grace_seconds`; then the rest of it ends. If too many such servers are
        left, the oldest ends at once."""
        before, self.routes = self.routes, routes
        for server in routes.servers:
            server.begin()
        kept = {server.line for server in routes.servers}
        for server in before.servers:
            if server.line not in kept:
                server.backend.drain()
                self._leaving[server] = asyncio.get_running_loop().call_later(grace_seconds, self._end, server)
        for name, api in before.apis.items():
            if not api.goes_on_in(routes.apis.get(name)):
                asyncio.get_running_loop().call_later(grace_seconds, self._close, api.aclose)
        while len(self._leaving) > MAX_LEAVING_SERVERS:
            self._end(next(iter(self._leaving)))

    async def aclose(self) -> None:
        """Release all resources."""
        for server in list(self._leaving):
            self._end(server)
        routes = self.routes
        await asyncio.gather(*self._closing, *(each.aclose() for each in (*routes.servers, *routes.apis.values())))
        shared = self.routes.shared
        for port in (
            shared.records,
            shared.store,
            shared.tasks,
            shared.key_sets,
            shared.door,
            shared.asks,
            shared.client_documents,
        ):
            if port is not None:
                await port.aclose()

    def _end(self, server: Server) -> None:
        self._leaving.pop(server).cancel()
        # Its successor of the same name waits for the records of both, at the end.
        replaced = any(each.name == server.name for each in self.routes.servers)
        self._close(server.backend.aclose if replaced else server.aclose)

    def _close(self, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = asyncio.get_running_loop().create_task(close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                records = self.routes.shared.records
                if records is not None and self.routes.settings.records is not None:
                    await records.ready()  # calls left open by a dead process are closed now
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.aclose()
                await send({"type": "lifespan.shutdown.complete"})
                return


class Routes:
    """The handlers by path, made from one value of the settings. Immutable."""

    def __init__(
        self,
        servers: Sequence[GatewaySettings],
        shared: Shared,
        condition: Condition,
        before: "Routes | None" = None,
    ) -> None:
        """`before` are the previous routes, whose state is kept. Raises `ConfigurationError`."""
        self.settings = settings = servers[0]
        self.apis = _apis(servers, shared, before)
        """The HTTP APIs, by name."""
        self.proof_prefixes = tuple(each.beginning for each in self.apis.values() if each.prefix)
        """The beginnings of the paths of APIs and agents behind the gateway. There, a header may hold a proof."""
        policies = [each.proofs.policy for each in servers if each.proofs is not None]
        several = [each for each in servers if each.members]
        servers = [each for each in servers if not each.members and each.server not in self.apis]
        self.shared = shared
        self._counters = shared.counters
        known = {each.name: each for each in before.servers} if before is not None else {}
        self._servers = [Server(each, shared, servers=len(servers), before=known.get(each.server)) for each in servers]
        named = {each.name: each for each in self._servers}
        merged = [Server(each, shared, before=known.get(""), beside=named) for each in several]
        self.servers = [*self._servers, *merged]
        """All servers; last the merged one, if there is one."""
        self._endpoints = {each.settings.path: each for each in self.servers}
        self.targets = frozenset(each.encode("utf-8") for path in self._endpoints for each in (path, f"{path}/"))
        """The paths to which MCP's messages are posted, each with and without a trailing slash."""
        beside = (*self.apis.values(), *reversed(self.servers))
        self._beside = {path: each for each in beside for path in each.paths}
        self._check_paths()
        self._only = next((each for each in self._servers if not each.name), None)
        self.rooms = (
            self._only.rooms if self._only is not None else Rooms(settings.max_request_bytes, proving=settings.proving)
        )
        proxies = tuple(map(ip_network, settings.trusted_proxies))
        self.surroundings = (self.rooms, settings.allowed_origins, proxies)
        """What an exchange needs of its gateway: rooms, allowed origins, and trusted proxies."""
        tokens = settings.tokens
        bootstrap = tokens.bootstrap if tokens is not None else None
        given = before._bootstrap if before is not None else None
        self._bootstrap = Bootstrap(bootstrap, given) if bootstrap is not None else None
        asked = before.ratify_http if before is not None else None
        self.ratify_http = RatifyHttp(policies, shared, asked) if settings.ratify_http else None
        """Ratify's HTTP binding, if it is enabled, on whichever listener."""
        self.front_door = self._front_door(before.front_door if before is not None else None)
        """Where OAuth clients log in, if that is enabled."""
        self._desk_asks = self._asks_for_desks(policies, before._desk_asks if before is not None else None)
        self.health = Health(
            self._servers,
            shared.counters,
            self._only.authenticator if self._only is not None else self._authenticator(),
            store=shared.store,
            records=shared.records if settings.records is not None else None,
            revocations=shared.revocations,
            key_sets=shared.key_sets,
            condition=condition,
            observes=any(each.settings.observes for each in self.servers),
        )

    def serve(self, exchange: Exchange) -> Coroutine[Any, Any, None]:
        """Return the coroutine that answers one request, from any carrier (a subclass of `Exchange`, such as that for
        ASGI).

        If the answer can't be completed, the carrier must show that by closing the connection.
        """
        return answer(exchange, self._route, self._counters)

    def _route(self, exchange: Exchange) -> Coroutine[Any, Any, None]:
        """Return the coroutine that serves a request, by its path. If this method or the coroutine raises an
        `AccreditError`, that becomes the answer."""
        path = exchange.head.path
        if path.endswith("/"):
            path = self._without_slash(exchange)
        if self.settings.tokens is not None or self.settings.oauth is not None:
            exchange.take_credentials()
        server = self._endpoints.get(path)
        api = self._api_at(exchange.head.raw_path) if server is None and self.proof_prefixes else None
        if api is not None and not is_preflight(exchange.head.method, exchange.head.headers):
            current_server.set(api.name)
            return api.serve(exchange)
        responsible = server or self._beside.get(path) or self._only
        if responsible is not None:
            exchange.server, exchange.metadata_url = responsible.name, responsible.metadata_url
        if server is None or exchange.head.method == "OPTIONS":
            return self._beside_endpoints(exchange, path, responsible)
        exchange.rooms = server.rooms
        current_server.set(server.name)
        return server.endpoint.serve(exchange)

    def _api_at(self, raw_path: bytes) -> "ApiServer | None":
        """Return the API behind the gateway that has a path, or None."""
        return next((each for each in self.apis.values() if each.serves(raw_path)), None)

    def _without_slash(self, exchange: Exchange) -> str:
        """Drop one trailing slash from an endpoint's path, since clients and people write both forms. All comparisons,
        records and messages use the path without it."""
        head = exchange.head.without_slash
        if head.path in self._endpoints or head.path in self._beside:
            exchange.head = head
        return exchange.head.path

    async def _beside_endpoints(self, exchange: Exchange, path: str, server: "Server | ApiServer | None") -> None:
        head = exchange.head
        if is_preflight(head.method, head.headers) and is_of_listed(exchange, self.settings):
            await exchange.reply(204, headers=preflight(head.headers, self.settings.forward_headers))
            return
        if isinstance(server, Server):
            exchange.rooms = server.rooms
            if path in self._endpoints:
                await server.endpoint.serve(exchange)
                return
        if self.front_door is not None and self.front_door.has(path):
            check_host(exchange, self.settings)
            await self.front_door.serve(exchange, path)
            return
        check_source(exchange, self.settings)
        if path in (ALIVE, READY):
            await self.health.serve(exchange, path)
        elif path.startswith(PREFIX) and self.ratify_http is not None and self.settings.ratify_http == "public":
            await self.ratify_http.serve(exchange, path)
        elif path == ASKS_PATH and self._desk_asks is not None:
            await self._desk_asks.serve(exchange)
        elif path == PATH and head.method == "POST" and self._bootstrap is not None:
            await self._bootstrap.serve(exchange)
        elif server is not None:
            await server.serve_beside(exchange, path)
        else:
            raise refuse(path)

    def _authenticator(self) -> HttpAuthenticator:
        """Return the authenticator for paths that belong to no single server. It accepts tokens that are for all
        servers."""
        settings, tokens = self.settings, self.settings.tokens
        if tokens is not None:
            issuers = tuple(structs.replace(each, server_audience="") for each in tokens.issuers)
            settings = replace(settings, tokens=replace(tokens, issuers=issuers))
        bearer = bearer_for(settings, self.shared.key_sets, ToolDirectory())
        return HttpAuthenticator(bearer, sessions_of(settings, live_here=False))

    def _front_door(self, before: "FrontDoor | None") -> "FrontDoor | None":
        """Return the front door, where OAuth clients log in; None if they are not let in, or log in at another
        gateway."""
        oauth, shared = self.settings.oauth, self.shared
        documents, revocations = shared.client_documents, shared.revocations
        if oauth is None or shared.door is None or shared.asks is None or documents is None or revocations is None:
            return None  # clients are let in, and log in at another gateway
        # Loaded here, as few gateways have a front door.
        from accredit.gateway.front.door.flows import Flows  # noqa: PLC0415
        from accredit.gateway.front.door.requests import Endpoint  # noqa: PLC0415
        from accredit.gateway.front.door.server import FrontDoor  # noqa: PLC0415
        from accredit.gateway.front.door.tokens import Tokens  # noqa: PLC0415

        endpoints = {
            (url := oauth.endpoint(each.settings.path)): Endpoint(url, each.settings.proofs.policy)
            for each in self.servers
            if each.settings.proofs is not None
        }
        ring = self.settings.rounds.ring
        holding, flows = HeldAsks(shared.asks, ring), Flows(oauth, shared.door, ring)
        if oauth.idp is None:
            from accredit.gateway.front.door.desk import DeskConsent  # noqa: PLC0415

            consent = DeskConsent(oauth, holding, flows)
        else:
            from accredit.gateway.front.door.login import LoginConsent  # noqa: PLC0415

            if shared.people is None or shared.store is None:
                return None
            people = shared.people(oauth.idp)
            consent = LoginConsent(oauth, oauth.idp, people, flows, shared.store, revocations)
        tokens = Tokens(oauth, endpoints, consent, flows, revocations, before.tokens if before is not None else None)
        return FrontDoor(oauth, endpoints, consent, flows, tokens, documents, holding, before)

    def _asks_for_desks(self, policies: Sequence[Policy], before: DeskAsks | None) -> DeskAsks | None:
        """Return the handler of people's desks, which fetch the asks that wait here, answer them, and revoke what was
        signed. Return None if desks are not served."""
        oauth, shared = self.settings.oauth, self.shared
        if oauth is None or shared.asks is None or shared.store is None or not policies:
            return None
        if shared.door is None:
            return None
        holding = HeldAsks(shared.asks, self.settings.rounds.ring)
        passes_on = oauth.consent == "idp"
        store, door = shared.store, shared.door
        return DeskAsks(policies[0].roots, oauth.public_url, holding, store, door, before, passes_on=passes_on)

    def _check_paths(self) -> None:
        """Raise `ConfigurationError` unless all servers have names and paths of their own."""
        names = {each.name for each in self._servers}
        apart = len(self._servers) == len(names) and len(self.servers) == len(self._endpoints)
        if not apart or (len(self.servers) > 1 and "" in names):
            raise ConfigurationError(
                "several servers need names and paths of their own", "give each GatewaySettings a server and a path"
            )
        behind = {f"servers.{name}": each.settings.path for name, each in self.apis.items() if each.prefix}
        served = {f"servers.{each.name}" if each.name else "gateway": each.settings.path for each in self.servers}
        is_public, oauth = self.settings.ratify_http == "public", self.settings.oauth is not None
        check_apart(behind, served, ratify_http=is_public, oauth=oauth)


def _apis(servers: Sequence[GatewaySettings], shared: Shared, before: "Routes | None") -> "dict[str, ApiServer]":
    """Return the HTTP APIs among the servers, by name. Raises `ConfigurationError`."""
    if not any(isinstance(each.upstream, ApiUpstream) for each in servers):
        return {}
    from accredit.gateway.api_server import ApiServer  # noqa: PLC0415 - loaded here, as few gateways have one

    known = before.apis if before is not None else {}
    return {
        each.server: ApiServer(each, each.upstream, shared, known.get(each.server))
        for each in servers
        if isinstance(each.upstream, ApiUpstream)
    }
