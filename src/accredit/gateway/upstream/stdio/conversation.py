"""A child and its open calls: what sessions, the shared child and `accredit wrap` have in common.

The child's lines are handled one by one; subclasses decide which client gets each. Each open call ends once: answered,
failed, late or cancelled. A recorded call gets its answer only once its outcome is on record. Meanwhile the child's
next lines are handled. When the child ends, for whatever reason, each open call gets an error response, and nothing of
the child remains.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, TypeVar

from accredit.attest import Outcome
from accredit.errors import (
    AccreditError,
    AnswerError,
    ClientGone,
    FrameError,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from accredit.gateway.counters import Counters
from accredit.gateway.recording.open_calls import outcome_of_end
from accredit.gateway.settings import GatewaySettings
from accredit.gateway.turns import next_turn
from accredit.gateway.upstream.large_answers import AnswerReservation
from accredit.gateway.upstream.reply import Reply
from accredit.gateway.upstream.stdio.child import Child
from accredit.gateway.upstream.stdio.pending_calls import (
    Answered,
    Call,
    Failed,
    Notified,
    PendingCalls,
    UnexpectedAnswer,
    UnreadableRequest,
)
from accredit.gateway.upstream.stdio.stream import Stream
from accredit.jsonrpc.encode import cancellation
from accredit.jsonrpc.frames import Request
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.responses import Edit
from accredit.limits import EVENTS_AT_ONCE_BYTES, LARGE_ANSWER_BYTES, MAX_OPEN_REQUESTS
from accredit.telemetry.tracing import set_current_message


class StreamCall(Call):
    """A call whose answer goes to a stream."""

    def __init__(self, request: Request, stream: Stream, edit: Edit | None = None, number: int | None = None) -> None:
        super().__init__(request, edit, number)
        self.stream = stream

    def reply(self, text: bytes) -> None:
        """Put the response in the stream."""
        self.stream.answer(text)

    def refuse(self, error: AccreditError) -> None:
        """Put the error response in the stream."""
        self.stream.fail(self.request.id, error)


_C = TypeVar("_C", bound=Call)


class Conversation(ABC, Generic[_C]):
    """The exchange with a child; when it ends, it ends the child. `over` is done when nothing of the child remains; its
    result says how the child ended. `line`, if set, is the room held for an unfinished line until that is judged.
    Results hold room of their own."""

    def __init__(
        self,
        child: Child,
        era: Era,
        settings: GatewaySettings,
        counters: Counters,
        *,
        max_open: int = MAX_OPEN_REQUESTS,
    ) -> None:
        self._child = child
        self._counters = counters
        self._pending: PendingCalls[_C] = PendingCalls(era, settings, counters, self._late, max_open=max_open)
        self.alive = True
        self.line: AnswerReservation | None = None
        self.over: asyncio.Task[UpstreamUnavailable] = asyncio.create_task(self._run())

    def go_by(self, settings: GatewaySettings) -> None:
        """Judge the child's output by these settings from now on."""
        self._pending.settings = settings

    @property
    def owes(self) -> bool:
        """Whether the child still owes an answer."""
        return bool(self._pending.calls)

    @property
    def _patience(self) -> float:
        return self._pending.settings.patience

    async def aclose(self) -> None:
        """End the conversation, and its child."""
        self.over.cancel()
        await asyncio.wait([self.over])
        await self._child.aclose()  # again: `_run` may have been cancelled before it could do so, or meanwhile

    # --- the child's lines -------------------------------------------------------------------------------

    @abstractmethod
    async def _answer(self, answered: Answered[_C]) -> None:
        """Send the clients of these calls the answer."""

    @abstractmethod
    async def _notify(self, notified: Notified[_C]) -> None:
        """Deliver a notification. Wait for a slow client if necessary."""

    async def _deliver(self, message: Request | UnexpectedAnswer) -> None:
        """Deliver what belongs to no call: a request of the child, or an invalid answer that is only observed. Wait for
        a slow client if necessary. Where several clients share the child, it is dropped."""

    def _lost(self) -> None:
        """Hook that runs when the child is gone, after open calls were answered."""

    async def _run(self) -> UpstreamUnavailable:
        error = UpstreamUnavailable("the session was ended")
        try:
            while await self._take_lines():
                pass
            error = await self._child.died()
        finally:
            self.alive = False
            self._leave_line()
            for call in list(self._pending.calls.values()):
                self._fail(call, error)
            self._lost()
            await self._child.aclose()
        return error

    async def _take_lines(self) -> bool:
        """Handle the child's next lines. Return False at the end of its output. While waiting for more, no line is kept
        in memory, as a session may idle for half an hour."""
        lines, size = await self._child.lines(), 0
        for line in lines or ():
            size += len(line) if isinstance(line, bytes) else 0
            if size > EVENTS_AT_ONCE_BYTES:  # there may be thousands
                size = 0
                await next_turn()
            await self._take(line)
        self._hold_line()
        await asyncio.sleep(0)  # yield: lines may come faster than clients read them
        return lines is not None

    async def _take(self, line: bytes | FrameError) -> None:
        set_current_message(None)
        verdict = await self._pending.judge(line)
        self._leave_line()
        match verdict:
            case Answered():
                await self._answer(verdict)
            case Failed():
                for call in verdict.calls:
                    self._fail(call, verdict.error)
            case Notified():
                await self._notify(verdict)
            case Request() | UnexpectedAnswer():
                await self._deliver(verdict)
            case UnreadableRequest():
                self._child.send_now(verdict.answer)
            case None:
                pass

    def _hold_line(self) -> None:
        """Reserve room for the unfinished line, or drop it. It can't wait for room, as answers to other calls follow
        it."""
        if self.line is None:
            return
        if self._child.unfinished <= LARGE_ANSWER_BYTES:
            self.line.leave()
            return
        try:
            self.line.take(self._child.unfinished)
        except AnswerError as error:
            self._child.give_up_line(error.detail)
            self.line.leave()

    def _leave_line(self) -> None:
        if self.line is not None:
            self.line.leave()

    # --- calls -------------------------------------------------------------------------------------------

    def _begin(self, call: _C) -> None:
        """Open a call. Raises `RequestError`, or `UpstreamUnavailable` if the child has ended meanwhile."""
        if not self.alive:
            raise UpstreamUnavailable("the upstream has ended")
        self._pending.open(call)

    async def _ask(self, call: _C, stream: Stream, send: Callable[[], Awaitable[None]]) -> bytes | None:
        """Send one of the gateway's own requests, whose answer goes to `stream`; return the response's text, or
        None."""
        try:
            self._begin(call)
            await send()
            while not stream.ended:
                await stream.changed(self._patience)
        except AccreditError:
            return None
        finally:
            self._cancel(call, "nobody waits for it")
        return stream.whole() if stream.status == 200 else None

    def _cancel(self, call: _C, reason: str) -> bool:
        """Tell the child that a call is cancelled, if it still owes an answer. Return whether it did."""
        if self._pending.calls.get(call.id) is not call:
            return False
        self._pending.told()
        self._child.send_now(cancellation(call.id, reason))
        self._pending.abandon(call)
        return True

    def _withdraw(self, call: _C) -> None:
        """Give up a call that its client has cancelled. The child has been told."""
        self._pending.abandon(call)
        call.request.failed(ClientGone())

    def _leave(self, reply: Reply, call: _C) -> None:
        """End a call's reply to its client. If the call is still open, the reply settles its outcome."""
        if self._cancel(call, "the client has gone"):
            reply.calls.add(call.record)

    def _late(self, call: _C) -> None:
        self._cancel(call, "timed out")
        self._fail(call, UpstreamTimeout("the upstream did not answer in time"))

    def _fail(self, call: _C, error: AccreditError) -> None:
        set_current_message(call.request)
        self._pending.close(call)
        call.request.failed(error)
        if isinstance(error, UpstreamError):
            self._counters.refused(error, method=call.request.method)
        self._settled(call, outcome_of_end(error), lambda: call.refuse(error))

    async def _answered(
        self, call: _C, stream: Stream, answered: Answered[_C], text: bytes, *, status: int = 200
    ) -> None:
        """Answer a call in its stream with a text, if there is room for it, once its outcome is on record."""
        try:
            stream.make_room(len(answered.text))
        except AnswerError as error:
            self._counters.refused(error, method=call.request.method)
            self._fail(call, error)
            return
        then = partial(stream.answer, text, status=status)
        if call.record is None:
            then()
        else:
            self._settled(call, await answered.outcome(), then)

    def _settled(self, call: _C, outcome: Outcome, then: Callable[[], None]) -> None:
        """Once a call's outcome is on record, run `then`, which answers the call. If recording fails, answer with the
        refusal."""
        if call.record is None:
            then()
        else:
            call.record.settle_later(outcome, lambda instead: then() if instead is None else call.reply(instead))
