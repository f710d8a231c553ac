"""The ladder before the backend: first failure wins, and what passes is handed on with its era. A call is begun by
stepping it, and costs nothing before."""

import asyncio
from collections.abc import Callable, Mapping

import pytest
from tests.world.asgi import MemoryAnswer, MemoryClient, Told
from tests.world.calls import ERAS, Posted, notification, post, response

from accredit.errors import MessageId, RequestError
from accredit.gateway.admission.gate import Gate
from accredit.gateway.admission.tool_directory import ToolDirectory
from accredit.gateway.counters import Counters
from accredit.gateway.front.callers import NOBODY, HttpAuthenticator, PlainSessions
from accredit.gateway.front.endpoint import Endpoint
from accredit.gateway.front.exchange import Exchange
from accredit.gateway.headers import RawHeaders, RequestHead
from accredit.gateway.room import Rooms
from accredit.gateway.settings import GatewaySettings, HttpUpstream
from accredit.gateway.upstream.http.relay import HttpRelay
from accredit.gateway.upstream.reply import Reply
from accredit.jsonrpc.frames import Frame, Notification, Request, Success
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.requests import Batch
from accredit.jsonrpc.responses import Edit

UPSTREAM = HttpUpstream("http://127.0.0.1:1/mcp")
SETTINGS = GatewaySettings(UPSTREAM, max_request_bytes=10_000)


class Recorder:
    """A backend that keeps what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Frame | Batch | None, Era | None]] = []

    async def post(self, reply: Reply, message: Frame | Batch, era: Era, edits: Mapping[MessageId, Edit]) -> None:
        self.asked.append(("POST", message, era))

    async def get(self, reply: Reply, otherwise: Edit | None) -> None:
        self.asked.append(("GET", None, None))

    async def delete(self, reply: Reply) -> None:
        self.asked.append(("DELETE", None, None))

    async def ask(self, reply: Reply, era: Era, request: Request, most: int | None = None) -> bytes | None:
        return None

    async def ready(self) -> bool:
        return True

    def drain(self) -> None: ...

    async def aclose(self) -> None: ...


def told(posted: Posted, method: str = "POST", **headers: str) -> Told:
    given = [("Host", "127.0.0.1"), *posted.headers]
    given = [pair for pair in given if pair[0].lower() not in headers]
    pairs = [*given, *((name, value) for name, value in headers.items() if value)]
    return Told(method, [(name.lower().encode(), value.encode("latin-1")) for name, value in pairs], posted.body)


def serve(asked: Told, backend: Recorder | None = None, **known: str) -> Recorder:
    """Serves a request; `known` are the revisions of sessions that began here."""
    recorder, sessions = backend or Recorder(), PlainSessions()
    for session, revision in known.items():
        begun = told(post(Era.LEGACY)).exchange
        sessions.enter(begun, begun.head, NOBODY)
        begun.negotiated(session.encode("ascii"), revision)
    gate = Gate(SETTINGS, Counters(), ToolDirectory())
    asyncio.run(Endpoint(SETTINGS, gate, recorder, HttpAuthenticator(None, sessions)).serve(asked.exchange))
    return recorder


def refusal_of(asked: Told) -> tuple[int, int]:
    recorder = Recorder()
    with pytest.raises(RequestError) as refused:
        serve(asked, recorder)
    assert recorder.asked == []
    return refused.value.status, refused.value.code


@pytest.mark.parametrize("era", ERAS)
def test_a_request_is_handed_on_with_its_era(era: Era) -> None:
    [(method, message, found)] = serve(told(post(era))).asked
    assert (method, found) == ("POST", era)
    assert isinstance(message, Request)
    assert message.text == post(era).body


@pytest.mark.parametrize("era", ERAS)
def test_so_are_notifications_and_responses(era: Era) -> None:
    [(_, message, found)] = serve(told(notification(era))).asked
    assert isinstance(message, Notification)
    assert found is era
    [(_, message, _)] = serve(told(Posted(post(era).headers, response()))).asked
    assert isinstance(message, Success)


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_other_methods_of_mcp_go_to_the_backend(method: str) -> None:
    assert serve(told(Posted([], b""), method)).asked == [(method, None, None)]


@pytest.mark.holds("gateway/front/endpoint", "source", "media-type", "message", "era")
def test_the_first_failure_wins() -> None:
    bad = Posted([], b"not json" * 10_000)
    assert refusal_of(told(bad, "PUT", host="evil", origin="http://evil")) == (403, -32600)
    assert refusal_of(told(bad, "PUT", origin="http://evil")) == (403, -32600)
    assert refusal_of(told(bad, "PUT")) == (405, -32600)
    assert refusal_of(told(bad)) == (415, -32600)
    typed = Posted([("content-type", "application/json")], bad.body)
    assert refusal_of(told(typed)) == (413, -32600)
    assert refusal_of(told(Posted(typed.headers, b"not json"))) == (400, -32700)
    bare = post(Era.LEGACY).body.replace(b"2025", b"2026")
    modern = Posted([*typed.headers, ("mcp-protocol-version", "2026-07-28")], bare)
    assert refusal_of(told(modern)) == (400, -32602)


def batch(*headers: tuple[str, str]) -> Told:
    return told(Posted([("content-type", "application/json"), *headers], b"[" + notification(Era.LEGACY).body + b"]"))


@pytest.mark.parametrize(
    "headers",
    [
        [("mcp-protocol-version", "2025-03-26")],
        [("mcp-session-id", "old")],
        [("mcp-session-id", "unknown")],
        [],
        [("mcp-protocol-version", "2025-03-26"), ("mcp-session-id", "new")],
    ],
    ids=["named", "known", "unknown", "nothing_said", "named_and_known"],
)
def test_a_batch_is_let_in_where_the_revision_is_2025_03_26_or_nobody_says_another(
    headers: list[tuple[str, str]],
) -> None:
    [(_, message, era)] = serve(batch(*headers), old="2025-03-26", new="2025-11-25").asked
    assert isinstance(message, Batch)
    assert era is Era.LEGACY


@pytest.mark.parametrize("headers", [[("mcp-protocol-version", "2025-06-18")], [("mcp-session-id", "new")]])
def test_elsewhere_it_is_not(headers: list[tuple[str, str]]) -> None:
    with pytest.raises(RequestError):
        serve(batch(*headers), new="2025-11-25")


@pytest.mark.parametrize("version", ["2026-07-28", "2099-01-01", "v999"])
def test_a_batch_is_never_let_in_in_the_modern_era(version: str) -> None:
    assert refusal_of(batch(("mcp-protocol-version", version))) == (400, -32600)


class MemoryExchange(Exchange):
    """Bytes in memory: nothing of it ever waits."""

    def __init__(self, headers: RawHeaders, body: bytes) -> None:
        super().__init__(RequestHead("POST", "/mcp", headers), "127.0.0.1", Rooms(1 << 20, proving=False))
        self.told: tuple[int, bytes] | None = None
        self._text = body

    async def _piece(self) -> tuple[bytes, bool]:
        return self._text, False

    async def _send_whole(self, status: int, headers: RawHeaders, body: bytes) -> None:
        self.told = (status, body)

    async def _send_head(self, status: int, headers: RawHeaders) -> None:
        raise AssertionError

    async def write(self, chunk: bytes) -> None:
        raise AssertionError

    async def end(self) -> None:
        raise AssertionError

    def watch(self, on_gone: Callable[[], None] | None) -> None: ...


class SlowClient(MemoryClient):
    """An upstream that answers when it is told to."""

    def __init__(self, answer: MemoryAnswer) -> None:
        super().__init__(answer)
        self.answers: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def send(
        self, method: str, headers: RawHeaders, body: bytes = b"", *, target: bytes | None = None, route: object = None
    ) -> MemoryAnswer:
        await self.answers
        return await super().send(method, headers, body, target=target, route=route)


@pytest.mark.holds("gateway/upstream/reply", "no-task")
@pytest.mark.holds("gateway/front/endpoint", "room")
@pytest.mark.parametrize("era", ERAS)
async def test_a_call_comes_to_its_wait_for_the_upstream_without_a_task_and_ends_in_the_next_step(era: Era) -> None:
    settings, loop = GatewaySettings(UPSTREAM), asyncio.get_running_loop()
    tools = ToolDirectory()
    relay = HttpRelay(settings, UPSTREAM, Counters(), tools)
    client = SlowClient(MemoryAnswer(200, [(b"content-type", b"application/json")], response()))
    relay.sender.client = client.as_client()
    asked = post(era)
    headers = [(name.lower().encode(), value.encode()) for name, value in asked.headers]
    exchange = MemoryExchange([(b"host", b"127.0.0.1"), *headers], asked.body)
    call = Endpoint(settings, Gate(settings, Counters(), tools), relay, HttpAuthenticator(None, PlainSessions())).serve(
        exchange
    )
    begun: asyncio.Future[object] = loop.create_future()

    def begin() -> None:
        assert asyncio.current_task() is None
        tasks = asyncio.all_tasks()
        begun.set_result((call.send(None), asyncio.all_tasks() - tasks))

    loop.call_soon(begin)
    assert await begun == (client.answers, set())
    client.answers.set_result(None)
    with pytest.raises(StopIteration):
        call.send(None)
    assert exchange.told == (200, response())
