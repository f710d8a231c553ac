"""A child and its open calls: the code that their owners share, whatever the clients are.

`CallOwner` ends each open call once: answered, failed, late or cancelled. A recorded call gets its answer only once its
outcome is on record. Meanwhile the child's next lines are handled.

`Conversation` is the owner for HTTP clients, in a session or with the shared child. The child's lines are handled one
by one; subclasses decide which client gets each. When the child ends, for whatever reason, each open call gets an error
response, and nothing of the child remains.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from accredit.attest import Outcome
from accredit.errors import (
    AccreditError,
    AnswerError,
    ClientGone,
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
from accredit.gateway.upstream.stdio.pending_calls import Answered, Call, PendingCalls, Verdict
from accredit.gateway.upstream.stdio.stream import Stream
from accredit.jsonrpc.encode import cancellation
from accredit.jsonrpc.methods import Era
from accredit.limits import EVENTS_AT_ONCE_BYTES, LARGE_ANSWER_BYTES, MAX_OPEN_REQUESTS
from accredit.telemetry.tracing import set_current_message

_C = TypeVar("_C", bound=Call)


class CallOwner(ABC, Generic[_C]):
    """Owns the open calls of one child; subclasses send the answers."""

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

    @property
    def owes(self) -> bool:
        """Whether the child still owes an answer."""
        return bool(self._pending.calls)

    @abstractmethod
    def _reply(self, call: _C, text: bytes) -> None:
        """Send a call's client this answer."""

    @abstractmethod
    def _refuse(self, call: _C, error: AccreditError) -> None:
        """Send a call's client the error response."""

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

    def _late(self, call: _C) -> None:
        self._cancel(call, "timed out")
        self._fail(call, UpstreamTimeout("the upstream did not answer in time"))

    def _fail(self, call: _C, error: AccreditError) -> None:
        set_current_message(call.request)
        self._pending.close(call)
        call.request.failed(error)
        if isinstance(error, UpstreamError):
            self._counters.refused(error, method=call.request.method)
        self._settled(call, outcome_of_end(error), lambda: self._refuse(call, error))

    def _settled(self, call: _C, outcome: Outcome, then: Callable[[], None]) -> None:
        """Once a call's outcome is on record, run `then`, which answers the call. If recording fails, answer with the
        refusal."""
        if call.record is None:
            then()
        else:
            call.record.settle_later(outcome, lambda instead: then() if instead is None else self._reply(call, instead))


class StreamCall(Call):
    """A call, and the stream for its answer."""

    stream: Stream


_S = TypeVar("_S", bound=StreamCall)


class Conversation(CallOwner[_S]):
    """The exchange with a child; when it ends, it ends the child. `over` is done when nothing of the child remains.
    `line`, if set, is the room held for an unfinished line until that is judged. Results hold room of their own."""

    def __init__(
        self,
        child: Child,
        era: Era,
        settings: GatewaySettings,
        counters: Counters,
        *,
        max_open: int = MAX_OPEN_REQUESTS,
    ) -> None:
        super().__init__(child, era, settings, counters, max_open=max_open)
        self._patience = settings.patience
        self.alive = True
        self.line: AnswerReservation | None = None
        self.over: asyncio.Task[None] = asyncio.create_task(self._run())

    def go_by(self, settings: GatewaySettings) -> None:
        """Judge the child's output by these settings from now on."""
        self._pending.settings = settings

    async def aclose(self) -> None:
        """End the conversation, and its child."""
        self.over.cancel()
        await asyncio.wait([self.over])
        await self._child.aclose()  # again: `_run` may have been cancelled before it could do so, or meanwhile

    @abstractmethod
    async def _take(self, verdict: Verdict[_S]) -> None:
        """Deliver a line of the child. Wait for slow receivers if necessary."""

    def _reply(self, call: _S, text: bytes) -> None:
        call.stream.answer(text)

    def _refuse(self, call: _S, error: AccreditError) -> None:
        call.stream.fail(call.request.id, error)

    def _begin(self, call: _S) -> None:
        """Open a call. Raises `RequestError`, or `UpstreamUnavailable` if the child has ended meanwhile."""
        if not self.alive:
            raise UpstreamUnavailable("the upstream has ended")
        self._pending.open(call)

    async def _ask(self, call: _S, send: Callable[[], Awaitable[None]]) -> bytes | None:
        """Send one of the gateway's own requests; return the response's text, or None."""
        try:
            self._begin(call)
            await send()
            while not call.stream.ended:
                await call.stream.changed(self._patience)
        except AccreditError:
            return None
        finally:
            self._cancel(call, "nobody waits for it")
        return call.stream.whole() if call.stream.status == 200 else None

    def _leave(self, reply: Reply, call: _S) -> None:
        """End a call's reply to its client. If the call is still open, the reply settles its outcome."""
        if self._cancel(call, "the client has gone"):
            reply.calls.add(call.record)

    async def _answered(self, call: _S, answered: Answered[_S], then: Callable[[], None]) -> None:
        """Do the same as `_settled`, for a call that the child has answered, if there is room for the answer."""
        try:
            call.stream.make_room(len(answered.text))
        except AnswerError as error:
            self._counters.refused(error, method=call.request.method)
            self._fail(call, error)
            return
        if call.record is None:
            then()
        else:
            self._settled(call, await answered.outcome(), then)

    async def _run(self) -> None:
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

    async def _take_lines(self) -> bool:
        """Handle the child's next lines. Return False at the end of its output. While waiting for more, no line is kept
        in memory, as a session may idle for half an hour."""
        lines, size = await self._child.lines(), 0
        for line in lines or ():
            size += len(line) if isinstance(line, bytes) else 0
            if size > EVENTS_AT_ONCE_BYTES:  # there may be thousands
                size = 0
                await next_turn()
            set_current_message(None)
            verdict = await self._pending.judge(line)
            self._leave_line()
            await self._take(verdict)
        self._hold_line()
        await asyncio.sleep(0)  # yield: lines may come faster than clients read them
        return lines is not None

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

    def _lost(self) -> None:
        """Hook that runs when the child is gone, after open calls were answered."""
