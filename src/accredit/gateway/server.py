"""The parts that a gateway has for each server behind it: the endpoint, and everything between that and the server.

Each server has its own rooms, connections and child processes, so a server that is slow, down or busy takes nothing
from the others. The process has one store, one log, one set of counters, and so on, for all servers; entries there name
the server.

A reload makes a new `Server` for each. If a server is reached as before, its connections, sessions and children are
kept, with all their state. The other settings take effect at once.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Raw

from accredit.base.deferred import Deferred
from accredit.base.steps import Steps
from accredit.errors import ConfigurationError, MissingToken
from accredit.gateway.admission.bearer import Bearer, bearer_for
from accredit.gateway.admission.gate import Gate
from accredit.gateway.admission.guest_asks import GuestAsks
from accredit.gateway.admission.guests import Guests
from accredit.gateway.admission.identity import KEYS_PATH
from accredit.gateway.admission.pinned_tools import PinnedTools
from accredit.gateway.admission.tool_directory import ToolDirectory
from accredit.gateway.counters import Counters
from accredit.gateway.front.callers import HttpAuthenticator, Sessions, sessions_of
from accredit.gateway.front.endpoint import Endpoint
from accredit.gateway.front.exchange import Exchange
from accredit.gateway.front.legacy_sse import MESSAGES_PATH, SSE_PATH, LegacySse
from accredit.gateway.front.passthrough import forward, matches_pattern, refuse
from accredit.gateway.front.resource_metadata import Resource
from accredit.gateway.holding import HeldAsks
from accredit.gateway.oauth_settings import PeopleFor
from accredit.gateway.recording.early_refusals import AnonymousRecordBudget
from accredit.gateway.recording.recorder import recorder_of
from accredit.gateway.room import EqualShares, Rooms
from accredit.gateway.settings import ApiUpstream, GatewaySettings, HttpUpstream, MergedUpstream, StdioUpstream
from accredit.gateway.upstream.http.relay import HttpRelay
from accredit.gateway.upstream.http.sending import AccessTokensFor
from accredit.gateway.upstream.measured import MeasuredBackend
from accredit.gateway.upstream.reply import Backend
from accredit.ports import AskStore, ClientSource, DoorStore, KeySets, ProofStore, Records, Revocations, TaskStore
from accredit.telemetry.labels import Names
from accredit.telemetry.operations import Meter, Telemetry, Transports
from accredit.tokens.challenges import challenge

if TYPE_CHECKING:
    from accredit.gateway.upstream.merged import backend as merged
    from accredit.gateway.upstream.merged import members
    from accredit.gateway.upstream.stdio import backend as stdio
else:  # a gateway in front of one server that speaks HTTP needs none of them, and they take a megabyte
    merged = Deferred("accredit.gateway.upstream.merged.backend")
    members = Deferred("accredit.gateway.upstream.merged.members")
    stdio = Deferred("accredit.gateway.upstream.stdio.backend")


class Shared(NamedTuple):
    """The objects that all servers of a process share (`create_app`)."""

    counters: Counters
    store: ProofStore | None
    revocations: Revocations | None
    key_sets: KeySets | None
    records: Records | None
    tasks: TaskStore | None
    on_tools: Callable[[Raw], Steps[None]] | None
    access_tokens: AccessTokensFor | None
    strangers: AnonymousRecordBudget
    telemetry: Telemetry | None = None
    door: DoorStore | None = None
    asks: AskStore | None = None
    client_documents: ClientSource | None = None
    people: PeopleFor | None = None


class Server:
    """One server, or the merged one. Raises `ConfigurationError` if the settings need an adapter (`ports`) that was not
    given."""

    def __init__(
        self,
        settings: GatewaySettings,
        shared: Shared,
        *,
        servers: int = 1,
        before: "Server | None" = None,
        beside: "Mapping[str, Server] | None" = None,
    ) -> None:
        """`servers` is the number of servers, including this one. `before` is the previous `Server` of this name, which
        does not change before `begin`. For the merged server, `beside` holds all others by name."""
        self.settings = settings
        self.name = settings.server  # "" for the only server, and for the merged one
        self._members = _members(settings, beside or {})
        self._servers = servers
        recorder, rooms = (before.recorder, before.rooms) if before is not None else (None, None)
        self.rooms = rooms or Rooms(
            settings.max_request_bytes, proving=settings.proving, servers=servers, merged=len(self._members)
        )
        if before is not None and not self._goes_on(before):
            before = None
        self._parts = before._parts if before is not None else EqualShares(servers)
        self.line = before.line if before is not None else object()
        """An identity shared by all `Server`s, before and after reloads, that use the same connections and children."""
        self._counters = counters = (
            before._counters if before is not None else shared.counters.of_server(settings.server)
        )
        self.recorder = recorder_of(settings, counters, shared.records, recorder)
        self._directory = directory = before._directory if before is not None else ToolDirectory(shared.on_tools)
        self.guests = guests = _guests_of(settings, shared)
        bearer = bearer_for(settings, shared.key_sets, directory, guests=guests)
        self._meter = _meter_of(settings, shared.telemetry) if shared.telemetry is not None else None
        self.resource = _resource_of(settings)
        self.metadata_url = self.resource.metadata_url if self.resource is not None else ""
        known = before.authenticator.sessions if before is not None else None
        sessions = sessions_of(settings, live_here=settings.lives_here, before=known)
        self.authenticator = self._authenticates(bearer, sessions)
        gate = Gate(
            settings,
            counters,
            directory,
            store=shared.telemetry.timed(shared.store) if shared.telemetry is not None else shared.store,
            revocations=shared.revocations,
            bearer=bearer,
            recorder=self.recorder,
            tasks=shared.tasks,
            before=before._gate if before is not None else None,
            pinned=self._merged_pins(settings, counters),
            strangers=shared.strangers,
            meter=self._meter,
            guests=guests,
        )
        self._gate = gate
        self._http: HttpRelay | None = None
        self._sse: LegacySse | None = None
        self._stdio: stdio.StdioBackend | None = None
        self._merged_backend: merged.MergedBackend | None = None
        self.backend = self._measured(self._reach(settings, before, shared.access_tokens))
        self.endpoint = Endpoint(settings, gate, self.backend, self.authenticator, self._meter)

    def _authenticates(self, bearer: Bearer | None, sessions: Sessions) -> HttpAuthenticator:
        settings = self.settings
        if bearer is None or settings.oauth is None or settings.proofs is None:
            return HttpAuthenticator(bearer, sessions)
        told = challenge(MissingToken(""), self.metadata_url)
        return HttpAuthenticator(bearer, sessions, told, settings.proofs.policy)

    def _measured(self, backend: Backend) -> Backend:
        if self._meter is None or backend is self._merged_backend:
            return backend
        return MeasuredBackend(backend, self._meter)

    def _reach(self, settings: GatewaySettings, before: "Server | None", tokens: AccessTokensFor | None) -> Backend:
        """Make the backend, and the other parts between the endpoint and the server."""
        upstream, counters, directory = settings.upstream, self._counters, self._directory
        if isinstance(upstream, ApiUpstream):
            raise ConfigurationError(f"{settings.place} is an HTTP API, and no MCP server", "give it to an ApiServer")
        if isinstance(upstream, StdioUpstream):
            self._stdio = before._stdio if before is not None else None
            if self._stdio is None:
                self._stdio = stdio.StdioBackend(settings, upstream, counters, directory, self._parts)
            return self._stdio
        if isinstance(upstream, MergedUpstream):
            known = before._merged_backend if before is not None else None
            self._merged_backend = merged.MergedBackend(settings, self._merged, counters, known)
            return self._merged_backend
        self._http = HttpRelay(
            settings,
            upstream,
            counters,
            directory,
            tokens,
            self._parts,
            before=before._http if before is not None else None,
        )
        self._sse = LegacySse(
            settings,
            upstream.url,
            self._gate,
            self._http,
            counters,
            self.authenticator,
            before=before._sse if before is not None else None,
            meter=self._meter,
        )
        return self._http

    @property
    def _merged(self) -> "dict[str, members.MergedMember]":
        """The servers that are merged, by name, in the form that the merged backend uses."""
        return {
            name: members.MergedMember(
                name,
                each.backend,
                each.rooms,
                each.pinned,
                is_told=each.settings.tells_identity,
                homes=each.settings.homes,
                has_sessions=isinstance(each.settings.upstream, HttpUpstream),
            )
            for name, each in self._members.items()
        }

    def _merged_pins(self, settings: GatewaySettings, counters: Counters) -> "merged.MergedPins | None":
        """Return the check of the merged servers' tool definitions, or None if they are not pinned."""
        if settings.pins is None or not isinstance(settings.upstream, MergedUpstream):
            return None
        return merged.MergedPins(settings.pins, counters, self._merged)

    def _goes_on(self, before: "Server") -> bool:
        """Return whether `before` reached its server in the same way, so that its connections can be kept."""
        if not self._members:
            return not before._members and _is_same_upstream(before.settings, self.settings)
        lines = {name: each.line for name, each in self._members.items()}
        return lines == {name: each.line for name, each in before._members.items()}

    @property
    def pinned(self) -> PinnedTools | None:
        """The check of the server's definitions, or None if they are not pinned."""
        return self._gate.pinned

    @property
    def left_out(self) -> int | None:
        """How many of the server's replicas are ejected at present; None if replicas are never ejected."""
        return self._http.sender.client.left_out() if self._http is not None else None

    @property
    def paths(self) -> frozenset[str]:
        """The server's paths beside its endpoint, without the passthrough paths."""
        below = self.settings.path if self.name else ""
        named = {KEYS_PATH} if self._http is not None and self._http.sender.identity is not None else set[str]()
        own = self.resource.paths if self.resource is not None else frozenset[str]()
        return frozenset({f"{below}{SSE_PATH}", f"{below}{MESSAGES_PATH}", *named, *own})

    def begin(self) -> None:
        """Take effect, in place of the previous `Server` of this name."""
        settings = self.settings
        self._gate.begin()
        self._parts.servers = self._servers
        self.rooms.fit(
            settings.max_request_bytes, proving=settings.proving, servers=self._servers, merged=len(self._members)
        )
        if self._http is not None:
            self._http.begin()
        elif self._stdio is not None:
            self._stdio.go_by(settings)

    async def serve_beside(self, exchange: Exchange, path: str) -> None:
        """Answer a request for a path beside the endpoint. Its `Host` has been checked. Raises `RequestError`."""
        method = exchange.head.method
        if self.resource is not None and method == "GET" and path in self.resource.paths:
            await self.resource.serve(exchange)
            return
        if self._http is None or self._sse is None:
            raise refuse(path)
        if path == KEYS_PATH and self._http.sender.identity is not None:
            await self._http.sender.identity.serve(exchange)
            return
        below = path.removeprefix(self.settings.path) if self.name else path
        if below == SSE_PATH and method == "GET":
            await self._sse.stream(exchange, exchange.head.root)
        elif below == MESSAGES_PATH and method == "POST":
            await self._sse.message(exchange)
        elif matches_pattern(path, self.settings.passthrough):
            await self._pass_unread(exchange, self._http)
        else:
            raise refuse(path)

    async def aclose(self) -> None:
        """Wait until pending outcomes are recorded, then release the server's own resources."""
        await self.backend.aclose()
        if self.recorder is not None:
            await self.recorder.drain()

    async def _pass_unread(self, exchange: Exchange, relay: HttpRelay) -> None:
        head = exchange.head
        target = head.raw_path.removeprefix(head.root.encode("utf-8"))
        if head.query:
            target += b"?" + head.query
        await forward(exchange, target, relay.sender.client, self.settings, relay.sender.forwarding)


def _members(settings: GatewaySettings, servers: Mapping[str, Server]) -> dict[str, Server]:
    """Return the merged servers by name. Raises `ConfigurationError`."""
    names = [each.server for each in settings.members]
    if not set(names) <= servers.keys():
        raise ConfigurationError("what is merged has paths of its own", "give create_app the servers' settings, too")
    return {name: servers[name] for name in names}


def _meter_of(settings: GatewaySettings, telemetry: Telemetry) -> Meter:
    transports = Transports(to_server="pipe" if isinstance(settings.upstream, StdioUpstream) else "tcp")
    return telemetry.meter(settings.server, Names(settings.named_tools, settings.methods), transports)


def _guests_of(settings: GatewaySettings, shared: Shared) -> Guests | None:
    """Return the part that makes proofs for OAuth clients' calls, or None if no OAuth clients are let in. Raises
    `ConfigurationError`."""
    if settings.oauth is None:
        return None
    if settings.proofs is None or shared.door is None:
        raise ConfigurationError("OAuth clients are let in, and there is no store of theirs", "give create_app a door")
    policy, asks = settings.proofs.policy, None
    if settings.oauth.consent == "desk" and shared.asks is not None:
        url, holding = settings.oauth.endpoint(settings.path), HeldAsks(shared.asks, settings.rounds.ring)
        asks = GuestAsks(settings.oauth, policy.verifier_id, url, holding, shared.door)
    return Guests(settings.oauth, settings.path, shared.door, policy, shared.tasks, asks)


def _resource_of(settings: GatewaySettings) -> Resource | None:
    """Return the part that serves the endpoint's OAuth metadata; None if the endpoint accepts no tokens."""
    if settings.tokens is None and settings.oauth is None:
        return None
    return Resource(settings.tokens, settings.path, only=not settings.server, oauth=settings.oauth)


def _is_same_upstream(before: GatewaySettings, settings: GatewaySettings) -> bool:
    """Return whether two settings mean the same server, reached in the same way."""
    return before.upstream == settings.upstream and before.patience == settings.patience
