"""The relay to a server behind streamable HTTP, both eras. `sending` has the part for requests, `answer_relay` the part
for answers.

A refused answer loses all its headers. If it announced a session, that is ended upstream. If a stream is cut off after
an event with an id, its calls stay open, so that the client can resume it.

The gateway's own requests take the same path, on behalf of the current client: with its headers (`own_call`). Each has
exactly one response (`whole_response`).
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from functools import partial

from accredit.errors import AnswerError, ClientGone, MessageId, UpstreamError, UpstreamTimeout
from accredit.gateway.admission.tool_directory import ToolDirectory
from accredit.gateway.counters import Counters
from accredit.gateway.forwarding import Forwarding
from accredit.gateway.headers import LAST_EVENT_HEADER, RawHeaders, RequestHead
from accredit.gateway.media_types import EVENTS_TYPE, JSON_TYPE
from accredit.gateway.recording.open_calls import outcome_of_end
from accredit.gateway.recording.resumable_calls import ResumableCalls
from accredit.gateway.room import ALONE, EqualShares, Slot, leave_once_read
from accredit.gateway.settings import GatewaySettings, HttpUpstream
from accredit.gateway.turns import in_turns, next_turn
from accredit.gateway.upstream.http.answer_relay import AnswerRelay, head_problem
from accredit.gateway.upstream.http.client import ANYWHERE, Answer, Grow
from accredit.gateway.upstream.http.parsing import WITH_RESULT
from accredit.gateway.upstream.http.replicas import route_of
from accredit.gateway.upstream.http.sending import AccessTokensFor, Sender
from accredit.gateway.upstream.http.sse_relay import frame_in
from accredit.gateway.upstream.reply import Reply, WhileConnected
from accredit.jsonrpc.era import METHOD_HEADER, NAME_HEADER
from accredit.jsonrpc.frames import Failure, Frame, Request
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.param_headers import PARAM_HEADERS
from accredit.jsonrpc.requests import Batch
from accredit.jsonrpc.responses import Edit, Expected
from accredit.jsonrpc.sse import Event, SseParser, pieces
from accredit.limits import ASKED_TIMES, MAX_LISTED_BYTES


class HttpRelay:
    """The backend for an `HttpUpstream`."""

    def __init__(
        self,
        settings: GatewaySettings,
        upstream: HttpUpstream,
        counters: Counters,
        tools: ToolDirectory,
        tokens_for: AccessTokensFor | None = None,
        parts: EqualShares = ALONE,
        *,
        before: "HttpRelay | None" = None,
    ) -> None:
        """`parts` divides the process's bounds among its servers. `before` is the previous relay to the same server,
        whose connections, streams and tokens are kept."""
        self._settings = settings
        self._counters = counters
        self._looked_after = upstream.looked_after
        self.sender = Sender(settings, upstream, tokens_for, parts, before=before and before.sender)
        own_credentials = upstream.looked_after or (bool(settings.server) and settings.tokens is not None)
        known = before and before.answers
        self.answers = AnswerRelay(
            settings, self.sender, counters, parts, own_credentials=own_credentials, before=known
        )
        self._tools = tools
        self._cut_off = before._cut_off if before is not None else ResumableCalls()

    def begin(self) -> None:
        """Apply these settings' bounds from now on."""
        self.sender.begin()
        self.answers.begin()

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

    async def get(self, reply: Reply, otherwise: Edit | None) -> None:
        """Forward a GET that opens or resumes a stream."""
        with WhileConnected(reply):
            answer = await self.sender.without_body(reply)
            try:
                if answer.status >= 400:
                    await self.answers.error(reply, answer, Expected(Era.LEGACY), [])
                    return
                if not 200 <= answer.status < 300:
                    raise self.answers.unusable(answer)
                if answer.status != 200 or not answer.head.is_stream:
                    raise AnswerError("neither an event stream nor an error in answer to GET")
                resumed = LAST_EVENT_HEADER in reply.head.headers
                expected = Expected(Era.LEGACY, resumed=resumed, otherwise=otherwise)
                with self._cut_off.resumed(_session_of(reply.head) if resumed else ""):
                    await self.answers.stream(reply, answer, expected, [])
            finally:
                answer.close()

    async def delete(self, reply: Reply) -> None:
        """Forward the DELETE that ends a session."""
        answer = await self.sender.without_body(reply)
        try:
            if answer.status >= 400:
                await self.answers.error(reply, answer, Expected(Era.LEGACY), [])
            elif not 200 <= answer.status < 300:
                raise self.answers.unusable(answer)
            else:
                self._cut_off.end(_session_of(reply.head))
                await reply.reply(answer.status)
        finally:
            answer.close()

    async def ask(self, reply: Reply, era: Era, request: Request, most: int | None = None) -> bytes | None:
        """Send one of the gateway's own requests, on behalf of this caller. Return the response's text, once judged, or
        None. Also return None if it exceeds `most` bytes."""
        headers = own_call(reply.head.raw_headers, era, request.method, self.sender.forwarding)
        place: Slot | None = None
        held, text = self.answers.large.of(reply, times=ASKED_TIMES), None
        try:
            place = self.sender.place(reply, [request])
            prepared = self.sender.client.prepare("POST", headers, target=self.sender.target(reply.head))
            answer = await self.sender.exchange(reply, prepared, request.text, route_of(reply.head, [request]))
            try:
                if 300 <= answer.status < 400:
                    raise self.answers.unusable(answer)
                text = await whole_response(answer, era, request, self._settings, most, held.grow)
            finally:
                answer.close()
        except (AnswerError, UpstreamError) as error:
            self._counters.refused(error, method=request.method)
        finally:
            if place is not None:
                place.leave()
            if text is None:
                held.leave()
            else:
                leave_once_read(held)
        return text

    async def ready(self) -> bool:
        """Return whether the upstream accepts connections."""
        return await self.sender.client.reachable()

    def drain(self) -> None:
        """End standing streams; calls continue."""
        self.answers.standing.drain()

    async def aclose(self) -> None:
        """Close idle connections, and settle or cancel all that is pending."""
        self._cut_off.end_all()
        await self.answers.unasked.aclose()
        await self.sender.aclose()

    async def _post(self, reply: Reply, text: bytes, expected: Expected, requests: Sequence[Request]) -> None:
        answer: Answer | None = None
        place: Slot | None = None
        try:
            route = ANYWHERE
            if self._looked_after:
                place, route = self.sender.place(reply, requests), route_of(reply.head, requests, reply.calls.repeated)
            answer = await self.sender.exchange(reply, self.sender.for_post(reply.head), text, route)
            reply.replica = answer.replica
            await self.answers.forward(reply, answer, expected, requests)
        except (AnswerError, UpstreamError) as error:
            if answer is not None:
                self.sender.disown(reply, answer, requests)
            if isinstance(error, UpstreamTimeout):
                self.sender.take_back(reply, expected)
            raise
        finally:
            if answer is not None:
                answer.close()
            if place is not None:
                place.leave()

    def _keep(self, reply: Reply, end: ClientGone | None) -> None:
        """Keep the unanswered calls of a stream open if the client may resume it."""
        session = _session_of(reply.head)
        if session and reply.resumable and reply.calls:
            self._cut_off.keep(session, reply.calls, outcome_of_end(end))


def _session_of(head: RequestHead) -> str:
    """Return a name for a head's session that is unique among all replicas: two of them may use the same id."""
    return f"{head.replica} {head.session}" if head.replica else head.session


def own_call(raw: RawHeaders, era: Era, method: str, forwarding: Forwarding) -> RawHeaders:
    """Return the client's headers, which identify it, with the routing headers of the gateway's own request."""
    dropped = (METHOD_HEADER, NAME_HEADER)
    goes = forwarding.to_upstream(raw, body=True)
    kept = [(name, value) for name, value in goes if name not in dropped and not name.startswith(PARAM_HEADERS)]
    routing = [(METHOD_HEADER, method.encode("ascii"))] if era is Era.MODERN else []
    return [*kept, *routing, (b"accept-encoding", b"identity")]


async def whole_response(
    answer: Answer,
    era: Era,
    request: Request,
    settings: GatewaySettings,
    most: int | None = None,
    grow: Grow | None = None,
) -> bytes:
    """Return the response to `request`, from JSON or from a stream. It may have up to `most` bytes, within the
    general bounds (`MAX_LISTED_BYTES`, `max_response_bytes`). `grow` reserves memory for it. Raises `AnswerError` or
    `UpstreamError`."""
    expected = Expected(era, [request])
    most = min(MAX_LISTED_BYTES if most is None else most, MAX_LISTED_BYTES, settings.max_response_bytes)
    if answer.header(b"content-encoding") is not None:
        raise AnswerError("a Content-Encoding that was not asked for")
    problem = head_problem(answer)
    if problem is not None:
        raise problem
    is_good = answer.status in WITH_RESULT
    if answer.head.media_type.name == JSON_TYPE and (is_good or answer.status >= 400):
        body = await answer.read(most, timeout=settings.patience, grow=grow)
        text, frame = await in_turns(expected.judging(body, alone=True))
        if isinstance(frame, Failure) or is_good:
            return text
    if not is_good:
        raise AnswerError(f"status {answer.status} in answer to a request")
    if answer.head.media_type.name != EVENTS_TYPE:
        raise AnswerError("neither JSON nor an event stream")
    async with aclosing(_events(answer, settings, most, grow)) as events:
        async for event in events:
            data = frame_in(event, era)
            if data is not None:
                text, _ = await in_turns(expected.judging(data))
                if expected.done:
                    return text
    raise AnswerError("the stream ended without a response")


async def _events(answer: Answer, settings: GatewaySettings, most: int, grow: Grow | None) -> AsyncGenerator[Event]:
    """Yield a stream's events. Raises what `whole_response` raises."""
    parser = SseParser(settings.max_event_bytes)
    deadline = asyncio.get_running_loop().time() + settings.patience
    seen = 0
    while chunk := await answer.chunk(timeout=deadline - asyncio.get_running_loop().time()):
        seen += len(chunk)
        if seen > most:
            raise AnswerError("the stream is too long", bound=True)
        if grow is not None:
            await grow(parser.size + len(chunk))
        for piece in pieces(chunk):
            await next_turn()
            for event in parser.feed(piece):
                yield event
