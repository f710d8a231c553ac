"""What a gateway remembers over a reload goes by what is in force: the heads of a server's answers, of which only what
may pass now passes, and streams that stand, which tell only what may be heard now.
"""

import json
from typing import Any

import pytest
from tests.integration.test_authorization import with_proof
from tests.world.authorization import GATEWAY, Signed, Trust
from tests.world.calls import (
    LAST_CHUNK,
    SESSION,
    STREAM_HEAD,
    Posted,
    chunk,
    compact,
    error,
    event,
    http,
    initialize,
    initialized,
    post,
)
from tests.world.raw_client import RawAnswer, RawClient
from tests.world.raw_server import Connection, RawServer, until
from tests.world.routes import messages_of
from tests.world.running import RunningGateway
from tests.world.stdio_processes import raw_command

from accredit.gateway import Gateway, GatewaySettings, HttpUpstream, StdioUpstream, create_app
from accredit.gateway.merging import merged_settings
from accredit.gateway.settings import RoundsSettings
from accredit.jsonrpc.methods import META_SUBSCRIPTION, Era
from accredit.policy.catalog import Catalog, Entry
from accredit.stores import MemoryStore, RevocationLists, Tasks

pytestmark = pytest.mark.slow

SENT = (("Set-Cookie", "tenant=a"), ("X-Internal", "db-7"), ("X-Wanted", "yes"))
NAMES = {"set-cookie", "x-internal", "x-wanted"}
LISTED: dict[str, Any] = {"forward_headers": ("X-Wanted",)}
PING = post(Era.LEGACY, "ping", {})


def app_of(settings: list[GatewaySettings]) -> Gateway:
    return create_app(settings, store=MemoryStore(), revocations=RevocationLists((), {}), tasks=Tasks())


def reload(gateway: RunningGateway, settings: list[GatewaySettings]) -> None:
    app = gateway.app
    assert isinstance(app, Gateway)
    app.swap(app.prepare(settings, app.routes.shared), 0.1)


async def asked(client: RawClient, posted: Posted = PING) -> RawAnswer:
    await client.ask("POST", "/mcp", posted.headers, posted.body)
    return await client.answer()


def passed(answer: RawAnswer) -> set[str]:
    return {name for name, _ in answer.headers} & NAMES


_PONG = compact({"jsonrpc": "2.0", "id": 7, "result": {}})
_FIELDS = "".join(f"{name}: {value}\r\n" for name, value in SENT).encode()
ANSWERS = {
    "json": http(_PONG, headers=SENT),
    "error": http(error(), status="500 Internal Server Error", headers=SENT),
    "stream": STREAM_HEAD.replace(b"\r\n\r\n", b"\r\n" + _FIELDS + b"\r\n") + chunk(event(_PONG)) + LAST_CHUNK,
}


@pytest.mark.holds("gateway/upstream/http/parsing")
@pytest.mark.parametrize("kind", ANSWERS)
async def test_a_header_that_a_reload_forbids_goes_on_in_no_later_answer__and_one_that_it_adds_does(
    kind: str, trust: Trust
) -> None:
    """The server says the same, byte for byte, in every answer, so that its head is known from the first on."""

    async def says(connection: Connection) -> None:
        while await connection.request() is not None:
            await connection.send(ANSWERS[kind])

    async with RawServer(says) as server:

        def settings(**more: Any) -> list[GatewaySettings]:
            return [trust.settings(HttpUpstream(server.url), **more)]

        open_to_all = settings(required=False)
        steps = (
            (open_to_all, NAMES),
            (settings(), set[str]()),  # proofs are required
            (settings(**LISTED), {"x-wanted"}),  # one more is listed
            (settings(forward_headers=("Set-Cookie", "X-Wanted")), {"set-cookie", "x-wanted"}),
            (settings(**LISTED), {"x-wanted"}),  # it is taken out again
            (settings(), set[str]()),
            (open_to_all, NAMES),
        )
        async with RunningGateway(app_of(open_to_all)) as gateway, RawClient(gateway.port) as client:
            for now, expected in steps:
                reload(gateway, now)
                for _ in range(3):
                    assert passed(await asked(client)) == expected
            assert server.accepted == 1  # it was the same connection, and pool, throughout
            assert isinstance(gateway.app, Gateway)
            (behind,) = gateway.app.routes.servers
            assert behind._http is not None
            assert len(behind._http.sender.client._pool.heads) == 1  # so that each of them was known


class Tells:
    """A server of both eras and of HTTP+SSE that says what a test has it say, on all streams that are open."""

    def __init__(self) -> None:
        self.streams: dict[Connection, Any] = {}

    async def __call__(self, connection: Connection) -> None:
        while (request := await connection.request()) is not None:
            message = json.loads(request.body) if request.body else {}
            if request.method == "GET":
                await self._stands(connection, None, *self._hello(request.target))
                return
            if message.get("method") == "subscriptions/listen":
                params = {**message["params"], "_meta": {META_SUBSCRIPTION: message["id"]}}
                told = {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}
                await self._stands(connection, message["id"], event(compact(told)))
                return
            begins = message.get("method") == "initialize"
            answer = http(initialized(), headers=(("Mcp-Session-Id", SESSION),)) if begins else http(_PONG)
            await connection.send(answer if "id" in message else http(b"", None, status="202 Accepted"))

    def _hello(self, target: str) -> list[bytes]:
        return [b"event: endpoint\ndata: /messages\n\n"] if target.endswith("/sse") else [b": open\n\n"]

    async def _stands(self, connection: Connection, id: Any, *events: bytes) -> None:
        await connection.send(STREAM_HEAD, *map(chunk, events))
        self.streams[connection] = id
        await connection.peer_closed()

    async def tell(self, method: str, **params: Any) -> None:
        """Says one thing on all streams."""
        for connection, id in self.streams.items():
            meta = {"_meta": {META_SUBSCRIPTION: id}} if id is not None else {}
            told = {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": {**params, **meta}}
            await connection.send(chunk(event(compact(told))))


async def heard(client: RawClient, upstream: Tells) -> bool:
    """Whether a client hears of task 1, of which the server tells, and then of something else."""
    await upstream.tell("tasks", taskId="1", status="working", requestState="raw")
    await upstream.tell("resources/updated", uri="mail://1")
    found: list[str] = []
    while "resources/updated" not in "".join(found):
        got = await client.event()
        assert got is not None
        found.append((got.data or b"").decode())
    return any("taskId" in each for each in found)


OWN, SSE, MERGED = "own", "sse", "merged"
WAYS = [(OWN, Era.LEGACY), (OWN, Era.MODERN), (SSE, Era.LEGACY), (MERGED, Era.LEGACY), (MERGED, Era.MODERN)]


class Standing:
    """One server, alone or as one of several, and what opens a stream that stands."""

    def __init__(self, way: str, era: Era, trust: Trust, url: str) -> None:
        self._way, self._era, self._trust, self._url = way, era, trust, url
        self._rounds = RoundsSettings()

    def settings(self, *, required: bool, **more: Any) -> list[GatewaySettings]:
        """Those of all endpoints."""
        upstream, more = HttpUpstream(self._url), {"rounds": self._rounds, **more}
        if self._way != MERGED:
            return [self._trust.settings(upstream, required=required, **more)]
        policy = {"verifier_id": f"{GATEWAY}/mail", "server": "mail"}
        mail = self._trust.settings(upstream, required=required, policy=policy, server="mail", path="/mcp/mail", **more)
        return [mail, merged_settings([mail], path="/mcp", gateway_id=GATEWAY)]

    async def open(self, port: int, client: RawClient) -> None:
        """Opens the stream."""
        session = SESSION
        if self._way == MERGED and self._era is Era.LEGACY:
            async with RawClient(port) as other:
                session = (await asked(other, initialize())).header("mcp-session-id") or ""
        if self._era is Era.MODERN:
            name = "mail__1" if self._way == MERGED else "1"
            wanted = {"taskIds": [name], "resourceSubscriptions": ["mail://1"], "toolsListChanged": True}
            extended = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
            posted = post(self._era, "subscriptions/listen", {"notifications": wanted}, capabilities=extended)
            await client.ask("POST", "/mcp", posted.headers, posted.body)
        else:
            head = [("Accept", "text/event-stream"), ("Mcp-Session-Id", session)]
            path, head = ("/sse", head[:1]) if self._way == SSE else ("/mcp", head)
            await client.ask("GET", path, head)
        assert (await client.head())[0] == 200


@pytest.mark.holds("gateway/server")
@pytest.mark.parametrize(("way", "era"), WAYS)
async def test_a_stream_that_was_opened_before_proofs_were_required_hears_of_no_task_afterwards(
    way: str, era: Era, trust: Trust
) -> None:
    """Not even of one that it has named: then nobody had to show that it is one's own."""

    upstream = Tells()
    async with RawServer(upstream) as server:
        standing = Standing(way, era, trust, server.url)
        before, after = standing.settings(required=False), standing.settings(required=True)
        async with RunningGateway(app_of(before)) as gateway, RawClient(gateway.port) as client:
            await standing.open(gateway.port, client)
            await until(lambda: len(upstream.streams) == 1)
            assert await heard(client, upstream)
            for now, hears in ((after, False), (after, False), (before, True)):
                reload(gateway, now)
                assert await heard(client, upstream) is hears
            assert server.errors == []


async def test_nor_does_one_of_a_command(trust: Trust) -> None:
    """The child that all modern clients share."""
    catalog = {"catalog": Catalog(default_tool=Entry(scope="email:read"))}
    extended = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    wanted = {"notifications": {"taskIds": ["1"], "toolsListChanged": True}}
    listen = post(Era.MODERN, "subscriptions/listen", wanted, capabilities=extended)
    params = {"name": "change", "arguments": {"task": "1"}}

    upstream = StdioUpstream(raw_command())
    before, after = ([trust.settings(upstream, required=each, policy=catalog)] for each in (False, True))
    async with RunningGateway(app_of(before)) as gateway, RawClient(gateway.port) as client:
        await client.ask("POST", "/mcp", listen.headers, listen.body)
        assert (await client.head())[0] == 200
        for now, hears in ((before, True), (after, False), (before, True), (after, False)):
            reload(gateway, now)
            proof = trust.proof(trust.chain("email:read"), "tools/call", params, Signed(bound=False))
            async with RawClient(gateway.port) as other:
                answer = await asked(other, post(Era.MODERN, "tools/call", with_proof(params, proof)))
            assert "result" in messages_of(answer)[0]
            found: list[bytes] = []
            while b"list_changed" not in b"".join(found):
                got = await client.event()
                assert got is not None
                found.append(got.raw)
            assert (b"taskId" in b"".join(found[1:] if b"acknowledged" in found[0] else found)) is hears


@pytest.mark.holds("gateway/admission/gate")
async def test_who_asked_about_anothers_task_while_proofs_were_observed_hears_of_it_no_more(trust: Trust) -> None:
    """It would have been refused, and was only let pass."""

    upstream = Tells()
    async with RawServer(upstream) as server:
        standing = Standing(OWN, Era.LEGACY, trust, server.url)
        observing = {"policy": {"observes": True}}
        before, after = standing.settings(required=False, **observing), standing.settings(required=True)
        async with RunningGateway(app_of(before)) as gateway, RawClient(gateway.port) as client:
            await standing.open(gateway.port, client)
            await until(lambda: len(upstream.streams) == 1)
            async with RawClient(gateway.port) as other:
                assert (await asked(other, post(Era.LEGACY, "tasks/get", {"taskId": "1"}))).status == 200
            assert await heard(client, upstream)
            reload(gateway, after)
            assert not await heard(client, upstream)


@pytest.mark.holds("gateway/server")
async def test_a_stream_that_was_opened_while_answers_were_observed_lets_no_bad_event_pass_afterwards(
    trust: Trust,
) -> None:
    upstream = Tells()
    async with RawServer(upstream) as server:
        standing = Standing(OWN, Era.LEGACY, trust, server.url)
        before, after = (standing.settings(required=False, enforce=each) for each in (False, True))
        async with RunningGateway(app_of(before)) as gateway, RawClient(gateway.port) as client:
            await standing.open(gateway.port, client)
            await until(lambda: len(upstream.streams) == 1)
            (stream,) = upstream.streams
            bad = event(b'{"jsonrpc":"1.0"}')
            await stream.send(chunk(bad))
            while (got := await client.event()) is not None and got.raw != bad:
                pass
            assert got is not None
            reload(gateway, after)
            await stream.send(chunk(bad))
            assert bad not in await client.rest()
