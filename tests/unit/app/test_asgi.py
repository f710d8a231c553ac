"""An application that mounts a gateway is served as ASGI says, and one that breaks off leaves no half of an answer that
passes for a whole one."""

from typing import Any

import pytest
from tests.world.raw_client import CutOff, RawClient
from tests.world.running import RunningGateway

pytestmark = pytest.mark.holds("app/http_request")

START = {"type": "http.response.start", "status": 200, "headers": [(b"X-Own", b"a"), (b"content-length", b"3")]}


class Application:
    """Sends these messages, or raises the last; keeps what it has received."""

    def __init__(self, *messages: Any) -> None:
        self._messages = messages
        self.scopes: list[Any] = []
        self.received: list[Any] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            scope["state"]["made"] = "at start"
            while (await receive())["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        self.scopes.append(scope)
        while not self.received or self.received[-1].get("more_body"):
            self.received.append(await receive())
        for each in self._messages:
            if isinstance(each, Exception):
                raise each
            await send(each)
        if self._messages:
            self.received.append(await receive())


async def test_a_request_is_told_as_the_specification_says() -> None:
    app = Application(START, {"type": "http.response.body", "body": b"abc"})
    async with RunningGateway(app) as server, RawClient(server.port) as client:
        await client.send(b"POST /a%20b?c=d HTTP/1.1\r\nHost: h\r\nX: Y\r\nContent-Length: 2\r\n\r\nhi")
        answer = await client.answer()
        assert (answer.status, answer.header("x-own"), answer.body) == (200, "a", b"abc")
    (scope,) = app.scopes
    assert scope.pop("client")[0] == "127.0.0.1"
    assert scope.pop("server") == ("127.0.0.1", server.port)
    assert scope == {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "scheme": "http",
        "root_path": "", "method": "POST", "path": "/a b", "raw_path": b"/a%20b", "query_string": b"c=d",
        "headers": [(b"host", b"h"), (b"x", b"Y"), (b"content-length", b"2")], "state": {"made": "at start"},
    }  # fmt: skip
    whole = b"".join(each.get("body", b"") for each in app.received)
    assert (whole, app.received[-1]) == (b"hi", {"type": "http.disconnect"})


@pytest.mark.holds("app/http_request", "body-end")
@pytest.mark.parametrize("length", [(), ((b"content-length", b"3"),)], ids=["chunks", "length"])
async def test_how_a_body_ends_is_said_once__whatever_an_application_says_of_it(
    length: tuple[tuple[bytes, bytes], ...],
) -> None:
    said = [(b"x-connection", b"close"), (b"transfer-encoding", b"chunked"), (b"connection", b"close, x"), *length]

    app = Application({**START, "headers": said}, {"type": "http.response.body", "body": b"abc"})
    async with RunningGateway(app) as server, RawClient(server.port) as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        head = await client.reader.readuntil(b"\r\n\r\n")
        fields = sorted(head.lower().split(b"\r\n")[1:-2])
        framing = b"content-length: 3" if length else b"transfer-encoding: chunked"
        assert fields == sorted([b"x-connection: close", b"connection: close", framing])
        assert await client.reader.read() == (b"abc" if length else b"3\r\nabc\r\n0\r\n\r\n")


async def test_a_head_is_answered_without_a_body() -> None:
    app = Application(START, {"type": "http.response.body", "body": b"abc"})
    async with RunningGateway(app) as server, RawClient(server.port) as client:
        await client.send(b"HEAD / HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n")
        assert (await client.head())[0] == 200
        assert (await client.answer()).body == b"abc"


async def test_who_waits_to_be_asked_for_the_body_is_asked_once() -> None:
    app = Application(START, {"type": "http.response.body", "body": b"abc"})
    async with RunningGateway(app) as server, RawClient(server.port) as client:
        await client.send(b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(b"hi")
        assert (await client.answer()).status == 200


@pytest.mark.holds("app/http_request", "failure")
@pytest.mark.parametrize(
    "messages",
    [
        (ValueError("no"),),
        (),
        ({"type": "http.response.body", "body": b"abc"},),
        ({**START, "headers": [(b"a", b"b\r\nc: d")]},),
    ],
    ids=["raises", "says nothing", "body first", "field"],
)
async def test_an_application_that_fails_before_it_answers_is_a_500(messages: tuple[Any, ...]) -> None:
    async with (
        RunningGateway(Application(*messages), reports_errors=True) as server,
        RawClient(server.port) as client,
    ):
        await client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        answer = await client.answer()
        assert (answer.status, answer.header("connection"), answer.header("c")) == (500, "close", None)
        assert await client.peer_closed()


@pytest.mark.holds("app/http_request", "failure")
@pytest.mark.parametrize(
    "messages",
    [
        (START, ValueError("no")),
        (START, {"type": "http.response.body", "body": b"ab"}),
        (START, {"type": "http.response.body", "body": b"abcd"}),
        (START, START),
        ({**START, "headers": []}, {"type": "http.response.body", "body": b"ab", "more_body": True}, ValueError("no")),
    ],
    ids=["raises", "shorter", "longer", "twice", "stream"],
)
async def test_an_answer_that_is_broken_off_ends_the_connection__half_of_it_is_not_taken_for_the_whole(
    messages: tuple[Any, ...],
) -> None:
    async with (
        RunningGateway(Application(*messages), reports_errors=True) as server,
        RawClient(server.port) as client,
    ):
        await client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        with pytest.raises(CutOff):
            await client.answer()
