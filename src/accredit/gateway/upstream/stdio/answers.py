"""Writes a stream to a client, over HTTP."""

from accredit.gateway.headers import EVENT_STREAM, JSON
from accredit.gateway.upstream.reply import Reply
from accredit.gateway.upstream.stdio.stream import Stream
from accredit.jsonrpc.sse import KEEP_ALIVE
from accredit.limits import KEEP_ALIVE_SECONDS


async def answer(reply: Reply, stream: Stream, *, priming: bool = False) -> None:
    """Answer a POST: with JSON if the response comes first, else with an event stream.

    A stream is also started if nothing came for so long that an intermediary might time out.
    """
    reader = stream.attach()
    try:
        waited = True
        while waited and stream.plain and not stream.ended:
            waited = await stream.changed(KEEP_ALIVE_SECONDS)
        if stream.plain and stream.ended and stream.filled:
            await reply.reply(stream.status, stream.whole(), [JSON])
        else:
            stream.plain = False
            await _relay(reply, stream, reader, 0, priming=priming)
    finally:
        _leave(stream, reader)


async def stand(reply: Reply, stream: Stream, after: int, *, priming: bool = False) -> None:
    """Answer a GET with the events after number `after`, and those still to come."""
    reader = stream.attach()
    try:
        await _relay(reply, stream, reader, after, priming=priming)
    finally:
        _leave(stream, reader)


def _leave(stream: Stream, reader: object) -> None:
    if stream.reader is reader:
        stream.release()


async def _relay(reply: Reply, stream: Stream, reader: object, position: int, *, priming: bool) -> None:
    await reply.start(200, EVENT_STREAM)
    if priming:
        await reply.write(stream.priming())
    while stream.reader is reader:
        events, last = stream.events(position)
        if events:
            await reply.write(events)
            position = last
            if stream.reader is reader:
                stream.written(position)
        elif stream.ended:
            break
        elif not await stream.changed(KEEP_ALIVE_SECONDS):
            await reply.write(KEEP_ALIVE)
    await reply.end()
