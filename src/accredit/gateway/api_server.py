"""All that a gateway has for each HTTP API: the gate, and how requests come to it. `server` is the same for MCP."""

from accredit.attest.proofs import WORKSPACES
from accredit.gateway.admission.api_gate import ApiGate
from accredit.gateway.admission.bearer import bearer_for
from accredit.gateway.admission.identity import KEYS_PATH, Identity
from accredit.gateway.admission.tool_directory import ToolDirectory
from accredit.gateway.front.authorize import Authorize
from accredit.gateway.front.exchange import Exchange
from accredit.gateway.front.passthrough import refuse
from accredit.gateway.recording.recorder import recorder_of
from accredit.gateway.server import Shared
from accredit.gateway.settings import ApiUpstream, GatewaySettings
from accredit.telemetry import Names, Transports


class ApiServer:
    """One HTTP API. Raises `ConfigurationError` if the settings need a port that was not given."""

    resource = None
    """No metadata is served for tokens."""

    def __init__(
        self, settings: GatewaySettings, api: ApiUpstream, shared: Shared, before: "ApiServer | None" = None
    ) -> None:
        """`before` is the previous object of this name, whose open records are kept."""
        self.settings = settings
        counters = before._counters if before is not None else shared.counters.of_server(settings.server)
        self._counters = counters
        self.recorder = recorder_of(settings, counters, shared.records, before.recorder if before is not None else None)
        telemetry = shared.telemetry
        gate = ApiGate(
            settings,
            api,
            counters,
            store=telemetry.timed(shared.store) if telemetry is not None else shared.store,
            revocations=shared.revocations,
            bearer=bearer_for(settings, shared.key_sets, ToolDirectory()),
            recorder=self.recorder,
            strangers=shared.strangers,
            meter=telemetry.meter(settings.server, Names(), Transports()) if telemetry is not None else None,
        )
        self._identity = Identity(settings.identity, "") if settings.identity is not None else None
        workspace = WORKSPACES[api.protocol]
        self._authorize = Authorize(settings.server, api.proxy, gate, workspace, counters, self._identity)

    @property
    def name(self) -> str:
        """The API's name in `[servers]`."""
        return self.settings.server

    @property
    def paths(self) -> frozenset[str]:
        """The paths on the gateway's own listener."""
        return frozenset({KEYS_PATH}) if self._identity is not None else frozenset()

    async def answer_proxy(self, exchange: Exchange) -> None:
        """Answer a proxy's question."""
        await self._authorize.serve(exchange)

    async def serve_beside(self, exchange: Exchange, path: str) -> None:
        """Answer a request for one of `paths`. Its host has been checked. Raises `RequestError`."""
        if self._identity is None or path not in self.paths:
            raise refuse(path)
        await self._identity.serve(exchange)

    async def aclose(self) -> None:
        """Wait for what is being recorded."""
        if self.recorder is not None:
            await self.recorder.drain()
