"""A buffer for the messages of one answer to a client, between the code that reads the child and the code that writes
the answer. The code that writes the answer is in this module. No own I/O.

A message stays here until it was sent to the client. In the legacy era the events have ids, and messages stay for some
time longer: a client that lost its connection asks for those after the last event that it has seen (2025-11-25,
basic/transports, "Resumability and redelivery").
"""

import asyncio
import logging
from collections import deque
from itertools import islice

from accredit.base.log_events import log_event
from accredit.errors import AccreditError, MessageId
from accredit.gateway.headers import EVENT_STREAM, JSON
from accredit.gateway.replies import refusal
from accredit.gateway.upstream.large_answers import AnswerReservation
from accredit.gateway.upstream.reply import Reply
from accredit.jsonrpc.sse import KEEP_ALIVE, encode_event
from accredit.limits import EVENT_TIMES, KEEP_ALIVE_SECONDS, LARGE_ANSWER_BYTES

REPLAY_EVENTS = 256
"""How many events of one stream are kept for a client that lost its connection and resumes."""
REPLAY_BYTES = 1_048_576
"""How many bytes these events may have together. The newest one counts only once it was sent, since it may be the
response, of any size."""
RETRY_MILLISECONDS = 1_000
"""How long a client is told to wait before it resumes (2025-11-25, basic/transports, "Sending messages")."""


_log = logging.getLogger("accredit.gateway.stdio")


class Stream:
    """Messages in order, numbered from 1. A stream that can't be resumed has no `number` of its own.

    It ends with the last of the responses that are `due`. If none is due, it is a standing stream. While `plain`, only
    responses have come, and the answer can still be JSON: an array if `batch`. `reader` identifies the answer's writer,
    or is None if there is none. `held` is the room that the messages take; it is given back once they are not kept any
    more. If a standing stream has no writer, even unsent messages are dropped beyond what it may keep: its client may
    never come.
    """

    def __init__(
        self, number: int | None = None, *, due: int = 0, batch: bool = False, held: AnswerReservation | None = None
    ) -> None:
        self.number = number
        self.held = held
        self._stands = due == 0
        self.batch = batch
        self._due = due
        self.plain = True
        self.ended = False
        self.status = 200
        self.reader: object = None
        self.sent = 0
        self._sent_bytes = 0
        self._messages: deque[tuple[bytes, int]] = deque()  # each with the stream's byte count up to its end
        self._last = 0
        self._last_byte = 0
        self._losing = False
        self._changed = asyncio.Event()

    @property
    def unsent(self) -> int:
        """How many bytes wait to be sent."""
        return self._last_byte - self._sent_bytes

    @property
    def _kept(self) -> int:
        if not self._messages:
            return 0
        oldest, end = self._messages[0]
        return self._last_byte - end + len(oldest)

    def make_room(self, size: int) -> None:
        """Reserve room for a response of so many bytes. Raises `AnswerError`."""
        self._take_room(size, 1 if self.plain else EVENT_TIMES)

    def leave(self) -> None:
        """Give the room back: the stream is not kept any more."""
        if self.held is not None:
            self.held.leave()

    def tell(self, message: bytes) -> None:
        """Add a message that is not a response: the answer becomes an event stream. Raises `AnswerError` if there is no
        room."""
        self._take_room(len(message), EVENT_TIMES)
        self.plain = False
        self._put(message)

    def answer(self, response: bytes, *, status: int = 200) -> None:
        """Add a response; `status` is used if it is the whole answer."""
        if not self.batch:
            self.status = status
        self._due -= 1
        self.ended = self.ended or self._due == 0
        self._put(response)

    def fail(self, id: MessageId, error: AccreditError) -> None:
        """Add the error response for the request `id`."""
        refused = refusal(error)
        # As the whole answer, with a status of its own, its id is null.
        alone = self.plain and not self.batch
        self.answer(refused.frame(None if alone else id), status=refused.status)

    def end(self) -> None:
        """End the stream."""
        self.ended = True
        self._changed.set()

    def attach(self) -> object:
        """Make the caller the writer of the answer; a previous writer stops."""
        self._losing = False
        self.reader = object()
        self._changed.set()
        return self.reader

    def release(self) -> None:
        """Detach the answer's writer, which then stops."""
        self.reader = None
        self._changed.set()
        self._trim()

    @property
    def filled(self) -> bool:
        """Whether there is any message."""
        return bool(self._messages)

    def whole(self) -> bytes:
        """Return the answer as JSON, for a plain stream that has ended and has messages."""
        texts = [text for text, _ in self._messages]
        return b"[" + b",".join(texts) + b"]" if self.batch else texts[0]

    def holds(self, position: int) -> bool:
        """Return whether every message after that number is still kept."""
        return self._last - len(self._messages) <= position <= self._last

    def events(self, after: int) -> tuple[bytes, int]:
        """Return the events after that number so far, and the number of the last one."""
        first = self._last - len(self._messages) + 1
        start = max(after + 1, first)
        texts = islice(self._messages, start - first, None)
        events = [encode_event(text, id=self._id(start + n)) for n, (text, _) in enumerate(texts)]
        return b"".join(events), self._last

    def priming(self) -> bytes:
        """Return an event without a message: its id lets the client resume from where the answer began."""
        return b"id: %s\nretry: %d\ndata: \n\n" % (self._id(self.sent) or b"", RETRY_MILLISECONDS)

    def written(self, position: int) -> None:
        """Note that everything up to that number was sent to the client."""
        if position > self.sent:
            index = position - self._last - 1
            self.sent, self._sent_bytes = position, self._messages[index][1]
            self._trim()
            self._changed.set()

    async def changed(self, seconds: float) -> bool:
        """Wait for a change of the stream; return False if there was none within `seconds`."""
        self._changed.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def _id(self, number: int) -> bytes | None:
        return b"%d-%d" % (self.number, number) if self.number is not None else None

    def _take_room(self, size: int, times: int) -> None:
        size += self._kept
        if self.held is not None and size > LARGE_ANSWER_BYTES:  # shorter messages are never dropped for their size
            self.held.take(times * size)

    def _put(self, message: bytes) -> None:
        self._last += 1
        self._last_byte += len(message)
        self._messages.append((message, self._last_byte))
        self._trim()
        self._changed.set()

    def _trim(self) -> None:
        while self._messages and self._oldest_goes():
            self._messages.popleft()
            if self._kept <= LARGE_ANSWER_BYTES:
                self.leave()

    def _oldest_goes(self) -> bool:
        count = len(self._messages)
        sent = self._last - count < self.sent
        if self.number is None:
            return sent
        if not sent and self.reader is not None:
            return False  # it waits for its client, and the child waits for both
        if count <= REPLAY_EVENTS and (self._kept <= REPLAY_BYTES or (count == 1 and not sent and not self._stands)):
            return False
        if not sent and not self._losing:
            self._losing = True
            log_event(_log, logging.WARNING, "messages_dropped", stream=self.number)
        return True


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
