"""A child with one client: keeps the client's open requests, and routes the child's messages. Uses timers; logs.

All messages of the child go to the one client, through `tell`. So no request needs a `Reply` of its own.

- [messages] A valid message is forwarded as it is, except for edits. An invalid one that answers a request becomes that
  request's error; any other invalid one is dropped (`PendingCalls.judge`).
- [responses] A client's response that the child did not ask for is dropped. A batch with such a response is refused.
  A batch that is refused settles none of the child's requests.
- [recorded] The answer to a recorded call is sent once the call's outcome is on record. Other messages do not wait for
  that.
"""

import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping

from accredit.attest import Outcome
from accredit.base.log_events import log_event
from accredit.errors import AccreditError, FrameError, LineTooLong, MessageId, RequestError, UpstreamError
from accredit.gateway.counters import Counters
from accredit.gateway.recording.open_calls import OpenCalls, outcome_of_end
from accredit.gateway.replies import refusal
from accredit.gateway.settings import GatewaySettings
from accredit.gateway.upstream.stdio.child import Child
from accredit.gateway.upstream.stdio.conversation import Conversation, StreamCall
from accredit.gateway.upstream.stdio.pending_calls import Answered, Call, Notified, UnexpectedAnswer
from accredit.gateway.upstream.stdio.stream import Stream
from accredit.jsonrpc.encode import INVALID_REQUEST, error_frame
from accredit.jsonrpc.era import required_version
from accredit.jsonrpc.frames import Failure, Frame, Notification, Request, Success
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.objects import as_string, is_object, members
from accredit.jsonrpc.requests import Batch
from accredit.jsonrpc.responses import Edit
from accredit.jsonrpc.tasks import without_state
from accredit.limits import LONG_ANSWER_BYTES

_log = logging.getLogger("accredit.gateway.stdio")


class _LineCall(Call):
    """A request of the host. `tell` sends the host a line, unless the request `is_silent`."""

    def __init__(self, request: Request, edit: Edit | None, tell: Callable[[bytes], None]) -> None:
        super().__init__(request, edit)
        self._tell = tell
        self.is_silent = False

    def reply(self, text: bytes) -> None:
        """Send the response."""
        if not self.is_silent:
            self._tell(text)

    def refuse(self, error: AccreditError) -> None:
        """Send the error response."""
        self.reply(refusal(error).frame(self.id))


class DedicatedChild(Conversation[_LineCall | StreamCall]):
    """`tell` sends the client a message; `drained` waits while the client is slow to read. `revision` is the negotiated
    one, once known. Set `closing` when the client has closed its side: the conversation then ends once the child owes
    nothing, and a call that the child leaves open is not answered."""

    def __init__(
        self,
        child: Child,
        settings: GatewaySettings,
        counters: Counters,
        tell: Callable[[bytes], None],
        drained: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(child, Era.LEGACY, settings, counters)
        self._tell = tell
        self._drained = drained
        self.revision: str | None = None
        self.closing = False

    async def post(self, message: Frame | Batch, calls: OpenCalls, edits: Mapping[MessageId, Edit]) -> None:
        """Forward a client's message; its answers go to `tell`. Raises `RequestError`."""
        frames = message.frames if isinstance(message, Batch) else (message,)
        answers = [frame for frame in frames if isinstance(frame, Success | Failure)]
        if not self._pending.awaits(answers):
            detail = "a response that answers no open request"
            if isinstance(message, Batch):
                raise RequestError(INVALID_REQUEST, f"Invalid Request: {detail}")
            log_event(_log, logging.WARNING, "response_dropped", detail=detail)
            return
        opened = self._open([frame for frame in frames if isinstance(frame, Request)], calls, edits)
        for answer in answers:  # not before: nothing of a batch that is refused reaches the child
            self._pending.settles(answer)
        self._pending.told(sum(isinstance(frame, Notification) for frame in frames))
        if isinstance(message, Batch):
            self._pending.allow_batches()
        try:
            await self._child.send(message.text, None)
        except UpstreamError as error:
            for call in opened:
                self._fail(call, error)
        for frame in frames:
            cancelled = self._pending.cancelled_by(frame) if isinstance(frame, Notification) else None
            if cancelled is not None:
                self._withdraw(cancelled)
                if cancelled.record is not None:
                    cancelled.record.settle_later(Outcome(status="cancelled"))

    async def ask(self, request: Request) -> bytes | None:
        """Send one of the gateway's own requests; return the response's text, or None."""
        self._pending.expect(request.era)
        call = StreamCall(request, Stream(due=1))
        return await self._ask(call, call.stream, lambda: self._child.send(request.text, None))

    async def refuse_unread(self, line: LineTooLong) -> None:
        """Handle a client's line that is too long to be read: the child gets an error for each request that the line
        may have answered.

        Raises `RequestError`, which answers the client, unless the line was a response.
        """
        detail = f"Invalid Request: {line.detail}"
        for id in self._pending.unanswered(line):
            with contextlib.suppress(UpstreamError):
                await self._child.send(error_frame(id, INVALID_REQUEST, detail), None)
        if line.kind != "response":
            raise RequestError(INVALID_REQUEST, detail, id=line.id)
        log_event(_log, logging.WARNING, "response_dropped", detail=line.detail)

    def _open(self, requests: list[Request], calls: OpenCalls, edits: Mapping[MessageId, Edit]) -> list[_LineCall]:
        opened: list[_LineCall] = []
        try:
            for request in requests:
                if request.era is Era.MODERN:
                    required_version(request)
                self._pending.expect(request.era)
                call = _LineCall(request, edits.get(request.id), self._tell)
                self._begin(call)
                opened.append(call)
        except (RequestError, UpstreamError):
            for call in opened:
                self._pending.close(call)
            raise
        for call in opened:
            call.record = calls.take(call.id)
        return opened

    async def _take_lines(self) -> bool:
        return await super()._take_lines() and (self.owes or not self.closing)

    async def _take(self, line: bytes | FrameError) -> None:
        await super()._take(line)
        await self._drained()

    async def _answer(self, answered: Answered[_LineCall | StreamCall]) -> None:
        hosts = [call for call in answered.calls if isinstance(call, _LineCall)]
        for own in answered.calls:
            if isinstance(own, StreamCall):
                own.reply(answered.text)
        if not hosts:
            return
        for call in hosts:
            self._learn(call, answered.frame)
        records = [call.record for call in hosts if call.record is not None]
        if records:
            records[0].start(self._answer_recorded(answered, OpenCalls({record.id: record for record in records})))
        else:
            self._tell(answered.text)

    async def _answer_recorded(self, answered: Answered[_LineCall | StreamCall], open_calls: OpenCalls) -> None:
        if answered.observed is not None:
            instead = await open_calls.end(outcome_of_end(answered.observed))
            texts = list(instead.values()) or [answered.text]
        else:
            texts = [await open_calls.withhold(answered.answers) or answered.text]
        for text in texts:
            self._tell(text)

    async def _notify(self, notified: Notified[_LineCall | StreamCall]) -> None:
        self._tell(without_state(notified.notification).text)

    async def _deliver(self, message: Request | UnexpectedAnswer) -> None:
        self._tell(message.text)

    def _fail(self, call: _LineCall | StreamCall, error: AccreditError) -> None:
        if isinstance(call, _LineCall) and self.closing and not self.alive:
            call.is_silent = True  # its child says no more
        super()._fail(call, error)

    def _learn(self, call: Call, frame: Frame | None) -> None:
        if not isinstance(frame, Success) or len(frame.result) > LONG_ANSWER_BYTES:
            return  # no answer about a session is that long
        if call.request.method == "initialize" and is_object(frame.result):
            with contextlib.suppress(FrameError):
                self.revision = as_string(members(frame.result).get("protocolVersion"))
