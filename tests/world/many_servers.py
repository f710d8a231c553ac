"""One gateway before several servers, each with a journal of what reached it. I/O: sockets on 127.0.0.1."""

from types import TracebackType
from typing import Any, Self

from tests.world.authorization import GATEWAY, Trust
from tests.world.calls import Posted
from tests.world.raw_client import RawAnswer, RawClient
from tests.world.raw_server import RawRequest, RawServer
from tests.world.running import RunningGateway
from tests.world.tasks_server import TasksServer

from accredit.gateway import Gateway, GatewaySettings, HttpUpstream, create_app
from accredit.gateway.merging import merged_settings
from accredit.gateway.settings import RecordSettings
from accredit.pins.definitions import Pins
from accredit.ports import KeySets, ProofStore, Records
from accredit.stores import MemoryStore, RevocationLists

NAMES = ("mail", "files")


class Several:
    """`async with Several(trust) as gateway`: `mail` and `files`, the same server twice.

    `policy` changes their policies, `policies` those of one by its name; other keyword arguments are settings that both
    have. With `merge` they are one at `/mcp` as well.
    """

    def __init__(
        self,
        trust: Trust,
        *,
        handlers: dict[str, Any] | None = None,
        store: ProofStore | None = None,
        key_sets: KeySets | None = None,
        records: Records | None = None,
        policy: dict[str, Any] | None = None,
        policies: dict[str, dict[str, Any]] | None = None,
        merge: bool = False,
        merged_pins: Pins | None = None,
        **settings: Any,
    ) -> None:
        self._trust = trust
        self.servers = {name: TasksServer() for name in NAMES}
        self._raw = {name: RawServer((handlers or {}).get(name, self.servers[name])) for name in NAMES}
        self._ports: dict[str, Any] = {"store": store or MemoryStore(), "key_sets": key_sets, "records": records}
        self._policy = policy or {}
        self._policies = policies or {}
        self._merge = merge
        self._merged_pins = merged_pins
        self._settings = settings
        self._own: dict[str, dict[str, Any]] = settings.pop("own", {})

    def url(self, name: str) -> str:
        """Where a server is."""
        return self._raw[name].url

    def app(self) -> Gateway:
        """Return a gateway before the servers."""
        settings = [self.settings(name) for name in NAMES]
        if self._merge:
            tokens = settings[0].tokens
            resource = tokens.resource.removesuffix(f"/{NAMES[0]}") if tokens is not None else ""
            whole = merged_settings(
                settings, path="/mcp", gateway_id=GATEWAY, resource=resource, pins=self._merged_pins
            )
            settings.append(whole)
        return create_app(settings, revocations=RevocationLists((), {}), **self._ports)

    def settings(self, name: str) -> GatewaySettings:
        """Those of one server."""
        policy = {"verifier_id": f"{GATEWAY}/{name}", "server": name, **self._policy, **self._policies.get(name, {})}
        own = {**self._settings, **self._own.get(name, {})}
        if self._ports["records"] is not None:
            own["records"] = RecordSettings(GATEWAY)
        upstream = HttpUpstream(self._raw[name].url)
        return self._trust.settings(upstream, policy=policy, server=name, path=f"/mcp/{name}", **own)

    async def __aenter__(self) -> Self:
        for raw in self._raw.values():
            await raw.__aenter__()
        self._gateway = RunningGateway(self.app())
        await self._gateway.__aenter__()
        self.port = self._gateway.port
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._gateway.__aexit__(kind, error, trace)
        for raw in self._raw.values():
            await raw.__aexit__(kind, error, trace)

    @property
    def gateway(self) -> Gateway:
        """The gateway that runs."""
        assert isinstance(self._gateway.app, Gateway)
        return self._gateway.app

    async def get(self, path: str, method: str = "GET", *headers: tuple[str, str]) -> RawAnswer:
        """Ask for a path without a body."""
        async with RawClient(self.port) as client:
            await client.ask(method, path, list(headers), b"")
            return await client.answer()

    async def post(self, path: str, body: bytes) -> RawAnswer:
        """Post JSON to a path."""
        async with RawClient(self.port) as client:
            await client.ask("POST", path, [("Content-Type", "application/json")], body)
            return await client.answer()

    async def send_merged(self, posted: Posted, **more: str) -> RawAnswer:
        """Post to the endpoint of both as one."""
        return await self.send("", posted, **more)

    async def send(self, name: str, posted: Posted, *, session: str = "", token: str = "") -> RawAnswer:
        """Post to a server's endpoint."""
        headers = [pair for pair in posted.headers if pair[0] != "Mcp-Session-Id"]
        headers += [("Mcp-Session-Id", session)] if session else []
        headers += [("Authorization", f"Bearer {token}")] if token else []
        async with RawClient(self.port) as client:
            await client.ask("POST", f"/mcp/{name}".removesuffix("/"), headers, posted.body)
            return await client.answer()

    def calls(self, name: str) -> list[dict[str, Any]]:
        """The calls that reached a server."""
        return [each for each in self.servers[name].messages if each["method"] == "tools/call"]

    def requests(self, name: str) -> list[RawRequest]:
        """The requests that reached a server, heads and bodies."""
        return self._raw[name].requests

    async def stop(self, name: str) -> None:
        """End a server: nothing listens there any more."""
        await self._raw[name].__aexit__(None, None, None)
