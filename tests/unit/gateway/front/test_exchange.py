"""One exchange over ASGI: bounded bodies, whole answers, and a client that goes away."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.world.asgi import Told
from tests.world.calls import error, response
from tests.world.raw_server import until

from accredit.errors import ClientGone, RequestError
from accredit.gateway.front import asgi as http
from accredit.gateway.upstream.reply import WhileConnected

pytestmark = pytest.mark.holds("gateway/front/asgi")

NO_ANSWER = (
    b'{"jsonrpc":"2.0","id":"one","error":{"code":-32000,"message":"Invalid upstream JSON-RPC response","data":"%b"}}'
)


def body_of(told: Told, limit: int = 100) -> bytes:
    return asyncio.run(told.exchange.body(limit))


@pytest.mark.parametrize("parts", [(b"",), (b"hello",), (b"he", b"", b"llo"), (b"hello", b"")])
def test_a_body_is_read_whole(parts: tuple[bytes, ...]) -> None:
    assert body_of(Told("POST", [], *parts)) == b"".join(parts)


def test_a_body_of_the_limit_is_not_over_it() -> None:
    assert body_of(Told("POST", [(b"content-length", b"100")], b"a" * 100)) == b"a" * 100


@pytest.mark.parametrize("parts", [(b"a" * 101,), (b"a" * 60, b"a" * 41, b"never read")])
def test_a_body_over_the_limit_is_refused_as_soon_as_it_is(parts: tuple[bytes, ...]) -> None:
    with pytest.raises(RequestError) as refused:
        body_of(Told("POST", [], *parts))
    assert refused.value.status == 413


def test_a_declared_length_over_the_limit_is_refused_unread() -> None:
    told = Told("POST", [(b"content-length", b"101")], b"never read")
    with pytest.raises(RequestError) as refused:
        body_of(told)
    assert refused.value.status == 413
    assert asyncio.run(told.receive())["body"] == b"never read"


@pytest.mark.parametrize("length", [b"", b"-5", b"x", b"1e3", b"5\x005"])
def test_a_length_that_is_none_says_nothing(length: bytes) -> None:
    assert body_of(Told("POST", [(b"content-length", length)], b"hello")) == b"hello"


def test_a_client_that_goes_away_in_its_body_is_gone() -> None:
    told = Told()
    told.go_away()
    with pytest.raises(ClientGone):
        body_of(told)


@pytest.mark.parametrize(("status", "length"), [(200, b"5"), (404, b"5"), (202, b"5")])
def test_a_reply_is_sent_with_its_length(status: int, length: bytes) -> None:
    told = Told()
    asyncio.run(told.exchange.reply(status, b"hello", [(b"x", b"y")]))
    assert (told.status, told.body, told.whole) == (status, b"hello", True)
    assert told.headers == [(b"x", b"y"), (b"content-length", length)]


def test_a_reply_that_can_have_no_body_has_no_length() -> None:
    told = Told()
    asyncio.run(told.exchange.reply(204))
    assert (told.status, told.headers, told.whole) == (204, [], True)


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (200, response("one"), response("one")),
        (200, b'{\n"a": 1}', b'{ "a": 1}'),
        (404, error("one", -32050), error("one", -32050)),
        (404, error(None, -32050, "lost"), error("one", -32050, "lost")),
        (502, b"<html>Bad gateway</html>", NO_ANSWER % b"status 502"),
        (202, b"", NO_ANSWER % b"status 202"),
    ],
)
async def test_an_answer_that_was_begun_before_it_was_known_ends_with_a_response_to_its_request(
    status: int, body: bytes, told: bytes
) -> None:
    client = Told("POST", [(b"accept-encoding", b"gzip")])
    client.exchange.request_id = "one"
    await client.exchange.begin()
    await client.exchange.write(b": waits\n\n")
    assert not client.exchange.started, "an error can still be its answer"
    assert client.exchange.head.headers[b"accept-encoding"] == b"identity", "a coded answer can't be an event"
    await client.exchange.reply(status, body, [(b"content-type", b"x")])
    assert (client.status, client.whole) == (200, True)
    assert (b"content-type", b"text/event-stream") in client.headers
    assert client.body == b": waits\n\nevent: message\ndata: " + told + b"\n\n"


async def test_a_stream_goes_on_in_one_that_was_begun_before() -> None:
    client = Told()
    await client.exchange.begin()
    await client.exchange.start(200, [(b"x", b"y")])
    await client.exchange.write(b"a")
    await client.exchange.end()
    assert (client.body, client.whole, (b"x", b"y") in client.headers) == (b"a", True, False)


async def test_a_stream_is_begun_written_and_ended() -> None:
    told = Told()

    assert not told.exchange.started
    await told.exchange.start(200, [(b"x", b"y")])
    assert told.exchange.started
    await told.exchange.write(b"a")
    await told.exchange.write(b"b")
    assert not told.whole
    await told.exchange.end()
    assert (told.status, told.headers, told.body, told.whole) == (200, [(b"x", b"y")], b"ab", True)


# --- a client that goes away ------------------------------------------------------------------------


def during(work: Callable[[Told], Awaitable[object]]) -> Told:
    """Runs work while its client is watched; afterwards nothing of the watch is left."""
    told = Told()

    async def case() -> None:
        try:
            with WhileConnected(told.exchange):
                await work(told)
        finally:
            await until(lambda: len(asyncio.all_tasks()) == 1)

    asyncio.run(case())
    return told


async def forever(told: Told) -> None:
    told.go_away()
    await asyncio.Event().wait()


@pytest.mark.holds("gateway/upstream/reply", "disconnect")
def test_it_cancels_the_work() -> None:
    with pytest.raises(ClientGone):
        during(forever)


def test_work_that_ends_soon_is_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "DISCONNECT_WATCH_SECONDS", 60)

    async def quick(told: Told) -> None:
        told.go_away()
        await asyncio.sleep(0)

    during(quick)


def test_an_error_of_the_work_is_the_work_s() -> None:
    async def fails(told: Told) -> None:
        await asyncio.sleep(0.1)
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        during(fails)


def test_an_error_while_the_client_goes_is_still_the_work_s() -> None:
    async def fails(told: Told) -> None:
        told.go_away()
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        during(fails)


def test_a_cancellation_from_elsewhere_is_no_client_gone() -> None:
    async def cancelled(told: Told) -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_later(0.1, task.cancel)
        await asyncio.Event().wait()

    with pytest.raises(asyncio.CancelledError):
        during(cancelled)


def test_a_cancellation_from_elsewhere_goes_on_when_the_client_goes_too() -> None:
    async def both(told: Told) -> None:
        task = asyncio.current_task()
        assert task is not None
        told.go_away()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            task.cancel()
            raise

    with pytest.raises(asyncio.CancelledError):
        during(both)
