"""A child with one client: keeps the client's open requests, and routes the child's messages. Uses timers; logs.

All messages of the child go to the one client, through `tell`. So no request needs a `Reply` of its own.

- [messages] A valid message is forwarded as it is, except for edits. An invalid one that answers a request becomes that
  request's error; any other invalid one is dropped (`PendingCalls.judge`).
- [responses] A client's response that the child did not ask for is dropped. A batch with such a response is refused.
- [recorded] The answer to a recorded call is sent once the call's outcome is on record. Other messages do not wait for
  that.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping

from accredit.attest import Outcome
from accredit.base.log_events import log_event
from accredit.errors import AccreditError, FrameError, LineTooLong, MessageId, RequestError, UpstreamError
from accredit.gateway.counters import Counters
from accredit.gateway.recording.open_calls import OpenCalls, outcome_of_end
from accredit.gateway.replies import refusal
from accredit.gateway.settings import GatewaySettings
from accredit.gateway.upstream.stdio.child import Child
from accredit.gateway.upstream.stdio.conversation import CallOwner
from accredit.gateway.upstream.stdio.pending_calls import (
    Answered,
    Call,
    Failed,
    Notified,
    UnexpectedAnswer,
    UnreadableRequest,
)
from accredit.jsonrpc.encode import INVALID_REQUEST, error_frame
from accredit.jsonrpc.era import required_version
from accredit.jsonrpc.frames import Failure, Frame, Notification, Request, Success, progress_token
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.objects import as_string, is_object, members
from accredit.jsonrpc.requests import Batch
from accredit.jsonrpc.responses import Edit
from accredit.jsonrpc.tasks import without_state
from accredit.limits import LONG_ANSWER_BYTES
from accredit.telemetry.tracing import set_current_message

_log = logging.getLogger("accredit.gateway.stdio")


class OwnCall(Call):
    """One of the gateway's own requests. `answer` is the response's text, or None."""

    def __init__(self, request: Request) -> None:
        super().__init__(request, request.id, None)
        self.answer: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()

    def settle(self, text: bytes | None) -> None:
        """Set the answer, unless the wait is over."""
        if not self.answer.done():
            self.answer.set_result(text)


class DedicatedChild(CallOwner[Call]):
    """`tell` sends the client a message. `revision` is the negotiated one, once known."""

    def __init__(
        self, child: Child, settings: GatewaySettings, counters: Counters, tell: Callable[[bytes], None]
    ) -> None:
        super().__init__(child, Era.LEGACY, settings, counters)
        self._tell = tell
        self.revision: str | None = None

    async def post(self, message: Frame | Batch, calls: OpenCalls, edits: Mapping[MessageId, Edit]) -> None:
        """Forward a client's message; its answers go to `tell`. Raises `RequestError`."""
        frames = message.frames if isinstance(message, Batch) else (message,)
        answers = [frame for frame in frames if isinstance(frame, Success | Failure)]
        if not all(self._pending.settles(frame) for frame in answers):
            detail = "a response that answers no open request"
            if isinstance(message, Batch):
                raise RequestError(INVALID_REQUEST, f"Invalid Request: {detail}")
            log_event(_log, logging.WARNING, "response_dropped", detail=detail)
            return
        opened = self._open([frame for frame in frames if isinstance(frame, Request)], calls, edits)
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
        call = OwnCall(request)
        try:
            self._pending.expect(request.era)
            self._pending.open(call)
            await self._child.send(request.text, None)
            return await call.answer
        except (RequestError, UpstreamError):
            return None
        finally:
            self._pending.close(call)

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

    async def take(self, line: bytes | FrameError) -> None:
        """Judge a line of the child, and forward it."""
        set_current_message(None)
        match verdict := await self._pending.judge(line):
            case Answered(calls=[OwnCall() as own]):
                own.settle(verdict.text)
            case Answered():
                for call in verdict.calls:
                    self._learn(call, verdict.frame)
                self._answer(verdict)
            case Failed():
                for call in verdict.calls:
                    self._fail(call, verdict.error)
            case Notified():
                self._tell(without_state(verdict.notification).text)
            case Request() | UnexpectedAnswer():
                self._tell(verdict.text)
            case UnreadableRequest():
                self._child.send_now(verdict.answer)
            case None:
                pass

    def lost(self, error: UpstreamError, *, answered: bool) -> None:
        """End all open calls, as the child is gone. If `answered`, the client gets an error for each of them."""
        for call in list(self._pending.calls.values()):
            if answered or isinstance(call, OwnCall):
                self._fail(call, error)
                continue
            self._pending.close(call)
            call.request.failed(error)
            self._counters.refused(error, method=call.request.method)
            if call.record is not None:
                call.record.settle_later(outcome_of_end(error))

    def _open(self, requests: list[Request], calls: OpenCalls, edits: Mapping[MessageId, Edit]) -> list[Call]:
        opened: list[Call] = []
        try:
            for request in requests:
                if request.era is Era.MODERN:
                    required_version(request)
                self._pending.expect(request.era)
                call = Call(request, request.id, progress_token(request))
                call.edit = edits.get(request.id)
                self._pending.open(call)
                opened.append(call)
        except RequestError:
            for call in opened:
                self._pending.close(call)
            raise
        for call in opened:
            call.record = calls.take(call.id)
        return opened

    def _answer(self, verdict: Answered[Call]) -> None:
        open_calls = OpenCalls(call.record for call in verdict.calls if call.record is not None)
        if open_calls:
            open_calls.start(self._answer_recorded(verdict, open_calls))
        else:
            self._tell(verdict.text)

    async def _answer_recorded(self, verdict: Answered[Call], open_calls: OpenCalls) -> None:
        if verdict.observed is not None:
            instead = await open_calls.end(outcome_of_end(verdict.observed))
            texts = list(instead.values()) or [verdict.text]
        else:
            texts = [await open_calls.withhold(verdict.answers) or verdict.text]
        for text in texts:
            self._tell(text)

    def _reply(self, call: Call, text: bytes) -> None:
        self._tell(text)

    def _refuse(self, call: Call, error: AccreditError) -> None:
        if isinstance(call, OwnCall):
            call.settle(None)
        else:
            self._tell(refusal(error).frame(call.id))

    def _learn(self, call: Call, frame: Frame | None) -> None:
        if not isinstance(frame, Success) or len(frame.result) > LONG_ANSWER_BYTES:
            return  # no answer about a session is that long
        if call.request.method == "initialize" and is_object(frame.result):
            with contextlib.suppress(FrameError):
                self.revision = as_string(members(frame.result).get("protocolVersion"))
