"""One legacy session over HTTP: one client, one child. The child's messages are sent to the client in these answers:

- [responses] a response goes to the POST of its request;
- [progress] a progress notification goes to the POST that gave its token;
- [other] anything else (the child's own requests, log messages, changes of a list) goes to the newest POST that is
  being answered, else to the standing GET stream. If there is none, it waits, within bounds, for the next one.

A client that disconnects before its answer was started cancels its request. If the answer was started, the client may
resume, so the request continues. A client that ends the session cancels what is open. If the child ends in any other
way, the session ends as well: each open request gets an error.
"""

import logging
import re
import secrets
from collections.abc import Mapping

from accredit.attest import Outcome
from accredit.base.log_events import log_event
from accredit.errors import AnswerError, ClientGone, FrameError, MessageId, RequestError
from accredit.gateway.counters import Counters
from accredit.gateway.room import Holder
from accredit.gateway.settings import GatewaySettings
from accredit.gateway.upstream.large_answers import AnswerReservation, LargeAnswers
from accredit.gateway.upstream.reply import Reply, WhileConnected
from accredit.gateway.upstream.stdio.child import Child
from accredit.gateway.upstream.stdio.conversation import Conversation, StreamCall
from accredit.gateway.upstream.stdio.pending_calls import Answered, Notified, UnexpectedAnswer
from accredit.gateway.upstream.stdio.stream import Stream, answer, stand
from accredit.jsonrpc.encode import INVALID_REQUEST, error_frame
from accredit.jsonrpc.frames import Frame, Notification, Request
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.objects import as_string, is_object, members
from accredit.jsonrpc.requests import Batch
from accredit.jsonrpc.responses import Edit
from accredit.jsonrpc.text import check_structures
from accredit.limits import CLIENT_STALL_SECONDS

REPLAY_STREAMS = 8
"""How many finished streams of one session can still be resumed. A client notices a lost connection within seconds."""
UNSENT_BYTES = 262_144
"""How many bytes may wait for the client of a session. While more wait, the session's child is not read."""


_log = logging.getLogger("accredit.gateway.stdio")
_PRIMED_SINCE = "2025-11-25"  # clients of older revisions do not expect an event without data
_INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
_REQUEST_CANCELLED = -32800
_EVENT_ID = re.compile(rb"([0-9]{1,9})-([0-9]{1,9})")


class Session(Conversation[StreamCall]):
    """A session, once `establish` has accepted the answer to the first request, `initialize`."""

    def __init__(self, child: Child, settings: GatewaySettings, counters: Counters) -> None:
        super().__init__(child, Era.LEGACY, settings, counters)
        self.id = secrets.token_hex(16)
        self.revision: str | None = None
        self._standing = Stream(0)
        self._posts: dict[int, Stream] = {}
        self._made = 0

    def take_room(self, large: LargeAnswers, holder: Holder) -> None:
        """Charge this holder for lines whose recipient is not known yet, and for messages that answer no request."""
        self.line, self._standing.held = large.of(holder), large.of(holder)

    async def initialize(self, request: Request, held: AnswerReservation, edit: Edit | None = None) -> Stream:
        """Forward the first request, and return the stream with its answer. Raises `AccreditError`."""
        stream = Stream(due=1, held=held)
        self._begin(StreamCall(request, stream, edit))
        await self._child.send(request.text, self._patience)
        while not stream.ended:
            await stream.changed(self._patience)
        return stream

    def establish(self, answer: bytes) -> bool:
        """Return whether the answer to `initialize` makes this a session, and note its revision. Raises
        `AnswerError`."""
        try:
            check_structures(answer)
            result = members(answer).get("result")
            named = members(result) if result is not None and is_object(result) else {}
        except FrameError as error:
            if error.bound:
                raise AnswerError(error.detail, bound=True) from None
            return False  # invalid, and only observed
        if result is None:
            return False
        if not is_object(result):
            raise AnswerError("the result of initialize is not an object")
        self.revision = as_string(named.get("protocolVersion"))
        return True

    async def confirm(self) -> None:
        """Tell the child, in its client's place, that the session is initialized. Raises `AccreditError`."""
        self._pending.told()
        await self._child.send(_INITIALIZED, self._patience)

    async def post(
        self, reply: Reply, message: Frame | Batch, edits: Mapping[MessageId, Edit], held: AnswerReservation
    ) -> None:
        """Forward a message, or the members of a batch, and answer the client."""
        frames = message.frames if isinstance(message, Batch) else (message,)
        requests = [frame for frame in frames if isinstance(frame, Request)]
        if not requests:
            for frame in frames:
                await self._forward(frame)
            await reply.reply(202)
            return
        self._made += 1
        stream = Stream(self._made, due=len(requests), batch=isinstance(message, Batch), held=held)
        calls = [StreamCall(request, stream, edits.get(request.id)) for request in requests]
        try:
            self._open(calls, reply)
            self._posts[self._made] = stream
            with WhileConnected(reply):
                for frame in frames:
                    await self._forward(frame)
                await answer(reply, stream, priming=self._primed)
        except BaseException as error:
            if not (isinstance(error, ClientGone) and reply.started):
                for call in calls:
                    self._leave(reply, call)
            raise
        finally:
            self._forget_streams(stream)

    async def ask(self, request: Request, held: AnswerReservation) -> bytes | None:
        """Send one of the gateway's own requests; return the response's text, or None."""
        stream = Stream(due=1, held=held)
        return await self._ask(
            StreamCall(request, stream), stream, lambda: self._child.send(request.text, self._patience)
        )

    async def get(self, reply: Reply, last_event_id: bytes | None) -> None:
        """Serve the long-lived stream, or resume one. Raises `RequestError`."""
        with WhileConnected(reply):
            if last_event_id is not None:
                stream, position = self._resumed(last_event_id)
                await stand(reply, stream, position)
            elif self._standing.reader is not None:
                raise RequestError(INVALID_REQUEST, "Conflict: this session has a standing stream", status=409)
            else:
                await stand(reply, self._standing, self._standing.sent, priming=self._primed)

    def withdraw(self) -> None:
        """End the session for its client: all open requests are cancelled."""
        for call in list(self._pending.calls.values()):
            self._withdraw(call)

    def drain(self) -> None:
        """End the long-lived stream."""
        self._standing.release()

    @property
    def _primed(self) -> bool:
        return (self.revision or "") >= _PRIMED_SINCE

    def _open(self, calls: list[StreamCall], reply: Reply) -> None:
        for call in calls:
            if call.request.method == "initialize":
                detail = "Invalid Request: this session is initialized already"
                raise RequestError(INVALID_REQUEST, detail, id=call.id)
            self._begin(call)
            call.record = reply.calls.take(call.id)

    async def _forward(self, frame: Frame) -> None:
        if isinstance(frame, Notification):
            self._pending.told()
            await self._child.send(frame.text, self._patience)
            cancelled = self._pending.cancelled_by(frame)
            if cancelled is not None:
                self._withdraw(cancelled)
        elif isinstance(frame, Request) or self._pending.settles(frame):
            await self._child.send(frame.text, self._patience)
        else:
            log_event(_log, logging.WARNING, "response_dropped", detail="it answers no open request")

    def _withdraw(self, call: StreamCall) -> None:
        """Withdraw a call that the client cancels. The child need not answer it any more, but the POST still gets a
        response."""
        super()._withdraw(call)
        cancelled = error_frame(call.id, _REQUEST_CANCELLED, "Request cancelled")
        self._settled(call, Outcome(status="cancelled"), lambda: call.stream.answer(cancelled))

    def _forget_streams(self, answered: Stream) -> None:
        if answered.plain:
            self._posts.pop(answered.number or 0, None)
            answered.leave()
        ended = [number for number, stream in self._posts.items() if stream.ended]
        for number in ended[:-REPLAY_STREAMS]:
            self._posts.pop(number).leave()

    def _resumed(self, event_id: bytes) -> tuple[Stream, int]:
        match = _EVENT_ID.fullmatch(event_id)
        number, position = (int(match[1]), int(match[2])) if match else (-1, 0)
        stream = self._standing if number == 0 else self._posts.get(number)
        if stream is None or not stream.holds(position):
            raise RequestError(INVALID_REQUEST, "Last-Event-ID names no event that is kept")
        return stream, position

    def _lost(self) -> None:
        self._standing.end()
        self._standing.leave()
        for stream in self._posts.values():
            stream.leave()

    async def _answer(self, answered: Answered[StreamCall]) -> None:
        for call in answered.calls:
            await self._answered(call, call.stream, answered, answered.text)

    async def _notify(self, notified: Notified[StreamCall]) -> None:
        stream = notified.call.stream if notified.call is not None else self._elsewhere()
        await self._tell(stream, notified.notification)

    async def _deliver(self, message: Request | UnexpectedAnswer) -> None:
        await self._tell(self._elsewhere(), message)

    async def _tell(self, stream: Stream, message: Notification | Request | UnexpectedAnswer) -> None:
        """Forward a message, and wait for a slow client."""
        try:
            stream.tell(message.text)
        except AnswerError as error:
            self._counters.refused(error)
            if isinstance(message, Request):
                self._child.send_now(self._pending.refusal(message, error))
            return
        while stream.reader is not None and not stream.ended and stream.unsent > UNSENT_BYTES:
            await stream.changed(CLIENT_STALL_SECONDS)

    def _elsewhere(self) -> Stream:
        """Return the stream for a message that belongs to no particular POST ([other])."""
        posts = (stream for stream in reversed(self._posts.values()) if stream.reader is not None)
        return next((stream for stream in posts if not stream.ended), self._standing)
