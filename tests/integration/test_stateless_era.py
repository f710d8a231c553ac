"""In the stateless era nothing names a session: not towards the server, whatever the client's headers say, and not for
what the gateway itself knows of a caller. What a proof was made for, and a record says, is what runs.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.integration.test_authorization import with_proof
from tests.world.asgi import Told
from tests.world.authorization import Signed, Trust
from tests.world.calls import REVISION, SESSION, Posted, http, initialize, notification, post, response
from tests.world.changing_server import Listed, pins
from tests.world.hostile import HOSTILE, World
from tests.world.merged import HTTP, STDIO, Merged
from tests.world.raw_client import RawClient
from tests.world.raw_server import Connection, RawRequest, RawServer
from tests.world.recorded import records_at, records_of
from tests.world.routes import Route, messages_of
from tests.world.running import RunningGateway

from accredit.gateway import GatewaySettings, HttpUpstream
from accredit.gateway.room import Rooms
from accredit.jsonrpc.methods import Era

NAMES = (("Mcp-Session-Id", "victims-session"), ("Last-Event-ID", "7"))
NAMED = {"mcp-session-id", "last-event-id"}
PARAMS: dict[str, Any] = {"name": "list_inbox", "arguments": {}}


def naming(posted: Posted, *names: tuple[str, str]) -> Posted:
    return Posted([*posted.without_header("Mcp-Session-Id").headers, *(names or NAMES)], posted.body)


def named_in(requests: list[RawRequest]) -> set[str]:
    return {name for request in requests for name, _ in request.headers} & NAMED


@pytest.mark.holds("gateway/front/endpoint", "era")
@pytest.mark.parametrize("name", ["http-modern", "sse-modern", "stdio-modern"])
async def test_a_call_runs_in_no_session_that_its_proof_and_its_record_know_nothing_of(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    records = records_at(tmp_path / "log.db")
    async with Route(name, trust, tmp_path, records=records, policy={"binding_required": True}) as route:
        proof = trust.proof(trust.chain(), "tools/call", PARAMS, Signed(session=""))
        route.session = "victims-session"
        posted = post(Era.MODERN, "tools/call", with_proof(PARAMS, proof)).and_header("Last-Event-ID", "7")
        assert "result" in messages_of(await route.send(posted))[-1]
        assert [each.call.session for each in records_of(route.log)] == [None, None]
        if name != "stdio-modern":
            assert [route.headers_received(each) for each in NAMED] == [[], []]


@pytest.mark.holds("gateway/front/endpoint", "era")
async def test_nothing_that_goes_up_for_a_modern_client_names_one__whatever_its_message_is() -> None:
    version = ("MCP-Protocol-Version", REVISION[Era.MODERN])
    listen = post(Era.MODERN, "subscriptions/listen", {"notifications": {"toolsListChanged": True}})

    async def answers(connection: Connection, request: RawRequest) -> None:
        message = json.loads(request.body) if request.body else {}
        owed = http(response(message["id"])) if "id" in message else http(b"", None, status="202 Accepted")
        await connection.send(owed if request.body else http(b"", None, status="405 Method Not Allowed"))

    async with World(answers) as world:
        for posted in (
            post(Era.MODERN),
            post(Era.MODERN, "server/discover", {}),
            post(Era.MODERN, "tools/list", {}),
            listen,
            notification(Era.MODERN),
            Posted([*post(Era.MODERN).headers[:2], version], response("asked")),
        ):
            answer = await world.ask(naming(posted))
            assert answer.status in (200, 202), posted
        for method in ("GET", "DELETE"):
            async with world.client() as client:
                await client.ask(method, "/mcp", [HOSTILE, version, *NAMES])
                assert (await client.answer()).status in (200, 405)
        assert len(world.upstream.requests) == 8
        assert named_in(world.upstream.requests) == set()
        assert (await world.ask(naming(post(Era.LEGACY)))).status == 200
        assert named_in(world.upstream.requests) == NAMED  # in the other era they are what they are


async def test_no_answer_to_a_modern_client_names_one__whatever_the_server_gives() -> None:
    given = (("Mcp-Session-Id", "of-the-server"),)
    version = ("MCP-Protocol-Version", REVISION[Era.MODERN])

    async def answers(connection: Connection, request: RawRequest) -> None:
        if request.method != "POST":
            await connection.send(http(b"", None, status="405 Method Not Allowed", headers=given))
        elif b"tools/list" in request.body:
            await connection.send(http(b"data: %b\n\n" % response(), "text/event-stream", headers=given))
        elif b"server/discover" in request.body:
            await connection.send(http(b"no", "text/plain", status="404 Not Found", headers=given))
        else:
            await connection.send(http(response(), headers=given))

    async with World(answers) as world:
        others = [post(Era.MODERN, each, {}) for each in ("tools/list", "server/discover")]
        for posted in (post(Era.MODERN), *others, notification(Era.MODERN)):
            answer = await world.ask(posted)
            assert answer.status in (200, 202, 404), posted
            assert answer.header("mcp-session-id") is None, posted
        for method in ("GET", "DELETE"):
            async with world.client() as client:
                await client.ask(method, "/mcp", [HOSTILE, version])
                assert (await client.answer()).header("mcp-session-id") is None
        assert (await world.ask(post(Era.LEGACY))).header("mcp-session-id") == "of-the-server"


@pytest.mark.holds("gateway/admission/pinned_tools", "own-look")
async def test_nor_do_looks__which_go_where_the_call_goes(trust: Trust, tmp_path: Path) -> None:
    listed = Listed(tmp_path / "listed.json")
    async with Route("http-modern", trust, tmp_path, listed=listed.path, required=False, pins=pins()) as route:
        route.session = "victims-session"
        answer = await route.send(post(Era.MODERN, "tools/call", PARAMS).and_header("Last-Event-ID", "7"))
        assert "result" in messages_of(answer)[-1]
        assert len(route.received("tools/list")) == 2
        assert [route.headers_received(each) for each in NAMED] == [[], []]


@pytest.mark.holds("gateway/upstream/merged/members", "names")
async def test_nor_does_a_modern_call_at_the_merged_endpoint_go_into_somebodys_session() -> None:
    """Its id is the client's own of a session there, which is good."""
    call = post(Era.MODERN, "tools/call", {"name": "mail__echo", "arguments": {}})

    async with Merged({"mail": HTTP, "files": STDIO}) as merged:
        session = (await merged.send(initialize())).header("mcp-session-id") or ""
        for named in (session, session[:-4], "made-up"):
            answer = await merged.send(naming(call, ("Mcp-Session-Id", named), ("Last-Event-ID", "1-1")))
            assert (answer.status, "result" in messages_of(answer)[0]) == (200, True), answer
            lines = await merged.send(post(Era.MODERN, "tools/call", {"name": "mail__read", "arguments": {}}))
            assert b"initialize" not in lines.body  # it was the child of the stateless era


async def test_two_of_a_name_are_refused_all_the_same__a_reader_would_take_one_of_them() -> None:
    async with World(_nothing) as world:
        for twice in (("Mcp-Session-Id", "a"), ("Last-Event-ID", "1")):
            answer = await world.ask(naming(post(Era.MODERN), twice, twice))
            assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, -32600)
        assert world.upstream.requests == []


async def _nothing(connection: Connection, request: RawRequest) -> None:
    await connection.send(http(response()))


@pytest.mark.holds("gateway/front/exchange")
@pytest.mark.parametrize(("era", "counts"), [(Era.LEGACY, True), (Era.MODERN, False)])
def test_a_modern_stranger_has_no_more_room_for_naming_a_session_that_has_proved_something(
    era: Era, counts: bool
) -> None:
    rooms = Rooms(4_194_304, proving=True)
    rooms.proved(SESSION.encode())
    head = [(b"mcp-protocol-version", REVISION[era].encode()), (b"mcp-session-id", SESSION.encode())]
    assert Told("POST", head, rooms=rooms).exchange.proved is counts
    head[1] = (b"mcp-session-id", b"another")
    Told("POST", head, rooms=rooms).exchange.vouch()
    assert rooms.has_proved(b"another") is counts


@pytest.mark.holds("gateway/front/legacy_sse")
async def test_over_http_sse_a_header_names_no_session_either__the_url_does() -> None:
    async def answers(connection: Connection) -> None:
        while (request := await connection.request()) is not None:
            if request.method == "GET":
                head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
                await connection.send(head, b"event: endpoint\ndata: /messages?sid=1\n\n")
                await connection.peer_closed()
                return
            await connection.send(http(b"", None, status="202 Accepted"))

    async with RawServer(answers) as server:
        async with (
            RunningGateway(GatewaySettings(HttpUpstream(server.url))) as gateway,
            RawClient(gateway.port) as stream,
            RawClient(gateway.port) as client,
        ):
            await stream.ask("GET", "/sse", [("Accept", "text/event-stream"), NAMES[0]])
            assert (await stream.head())[0] == 200
            endpoint = await stream.event()
            assert endpoint is not None
            headers = [("Content-Type", "application/json"), NAMES[0]]
            await client.ask("POST", (endpoint.data or b"").decode(), headers, post(Era.LEGACY).body)
            assert (await client.answer()).status == 202
        assert {request.method for request in server.requests} == {"GET", "POST"}
        assert named_in(server.requests) == set()
