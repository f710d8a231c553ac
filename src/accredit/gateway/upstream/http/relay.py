"""The relay to a server behind streamable HTTP, both eras: forward, judge what comes back, forward that.

How an answer to a POST is judged:

1. A status of 400 and above passes with its body; one that claims to be JSON and is no JSON-RPC error of this
   exchange is replaced, with the same status, and `WWW-Authenticate` stays.
2. A redirect is neither followed nor passed on, and no other status below 200 or above 299 means anything here.
3. A notification or a response is answered without a body.
4. A request is answered with JSON, one frame, or with an event stream, each event a frame.
5. Where the gateway looks after the server itself (`HttpUpstream.looked_after`), a 401 is a server that is not
   available: it is about the gateway's credentials, and the client has none for it.

A refused answer takes all its headers with it; a session that it announced is ended upstream.
"""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

from accredit.attest import Outcome
from accredit.base.caching import RecentlyUsed
from accredit.base.log_events import log_event
from accredit.errors import (
    AccreditError,
    AnswerError,
    ClientGone,
    FrameError,
    MessageId,
    RequestError,
    UpstreamError,
    UpstreamLeftOut,
    UpstreamRefuses,
    UpstreamTimeout,
)
from accredit.gateway.admission.identity import Identity
from accredit.gateway.admission.tool_directory import ToolDirectory
from accredit.gateway.counters import Counters
from accredit.gateway.forwarding import Forwarding
from accredit.gateway.headers import JSON, SESSION_HEADER, RawHeaders, RequestHead
from accredit.gateway.media_types import EVENTS_TYPE, JSON_TYPE
from accredit.gateway.recording.open_calls import outcome_of_end
from accredit.gateway.recording.resumable_calls import ResumableCalls
from accredit.gateway.replies import refusal
from accredit.gateway.room import Place, Room
from accredit.gateway.settings import GatewaySettings, HttpUpstream
from accredit.gateway.trace import traced
from accredit.gateway.turns import in_turns
from accredit.gateway.upstream.http.client import ANYWHERE, Answer, Prepared, Route
from accredit.gateway.upstream.http.encoding import accepted_codings
from accredit.gateway.upstream.http.own_calls import own_call, whole_response
from accredit.gateway.upstream.http.own_token import TAKEN_OFF, AccessTokensFor, own_token
from accredit.gateway.upstream.http.redirects import REDIRECTS, words_for
from accredit.gateway.upstream.http.replicas import client_of, route_of
from accredit.gateway.upstream.http.representation import (
    as_it_came,
    charset_problem,
    decoded,
    error_type,
)
from accredit.gateway.upstream.http.sse_relay import EventRelay, LongLivedStreams
from accredit.gateway.upstream.reply import Reply, WhileConnected
from accredit.gateway.upstream.stdio.pending_calls import LATE, cancellation
from accredit.jsonrpc.frames import Frame, Request, Success
from accredit.jsonrpc.methods import LISTEN, Era
from accredit.jsonrpc.objects import as_string, members
from accredit.jsonrpc.requests import Batch
from accredit.jsonrpc.responses import Edit, Expected
from accredit.limits import (
    LONG_ANSWER_BYTES,
    MAX_PREPARED_HEADS,
    MAX_REMEMBERED_HEAD_BYTES,
    RESERVED_SHARE,
    SHORT_MESSAGE_BYTES,
)

_log = logging.getLogger("accredit.gateway")


class HttpRelay:
    """The backend for an `HttpUpstream`."""

    def __init__(
        self,
        settings: GatewaySettings,
        upstream: HttpUpstream,
        counters: Counters,
        tools: ToolDirectory,
        tokens_for: AccessTokensFor | None = None,
    ) -> None:
        self._settings = settings
        self._max_bytes = settings.max_response_bytes
        self._patience = settings.patience
        self._counters = counters
        self._looked_after = upstream.looked_after
        self.client = client_of(upstream, settings.patience)
        most = upstream.max_in_flight
        reserved = int(most * RESERVED_SHARE) if most is not None and settings.proving else 0
        self._room = Room("requests to this server", most, reserved) if most is not None else None
        self.identity = Identity(settings.identity, upstream.url) if settings.identity is not None else None
        self._own_token = own_token(upstream, tokens_for)
        own = [*upstream.headers, *([settings.identity.header] if settings.identity is not None else [])]
        own += TAKEN_OFF if self._own_token is not None else ()
        self.forwarding = Forwarding(listed_only=settings.guards, added=settings.forward_headers, own=own)
        self._prepared = RecentlyUsed[tuple[object, ...], Prepared](MAX_PREPARED_HEADS)
        """What goes to the server for a POST, by the head that came: clients send the same with each."""
        self._tools = tools
        self.standing = LongLivedStreams()
        self._cut_off = ResumableCalls()
        self._chores: set[asyncio.Task[None]] = set()

    async def post(self, reply: Reply, message: Frame | Batch, era: Era, edits: Mapping[MessageId, Edit]) -> None:
        """Forward a message, and judge its answer."""
        batch = isinstance(message, Batch)
        if batch:
            requests = [frame for frame in message.frames if isinstance(frame, Request)]
        else:
            requests = [message] if isinstance(message, Request) else []
        expected = Expected(era, requests, batch=batch, edits=edits)
        try:
            with WhileConnected(reply):
                if era is Era.MODERN and isinstance(message, Request) and message.method == "tools/call":
                    await self._tools.check_headers(message, reply.head.headers, partial(self.ask, reply, era))
                await self._post(reply, message.text, expected, requests)
        except ClientGone as error:
            self._keep(reply, error)
            raise
        if reply.resumable:
            self._keep(reply, None)

    async def _post(self, reply: Reply, text: bytes, expected: Expected, requests: Sequence[Request]) -> None:
        answer: Answer | None = None
        place: Place | None = None
        try:
            route = ANYWHERE
            if self._looked_after:
                place, route = self._place(reply, requests), route_of(reply.head, requests, reply.calls.repeated)
            answer = await self.exchange(reply, self._head_for(reply.head), text, route)
            reply.replica = answer.replica
            if answer.status >= 400:
                await self.error(reply, answer, expected, requests)
            elif answer.head.is_stream and expected.waiting and 200 <= answer.status < 300:
                await self._stream(reply, answer, expected, requests)
            else:
                await self._whole(reply, answer, expected, requests)
        except (AnswerError, UpstreamError) as error:
            if answer is not None:
                self._disown(reply, answer, requests)
            if isinstance(error, UpstreamTimeout):
                self._take_back(reply, expected)
            raise
        finally:
            if answer is not None:
                answer.close()
            if place is not None:
                place.leave()

    async def get(self, reply: Reply, otherwise: Edit | None) -> None:
        """Forward the opening of a standing stream, or its resumption."""
        with WhileConnected(reply):
            answer = await self._send(reply)
            try:
                if answer.status >= 400:
                    await self.error(reply, answer, Expected(Era.LEGACY), [])
                    return
                if answer.status != 200 or not answer.head.is_stream:
                    raise AnswerError("neither an event stream nor an error in answer to GET")
                resumed = b"last-event-id" in reply.head.headers
                expected = Expected(Era.LEGACY, resumed=resumed, otherwise=otherwise)
                with self._cut_off.resumed(_session_of(reply.head) if resumed else ""):
                    await self._stream(reply, answer, expected, [])
            finally:
                answer.close()

    async def delete(self, reply: Reply) -> None:
        """Forward the end of a session."""
        answer = await self._send(reply)
        try:
            if answer.status >= 400:
                await self.error(reply, answer, Expected(Era.LEGACY), [])
            elif not 200 <= answer.status < 300:
                raise AnswerError(f"status {answer.status}")
            else:
                self._cut_off.end(_session_of(reply.head))
                await reply.reply(answer.status)
        finally:
            answer.close()

    async def ask(self, reply: Reply, era: Era, request: Request) -> bytes | None:
        """Send a request of the gateway's own, as this caller. Return the response's text, judged, or None."""
        headers = own_call(reply.head.raw_headers, era, request.method, self.forwarding)
        place: Place | None = None
        try:
            place = self._place(reply, [request])
            prepared = self.client.prepare("POST", headers)
            answer = await self.exchange(reply, prepared, request.text, route_of(reply.head, [request]))
            try:
                return await whole_response(answer, era, request, self._settings)
            finally:
                answer.close()
        except (AnswerError, UpstreamError) as error:
            self._counters.refused(error, method=request.method)
            return None
        finally:
            if place is not None:
                place.leave()

    async def ready(self) -> bool:
        """Return whether the upstream accepts connections."""
        return await self.client.reachable()

    def drain(self) -> None:
        """End standing streams; calls go on."""
        self.standing.drain()

    async def aclose(self) -> None:
        """Close idle connections, and end what is left to do."""
        self._cut_off.end_all()
        for chore in self._chores:
            chore.cancel()
        await asyncio.gather(*self._chores, return_exceptions=True)
        if self._own_token is not None:
            await self._own_token.aclose()
        await self.client.close()

    def _keep(self, reply: Reply, end: ClientGone | None) -> None:
        """Keep those calls open that have had no answer yet and whose stream the client may resume."""
        session = _session_of(reply.head)
        if session and reply.resumable and reply.calls:
            self._cut_off.keep(session, reply.calls, outcome_of_end(end))

    async def _send(self, reply: Reply) -> Answer:
        """Send a request without a body."""
        head = reply.head
        headers = self._headers_for(head, body=False)
        target = self.client.target(self._query(head))
        prepared = self.client.prepare(head.method, headers, target=target)
        answer = await self.exchange(reply, prepared, route=route_of(head, []))
        reply.replica = answer.replica
        return answer

    def _place(self, reply: Reply, requests: Sequence[Request]) -> Place | None:
        """Take a place for what is not a standing stream, where there is a bound. Raises `UpstreamLeftOut`."""
        if self._room is None or any(request.method == LISTEN for request in requests):
            return None
        try:
            return self._room.take(reply)
        except RequestError:
            raise UpstreamLeftOut("too many requests to the upstream are under way") from None

    def _head_for(self, head: RequestHead) -> Prepared:
        """Return what goes to the server for a POST with this head."""
        if isinstance(head.sent_as, Prepared):
            return head.sent_as
        fields = [pair for pair in head.raw_headers if pair[0] != b"content-length"]
        key = (head.query, head.headers.get(b"accept-encoding"), *fields)
        prepared = self._prepared.get(key)
        if prepared is None:
            headers = self._headers_for(head, body=True)
            prepared = self.client.prepare(head.method, headers, target=self.client.target(self._query(head)))
            # What the client says and the server is not told is in the key as well.
            if max(len(prepared.head), _size(head)) <= MAX_REMEMBERED_HEAD_BYTES:
                self._prepared.put(key, prepared)
        head.sent_as = prepared
        return prepared

    def _headers_for(self, head: RequestHead, *, body: bool) -> RawHeaders:
        codings = accepted_codings(head.headers.get(b"accept-encoding"))
        return [*self.forwarding.to_upstream(head.raw_headers, body=body), (b"accept-encoding", codings)]

    def _query(self, head: RequestHead) -> bytes:
        return b"" if self.forwarding.listed_only else head.query

    def exchange(
        self, reply: Reply, prepared: Prepared, body: bytes = b"", route: Route = ANYWHERE
    ) -> Coroutine[Any, Any, Answer]:
        """Send what was prepared on a caller's behalf, with what the server is told of that, and the gateway's own
        token. Raises like `client.send`."""
        said = self.identity.fields(reply.speaker) if self.identity is not None else []
        if self._own_token is not None:
            return self._own_token.exchange(self.client, reply, prepared, body, said, route)
        return self.client.exchange(prepared, body, said, route)

    async def _judged(self, text: bytes, expected: Expected) -> bytes:
        """Return a body as it is forwarded. Raises `AnswerError`."""
        if not expected.waiting:
            if text:
                raise AnswerError("a body in answer to no request")
            return text
        if len(text) <= SHORT_MESSAGE_BYTES:
            return expected.body(text)
        return (await in_turns(expected.judging(text, alone=True)))[0]

    async def _whole(self, reply: Reply, answer: Answer, expected: Expected, requests: Sequence[Request]) -> None:
        """Apply rules 2 to 4 to an answer with one body."""
        problem = self._head_problem(answer, expected)
        if problem is not None and self._settings.enforce:
            raise problem
        raw = answer.whole(self._max_bytes)
        if raw is None:
            raw = await answer.read(self._max_bytes, timeout=self._patience)
        text = raw
        try:
            if problem is not None:
                raise problem
            body = await decoded(answer, raw, self._max_bytes)
            judged = await self._judged(body.text, expected)
            for response, _ in expected.answers.members:
                self._learn(reply, answer, requests, response)
            if reply.calls:
                judged = await reply.calls.withhold(expected.answers) or judged
            text, coding = judged, []
            if judged is body.text and body.coding:
                text, coding = as_it_came(raw, body, reply.head.headers.get(b"accept-encoding"))
            headers = [*self._passed_on(answer), *([JSON] if expected.waiting else []), *coding]
        except AnswerError as error:
            self._observe(error)
            headers = self.forwarding.unread_to_client(answer.headers)
            await reply.calls.fail(outcome_of_end(error))
        await reply.reply(answer.status, text, headers)

    def _passed_on(self, answer: Answer) -> RawHeaders:
        """Return those of an answer's headers that go to the client."""
        head = answer.head
        if head.passed_on is None:
            head.passed_on = self.forwarding.to_client(head.headers)
        return head.passed_on

    async def error(self, reply: Reply, answer: Answer, expected: Expected, requests: Sequence[Request]) -> None:
        """Pass on an answer of status 400 and above (rules 1 and 5)."""
        if answer.status == 401 and self._looked_after:
            raise UpstreamRefuses
        text, headers = b"", self.forwarding.unread_to_client(answer.headers)
        outcome = Outcome(status="error", detail=f"HTTP status {answer.status}")
        try:
            text = raw = await answer.read(self._max_bytes, timeout=self._patience)
            problem = charset_problem(answer)
            if problem is not None:
                raise problem
            body = await decoded(answer, raw, self._max_bytes)
            said = error_type(answer, raw, body.text, expected)
            text, coding = as_it_came(raw, body, reply.head.headers.get(b"accept-encoding"))
            headers = [*self._passed_on(answer), *said, *coding]
        except AnswerError as error:
            outcome = outcome_of_end(error)
            if self._settings.enforce or error.bound:
                self._counters.refused(error)
                self._disown(reply, answer, requests)
                text = refusal(error).frame()
                headers = [JSON, *(pair for pair in headers if pair[0] == b"www-authenticate")]
            else:
                self._counters.refused(error, observed=True)
        await reply.calls.fail(outcome)
        await reply.reply(answer.status, text, headers)

    def stream_headers(self, answer: Answer) -> RawHeaders:
        """Return the head of an event stream.

        Events are forwarded decoded, since a compressed stream can't be cut where an event ends. Raises `AnswerError`
        for a charset that is not UTF-8; in observe mode it passes, noted.
        """
        problem = charset_problem(answer)
        if problem is None:
            return [*self._passed_on(answer), (b"content-type", EVENTS_TYPE)]
        self._observe(problem)
        return [pair for pair in self.forwarding.unread_to_client(answer.headers) if pair[0] != b"content-encoding"]

    async def _stream(self, reply: Reply, answer: Answer, expected: Expected, requests: Sequence[Request]) -> None:
        """Apply rule 4 to a stream, also to a standing one."""
        stands = not requests or any(request.method == LISTEN for request in requests)
        relay = EventRelay(
            reply,
            answer,
            expected,
            headers=self.stream_headers(answer),
            settings=self._settings,
            counters=self._counters,
            learn=partial(self._learn, reply, answer, requests),
            idle_seconds=None if stands else self._patience,
            hold=any(request.method == "initialize" for request in requests),
        )
        await (self.standing.run(relay) if stands else relay.run())
        if relay.late:
            self._take_back(reply, expected)

    def _observe(self, error: AnswerError) -> None:
        """Note a bad answer and let it pass (observe mode), or raise (enforce mode, and any bound that is passed)."""
        if self._settings.enforce or error.bound:
            raise error
        self._counters.refused(error, observed=True)

    def _learn(self, reply: Reply, answer: Answer, requests: Sequence[Request], frame: Frame) -> None:
        """Note the revision of the session that an `initialize` answer begins. Raises `AnswerError`."""
        if not isinstance(frame, Success) or len(frame.result) > LONG_ANSWER_BYTES:
            return  # nobody writes so much about a session
        for request in requests:
            if request.method == "initialize" and frame.id == request.id:
                session, revision = answer.header(SESSION_HEADER), None
                with contextlib.suppress(FrameError):
                    revision = as_string(members(frame.result).get("protocolVersion"))
                if session is not None and revision is not None:
                    reply.negotiated(session, revision)

    def _head_problem(self, answer: Answer, expected: Expected) -> AnswerError | None:
        """Return what breaks rules 2 and 3 in the head of an answer, or None."""
        if expected.waiting and answer.status == 200 and answer.head.is_json:
            return None
        if answer.status in REDIRECTS:
            # For whoever runs the gateway; a client is told the status.
            told = words_for(answer.status, self.client.url_of(answer.replica), answer.header(b"location"))
            log_event(_log, logging.WARNING, "upstream_redirects", detail=told, **traced())
        if not 200 <= answer.status < 300:
            return AnswerError(f"status {answer.status}")
        if not expected.waiting:
            return AnswerError("an event stream in answer to no request") if answer.head.is_stream else None
        if answer.status == 202:
            return AnswerError("status 202 in answer to a request")
        if answer.head.media_type.name != JSON_TYPE:
            return AnswerError("neither JSON nor an event stream")
        return charset_problem(answer)

    def _disown(self, reply: Reply, answer: Answer, requests: Sequence[Request]) -> None:
        """End the session that a refused `initialize` answer announced; the client never learns of it."""
        session = answer.header(SESSION_HEADER)
        if session is None or not any(request.method == "initialize" for request in requests):
            return
        headers = [
            pair
            for pair in self.forwarding.to_upstream(reply.head.raw_headers, body=False)
            if pair[0] != SESSION_HEADER
        ]
        self._start(self._tell(reply, "DELETE", [*headers, (SESSION_HEADER, session)], b"", Route(answer.replica)))

    def _take_back(self, reply: Reply, expected: Expected) -> None:
        """Tell a server that took too long that nobody waits any more. A modern one sees that from the connection."""
        if expected.era is not Era.LEGACY or SESSION_HEADER not in reply.head.headers:
            return
        headers = self.forwarding.to_upstream(reply.head.raw_headers, body=True)
        for id in expected.open:
            text = cancellation(id, LATE)
            self._start(self._tell(reply, "POST", headers, text, Route(reply.head.replica)))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        chore = asyncio.create_task(work)
        self._chores.add(chore)
        chore.add_done_callback(self._chores.discard)

    async def _tell(self, reply: Reply, method: str, headers: RawHeaders, text: bytes, route: Route) -> None:
        """Send what nobody waits for."""
        with contextlib.suppress(AccreditError):
            (await self.exchange(reply, self.client.prepare(method, headers), text, route)).close()


def _size(head: RequestHead) -> int:
    """Return how many bytes of a client's stand in a head, but for its path."""
    return len(head.query) + sum(len(name) + len(value) for name, value in head.raw_headers)


def _session_of(head: RequestHead) -> str:
    """Return a name of a head's session that is no other's: two replicas may give two sessions one id."""
    return f"{head.replica} {head.session}" if head.replica else head.session
