"""The agent's HTTP connection: what goes wrong with one request stays with that one, and a token stays where it is."""

from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest
from tests.world.calls import STREAM_HEAD, chunk, compact, event, http, initialized, response
from tests.world.ports import reserved_port
from tests.world.raw_server import PATIENCE, Connection, RawServer
from tests.world.running import run

from accredit.client import http as client_http
from accredit.client.http import HOW_TO_START, GatewayHttp
from accredit.client.ways import over_http
from accredit.jsonrpc.encode import UPSTREAM_ERROR

pytestmark = [pytest.mark.holds("client/http"), pytest.mark.holds("client/ways")]

SESSION = "5e551017"
SECRET = "marked-secret"

Ask = Callable[..., Awaitable[Any]]


def against(*answers: bytes, case: Callable[[Ask, GatewayHttp, RawServer], Awaitable[None]], token: str = "") -> None:
    """A gateway that gives one answer to each request, and then closes the connection; b"" breaks it off at once."""

    async def serve(connection: Connection) -> None:
        request = await connection.request()
        if request is None or request.method == "DELETE":
            return
        answer = left.pop(0)
        if answer:
            await connection.send(answer)
        else:
            connection.reset()

    async def main() -> None:
        async with RawServer(serve) as server:
            gateway = GatewayHttp(token)
            async with over_http(server.url, gateway) as (read, write):

                async def ask(method: str = "ping", id: int = 7) -> Any:
                    message = JSONRPCRequest(jsonrpc="2.0", id=id, method=method, params={})
                    await write.send(SessionMessage(message))
                    item = await read.receive()
                    assert isinstance(item, SessionMessage)
                    assert item.message.id == id  # pyright: ignore[reportAttributeAccessIssue]
                    return item.message

                await case(ask, gateway, server)

    left = list(answers)
    run(main())


def whole(body: bytes, *, status: str = "200 OK", headers: tuple[tuple[str, str], ...] = ()) -> bytes:
    """A whole answer, after which the connection is not used again."""
    return http(body, status=status, headers=(("Connection", "close"), *headers))


async def test_in_the_stateless_era_a_server_names_no_session_that_proofs_would_be_bound_to() -> None:
    """Nor does the client bring one there, whoever has put it into its headers."""
    named = whole(response(), headers=(("Mcp-Session-Id", SESSION),))
    modern, legacy = ({"MCP-Protocol-Version": version} for version in ("2026-07-28", "2025-11-25"))
    brought = {"Mcp-Session-Id": SESSION, "Last-Event-ID": "7"}

    async def serve(connection: Connection) -> None:
        if await connection.request() is not None:
            await connection.send(named)

    async with RawServer(serve) as server, GatewayHttp() as gateway:
        for headers, noted in ((modern, ""), (legacy, SESSION), (modern, SESSION)):
            await gateway.post(server.url, headers={**headers, **brought}, content=b"{}")
            assert gateway.session_id == noted
        came = [(each.header("mcp-session-id"), each.header("last-event-id")) for each in server.requests]
        assert came == [(None, None), (SESSION, "7"), (None, None)]


@pytest.mark.holds("client/http", "broken-body")
@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"", "Upstream unavailable"),
        (b"HTTP/9 what\r\n\r\n", "Upstream unavailable"),
        (http(response(), length=10_000), "broke its answer off"),
        (STREAM_HEAD + chunk(b"data: {"), "stream ended"),
        (whole(b"not json"), "parse"),
    ],
    ids=["reset", "no HTTP", "half a body", "half a stream", "no JSON"],
)
def test_a_broken_answer_is_an_error_for_its_request__and_the_next_one_is_answered(answer: bytes, says: str) -> None:
    async def case(ask: Ask, _: GatewayHttp, __: RawServer) -> None:
        told = await ask(id=1)
        assert says in str(told.error.message)
        assert (await ask(id=7)).result

    against(answer, whole(response()), case=case)


@pytest.mark.holds("client/http", "unreachable")
async def test_a_gateway_that_is_not_there_is_an_error__and_when_it_comes_back_it_is_found() -> None:
    log: list[str] = []
    with reserved_port() as port:
        url = f"http://user:{SECRET}@127.0.0.1:{port}/mcp?key={SECRET}"
        async with over_http(url, GatewayHttp(on_trouble=log.append)) as (read, write):
            message = JSONRPCRequest(jsonrpc="2.0", id=7, method="ping", params={})
            await write.send(SessionMessage(message))
            item: Any = await read.receive()
            assert item.message.error.message.startswith("Upstream unavailable: the gateway at ")
            told = item.message.error.data
            assert told.startswith(f"the gateway at 127.0.0.1:{port} can't be reached: ")
            assert told.endswith(HOW_TO_START)
            assert log == [item.message.error.data]
            async with RawServer(_answers, port=port):
                await write.send(SessionMessage(message))
                item = await read.receive()
                assert item.message.result


async def _answers(connection: Connection) -> None:
    while await connection.request() is not None:
        await connection.send(http(response()))


@pytest.mark.holds("client/http", "unreachable")
async def test_a_gateway_that_says_nothing_is_an_error() -> None:
    async def silent(connection: Connection) -> None:
        await connection.request()
        await connection.peer_closed()

    async with RawServer(silent) as server:
        gateway = GatewayHttp()
        gateway.timeout = httpx2.Timeout(PATIENCE, read=0.05)
        async with over_http(server.url, gateway) as (read, write):
            await write.send(SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=7, method="ping", params={})))
            item: Any = await read.receive()
            assert item.message.error.data == f"the gateway at 127.0.0.1:{server.port} did not answer in time"


@pytest.mark.holds("client/http", "size")
def test_an_answer_that_never_ends_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_http, "MAX_ANSWER_BYTES", 1_000)

    async def case(ask: Ask, _: GatewayHttp, __: RawServer) -> None:
        assert "too long" in (await ask(id=7)).error.message
        assert (await ask(id=7)).result

    against(whole(response(text="x" * 2_000)), whole(response()), case=case)


@pytest.mark.holds("client/http", "size")
def test_a_refusal_of_many_values_is_none__they_would_be_read_at_one_go() -> None:
    many = {"jsonrpc": "2.0", "id": 7, "error": {"code": -31001, "message": "no", "data": [0] * 20_000}}

    async def case(ask: Ask, _: GatewayHttp, __: RawServer) -> None:
        refused = await ask(id=7)
        assert (refused.error.code, "HTTP status 403" in refused.error.data) == (UPSTREAM_ERROR, True)

    against(whole(compact(many), status="403 Forbidden"), case=case)


@pytest.mark.holds("client/http", "size")
def test_a_stream_may_be_longer_than_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_http, "MAX_ANSWER_BYTES", 100)

    async def case(ask: Ask, _: GatewayHttp, __: RawServer) -> None:
        assert (await ask()).result

    against(STREAM_HEAD + chunk(event(response(text="x" * 500))) + chunk(b""), case=case)


CHALLENGE = (("WWW-Authenticate", 'Bearer error="insufficient_scope"'),)


@pytest.mark.holds("client/http", "needs-token")
@pytest.mark.parametrize(
    ("status", "token", "code", "word"),
    [
        ("401 Unauthorized", "", -31011, "missing_token"),
        ("401 Unauthorized", SECRET, -31010, "invalid_token"),
        ("403 Forbidden", SECRET, -31010, "insufficient_scope"),
    ],
)
def test_what_a_token_lacks_is_said_in_words(status: str, token: str, code: int, word: str) -> None:
    async def case(ask: Ask, _: GatewayHttp, server: RawServer) -> None:
        error = (await ask()).error
        assert (error.code, error.data) == (code, {"error": word})
        assert SECRET not in str(error)
        assert server.requests[0].header("authorization") == (f"Bearer {token}" if token else None)

    against(whole(b"{}", status=status, headers=CHALLENGE), case=case, token=token)


def test_the_session_is_known_as_soon_as_its_first_answer_is() -> None:
    async def case(ask: Ask, gateway: GatewayHttp, server: RawServer) -> None:
        assert gateway.session_id == ""
        await ask("initialize")
        assert gateway.session_id == SESSION
        await ask()
        assert gateway.session_id == SESSION
        assert server.requests[1].header("mcp-session-id") == SESSION

    against(whole(initialized(), headers=(("Mcp-Session-Id", SESSION),)), whole(response()), case=case)


@pytest.mark.holds("client/http", "beyond-bounds")
def test_an_event_whose_id_has_other_letters_ends_no_connection__the_host_s_own_task_was_cancelled() -> None:
    """An error in a task of the connection cancels whoever waits in it."""
    begun = http(b"retry: 1\n" + event(b"", id="\u4e16"), "text/event-stream", headers=(("Connection", "close"),))
    resumed = http(event(response()), "text/event-stream", headers=(("Connection", "close"),))

    async def case(ask: Ask, _: GatewayHttp, server: RawServer) -> None:
        assert "result" in (await ask()).model_dump()
        assert server.requests[1].head.count(b"last-event-id: \xe4\xb8\x96\r\n") == 1

    against(begun, resumed, case=case)


@pytest.mark.holds("client/http", "beyond-bounds")
@pytest.mark.parametrize("letters", ["\u00e9", "\u4e16", "a\nb: c", "\x00"], ids=ascii)
async def test_nothing_that_a_server_chose_for_a_header_raises(letters: str) -> None:
    names = ("Mcp-Session-Id", "Last-Event-ID", "MCP-Protocol-Version")

    async def serve(connection: Connection) -> None:
        if await connection.request() is not None:
            await connection.send(whole(response()))

    async with RawServer(serve) as server, GatewayHttp() as gateway:
        for name in names:
            await gateway.post(server.url, headers={name: letters}, content=b"{}")
        assert all(b"\r\nb: c" not in each.head for each in server.requests)


def test_nothing_of_a_token_shows() -> None:
    assert SECRET not in repr(GatewayHttp(SECRET))
    assert SECRET not in repr(GatewayHttp(SECRET).headers)
