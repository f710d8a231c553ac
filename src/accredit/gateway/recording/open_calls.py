"""Calls with a recorded decision and no outcome yet, and the outcome for each way in which a call can end. No own I/O.

A call is settled once: by its response, by an error, or by the end of its exchange, whichever comes first. Settling
continues even if the task that asked for it is cancelled. `recorder` writes the outcome.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any

from msgspec import Raw, Struct
from msgspec.structs import replace

from accredit.attest import CallDecision, Outcome, result_digest
from accredit.errors import (
    AnswerError,
    AttestationError,
    ClientGone,
    FrameError,
    MessageId,
    ProofRefused,
    RequestError,
    StoreUnavailable,
    UpstreamError,
    UpstreamLeftOut,
    UpstreamRefuses,
    UpstreamTimeout,
)
from accredit.gateway.replies import refusal
from accredit.jsonrpc.frames import Response, Success
from accredit.jsonrpc.objects import as_string
from accredit.jsonrpc.responses import Answers, Edit
from accredit.limits import LONG_ANSWER_BYTES
from accredit.policy import refusals

Claim = Callable[[MessageId], Awaitable["OpenCall | None"]]

NOT_FORWARDED = Outcome(status="cancelled", detail="before it was forwarded")


class Settler:
    """Keeps and settles the open calls of one server, without writing anything. Its subclass `recorder.Recorder`
    writes."""

    def __init__(self, before: "Settler | None" = None) -> None:
        """`before` is the server's previous settler, whose open calls pass to this one."""
        self._tasks: set[asyncio.Task[Any]] = before._tasks if before is not None else set()
        self._in_sessions: dict[tuple[str, MessageId], OpenCall] = before._in_sessions if before is not None else {}

    def keep(self, call: "OpenCall") -> "OpenCall":
        """Keep a call until it is settled, so that a stream resumed in its session can answer it."""
        if call.session_id:
            self._in_sessions[call.session_id, call.id] = call
        return call

    def in_session(self, session_id: str) -> "ResumedCalls":
        """Return the open calls of a session, for a stream resumed in it."""
        return ResumedCalls({id: call for (session, id), call in self._in_sessions.items() if session == session_id})

    def finish(self, call: "OpenCall", outcome: Outcome) -> asyncio.Future[None]:
        """Return a completed future, as there is nothing to write."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    def withhold(self, call: "OpenCall") -> bytes:
        """Return the client's response if a call's outcome could not be recorded. Never called for this class, as its
        `finish` does not fail."""
        raise AssertionError(call.id)

    def start(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Run a coroutine in a task that is kept until it ends."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def forget(self, call: "OpenCall") -> None:
        """End what `keep` began."""
        named = call.session_id, call.id
        if self._in_sessions.get(named) is call:  # the client may have reused the id
            del self._in_sessions[named]


class OpenCall:
    """A call with a recorded decision and no outcome yet.

    `id` is its request's id. `session_id` is its session's id, as the client knows it, or "". `decided` has the data
    for the record of its outcome, and is None if the call is not recorded; the request itself is not kept, as the call
    may stay open for minutes. `on_settled`, if set, is awaited with the outcome before it is recorded. It returns the
    outcome to record, and the response that replaces the upstream's, or None.
    """

    def __init__(self, recorder: Settler, decided: CallDecision | None, id: MessageId, session_id: str = "") -> None:
        self.id = id
        self.session_id = session_id
        self.decided = decided
        self.taken_back = False
        """Whether the client has cancelled the request, by a notification."""
        self.attempts = 1
        """To how many replicas of the server the call was sent."""
        self.on_settled: Callable[[Outcome], Awaitable[tuple[Outcome, bytes | None]]] | None = None
        self.edit: Edit | None = None
        """The edit for the call's answer. It is kept here because the answer may come on another stream than the call's
        own."""
        self._recorder = recorder
        self._settling: asyncio.Future[None] | None = None
        self._instead: bytes | None = None

    @property
    def settled(self) -> bool:
        """Whether the call's outcome is recorded, or being recorded."""
        return self._settling is not None

    def settle(self, outcome: Outcome) -> Coroutine[Any, Any, bytes | None]:
        """Start to record the outcome at once, unless that was started before. The result, which need not be awaited,
        is None once the outcome is on record. Otherwise it is the response that the client must get instead of the
        answer."""
        return self._result(self._settle(outcome))

    def settle_later(self, outcome: Outcome, then: Callable[[bytes | None], None] | None = None) -> None:
        """Record the outcome as `settle` does, in a task of its own. `then` gets the result."""
        self._recorder.start(_then(self.settle(outcome), then))

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine in a task that the settler keeps."""
        self._recorder.start(work)

    def withheld(self) -> RequestError:
        """Return the error that the client gets instead of the answer, as the outcome could not be recorded."""
        refused = withheld(self)
        return RequestError(refused.code, refused.message, id=self.id, status=200, data=refused.data)

    def abandon(self, outcome: Outcome) -> None:
        """Record the outcome, without waiting for it. If another process has claimed the call, nothing is recorded: a
        stream that was resumed there may have answered it."""
        self._recorder.start(_quietly(self._settle(outcome)))

    async def _result(self, settling: asyncio.Future[None]) -> bytes | None:
        try:
            await asyncio.shield(settling)
        except (StoreUnavailable, AttestationError):
            return self._recorder.withhold(self)
        return self._instead

    def _settle(self, outcome: Outcome) -> asyncio.Future[None]:
        if self._settling is None:
            if self.taken_back and outcome.status in ("unknown", "upstream_invalid"):
                outcome = Outcome(status="cancelled")
            if self.attempts > 1:
                told = f"attempts: {self.attempts}"
                outcome = replace(outcome, detail=f"{outcome.detail}; {told}" if outcome.detail else told)
            if self.on_settled is None:
                self._settling = self._finish(outcome)
            else:
                self._settling = self._recorder.start(self._settle_first(self.on_settled(outcome)))
        return self._settling

    async def _settle_first(self, settled: Awaitable[tuple[Outcome, bytes | None]]) -> None:
        outcome, self._instead = await settled
        await self._finish(outcome)

    def _finish(self, outcome: Outcome) -> asyncio.Future[None]:
        self._recorder.forget(self)
        return self._recorder.finish(self, outcome)


async def _then(settling: Awaitable[bytes | None], then: Callable[[bytes | None], None] | None) -> None:
    instead = await settling
    if then is not None:
        then(instead)


async def _quietly(settling: Awaitable[None]) -> None:
    with contextlib.suppress(StoreUnavailable, AttestationError):
        await settling


class OpenCalls(Struct, eq=False):
    """The calls that one exchange answers, by their requests' ids.

    Use it as a context manager. At the end of the block it settles all calls that are neither settled nor taken. If
    that can't be recorded, the client gets another error (`RequestError`).
    """

    _calls: dict[MessageId, OpenCall] = {}

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, call: OpenCall | None) -> None:
        """Adopt a call; None is ignored."""
        if call is not None:
            self._calls[call.id] = call

    def add_all(self, others: "OpenCalls") -> None:
        """Adopt every call of `others`."""
        self._calls |= others._calls

    def take(self, id: MessageId) -> OpenCall | None:
        """Remove and return the call with this id, or None. The caller must settle it."""
        return self._calls.pop(id, None)

    def get(self, id: MessageId) -> OpenCall | None:
        """Return the call with this id, or None. The call stays here."""
        return self._calls.get(id)

    def take_all(self) -> list[OpenCall]:
        """Remove and return all calls. The caller must settle them."""
        taken = list(self._calls.values())
        self._calls.clear()
        return taken

    def repeated(self) -> None:
        """Note that all calls are now sent to one more replica of the server."""
        for call in self._calls.values():
            call.attempts += 1

    def drop(self) -> None:
        """Settle all calls as not forwarded, without waiting for the records."""
        for call in self.take_all():
            call.settle_later(NOT_FORWARDED)

    async def withhold(self, answers: Answers) -> bytes | None:
        """Settle the calls that `answers` answer. Return None if the answers may be forwarded, else their
        replacement."""
        instead = await self._answered(answers)
        return answers.text(instead) if instead else None

    async def _answered(self, answers: Answers) -> dict[MessageId, bytes]:
        """Settle the calls that `answers` answer. Return, by id, the responses that replace answers."""
        outcomes = {
            response.id: await outcome_of(response)
            for response, _ in answers.members
            if response.id is not None and response.id in self._calls
        }
        return await self._settle(outcomes)

    async def end(self, outcome: Outcome) -> Mapping[MessageId, bytes]:
        """Settle all calls with this outcome. Return, by id, the responses that clients must get instead of their
        answers."""
        return await self._settle(dict.fromkeys(self._calls, outcome))

    async def settle(self, outcome: Outcome) -> None:
        """Settle all calls with this outcome. Raises `ProofRefused` if it can't be recorded."""
        for call in self.take_all():
            if await call.settle(outcome) is not None:
                raise withheld(call)

    async def fail(self, outcome: Outcome) -> None:
        """Settle all calls with this outcome. Raises `RequestError` if the client must get another response."""
        calls = dict(self._calls)
        for id in await self.end(outcome):
            raise calls[id].withheld()

    async def _settle(self, outcomes: Mapping[MessageId, Outcome]) -> dict[MessageId, bytes]:
        settling = [self._calls.pop(id).settle(outcome) for id, outcome in outcomes.items()]
        done = await asyncio.gather(*settling) if len(settling) > 1 else [await each for each in settling]
        return {id: text for id, text in zip(outcomes, done, strict=True) if text is not None}

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(error)

    async def close(self, error: BaseException | None) -> None:
        """Settle all calls that are left when the exchange ends. `error` is the exception that ended it, or None."""
        if not self._calls:
            return
        if error is None or isinstance(error, ClientGone | asyncio.CancelledError):
            await self.end(outcome_of_end(error))  # there is no client, or no answer to withhold
        else:
            await self.fail(outcome_of_end(error))


class ResumedCalls(OpenCalls, eq=False):
    """The calls of a session of which a resumed stream may answer some. When the stream ends, the others stay open.

    `claim` takes over a call of another process (`Recorder.claim`). It is given where calls are recorded.
    """

    _claim: Claim | None = None

    def __bool__(self) -> bool:
        return self._claim is not None or super().__bool__()

    async def _answered(self, answers: Answers) -> dict[MessageId, bytes]:
        """Claim answered calls that are unknown here, then settle all. If the log does not say which call an answer is
        for, the answer is withheld."""
        unclaimed: dict[MessageId, bytes] = {}
        for response, _ in answers.members:
            if self._claim is None or response.id is None or response.id in self._calls:
                continue
            try:
                self.add(await self._claim(response.id))
            except (StoreUnavailable, AttestationError):
                refused = refusals.record_unavailable("", "", forwarded=True)
                unclaimed[response.id] = refusal(refused).frame(response.id)
        return unclaimed | await super()._answered(answers)

    async def end(self, outcome: Outcome) -> Mapping[MessageId, bytes]:
        """Do nothing: the calls stay open."""
        return {}

    def only(self, concerns: Callable[[MessageId], bool]) -> "ResumedCalls":
        """Return the calls for whose ids `concerns` is true."""
        claim = self._claim

        async def claim_own(id: MessageId) -> OpenCall | None:
            return await claim(id) if claim is not None and concerns(id) else None

        own = {id: call for id, call in self._calls.items() if concerns(id)}
        return ResumedCalls(own, claim_own if claim is not None else None)


async def outcome_of(response: Response) -> Outcome:
    """Return the outcome of a call that got this response. Only an error's code is kept, as its text may quote
    arguments."""
    if not isinstance(response, Success):
        return Outcome(status="error", detail=f"JSON-RPC error {response.code}")
    result = response.result
    is_long = len(result) > LONG_ANSWER_BYTES  # a thread digests it, which releases the GIL
    digest: dict[Any, str] = await asyncio.to_thread(result_digest, result) if is_long else result_digest(result)
    named = _members(response)
    if as_string(named.get("resultType")) == "input_required":
        return Outcome(status="input_required", result=digest)
    is_error = named.get("isError")
    return Outcome(status="tool_error" if is_error is not None and bytes(is_error) == b"true" else "ok", result=digest)


def _members(response: Success) -> Mapping[str, Raw]:
    """Return the members of a result; none if it is not an object, or unreadable."""
    try:
        return response.members()
    except FrameError:
        return {}


def outcome_of_end(error: BaseException | None) -> Outcome:
    """Return the outcome of a call whose exchange ended before it was answered."""
    match error:
        case ClientGone():
            return Outcome(status="cancelled", detail="the client has gone")
        case AnswerError():
            return Outcome(status="upstream_invalid", detail=error.detail)
        case UpstreamTimeout():
            return Outcome(status="timeout", detail=error.detail)
        case UpstreamLeftOut():
            return Outcome(status="error", detail=error.detail)  # certainly not delivered
        case UpstreamRefuses():
            return Outcome(status="error", detail="HTTP status 401")
        case UpstreamError():
            return Outcome(status="unknown", detail=error.detail)
        case RequestError():
            return Outcome(status="error", detail=f"JSON-RPC error {error.code}")
        case None:
            return Outcome(status="unknown", detail="the exchange ended without a response")
        case _:
            return Outcome(status="unknown", detail="the gateway ended the exchange")


def withheld(call: OpenCall) -> ProofRefused:
    """Return the refusal that the client gets because the call's outcome could not be recorded."""
    assert call.decided is not None  # noqa: S101 - what is not recorded is not withheld
    recorded = call.decided.call
    return refusals.record_unavailable(recorded.method, recorded.target or "", forwarded=True)
