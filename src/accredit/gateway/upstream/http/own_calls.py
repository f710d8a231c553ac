"""The gateway's own requests on behalf of the current client: their headers, and the one response to each."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from accredit.errors import AnswerError
from accredit.gateway.forwarding import Forwarding
from accredit.gateway.headers import RawHeaders
from accredit.gateway.media_types import EVENTS_TYPE, JSON_TYPE
from accredit.gateway.settings import GatewaySettings
from accredit.gateway.turns import in_turns, next_turn
from accredit.gateway.upstream.http.answer import Answer, Grow
from accredit.gateway.upstream.http.heads import WITH_RESULT
from accredit.gateway.upstream.http.representation import head_problem
from accredit.gateway.upstream.http.sse_relay import frame_in
from accredit.jsonrpc.era import METHOD_HEADER, NAME_HEADER
from accredit.jsonrpc.frames import Failure, Request
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.param_headers import is_param_header
from accredit.jsonrpc.responses import Expected
from accredit.jsonrpc.sse import Event, SseParser, pieces
from accredit.limits import MAX_LISTED_BYTES


def own_call(raw: RawHeaders, era: Era, method: str, forwarding: Forwarding) -> RawHeaders:
    """Return the client's headers, which identify it, but with the routing headers of another request."""
    dropped = (METHOD_HEADER, NAME_HEADER)
    goes = forwarding.to_upstream(raw, body=True)
    kept = [(name, value) for name, value in goes if name not in dropped and not is_param_header(name)]
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
    """Return the response to `request`, from JSON or from a stream. It may have `most` bytes, within the
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
