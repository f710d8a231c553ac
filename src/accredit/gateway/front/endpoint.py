"""The steps from a client's message to the backend, and the MCP endpoint over HTTP. The steps are the same, in the same
order, whichever way a message comes in (`Intake`). A message is refused at the first step whose condition it does not
meet:

- [source] Over HTTP: `Host` and `Origin` are allowed, against DNS rebinding (else 403).
- [method] Over HTTP, the method is one that MCP uses (405), and the session's id is not too long (400). Where tokens
  are on, a token in the header is valid (401, 403, 503). The session of HTTP+SSE exists (404).
- [media-type] Over HTTP, a POST is JSON in UTF-8, without a content coding (415). It does not repeat a header by which
  it is routed (400).
- [message] The message is within its bounds (over HTTP 413, over stdio an error line). It is one valid message, or a
  batch where its revision allows one (400).
- [era] Over HTTP in the modern era: the headers agree with the body (400, -32020). Required metadata is there (-32602).
  Routing headers that mirror nothing in the body are dropped.
- [token] Where tokens are on, each message has a valid token with the rights it needs, and the session belongs to the
  token's subject (404): see `callers`. Over stdio, only calls and lists must have a token (`bearer`).
- [gate] The gate lets the message through (`gate`). The gate itself answers what it refuses. A notification that it
  drops has no answer. The decision on a call is on record before the gate is left.
- [room] There is room for the message, and it goes to the backend.
- [settled] Whether forwarding succeeds or fails, each call's outcome is recorded here, unless another part of the
  gateway has taken that over.

A call that is refused before the gate is recorded as well (`early_refusals`). Not checked: whether the upstream knows
the version or the session. The upstream checks that itself.

Over HTTP (`Endpoint`), messages come by POST, and are answered there. GET opens a session's standing stream or resumes
a stream. DELETE ends a session. GET and DELETE carry no message, so [media-type] is the last step that they take.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from functools import partial
from time import perf_counter
from typing import Any, ClassVar, Generic, TypeVar

from accredit.errors import AccreditError, ClientGone, RequestError, TokenError, UpstreamUnavailable
from accredit.gateway.admission.gate import Gate
from accredit.gateway.admission.identity import check_single
from accredit.gateway.admission.pinned_tools import UpstreamAccess
from accredit.gateway.call import Call
from accredit.gateway.counters import Counters
from accredit.gateway.forwarding import Forwarding
from accredit.gateway.front.callers import NOBODY, HttpAuthenticator
from accredit.gateway.front.exchange import Exchange
from accredit.gateway.headers import (
    JSON,
    LAST_EVENT_HEADER,
    SESSION_HEADER,
    check_once,
    host_allowed,
    host_refused,
    origin_allowed,
    origin_listed,
    origin_refused,
    routing_headers,
)
from accredit.gateway.media_types import takes_events
from accredit.gateway.recording.early_refusals import REFUSALS, UnreadRequest
from accredit.gateway.recording.open_calls import OpenCalls
from accredit.gateway.replies import refusal, too_little_memory
from accredit.gateway.settings import GatewaySettings
from accredit.gateway.turns import in_turns, next_turn
from accredit.gateway.upstream.reply import Backend
from accredit.jsonrpc.encode import INVALID_REQUEST
from accredit.jsonrpc.era import VERSION_HEADER, check_agreement, unmirrored_headers
from accredit.jsonrpc.frames import Frame, Notification, Request
from accredit.jsonrpc.input_required import shows_pages
from accredit.jsonrpc.methods import BATCH_REVISION, HEADERLESS_REVISION, LISTEN, Era
from accredit.jsonrpc.requests import Batch, decode_request, read_request
from accredit.limits import SHORT_MESSAGE_BYTES
from accredit.telemetry.labels import error_of
from accredit.telemetry.operations import Meter
from accredit.telemetry.tracing import set_current_message
from accredit.tokens.claims import VerifiedToken

_METHODS = frozenset({"POST", "GET", "DELETE"})
_C = TypeVar("_C")


class Intake(ABC, Generic[_C]):
    """A way for messages to come in; a gateway has one object for each. `_C` is the type of what brings a message and
    takes its answer: an exchange, or a line.

    `meter`, if given, measures each request, however it ends.
    """

    answers_later: ClassVar[bool] = False
    """Whether answers are sent elsewhere than in the exchange that brought the request."""

    def __init__(self, settings: GatewaySettings, gate: Gate, meter: Meter | None = None) -> None:
        self._settings = settings
        self._gate = gate
        self._meter = meter
        self._traces = meter is not None and meter.tracer is not None

    async def take(self, client: _C, unread: UnreadRequest | None = None) -> None:
        """Take a message through the steps from [method] on. Raises the `AccreditError` that becomes its answer.

        `unread` gives the message's text if the message is refused before it was read.
        """
        call = Call()
        if self._meter is not None:
            call.began = perf_counter()
            if self._traces:
                call.traceparent = self._traceparent(client)
        try:
            await self._arrive(client, call)
        except BaseException as error:
            if isinstance(error, REFUSALS):
                call.revision = call.revision or self._revision(client)
                await self._gate.early_refusals.of_request(unread, call, error)
                self._gate.refused_early(call.message, error)
            self._failed(call, error)
            raise
        if self._settings.pins is not None:
            call.way = self._way(client, call)
        try:
            try:
                await self._gate.admit(call)  # 7
                await self._go_on(client, call)
            except BaseException as error:
                await call.open_calls.close(error)  # 9
                raise
            await call.open_calls.close(None)
        except BaseException as error:
            self._failed(call, error)
            raise
        if call.measured is not None:
            if self._traces:
                call.measured.told(call.revision, call.session)
            call.measured.end(None, self.answers_later)

    def _failed(self, call: Call, problem: BaseException) -> None:
        """End the measurement of a failed message."""
        if call.measured is not None:
            call.measured.told(call.revision, call.session)
            if isinstance(problem, RequestError):
                call.measured.unsent()
            call.measured.end(error_of(problem))
        elif self._meter is not None and call.message is None and isinstance(problem, AccreditError):
            self._meter.unread(problem, call.began)

    async def _read(self, text: bytes, call: Call, *, batches: bool) -> Frame | Batch:
        """Decode a message's bytes ([message]). Raises `RequestError`."""
        if len(text) > SHORT_MESSAGE_BYTES:
            message = call.message = await in_turns(read_request(text, batch_allowed=batches))
        else:
            message = call.message = decode_request(text, batch_allowed=batches)
        if self._meter is not None:
            call.measured = self._meter.begin(message, call.began, call.traceparent)
        if self._settings.one_caller:
            check_single(message)
        set_current_message(message)
        if len(text) > SHORT_MESSAGE_BYTES:
            await next_turn()
        return message

    @abstractmethod
    def _revision(self, client: _C) -> str | None:
        """Return the message's revision, or None if nothing tells it before the message is read."""

    @abstractmethod
    async def _arrive(self, client: _C, call: Call) -> None:
        """Take the steps [method] to [token], and store what they find in `call`. Raises one of `REFUSALS`."""

    def _traceparent(self, client: _C) -> bytes | None:
        """Return the HTTP request's trace context, if it has one."""
        return None

    def _way(self, client: _C, call: Call) -> UpstreamAccess | None:
        """Return how the gateway sends its own requests to the server on behalf of this caller, or None if it can't."""
        return None

    @abstractmethod
    async def _go_on(self, client: _C, call: Call) -> None:
        """Send the gate's own answers to the client, and forward what it admitted ([room]). Raises `AccreditError`."""


class Endpoint(Intake[Exchange]):
    """Serves `[gateway] path`."""

    def __init__(
        self,
        settings: GatewaySettings,
        gate: Gate,
        backend: Backend,
        authenticator: HttpAuthenticator,
        meter: Meter | None = None,
    ) -> None:
        super().__init__(settings, gate, meter)
        self._sessions = authenticator.sessions
        self._authenticator = authenticator
        self._takes_tokens = authenticator.takes_tokens
        self._backend = backend
        self._forwarding = Forwarding(listed_only=settings.guards, added=settings.forward_headers)
        self._lets_guests_in = settings.oauth is not None

    def serve(self, exchange: Exchange) -> Coroutine[Any, Any, None]:
        """Return the coroutine that answers a request. An `AccreditError` that this call or the coroutine raises
        becomes the answer."""
        check_source(exchange, self._settings)
        head = exchange.head
        if head.method not in _METHODS:
            raise RequestError(INVALID_REQUEST, "Method not allowed", status=405)
        if not self._takes_tokens:  # else the named session is checked, and its name dropped after that
            head = exchange.head = head.in_era
        if head.method != "POST":
            check_headers(exchange)
        if len(head.headers.get(SESSION_HEADER, b"")) > self._sessions.max_bytes:
            detail = f"Invalid Request: Mcp-Session-Id has more than {self._sessions.max_bytes} bytes"
            raise RequestError(INVALID_REQUEST, detail)
        match head.method:
            case "POST":
                return self.take(exchange, exchange)
            case "GET":
                return self._get(exchange)
            case _:
                return self._delete(exchange)

    async def _get(self, exchange: Exchange) -> None:
        session = exchange.head.in_era.session  # as the client knows it
        token = await self._enter(exchange)
        if SESSION_HEADER in exchange.head.headers and LAST_EVENT_HEADER in exchange.head.headers:
            exchange.calls = self._gate.resumed(session)
        exchange.hears = self._gate.always_hears(session)
        with exchange.rooms.streams.held(exchange, yields=True):
            await self._backend.get(exchange, self._gate.otherwise(token, exchange.calls))

    async def _delete(self, exchange: Exchange) -> None:
        await self._enter(exchange)
        with exchange.rooms.calls.held(exchange):
            await self._backend.delete(exchange)

    async def _enter(self, exchange: Exchange) -> VerifiedToken | None:
        """Authenticate a request without a message ([token]); return its token, if it has one."""
        exchange.calls = OpenCalls()
        return await self._authenticator.of_request(exchange, sessions=True)

    async def _arrive(self, client: Exchange, call: Call) -> None:
        """Read, decode and authenticate the message ([method] to [token])."""
        head, authenticator = client.head, self._authenticator
        client.calls = call.open_calls
        if self._takes_tokens:
            call.token = await authenticator.of_header(client, sessions=True)  # 2
        routing = head.check_post()  # 3
        text = await client.body(self._settings.max_request_bytes)  # 4
        call.revision = self._revision(client)
        message = await self._read(text, call, batches=call.revision == BATCH_REVISION)
        client.request_id = message.id if isinstance(message, Request) else None
        era = call.era = Era.MODERN if head.is_modern else message.era  # 5
        client.stateless = era is Era.MODERN
        if era is Era.MODERN and isinstance(message, Request | Notification):
            check_agreement(message, head.headers)
        if routing:
            client.head = head.without(unmirrored_headers(message, era, head.headers, routing))
        check_once(head.headers, VERSION_HEADER)
        call.session = head.session if era is Era.LEGACY else ""
        if self._lets_guests_in and era is Era.LEGACY and isinstance(message, Request):
            client.shows_pages = message.method == "initialize" and shows_pages(message)
            call.reply = client if takes_events(head.headers.get(b"accept")) else None
        if self._takes_tokens:
            await authenticator.of_message(client, call, message, partial(self._backend.ask, client, era))  # 6
        else:
            self._sessions.enter(client, client.head, NOBODY)

    def _traceparent(self, client: Exchange) -> bytes | None:
        return client.head.headers.get(b"traceparent")

    def _way(self, client: Exchange, call: Call) -> UpstreamAccess:
        headers = self._forwarding.to_upstream(client.head.raw_headers, body=False)
        if client.carried is not None:  # the server's answer depends on whose token is exchanged
            headers = [*headers, (b"authorization", client.carried.key)]
        query = b"" if self._forwarding.listed_only else client.head.query
        speak = partial(setattr, client, "speaker") if self._settings.signs_identity else None
        return UpstreamAccess(partial(self._backend.ask, client, call.era), headers, query, speak)

    async def _go_on(self, client: Exchange, call: Call) -> None:
        if call.proved and not client.vouched:
            client.vouch()
        message = call.onward
        if message is None:
            if call.unknown:
                header = (b"www-authenticate", self._authenticator.challenge.encode("ascii"))
                await client.reply(401, call.answer, [JSON, header])
            else:
                await (client.reply(200, call.answer, [JSON]) if call.replies else client.reply(202))
            return
        if call.replies:
            client.answer_also(call.replies)
        client.speaker = call.speaker
        try:
            if isinstance(message, Request) and message.method == LISTEN:
                client.hears = self._gate.always_hears(call.session, call.tasks)
                with client.rooms.streams.held(client, yields=True):  # 8
                    await self._backend.post(client, message, call.era, call.edits)
            else:
                client.hears = self._gate.hears(call.session, call.tasks)
                place = client.rooms.calls.take(client)  # 8
                try:
                    await self._backend.post(client, message, call.era, call.edits)
                finally:
                    place.leave()
        except RequestError as error:
            if error.id is None and isinstance(message, Request):
                error.id = message.id
            raise

    def _revision(self, client: Exchange) -> str:
        if client.head.revision is not None:
            return client.head.revision
        return self._sessions.revision(client.head) or HEADERLESS_REVISION


async def answer(
    exchange: Exchange, work: Callable[[Exchange], Coroutine[Any, Any, None]], counters: Counters | None = None
) -> None:
    """Answer a request by `work`. An `AccreditError` that this raises becomes the answer, and is counted if there are
    `counters`."""
    try:
        await work(exchange)
    except ClientGone:
        pass
    except AccreditError as error:
        await _refuse(exchange, error, counters)
    except MemoryError as error:
        # Free whatever asked for more memory first: then there is enough for a sentence.
        error.__traceback__ = error.__context__ = None
        await _refuse(exchange, too_little_memory(), counters)
    except asyncio.CancelledError:
        if exchange.started:
            raise
        # The server stops before this call's grace has sufficed. Its own answer would not be JSON-RPC.
        await _refuse(exchange, UpstreamUnavailable("the gateway has stopped before the answer came"), counters)
    finally:
        if exchange.body_place is not None:
            exchange.body_place.leave()


async def _refuse(exchange: Exchange, error: AccreditError, counters: Counters | None) -> None:
    if counters is not None:
        counters.refused(error, server=exchange.server)
    error.let_go()
    if not exchange.started:  # else nothing more can be said: the server closes the connection
        reply = refusal(error, exchange.metadata_url)
        id = exchange.request_id if isinstance(error, TokenError) else None
        await exchange.reply(reply.status, reply.frame(id), [JSON, *reply.headers])


def check_headers(exchange: Exchange) -> None:
    """Refuse a request that repeats a header by which it is routed, and drop its routing headers: it has no
    message that mirrors them. Raises `RequestError` (400)."""
    check_once(exchange.head.headers, SESSION_HEADER, VERSION_HEADER, LAST_EVENT_HEADER)
    exchange.head = exchange.head.without(routing_headers(exchange.head.headers))


def is_of_listed(exchange: Exchange, settings: GatewaySettings) -> bool:
    """Check `Host` and `Origin` ([source]), and return whether the configuration lists the page's origin. Raises
    `RequestError` (403)."""
    check_source(exchange, settings)
    return origin_listed(exchange.head.headers.get(b"origin", b""), settings.allowed_origins)


def check_source(exchange: Exchange, settings: GatewaySettings) -> None:
    """Check `Host` and `Origin` ([source]). Raises `RequestError` (403)."""
    check_host(exchange, settings)
    host, origin = exchange.head.headers.get(b"host"), exchange.head.headers.get(b"origin")
    if origin is not None and not origin_allowed(origin, host, settings.allowed_origins):
        raise origin_refused(origin)


def check_host(exchange: Exchange, settings: GatewaySettings) -> None:
    """Check `Host` alone. Raises `RequestError` (403)."""
    host = exchange.head.headers.get(b"host")
    if not host_allowed(host, settings.allowed_hosts):
        raise host_refused(host)
