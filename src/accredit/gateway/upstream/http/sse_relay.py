"""Relays a stream of events from the upstream to one client: each is judged, then forwarded, as it arrives.

- [utf-8] All of a stream is UTF-8. An event without data (a comment, `retry`, a lone `id` in the legacy era) passes. So
  does the legacy era's priming event, whose data is empty (2025-11-25, basic/transports, "Sending messages").
- [frames] Any other event is one frame, judged by `Expected.event`. If one is invalid, each open request gets an error
  response in its place, the stream ends, and the upstream connection is closed.
- [response] The response ends a request's stream. Anything after it is dropped.
- [recorded] The response to a recorded call waits until the call's outcome is on record. Other events do not wait. If
  the outcome can't be recorded, an error takes the response's place (`recorder`).
- [broken] If a stream ends without the response, an error response is sent. The exception is a stream of the legacy era
  that ends after an event with an id: the client may resume it with `Last-Event-ID`.

The stream's head is sent only once the first event with data was judged. If that event is invalid, the client gets an
ordinary error, with a status and none of the upstream's headers, as for a JSON body. The head waits at most
`UNJUDGED_HEAD_SECONDS` (but see `hold`). It is then sent without headers that could change the client's state
(`headers.of_unjudged`). After that, while the upstream is silent, comments keep the client's side open.
"""

import asyncio
import codecs
import contextlib
import math
from collections.abc import Callable, Iterable, Mapping

from accredit.errors import AccreditError, AnswerError, MessageId, UpstreamError, UpstreamTimeout, UpstreamUnavailable
from accredit.gateway.counters import Counters
from accredit.gateway.headers import SESSION_HEADER, RawHeaders, of_unjudged
from accredit.gateway.recording.open_calls import outcome_of_end
from accredit.gateway.replies import refusal
from accredit.gateway.settings import GatewaySettings
from accredit.gateway.turns import in_turns, next_turn
from accredit.gateway.upstream.http.client import Answer
from accredit.gateway.upstream.http.encoding import open_decoder
from accredit.gateway.upstream.large_answers import AnswerReservation
from accredit.gateway.upstream.reply import Reply
from accredit.jsonrpc.frames import Frame, Notification, Request
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.responses import Expected
from accredit.jsonrpc.sse import KEEP_ALIVE, Event, SseParser, encode_event, pieces
from accredit.limits import EVENTS_AT_ONCE_BYTES, KEEP_ALIVE_SECONDS, SHORT_MESSAGE_BYTES

UNJUDGED_HEAD_SECONDS = 1.0
"""How long a stream's head waits for the first event with data to be judged. Until then an invalid answer can still be
replaced as a whole. Most calls are over by then, and clients and proxies wait for a head for ten seconds and more."""
AFTERMATH_SECONDS = 0.25
"""How long the upstream may take to end an event stream properly after its response. If it does, its connection is
reused, otherwise closed. The client has its answer either way."""
PIECE_COSTS_BYTES = 1_024
"""How many bytes the smallest piece of a stream counts for, since each piece is read and written by itself."""


class EventRelay:
    """One stream, with `headers` at its head. `idle_seconds` bounds the time between two events; None means no bound.

    With `hold` nothing reaches the client, not even the head, before the response was judged, however long that takes.
    It is for `initialize`: the headers of its answer announce a session, which an invalid answer must not reveal.
    `endpoint` rewrites the data of the event with that name (HTTP+SSE of 2024-11-05).
    """

    def __init__(
        self,
        reply: Reply,
        answer: Answer,
        expected: Expected,
        *,
        headers: RawHeaders,
        settings: GatewaySettings,
        counters: Counters,
        learn: Callable[[Frame], None],
        idle_seconds: float | None,
        hold: bool = False,
        endpoint: Callable[[bytes], bytes] | None = None,
        held: AnswerReservation | None = None,
    ) -> None:
        self._reply = reply
        self._answer = answer
        self._expected = expected
        self._headers = headers
        self._decoder = open_decoder(answer.header(b"content-encoding"))
        self._parser = SseParser(settings.max_event_bytes)
        self._max_held = settings.max_event_bytes
        self._enforce = settings.enforce
        self._counters = counters
        self._learn = learn
        self._idle_seconds = math.inf if idle_seconds is None else idle_seconds
        self._hold = hold
        self._held: bytearray | None = bytearray()
        """The bytes that wait until the head is sent. None after that."""
        self._since_turn = 0
        self._judged_one = False
        self._has_ids = False
        self._endpoint = endpoint
        self._room = held
        self._observed: AnswerError | None = None
        self.late = False
        """Whether the upstream was silent for too long."""
        self._loop = asyncio.get_running_loop()
        self._last_event = self._last_write = self._loop.time()
        self._head_due = math.inf if hold else self._last_event + UNJUDGED_HEAD_SECONDS

    def go_by(self, settings: GatewaySettings) -> None:
        """Apply these settings from now on."""
        self._enforce = settings.enforce

    async def run(self) -> None:
        """Relay until the stream is over, in whatever way it ends."""
        problem: AccreditError | None = None
        broken_off = True
        try:
            await self._pump()
            if self._enforce and self._expected.open:
                problem = AnswerError("the stream ended without a response")
        except UpstreamError as error:
            problem, self.late = error, isinstance(error, UpstreamTimeout)
        except AnswerError as error:
            problem, broken_off = error, False
        resumes = broken_off and self._has_ids and not self._hold  # the client can resume by [broken]
        if problem is not None and self._held is not None and not resumes:
            raise problem
        await self._release()
        if resumes and self._reply.resumable:
            self.late = False
        elif problem is not None:
            await self.fail(problem)
        await self._reply.end()
        if self._expected.done and not self._answer.has_come:
            await self._aftermath()

    async def _release(self) -> None:
        """Send the head, and the bytes that have waited for it."""
        if self._held is None:
            return
        held, self._held = self._held, None
        headers = self._headers
        if not self._judged_one:
            headers = of_unjudged(headers, self._reply.head.headers.get(SESSION_HEADER))
        self._reply.resumable = self._has_ids
        await self._reply.start(self._answer.status, headers)
        if held:
            await self._reply.write(bytes(held))

    async def stop(self, error: AccreditError) -> None:
        """End the stream from this side, because of `error`."""
        await self._release()
        await self.fail(error)
        await self._reply.end()

    async def fail(self, error: AccreditError) -> None:
        """Send an error response for each open request."""
        error.let_go()
        self._counters.refused(error)
        for request in self._expected.open.values():
            request.failed(error)
        refused = refusal(error)
        instead = await self._reply.calls.end(outcome_of_end(error))
        frames = [encode_event(instead.get(id) or refused.frame(id)) for id in self._expected.open]
        if frames:
            await self._reply.write(b"".join(frames))

    async def _pump(self) -> None:
        while not (self._expected.done and self._enforce):
            if self._loop.time() >= self._head_due:
                await self._release()
            chunk = self._answer.rest() if self._answer.has_come else await self._next_chunk()
            if chunk is None:
                if self._last_write + KEEP_ALIVE_SECONDS <= self._loop.time():
                    await self._write(KEEP_ALIVE if self._held is None else b"")
                continue
            if not chunk:
                if self._decoder is not None:
                    self._decoder.finish()
                return
            await self._decode(chunk)

    async def _decode(self, chunk: bytes) -> None:
        if self._decoder is None:
            await self._feed(chunk)
            return
        await self._have_room(chunk)
        for decoded in self._decoder.feed(chunk):
            await self._have_room()  # a short complete chunk needs no room while it is judged
            await self._feed(decoded)
        await self._have_room()

    async def _feed(self, decoded: bytes) -> None:
        for piece in pieces(decoded):
            self._since_turn += len(piece) + PIECE_COSTS_BYTES
            if self._since_turn > EVENTS_AT_ONCE_BYTES:  # this may be a flood of tiny events
                self._since_turn = 0
                await next_turn()
            await self._relay(self._parser.feed(piece))
            await self._have_room()

    async def _have_room(self, encoded: bytes = b"") -> None:
        """Reserve room for all that is held: the event, what waits for the head, and what the decoder keeps, or may
        keep while it decodes `encoded`."""
        if self._room is not None:
            waiting = 0 if self._held is None else len(self._held)
            window = 0 if self._decoder is None else self._decoder.window(encoded)
            await self._room.fit(self._parser.size, waiting + window)

    async def _have_room_for_edited(self, data: bytes, text: bytes, asked: Mapping[MessageId, Request]) -> None:
        """Reserve room for edited data as well, if it is longer. If there is none, the requests in `asked` stay open,
        so that they get an error."""
        if self._room is None or len(text) <= len(data):
            return
        try:
            await self._room.grow(len(data), len(text))
        except AnswerError:
            self._expected.open |= asked
            raise

    async def _next_chunk(self) -> bytes | None:
        """Return the next bytes, or b"" at the end. Return None when it is time to send the head or a comment. Raises
        `UpstreamTimeout`."""
        now = self._loop.time()
        due = self._last_write + KEEP_ALIVE_SECONDS
        if self._held is not None:
            due = min(due, self._head_due)
        too_late = self._last_event + self._idle_seconds
        if now < too_late:  # otherwise bytes kept coming that complete no event
            try:
                return await self._answer.chunk(timeout=max(min(due, too_late) - now, 0.0))
            except UpstreamTimeout:
                if due < too_late:
                    return None
        raise UpstreamTimeout(f"no event for {self._idle_seconds:g} s")

    async def _relay(self, events: Iterable[Event]) -> None:
        judged: list[bytes] = []
        try:
            for event in events:
                self._observed = None
                text = await self._judged(event)
                self._judged_one = self._judged_one or bool(event.data)
                if self._reply.calls and (self._expected.answers.members or self._observed):
                    if judged:
                        await self._write(b"".join(judged))
                        judged.clear()
                    text = await self._recorded(event, text)
                self._expected.take_answers()  # a standing stream must not keep them until its next event
                judged.append(text)
                if self._expected.done and self._enforce:
                    break
        except AnswerError:
            if self._hold and self._held is not None:
                judged.clear()  # nothing was sent yet, so the client gets the error alone
            raise
        finally:
            # Valid events before an invalid one are still sent.
            if judged:
                self._last_event = self._loop.time()
                await self._write(b"".join(judged))

    async def _recorded(self, event: Event, text: bytes) -> bytes:
        """Return the event, or what replaces it, once its call's outcome is on record ([recorded])."""
        if self._observed is not None:
            instead = await self._reply.calls.end(outcome_of_end(self._observed))
            return b"".join(map(encode_event, instead.values())) or text
        withheld = await self._reply.calls.withhold(self._expected.answers)
        return text if withheld is None else self._encoded(event, withheld)

    def _encoded(self, event: Event, text: bytes) -> bytes:
        return encode_event(text, name=event.name, id=event.id if self._expected.era is Era.LEGACY else None)

    async def _write(self, text: bytes) -> None:
        self._last_write = self._loop.time()
        if self._held is None:
            if text:
                await self._reply.write(text)
            return
        self._held += text
        too_many = len(self._held) > self._max_held
        if self._expected.done or (not self._hold and (self._judged_one or too_many)):
            await self._release()
        elif too_many:
            raise AnswerError(f"more than {self._max_held} bytes before the response", bound=True)

    async def _judged(self, event: Event) -> bytes:
        legacy = self._expected.era is Era.LEGACY
        if event.id and legacy:
            self._has_ids = True
            self._reply.resumable = self._held is None  # otherwise the client has not seen it yet
        if event.name == b"endpoint" and event.data is not None and self._endpoint is not None:
            return encode_event(self._endpoint(event.data), name=event.name)
        try:
            data = frame_in(event, self._expected.era)
            if data is None:
                return event.raw if legacy or event.id is None else b""
            if len(data) <= SHORT_MESSAGE_BYTES:
                text, frame = self._expected.event(data)
            else:
                asked = dict(self._expected.open)
                text, frame = await in_turns(self._expected.judging(data))
                await self._have_room_for_edited(data, text, asked)
        except AnswerError as error:
            if self._enforce or error.bound:
                raise
            self._counters.refused(error, observed=True)
            self._observed = error
            for request in self._expected.open.values():
                request.failed(error)
            return event.raw
        return self._forwarded(event, text, frame)

    def _forwarded(self, event: Event, text: bytes, frame: Frame | None) -> bytes:
        """Return a valid event in the form in which it is forwarded, or b"" if it is about another caller's task."""
        if isinstance(frame, Notification):
            self._counters.notified(frame.method)
        if isinstance(frame, Notification) and self._reply.hears is not None:
            told = self._reply.hears(frame)
            if told is None:
                self._counters.counts["notifications_dropped"] += 1
                return b""
            if told is not frame:
                text = told.text
        if frame is not None:
            self._learn(frame)
        if text is event.data and (self._expected.era is Era.LEGACY or event.id is None):
            return event.raw
        return self._encoded(event, text)

    async def _aftermath(self) -> None:
        """Wait briefly for the end of the upstream's body, so that its connection can be reused."""
        with contextlib.suppress(UpstreamError, AnswerError):
            await self._answer.chunk(timeout=AFTERMATH_SECONDS)


def frame_in(event: Event, era: Era) -> bytes | None:
    """Return the text of an event's frame, or None if it has none ([utf-8]). Raises `AnswerError`."""
    if not event.in_utf8:  # a strict reader would fail at any other byte, even of a comment or a name
        raise AnswerError("the body is not UTF-8")
    if event.raw.startswith(codecs.BOM_UTF8):
        # Here it makes the line an unknown field; at the start of a client's stream it would be ignored.
        raise AnswerError("a byte order mark within the stream")
    if event.data is None or (era is Era.LEGACY and not event.data):
        return None
    if event.name not in (None, b"", b"message"):
        # Clients ignore events of other names: if one counted here, the client would get no answer.
        raise AnswerError("an event that is no message")
    return event.data


class LongLivedStreams:
    """The long-lived streams of one server, which continue over a reload."""

    def __init__(self) -> None:
        self._relays: dict[asyncio.Task[object], EventRelay] = {}
        self._settings: GatewaySettings | None = None
        self._draining = False

    def go_by(self, settings: GatewaySettings) -> None:
        """From now on, judge the events of all streams by these settings, whenever the streams were opened."""
        self._settings = settings
        for relay in self._relays.values():
            relay.go_by(settings)

    async def run(self, relay: EventRelay) -> None:
        """Run a relay in the current task until it is over, or `drain` ends it."""
        task = asyncio.current_task()
        if task is None or self._draining:
            raise UpstreamUnavailable("the gateway is stopping")
        self._relays[task] = relay
        if self._settings is not None:
            relay.go_by(self._settings)
        try:
            await relay.run()
        except asyncio.CancelledError:
            if not self._draining or task.uncancel() > 0:
                raise
            await relay.stop(UpstreamUnavailable("the gateway is stopping"))
        finally:
            del self._relays[task]

    def drain(self) -> None:
        """End all long-lived streams, and any that come later."""
        self._draining = True
        for task in self._relays:
            task.cancel()
