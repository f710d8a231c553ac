"""`accredit wrap`: the gate as a stdio server around a stdio server. One host, one child, lines both ways.

1. A line of the host is judged by `decode_request` and comes through the gate; a bad one gets an error line, as does
   a call that is refused. Where tokens are on, calls and lists need one: their own, or that of the environment. Answers
   to requests that the child did not make are dropped.
2. A line of the child is judged by `PendingCalls.judge`; a bad one becomes the error of the request that it answers, or
   is dropped.
3. When the host closes its side, so does the child's stdin close, and what is open may finish: the host still gets what
   the child says, and no line of ours. When the child ends first, each open request gets an error line, and the exit
   code is 1.

A call that is recorded gets its answer once its outcome is on record; other lines pass meanwhile.

A good line is passed on as it is, byte for byte, but for what the gate takes out or puts in. Nothing but messages is
ever written to stdout.
"""

import asyncio
import contextlib
import logging
import signal

from accredit.attest import Outcome
from accredit.base.log_events import log_event
from accredit.errors import (
    ConfigurationError,
    FrameError,
    KeysUnavailable,
    LineTooLong,
    RequestError,
    TokenError,
    UpstreamError,
    UpstreamTimeout,
)
from accredit.gateway.admission.bearer import Bearer, bearer_for
from accredit.gateway.admission.gate import Admission, Gate
from accredit.gateway.admission.tool_directory import ToolDirectory
from accredit.gateway.counters import Counters
from accredit.gateway.front.host import Host
from accredit.gateway.recording.open_calls import OpenCalls, outcome_of_end
from accredit.gateway.recording.recorder import Client, Recorder, recorder_of
from accredit.gateway.replies import refusal
from accredit.gateway.settings import GatewaySettings, StdioUpstream
from accredit.gateway.trace import set_current
from accredit.gateway.turns import in_turns
from accredit.gateway.upstream.stdio.child import Child
from accredit.gateway.upstream.stdio.orphan_guard import OrphanGuard
from accredit.gateway.upstream.stdio.pending_calls import (
    LATE,
    Answered,
    Call,
    Failed,
    Notified,
    OwnCall,
    PendingCalls,
    UnexpectedAnswer,
    Unread,
    Verdict,
    cancellation,
    member_id,
    progress_token,
)
from accredit.jsonrpc.encode import INVALID_REQUEST, error_frame
from accredit.jsonrpc.era import required_version
from accredit.jsonrpc.frames import Failure, Frame, Notification, Request, Success
from accredit.jsonrpc.lines import LineSplitter, encode_line
from accredit.jsonrpc.methods import BATCH_REVISION, META_VERSION, Era
from accredit.jsonrpc.objects import is_object, members
from accredit.jsonrpc.requests import Batch, read_request
from accredit.jsonrpc.scalars import as_string
from accredit.jsonrpc.tasks import without_state
from accredit.limits import GRACE_SECONDS, STOP_GRACE_SECONDS
from accredit.ports import KeySets, ProofStore, Records, Revocations, TaskStore

_log = logging.getLogger("accredit.gateway.stdio")


async def run(
    settings: GatewaySettings,
    *,
    store: ProofStore | None = None,
    revocations: Revocations | None = None,
    key_sets: KeySets | None = None,
    records: Records | None = None,
    tasks: TaskStore | None = None,
    token: str | None = None,
) -> int:
    """Serves until the host or the child ends, or a signal comes; gives the exit code.

    The store and the revocations are those that proofs are judged by, the key sets those of tokens, `records` is the
    log, and `tasks` remembers whose tasks are; all but the revocations are closed at the end. `token` is for what the
    host sends without one. Raises `ConfigurationError`.
    """
    if not isinstance(settings.upstream, StdioUpstream):
        raise ConfigurationError("wrap stands around a stdio server", "name its command after --")
    counters = Counters()
    recorder = recorder_of(settings, counters, records)
    tools = ToolDirectory()
    bearer = bearer_for(settings, key_sets, tools, token)
    gate = Gate(
        settings, counters, tools, store=store, revocations=revocations, bearer=bearer, recorder=recorder, tasks=tasks
    )
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    guard = OrphanGuard()
    try:
        await _check_environment(bearer)
        if recorder is not None:
            await recorder.ready()  # calls that a dead process left open are closed now
        child = await Child.start(settings.upstream, guard, settings.max_event_bytes)
        try:
            host = Host()
            code = await Wrap(settings, gate, child, host, counters, bearer, recorder).serve(stopping)
            if recorder is not None:
                await recorder.drain()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_GRACE_SECONDS):
                    await host.drained(0)
            return code
        finally:
            await child.aclose()
    except UpstreamError as error:
        log_event(_log, logging.ERROR, "upstream_failed", detail=error.detail)
        return 1
    finally:
        await guard.aclose()
        if recorder is not None:
            await recorder.aclose()
        if store is not None:
            await store.aclose()
        if tasks is not None:
            await tasks.aclose()
        if key_sets is not None:
            await key_sets.aclose()


async def _check_environment(bearer: Bearer | None) -> None:
    """A token that can't be good is told at the start; keys that can't be had may be there later."""
    try:
        if bearer is not None:
            await bearer.of_environment()
    except TokenError as error:
        raise ConfigurationError(
            f"the token of the environment is refused: {error.reason}", "set ACCREDIT_TOKEN to one that is good here"
        ) from None
    except KeysUnavailable as error:
        log_event(_log, logging.WARNING, "keys_unavailable", detail=str(error))


class Wrap:
    """The host's side and the child's side, and what is open between them."""

    def __init__(
        self,
        settings: GatewaySettings,
        gate: Gate,
        child: Child,
        host: Host,
        counters: Counters,
        bearer: Bearer | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self._bearer = bearer
        self._recorder = recorder
        self._settings = settings
        self._gate = gate
        self._child = child
        self._host = host
        self._counters = counters
        self._pending: PendingCalls[Call] = PendingCalls(Era.LEGACY, settings, counters, self._late)
        self._revision: str | None = None
        self._closing = False

    async def serve(self, stopping: asyncio.Event) -> int:
        """Rule 3."""
        from_host = asyncio.create_task(self._from_host())
        from_child = asyncio.create_task(self._from_child())
        ends = {from_child, asyncio.create_task(stopping.wait()), asyncio.create_task(self._host.gone.wait())}
        try:
            await asyncio.wait({from_host, *ends}, return_when=asyncio.FIRST_COMPLETED)
            if self._closing and self._pending.calls:
                await asyncio.wait(ends, timeout=GRACE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            died = from_child.done() and not self._closing and not stopping.is_set()
            if from_child.done():
                await self._lost()
            return 1 if died else 0
        finally:
            for task in (from_host, *ends):
                task.cancel()
            await asyncio.wait({from_host, *ends})

    async def _lost(self) -> None:
        """The child has ended, and rule 3 says who is told."""
        error = await self._child.died()
        for call in list(self._pending.calls.values()):
            if self._closing and not isinstance(call, OwnCall):
                self._pending.close(call)
                self._counters.refused(error, method=call.request.method)
                if call.record is not None:
                    call.record.settle_later(outcome_of_end(error))
            else:
                self._fail(call, error)

    async def _from_host(self) -> None:
        splitter = LineSplitter(self._settings.max_request_bytes)
        while not self._closing:
            chunk = await self._host.read()
            self._closing = not chunk
            for line in splitter.feed(chunk or b"\n"):  # a last line may have no end
                await asyncio.sleep(0)  # others have their turn: a chunk may hold thousands of lines
                try:
                    await self._forward(line)
                except RequestError as error:
                    self._counters.refused(error)
                    self._host.send(encode_line(refusal(error).frame()))
        self._child.close_input()

    async def _forward(self, line: bytes | FrameError) -> None:
        """Rule 1. Raises `RequestError`."""
        set_current(None)
        if isinstance(line, LineTooLong):
            await self._too_long(line)
            return
        if isinstance(line, FrameError):
            raise RequestError(INVALID_REQUEST, f"Invalid Request: {line.detail}")
        message = await in_turns(read_request(line, batch_allowed=self._revision == BATCH_REVISION), len(line))
        set_current(message)
        client = Client(revision=_modern_revision(message) or self._revision)
        callers = None
        if self._bearer is not None:
            frames = message.frames if isinstance(message, Batch) else (message,)
            try:
                callers = [await self._bearer.of_line(frame, self._ask) for frame in frames]
            except RequestError as error:
                await self._gate.early_refusals.of_message(message, client, error)
                raise
        admission = await self._gate.admit(message, client, callers)
        if admission.replies:
            self._host.send(encode_line(admission.answer))
        if admission.message is not None:
            async with admission.calls:
                await self._pass_on(admission.message, admission)

    async def _too_long(self, line: LineTooLong) -> None:
        """A line of the host that is not read: whoever waits for what it says, or for an answer to it, is told."""
        detail = f"Invalid Request: {line.detail}"
        for id in self._pending.unanswered(line):
            with contextlib.suppress(UpstreamError):
                await self._child.send(error_frame(id, INVALID_REQUEST, detail), None)
        if line.kind != "response":
            raise RequestError(INVALID_REQUEST, detail, id=line.id)
        log_event(_log, logging.WARNING, "response_dropped", detail=line.detail)

    async def _ask(self, request: Request) -> bytes | None:
        """Sends a request of ours to the child; gives the response's text, or None where there is none."""
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

    async def _pass_on(self, message: Frame | Batch, admission: Admission) -> None:
        frames = message.frames if isinstance(message, Batch) else (message,)
        answers = [frame for frame in frames if isinstance(frame, Success | Failure)]
        if not all(self._pending.settles(frame) for frame in answers):
            detail = "a response that answers no open request"
            if isinstance(message, Batch):
                raise RequestError(INVALID_REQUEST, f"Invalid Request: {detail}")
            log_event(_log, logging.WARNING, "response_dropped", detail=detail)
            return
        calls = self._open([frame for frame in frames if isinstance(frame, Request)], admission)
        if isinstance(message, Batch):
            self._pending.allow_batches()
        try:
            await self._child.send(message.text, None)
        except UpstreamError as error:
            for call in calls:
                self._fail(call, error)
        for frame in frames:
            if isinstance(frame, Notification):
                self._notified(frame)

    def _open(self, requests: list[Request], admission: Admission) -> list[Call]:
        calls: list[Call] = []
        try:
            for request in requests:
                if request.era is Era.MODERN:
                    required_version(request)
                self._pending.expect(request.era)
                call = Call(request, request.id, progress_token(request))
                call.edit = admission.edits.get(request.id)
                self._pending.open(call)
                calls.append(call)
        except RequestError:
            for call in calls:
                self._pending.close(call)
            raise
        for call in calls:
            call.record = admission.calls.take(call.id)
        return calls

    def _notified(self, notification: Notification) -> None:
        if notification.method == "notifications/cancelled":
            id = member_id(notification, "requestId")
            call = self._pending.calls.get(id) if id is not None else None
            if call is not None:
                self._pending.give_up(call)
                if call.record is not None:
                    call.record.settle_later(Outcome(status="cancelled"))

    async def _from_child(self) -> None:
        """Rule 2. Ends with the child, or when the host is gone and nothing is open any more."""
        while (lines := await self._child.lines()) is not None:
            for line in lines:
                set_current(None)
                self._take(self._pending.judge(line, await self._pending.opened(line)))
                await self._host.drained()
            if self._closing and not self._pending.calls:
                return

    def _take(self, verdict: Verdict[Call]) -> None:
        match verdict:
            case Answered(calls=[OwnCall() as own]):
                own.settle(verdict.text)
            case Answered():
                for call in verdict.calls:
                    self._learn(call, verdict.frame)
                self._answer(verdict)
            case Failed():
                for call in verdict.calls:
                    self._settled(call, outcome_of_end(verdict.error), refusal(verdict.error).frame(call.id))
            case Notified():
                self._host.send(encode_line(without_state(verdict.notification).text))
            case Request() | UnexpectedAnswer():
                self._host.send(encode_line(verdict.text))
            case Unread():
                self._child.send_now(verdict.answer)
            case None:
                pass

    def _answer(self, verdict: Answered[Call]) -> None:
        open_calls = OpenCalls(call.record for call in verdict.calls if call.record is not None)
        if open_calls:
            open_calls.start(self._answer_recorded(verdict, open_calls))
        else:
            self._host.send(encode_line(verdict.text))

    async def _answer_recorded(self, verdict: Answered[Call], open_calls: OpenCalls) -> None:
        if verdict.observed is not None:
            instead = await open_calls.end(outcome_of_end(verdict.observed))
            texts = list(instead.values()) or [verdict.text]
        else:
            texts = [await open_calls.withhold(verdict.answers) or verdict.text]
        for text in texts:
            self._host.send(encode_line(text))

    def _settled(self, call: Call, outcome: Outcome, text: bytes) -> None:
        """Sends the answer to a call, once its outcome is on record; else the refusal for that."""
        if isinstance(call, OwnCall):
            call.settle(None)
        elif call.record is None:
            self._host.send(encode_line(text))
        else:
            call.record.settle_later(outcome, lambda instead: self._host.send(encode_line(instead or text)))

    def _learn(self, call: Call, frame: Frame | None) -> None:
        if call.request.method == "initialize" and isinstance(frame, Success) and is_object(frame.result):
            with contextlib.suppress(FrameError):
                self._revision = as_string(members(frame.result).get("protocolVersion"))

    def _late(self, call: Call) -> None:
        self._child.send_now(cancellation(call.id, "timed out"))
        self._pending.give_up(call)
        self._fail(call, UpstreamTimeout(LATE))

    def _fail(self, call: Call, error: UpstreamError) -> None:
        set_current(call.request)
        self._pending.close(call)
        self._counters.refused(error, method=call.request.method)
        self._settled(call, outcome_of_end(error), refusal(error).frame(call.id))


def _modern_revision(message: Frame | Batch) -> str | None:
    """The revision that a modern request names."""
    if not isinstance(message, Request):
        return None
    return as_string(message.in_meta(META_VERSION))
