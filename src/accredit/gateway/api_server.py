"""The parts that a gateway has for each HTTP API or agent: the gate, and the ways in which requests reach it. `server`
has the same for MCP."""

from urllib.parse import urlsplit

from accredit.gateway.admission.a2a_gate import A2aGate
from accredit.gateway.admission.api_gate import ApiGate
from accredit.gateway.admission.bearer import bearer_for
from accredit.gateway.admission.identity import KEYS_PATH, Identity
from accredit.gateway.admission.tool_directory import ToolDirectory
from accredit.gateway.forwarding import Forwarding
from accredit.gateway.front.a2a_relay import A2aRelay
from accredit.gateway.front.api_relay import ApiRelay
from accredit.gateway.front.authorize import Authorize
from accredit.gateway.front.exchange import Exchange
from accredit.gateway.front.passthrough import refuse
from accredit.gateway.recording.recorder import recorder_of
from accredit.gateway.room import ALONE, Rooms
from accredit.gateway.server import Shared
from accredit.gateway.settings import AgentSettings, ApiUpstream, GatewaySettings
from accredit.gateway.upstream.http.sending import TAKEN_OFF, Sender
from accredit.gateway.upstream.large_answers import LargeAnswers
from accredit.policy.tasks import TaskScope
from accredit.telemetry.labels import Names
from accredit.telemetry.operations import Transports


class ApiServer:
    """One HTTP API, or agent. Raises `ConfigurationError` if the settings need an adapter (`ports`) that was not
    given."""

    metadata_url = ""
    """No metadata is served for tokens."""

    def __init__(
        self, settings: GatewaySettings, api: ApiUpstream, shared: Shared, before: "ApiServer | None" = None
    ) -> None:
        """`before` is the previous `ApiServer` of this name, whose open calls are kept."""
        self.settings = settings
        counters = before._counters if before is not None else shared.counters.of_server(settings.server)
        self._counters = counters
        self.recorder = recorder_of(settings, counters, shared.records, before.recorder if before is not None else None)
        telemetry = shared.telemetry
        make_gate = ApiGate if api.agent is None else A2aGate
        gate = make_gate(
            settings,
            api,
            counters,
            store=telemetry.timed(shared.store) if telemetry is not None else shared.store,
            revocations=shared.revocations,
            bearer=bearer_for(settings, shared.key_sets, ToolDirectory()),
            recorder=self.recorder,
            strangers=shared.strangers,
            meter=telemetry.meter(settings.server, Names(), Transports()) if telemetry is not None else None,
            tasks=shared.tasks,
            place=_place_of(settings),
        )
        self._identity = Identity(settings.identity, "") if settings.identity is not None else None
        self.rooms = before.rooms if before is not None else Rooms(settings.max_request_bytes, proving=True)
        self._authorize: Authorize | None = None
        self._relay: ApiRelay | A2aRelay | None = None
        self._large = before._large if before is not None else LargeAnswers(settings, ALONE)
        self._sender: Sender | None = None
        behind = api.behind
        if isinstance(gate, ApiGate) and api.proxy is not None:
            self._authorize = Authorize(settings.server, api.proxy, gate, self._identity)
        if behind is not None:
            same = before is not None and _is_same_upstream(before.settings, settings)
            known = before._sender if before is not None and same else None
            self._sender = Sender(settings, behind, shared.access_tokens, before=known)
            own = [*behind.headers, *([settings.identity.header] if settings.identity is not None else [])]
            own += TAKEN_OFF if behind.auth is not None else ()
            forwarding = Forwarding(listed_only=False, added=api.forward_headers, own=own)
            base = urlsplit(behind.url).path.encode("ascii")
            if isinstance(gate, A2aGate):
                agent = api.agent or AgentSettings()
                self._relay = A2aRelay(settings, agent, gate, self._sender, forwarding, self._large, base)
            else:
                base = base.rstrip(b"/")
                self._relay = ApiRelay(settings, gate, self._sender, forwarding, base)

    @property
    def name(self) -> str:
        """The API's name in `[servers]`."""
        return self.settings.server

    @property
    def paths(self) -> frozenset[str]:
        """The paths on the gateway's own listener."""
        return frozenset({KEYS_PATH}) if self._identity is not None else frozenset()

    @property
    def prefix(self) -> bytes:
        """The path under which the gateway's own listener serves this API; b"" if it does not serve it."""
        return self.settings.path.encode("ascii") + b"/" if self._relay is not None else b""

    @property
    def beginning(self) -> bytes:
        """The prefix of all targets of the API. An agent is also at the path itself, so its prefix has no slash at the
        end."""
        return self.prefix.rstrip(b"/") if isinstance(self._relay, A2aRelay) else self.prefix

    def serves(self, raw_path: bytes) -> bool:
        """Return whether a path on the gateway's own listener is one of the API's."""
        prefix = self.prefix
        return bool(prefix) and (raw_path.startswith(prefix) or raw_path == self.beginning)

    async def answer_proxy(self, exchange: Exchange) -> None:
        """Answer a proxy's question. Raises `RequestError`."""
        if self._authorize is None:
            raise refuse(exchange.head.path)
        await self._authorize.serve(exchange)

    async def serve(self, exchange: Exchange) -> None:
        """Answer a request to the API behind the gateway. Raises `RequestError`."""
        if self._relay is None:
            raise refuse(exchange.head.path)
        exchange.rooms = self.rooms
        await self._relay.serve(exchange)

    async def serve_beside(self, exchange: Exchange, path: str) -> None:
        """Answer a request for one of `paths`. Its `Host` has been checked. Raises `RequestError`."""
        if self._identity is None or path not in self.paths:
            raise refuse(path)
        await self._identity.serve(exchange)

    def goes_on_in(self, other: "ApiServer | None") -> bool:
        """Return whether the next `ApiServer` of this name, made by a reload, uses the same connections."""
        return self._sender is None or (other is not None and other._client is self._client)

    @property
    def _client(self) -> object:
        return self._sender.client if self._sender is not None else None

    async def aclose(self) -> None:
        """Wait until pending records are written, then close the connections."""
        if self._sender is not None:
            await self._sender.aclose()
        if self.recorder is not None:
            await self.recorder.drain()


def _place_of(settings: GatewaySettings) -> TaskScope:
    """Return where an agent's tasks are remembered: apart from those of an MCP server of the same name."""
    by_token = settings.observes and settings.tokens is not None and settings.tokens.required
    return TaskScope(f"{settings.server}|a2a", settings.server, by_token=by_token)


def _is_same_upstream(before: GatewaySettings, settings: GatewaySettings) -> bool:
    """Return whether two settings mean the same API, reached in the same way."""
    one, other = before.upstream, settings.upstream
    same = isinstance(one, ApiUpstream) and isinstance(other, ApiUpstream) and one.behind == other.behind
    return same and before.patience == settings.patience
