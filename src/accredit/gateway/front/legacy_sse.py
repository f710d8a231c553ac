"""HTTP+SSE of revision 2024-11-05, both sides: `GET /sse` opens a session, `POST /messages` sends into it.

The upstream's first event names the URL for messages to it. The client gets a URL of ours instead, so that its messages
come through the gateway. A request goes to the upstream by POST, and is answered once, on the stream. If the gate
refuses it, the refusal comes on the stream, and nothing is forwarded.

A session is in this process's memory and ends with its stream. Where tokens are on, it belongs to the subject that
opened it: nobody else can send into it. Where ids are sealed (`callers`), the session's id names this process.
"""

import secrets
from typing import NamedTuple
from urllib.parse import parse_qs, urljoin, urlsplit

from accredit.errors import AnswerError, FrameError, RequestError, UpstreamUnavailable
from accredit.gateway.admission.gate import Gate
from accredit.gateway.call import Call
from accredit.gateway.counters import Counters
from accredit.gateway.front.callers import HttpAuthenticator, SealedSessions, principal_of, sessions_of
from accredit.gateway.front.endpoint import Intake, check_headers
from accredit.gateway.front.exchange import Exchange
from accredit.gateway.front.session_ids import Principal
from accredit.gateway.headers import SESSION_HEADER, check_request
from accredit.gateway.recording.open_calls import OpenCalls
from accredit.gateway.replies import session_not_found
from accredit.gateway.settings import GatewaySettings
from accredit.gateway.upstream.http.client import ANYWHERE, Answer, Route
from accredit.gateway.upstream.http.relay import HttpRelay
from accredit.gateway.upstream.http.sse_relay import EventRelay
from accredit.gateway.upstream.reply import WhileConnected
from accredit.jsonrpc.encode import INVALID_REQUEST
from accredit.jsonrpc.frames import Frame, Notification, Request, member_id
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.requests import Batch
from accredit.jsonrpc.responses import Edit, Expected
from accredit.jsonrpc.sse import encode_event
from accredit.limits import EVENT_TIMES, MAX_OPEN_REQUESTS
from accredit.telemetry.operations import Meter, Operations

SSE_PATH = "/sse"
MESSAGES_PATH = "/messages"
_REVISION = "2024-11-05"


class _Session(NamedTuple):
    """A session. `target` is the upstream's URL for messages, at the session's `replica`. `expected` are its open
    requests. `principal` is the subject of the token that opened it."""

    target: bytes
    replica: str
    expected: Expected
    stream: Exchange
    principal: Principal


class LegacySse(Intake[Exchange]):
    """Serves the two paths. Of several servers, each has these paths below its own endpoint. Messages take the same
    steps as on every way in (`endpoint`).

    The upstream's stream is at `url` if that ends in `/sse`, otherwise at `/sse` beside it.
    """

    answers_later = True

    def __init__(
        self,
        settings: GatewaySettings,
        url: str,
        gate: Gate,
        relay: HttpRelay,
        counters: Counters,
        authenticator: HttpAuthenticator,
        *,
        before: "LegacySse | None" = None,
        meter: Meter | None = None,
    ) -> None:
        """`before` is the server's previous `LegacySse`, whose sessions are kept."""
        super().__init__(settings, gate, meter)
        self._names = sessions_of(settings, live_here=True, before=before._names if before is not None else None)
        self._authenticator = authenticator
        self._relay = relay
        self._counters = counters
        self._messages = f"{settings.path}{MESSAGES_PATH}" if settings.server else MESSAGES_PATH
        self._own_target = _target_of(_stream_url(url))
        self._sessions: dict[str, _Session] = before._sessions if before is not None else {}

    async def stream(self, exchange: Exchange, root: str) -> None:
        """Serve `GET /sse`: open a session, which lasts as long as the client stays. `root` is the path at which this
        application is mounted."""
        if self._settings.workers > 1:
            detail = "HTTP+SSE (2024-11-05) needs a gateway with one worker"
            raise RequestError(INVALID_REQUEST, detail, status=501)
        check_headers(exchange)
        token = await self._authenticator.of_request(exchange)
        expected = Expected(Era.LEGACY)
        exchange.hears = self._gate.always_hears("")  # this revision has no tasks
        session = secrets.token_hex(16)
        if isinstance(self._names, SealedSessions):
            session = self._names.sealed(session, _REVISION, principal_of(token))

        def rewrite(data: bytes) -> bytes:
            url = _stream_url(self._relay.sender.client.url_of(answer.replica))
            target = _target(url, data)
            self._sessions[session] = _Session(target, answer.replica, expected, exchange, principal_of(token))
            return f"{root}{self._messages}?session_id={session}".encode()

        exchange.calls = OpenCalls()
        async with exchange.calls:
            with exchange.rooms.streams.held(exchange, yields=True), WhileConnected(exchange):
                held = self._relay.answers.large.of(exchange, times=EVENT_TIMES)
                answer = await self._send(exchange, b"", self._own_target, ANYWHERE)
                try:
                    if answer.status >= 400:
                        await self._relay.answers.error(exchange, answer, expected, [])
                        return
                    if answer.status >= 300:
                        raise self._relay.answers.unusable(answer)
                    if answer.status != 200 or not answer.head.is_stream:
                        raise AnswerError("no event stream in answer to GET")
                    stream = EventRelay(
                        exchange,
                        answer,
                        expected,
                        headers=self._relay.answers.stream_headers(answer),
                        settings=self._settings,
                        counters=self._counters,
                        learn=_nothing_to_learn,
                        idle_seconds=None,
                        endpoint=rewrite,
                        held=held,
                    )
                    await self._relay.answers.standing.run(stream)
                finally:
                    held.leave()
                    self._sessions.pop(session, None)
                    for request in expected.open.values():
                        request.failed(UpstreamUnavailable("the stream has ended"))
                    answer.close()

    async def message(self, exchange: Exchange) -> None:
        """Serve `POST /messages?session_id=...`. The status 202 says that the upstream has accepted the message. All
        else comes on the stream."""
        await self.take(exchange, exchange)

    def _revision(self, client: Exchange) -> str:
        return _REVISION

    async def _arrive(self, client: Exchange, call: Call) -> None:
        call.revision = _REVISION
        call.token = await self._authenticator.of_header(client)  # 2
        session = self._session(client)
        check_request(client.head.headers)  # 3
        check_headers(client)
        text = await client.body(self._settings.max_request_bytes)  # 4
        message = await self._read(text, call, batches=False)
        await self._authenticator.of_message(client, call, message, None)  # 6
        if principal_of(call.token) != session.principal:
            raise session_not_found()

    async def _go_on(self, client: Exchange, call: Call) -> None:
        client.calls, client.speaker = call.open_calls, call.speaker
        session = self._session(client)  # again: if the stream has ended meanwhile, nobody would settle the call
        message = call.onward
        if message is None:
            if call.replies:
                await session.stream.write(encode_event(call.answer))
            await client.reply(202)
            return
        operations: Operations = ()
        if self._meter is not None:
            sent, operations = self._meter.sent(message)
            message = sent
        if isinstance(message, Request):
            _ask(session.expected, message, call.edit)
            # The answer may arrive before the upstream's 202.
            session.stream.calls.add(client.calls.take(message.id))
        elif isinstance(message, Notification):
            _take_back(session.stream, message)
        if call.proved:
            client.vouched = session.stream.vouched = True
            client.rooms.streams.recount()
        try:
            await self._forward(client, message, session)
        except BaseException as error:
            if self._meter is not None:
                self._meter.received(operations, error)
            raise

    def _traceparent(self, client: Exchange) -> bytes | None:
        return client.head.headers.get(b"traceparent")

    def _session(self, exchange: Exchange) -> _Session:
        """Return the session that a request names. Raises `RequestError` (404)."""
        named = parse_qs(exchange.head.query.decode("latin-1")).get("session_id", [""])
        session = self._sessions.get(named[0])
        if session is None:
            raise session_not_found()
        return session

    async def _forward(self, exchange: Exchange, message: Frame | Batch, session: _Session) -> None:
        accepted, expected = False, session.expected
        try:
            with exchange.rooms.calls.held(exchange):
                answer = await self._send(exchange, message.text, session.target, Route(session.replica))
                try:
                    if answer.status >= 400:
                        if isinstance(message, Request):
                            exchange.calls.add(session.stream.calls.take(message.id))
                        await self._relay.answers.error(exchange, answer, expected, [])
                    elif answer.status >= 300:
                        raise self._relay.answers.unusable(answer)
                    else:
                        accepted = True
                        self._relay.answers.unasked.drop(answer)
                        await exchange.reply(202)
                finally:
                    answer.close()
        finally:
            if not accepted and isinstance(message, Request):
                expected.open.pop(message.id, None)
                expected.edits.pop(message.id, None)
                exchange.calls.add(session.stream.calls.take(message.id))

    async def _send(self, exchange: Exchange, body: bytes, target: bytes, route: Route) -> Answer:
        head = exchange.head.without((SESSION_HEADER,))  # the session's id is in the URL; no other one counts
        headers = [
            *self._relay.sender.forwarding.to_upstream(head.raw_headers, body=bool(body)),
            (b"accept-encoding", b"identity"),
        ]
        prepared = self._relay.sender.client.prepare(exchange.head.method, headers, target=target)
        return await self._relay.sender.exchange(exchange, prepared, body, route)


def _stream_url(url: str) -> str:
    return url if urlsplit(url).path.rstrip("/").endswith("/sse") else urljoin(url, "sse")


def _target(stream: str, data: bytes) -> bytes:
    """Return the URL for messages that the upstream has sent (`data`) on the stream at the URL `stream`. Raises
    `AnswerError` if it has another origin."""
    try:
        url = urljoin(stream, data.decode("ascii"))
        same = urlsplit(url)[:2] == urlsplit(stream)[:2]
    except ValueError:
        raise AnswerError("an endpoint that is no URL") from None
    if not same:
        raise AnswerError("an endpoint on another origin")
    return _target_of(url)


def _target_of(url: str) -> bytes:
    parts = urlsplit(url)
    target = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
    if any(char <= " " or char >= "\x7f" for char in target):
        raise AnswerError("an endpoint that is no URL")
    return target.encode("ascii")


def _ask(expected: Expected, request: Request, edit: Edit | None) -> None:
    """Register an open request. Its text is not kept, as a session may have many open requests. Raises
    `RequestError`."""
    try:
        if len(expected.open) >= MAX_OPEN_REQUESTS:
            raise FrameError("too many requests of this session are open")
        asked = Request(request.id, request.method, None, b"")
        asked.watcher = request.watcher
        expected.ask(asked)
        if edit is not None:
            expected.edits[request.id] = edit
    except FrameError as error:
        raise RequestError(INVALID_REQUEST, f"Invalid Request: {error.detail}", id=request.id) from None


def _take_back(stream: Exchange, notification: Notification) -> None:
    id = member_id(notification, "requestId") if notification.method == "notifications/cancelled" else None
    call = stream.calls.get(id) if id is not None else None
    if call is not None:
        call.taken_back = True


def _nothing_to_learn(frame: Frame) -> None:
    """Do nothing: this transport has only one revision, so a message can't tell which one is used."""
