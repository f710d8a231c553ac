"""The MCP endpoint: a ladder of checks, then the backend. First failure wins; each becomes a clean reply.

1. `Host` and `Origin` are allowed (DNS rebinding): 403.
2. The method is one that MCP uses: 405. Where tokens are on, one in the header is good (401, 403, 503).
3. A POST is JSON in UTF-8, without a coding (415), within bounds (413), and one valid message, or a batch where the
   session's revision allows one (400).
4. Modern era: the headers agree with the body (400, -32020; missing metadata -32602). Routing headers that mirror
   nothing in it are dropped.
5. Where tokens are on, each message has a good one that may do this, and the session is its subject's (404): see
   `authenticator`.
6. The gate lets it through (`gate`): what is refused there is answered with status 200, a notification that it drops
   with 202.

A call that is refused before the gate is recorded as well (`early_refusals`).

What it does not check: whether the upstream knows the version or the session; that is its business.
"""

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial

from accredit.errors import RequestError
from accredit.gateway.admission.bearer import Caller
from accredit.gateway.admission.gate import Gate
from accredit.gateway.admission.identity import check_single
from accredit.gateway.front.authenticator import HttpAuthenticator, session_of
from accredit.gateway.front.exchange import Exchange
from accredit.gateway.headers import (
    JSON,
    SESSION_HEADER,
    check_once,
    check_request,
    host_allowed,
    origin_allowed,
    origin_listed,
)
from accredit.gateway.recording.early_refusals import REFUSALS, InboundRequest
from accredit.gateway.recording.recorder import Client
from accredit.gateway.settings import GatewaySettings
from accredit.gateway.trace import set_current
from accredit.gateway.turns import in_turns, turn
from accredit.gateway.upstream.backend import Backend
from accredit.jsonrpc.encode import INVALID_REQUEST
from accredit.jsonrpc.era import VERSION_HEADER, check_agreement, era_of, unmirrored
from accredit.jsonrpc.frames import Frame, Notification, Request
from accredit.jsonrpc.methods import BATCH_REVISION, HEADERLESS_REVISION, LISTEN, Era
from accredit.jsonrpc.requests import Batch, read_request
from accredit.limits import MAX_SESSION_ID_BYTES


class Endpoint:
    """Serves `[gateway] path`."""

    def __init__(
        self, settings: GatewaySettings, gate: Gate, backend: Backend, authenticator: HttpAuthenticator | None = None
    ) -> None:
        self._authenticator = authenticator
        self._settings = settings
        self._gate = gate
        self._backend = backend

    async def serve(self, exchange: Exchange) -> None:
        """Answers one HTTP request, or raises the `AccreditError` that becomes its answer."""
        self.check_source(exchange)
        if exchange.head.method != "POST":
            check_once(exchange.head.headers, SESSION_HEADER, VERSION_HEADER, b"last-event-id")
            exchange.head.drop(unmirrored(None, Era.LEGACY, exchange.head.headers))
        _check_session_id(exchange.head.headers.get(SESSION_HEADER))
        match exchange.head.method:
            case "POST":
                await self._post(exchange)
            case "GET":
                session = exchange.head.headers.get(SESSION_HEADER)  # as the client knows it
                token = await self._authenticator.of_request(exchange, sessions=True) if self._authenticator else None
                if session is not None and b"last-event-id" in exchange.head.headers:
                    exchange.calls = self._gate.resumed(session.decode("latin-1"))
                exchange.hears = self._gate.hears(session.decode("latin-1") if session is not None else "")
                with exchange.rooms.streams.held(exchange, yields=True):
                    await self._backend.get(exchange, self._gate.otherwise(token, exchange.calls))
            case "DELETE":
                if self._authenticator is not None:
                    await self._authenticator.of_request(exchange, sessions=True)
                with exchange.rooms.calls.held(exchange):
                    await self._backend.delete(exchange)
            case _:
                raise RequestError(INVALID_REQUEST, "Method not allowed", status=405)

    @contextmanager
    def _place(self, exchange: Exchange, message: Frame | Batch) -> Generator[None]:
        """Room for what goes on. Raises `RequestError` (503)."""
        stands = isinstance(message, Request) and message.method == LISTEN
        room = exchange.rooms.streams if stands else exchange.rooms.calls
        try:
            with room.held(exchange, yields=stands):
                yield
        except RequestError as error:
            if error.id is None and isinstance(message, Request):
                error.id = message.id
            raise

    def is_of_listed(self, exchange: Exchange) -> bool:
        """Whether a page of an origin that the configuration lists asks. Raises `RequestError` (403)."""
        self.check_source(exchange)
        return origin_listed(exchange.head.headers.get(b"origin", b""), self._settings.allowed_origins)

    def check_source(self, exchange: Exchange) -> None:
        """Step 1. Raises `RequestError` (403)."""
        headers = exchange.head.headers
        host = headers.get(b"host")
        if not host_allowed(host, self._settings.allowed_hosts):
            raise RequestError(INVALID_REQUEST, "Forbidden: this Host is not allowed", status=403)
        if not origin_allowed(headers.get(b"origin"), host, self._settings.allowed_origins):
            raise RequestError(INVALID_REQUEST, "Forbidden: this Origin is not allowed", status=403)

    async def _post(self, exchange: Exchange) -> None:
        inbound = InboundRequest()
        try:
            message, era, session = await self._arrived(exchange, inbound)
        except REFUSALS as error:
            inbound.revision = inbound.revision or self._revision(exchange)
            await self._gate.early_refusals.of_request(exchange, inbound, error)
            raise
        callers = [Caller(token) for token in inbound.tokens] or None
        admission = await self._gate.admit(message, Client(session, inbound.revision), callers)
        if admission.proved:
            exchange.vouch()
        if admission.message is None:
            await (exchange.reply(200, admission.answer, [JSON]) if admission.replies else exchange.reply(202))
            return
        exchange.answer_also(admission.replies)
        exchange.calls, exchange.speaker = admission.calls, admission.speaker
        exchange.hears = self._gate.hears(session, admission.tasks)
        async with exchange.calls:
            with self._place(exchange, admission.message):
                await self._backend.post(exchange, admission.message, era, admission.edits)

    async def _arrived(self, exchange: Exchange, inbound: InboundRequest) -> tuple[Frame | Batch, Era, str]:
        """Steps 2 to 5: the message, its era, and the session that it is in; `inbound` is told on the way."""
        headers, authenticator = exchange.head.headers, self._authenticator
        if authenticator is not None:
            inbound.header = await authenticator.of_header(exchange, sessions=True)
        check_request(headers)
        session = headers.get(SESSION_HEADER)
        check_once(headers, SESSION_HEADER, b"last-event-id")
        text = await exchange.body(self._settings.max_request_bytes)
        inbound.revision = self._revision(exchange)
        message = await in_turns(read_request(text, batch_allowed=inbound.revision == BATCH_REVISION), len(text))
        inbound.message = message
        if self._settings.identity is not None:
            check_single(message)
        set_current(message)
        await turn(len(text))
        exchange.asked = message.id if isinstance(message, Request) else None
        era = era_of(message, headers)
        if era is Era.MODERN and isinstance(message, Request | Notification):
            check_agreement(message, headers)
        exchange.head.drop(unmirrored(message, era, headers))
        check_once(headers, VERSION_HEADER)
        in_session = session.decode("latin-1") if session is not None and era is Era.LEGACY else ""
        if authenticator is not None:
            ask = partial(self._backend.ask, exchange, era)
            await authenticator.of_message(exchange, message, inbound, ask, in_session)
        return message, era, in_session

    def _revision(self, exchange: Exchange) -> str:
        named = exchange.head.headers.get(VERSION_HEADER)
        if named is not None:
            return named.decode("latin-1")
        return self._backend.revision(session_of(exchange, self._authenticator)) or HEADERLESS_REVISION


def _check_session_id(named: bytes | None) -> None:
    if named is not None and len(named) > MAX_SESSION_ID_BYTES:
        raise RequestError(
            INVALID_REQUEST, f"Invalid Request: Mcp-Session-Id has more than {MAX_SESSION_ID_BYTES} bytes"
        )
