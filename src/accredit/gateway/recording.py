"""Records of guarded calls: the decision before anything is forwarded, the outcome before the client sees the answer.

Asks the log (`ports.Records`). A call's life, in this order:

1. `Recorder.begin` puts the decision into the log (step 8 of the decision); where that fails, nothing is forwarded;
2. an allowed call is open until it is settled: by its response, by what went wrong, or by the end of the exchange
   that it belongs to, whichever comes first. To settle it is done once, and goes on when whoever asked is cancelled;
3. where the outcome can't be recorded, the client gets a refusal in place of the answer.

Lists are not recorded. What is recorded of params has neither `_meta` nor tokens, and, unless records are full, none of
the arguments: so a constraint's reason, which quotes them, is cut. The target is recorded as it is, up to a bound.
"""

import asyncio
import re
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from types import TracebackType
from typing import Any

from msgspec import Struct

from accredit.attest import (
    Authority,
    Call,
    Decided,
    Decision,
    Outcome,
    Token,
    recorded_chain,
    recorded_params,
    result_digest,
)
from accredit.errors import (
    AnswerError,
    AttestationError,
    ClientGone,
    ConfigurationError,
    FrameError,
    MessageId,
    ProofRefused,
    RequestError,
    StoreUnavailable,
    UpstreamError,
    UpstreamTimeout,
)
from accredit.gateway.replies import refusal
from accredit.gateway.settings import GatewaySettings, RecordSettings
from accredit.gateway.tally import Tally
from accredit.jsonrpc.encode import INVALID_PARAMS
from accredit.jsonrpc.frames import Request, Response, Success
from accredit.jsonrpc.methods import TARGET_MEMBER
from accredit.jsonrpc.objects import is_object, members
from accredit.jsonrpc.responses import Answers
from accredit.jsonrpc.scalars import as_string
from accredit.limits import MAX_RECORDED_TARGET
from accredit.policy import CONSTRAINT_REFUSALS, refusals
from accredit.policy import Decision as PolicyDecision
from accredit.ports import Records
from accredit.ratify import encode_delegation_cert

_CONSTRAINT = re.compile(r"constraint_\w+: cert \d+: constraint\[\d+\] \(\w+\)")
_ALLOWED = Decision(verdict="allow")
_ID_BYTES = 16
_IDS_AT_ONCE = 64


class Client(Struct, frozen=True):
    """Where a call came from: the MCP session's id, or "", and the protocol's revision, where it is known."""

    session_id: str = ""
    revision: str | None = None


class Part(Struct, frozen=True):
    """Which multi-round-trip request a call is part of, and which round it is, from 1."""

    flow: str
    round: int


class OpenCall:
    """A call whose decision is on record, and whose outcome is not yet. `id` is its request's."""

    def __init__(self, recorder: "Recorder", decided: Decided, id: MessageId) -> None:
        self.id = id
        self.taken_back = False
        """Whether the client has said that it does not wait any more."""
        self._recorder = recorder
        self._decided = decided
        self._settling: asyncio.Task[bytes | None] | None = None

    async def settle(self, outcome: Outcome) -> bytes | None:
        """Records what came of it, unless that was done. None when it is on record; else the response that its client
        gets in place of any other."""
        return await asyncio.shield(self._settle(outcome))

    def settle_later(self, outcome: Outcome, then: Callable[[bytes | None], None] | None = None) -> None:
        """The same without waiting; `then` is told."""
        settling = self._settle(outcome)
        if then is not None:
            self._recorder.start(_then(settling, then))

    def withheld(self) -> RequestError:
        """The error that its client gets in place of another one, which is not on record."""
        refused = _withheld(self._decided)
        return RequestError(refused.code, refused.message, id=self.id, status=200, data=refused.data)

    def _settle(self, outcome: Outcome) -> "asyncio.Task[bytes | None]":
        if self._settling is None:
            if self.taken_back and outcome.status in ("unknown", "upstream_invalid"):
                outcome = Outcome(status="cancelled")
            self._settling = self._recorder.start(self._recorder.finish(self._decided, outcome, self.id))
        return self._settling


async def _then(settling: "asyncio.Task[bytes | None]", then: Callable[[bytes | None], None]) -> None:
    then(await settling)


class OpenCalls:
    """Calls that one exchange answers, by their requests' ids.

    As a context it settles, at the end, what nobody has settled or taken. Where that can't be recorded, the client
    gets another error (`RequestError`).
    """

    __slots__ = ("_calls",)

    def __init__(self, calls: Iterable[OpenCall] = ()) -> None:
        self._calls = {call.id: call for call in calls}

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, call: OpenCall | None) -> None:
        """Makes a call one of these."""
        if call is not None:
            self._calls[call.id] = call

    def add_all(self, others: "OpenCalls") -> None:
        """Makes the calls of others these."""
        self._calls |= others._calls

    def take(self, id: MessageId) -> OpenCall | None:
        """A call, if it is one of these, which it is not any more: whoever takes it settles it."""
        return self._calls.pop(id, None)

    def get(self, id: MessageId) -> OpenCall | None:
        """A call, if it is one of these."""
        return self._calls.get(id)

    async def withhold(self, answers: Answers) -> bytes | None:
        """Settles the calls that were answered. None when the answers may be forwarded, else what goes instead."""
        found = {
            response.id: outcome_of(response)
            for response, _ in answers.members
            if response.id is not None and response.id in self._calls
        }
        instead = await self._settle(found)
        return answers.text(instead) if instead else None

    async def end(self, outcome: Outcome) -> Mapping[MessageId, bytes]:
        """Settles all in one way; gives the responses to those of which that can't be recorded."""
        return await self._settle(dict.fromkeys(self._calls, outcome))

    async def fail(self, outcome: Outcome) -> None:
        """Settles all in one way. Raises `RequestError` where that can't be recorded."""
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
        if not self._calls:
            return
        if error is None or isinstance(error, ClientGone | asyncio.CancelledError):
            await self.end(outcome_of_end(error))  # there is nobody, or nothing, to withhold an answer from
        else:
            await self.fail(outcome_of_end(error))


class Recorder:
    """Writes what the gate decides, and what came of it, into the log. One per gateway."""

    def __init__(self, records: Records, settings: RecordSettings, tally: Tally) -> None:
        self._records = records
        self._settings = settings
        self._tally = tally
        self._tasks: set[asyncio.Task[Any]] = set()
        self._in_sessions: dict[tuple[str, MessageId], OpenCall] = {}
        self._random = b""

    async def begin(
        self,
        request: Request,
        decision: PolicyDecision | None,
        client: Client,
        *,
        token: Token | None = None,
        token_argument: bool = False,
        part: Part | None = None,
    ) -> OpenCall | None:
        """Step 8. `decision` is None where proofs are off; the call is open then, as it is if it was allowed.

        `token` is what is known of the token that came with the call, `token_argument` that it came as `_token`. Raises
        `ProofRefused`, or `RequestError` for params that no record can hold.
        """
        received_ms = time.time_ns() // 1_000_000
        target = target_of(request)
        try:
            params = recorded_params(request.params, token_argument=token_argument, full=self._settings.full)
        except AttestationError:
            detail = "Invalid params: params hold what has no canonical form"
            raise RequestError(INVALID_PARAMS, detail, id=request.id, status=200) from None
        chain = None
        if decision is not None and decision.proved is not None:
            chain = recorded_chain(encode_delegation_cert(cert) for cert in decision.proved.chain)
        decided = Decided(
            gateway=self._settings.gateway_id,
            call=Call(
                id=self._draw_id(),
                method=request.method,
                target=target[:MAX_RECORDED_TARGET],
                session=client.session_id or None,
                revision=client.revision,
                flow=part.flow if part is not None else None,
                round=part.round if part is not None else None,
            ),
            params=params,
            decision=self._verdict(decision),
            received_ms=received_ms,
            authority=_authority(decision, chain.sha256) if decision is not None and chain is not None else None,
            token=token,
            certificates=chain.text if chain is not None else None,
        )
        try:
            await self._records.begin(decided)
        except (StoreUnavailable, AttestationError):
            raise refusals.record_unavailable(request.method, target, forwarded=False) from None
        if decided.decision.verdict == "deny":
            return None
        call = OpenCall(self, decided, request.id)
        if client.session_id:
            self._in_sessions[client.session_id, request.id] = call
        return call

    async def finish(self, decided: Decided, outcome: Outcome, id: MessageId) -> bytes | None:
        """Records an outcome; gives the response to the client where that fails."""
        session = decided.call.session
        if session is not None:
            self._in_sessions.pop((session, id), None)
        try:
            await self._records.finish(decided, outcome)
        except (StoreUnavailable, AttestationError):
            refused = _withheld(decided)
            self._tally.refused(refused, method=decided.call.method)
            return refusal(refused).frame(id)
        return None

    def taken_back(self, session_id: str, id: MessageId | None) -> None:
        """The client of a session has cancelled a request: if no answer comes, that is why."""
        call = self._in_sessions.get((session_id, id)) if id is not None else None
        if call is not None:
            call.taken_back = True

    def start(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Does something in a task that `drain` waits for."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def problem(self) -> str | None:
        """What keeps records from being written, or None."""
        return self._records.problem()

    async def ready(self) -> bool:
        """Whether a decision could be recorded now. The first time, the log is opened."""
        return await self._records.ready()

    async def drain(self) -> None:
        """Waits for the outcomes that are being recorded."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def aclose(self) -> None:
        """The same, and gives the log back."""
        await self.drain()
        await self._records.aclose()

    def _draw_id(self) -> str:
        # Each time that the system is asked, the thread that signs takes the interpreter: so it is asked for many.
        if len(self._random) < _ID_BYTES:
            self._random = secrets.token_bytes(_ID_BYTES * _IDS_AT_ONCE)
        drawn, self._random = self._random[:_ID_BYTES], self._random[_ID_BYTES:]
        return drawn.hex()

    def _verdict(self, decision: PolicyDecision | None) -> Decision:
        refused = decision.refusal if decision is not None else None
        if refused is None:
            return _ALLOWED
        reason = refused.data.get("reason")
        text = reason if isinstance(reason, str) else None
        if text is not None and not self._settings.full and refused.data.get("identity_status") in CONSTRAINT_REFUSALS:
            found = _CONSTRAINT.match(text)
            text = found[0] if found else None
        return Decision(verdict="deny", error=refused.error, reason=text)


def recorder_of(settings: GatewaySettings, tally: Tally, records: Records | None) -> Recorder | None:
    """Who records calls, if they are recorded. Raises `ConfigurationError` where there is no log for that."""
    if settings.records is None:
        return None
    if records is None:
        raise ConfigurationError("calls are to be recorded, and there is no log", "give create_app records")
    return Recorder(records, settings.records, tally)


def outcome_of(response: Response) -> Outcome:
    """What a response says of its call. Of an error its code alone: its text may quote arguments."""
    if not isinstance(response, Success):
        return Outcome(status="error", detail=f"JSON-RPC error {response.code}")
    digest: dict[Any, str] = result_digest(response.result)
    try:
        found = members(response.result) if is_object(response.result) else {}
    except FrameError:
        found = {}
    if as_string(found.get("resultType")) == "input_required":
        return Outcome(status="input_required", result=digest)
    is_error = found.get("isError")
    return Outcome(status="tool_error" if is_error is not None and bytes(is_error) == b"true" else "ok", result=digest)


def outcome_of_end(error: BaseException | None) -> Outcome:
    """What became of a call whose exchange ended so, before it was answered."""
    match error:
        case ClientGone():
            return Outcome(status="cancelled", detail="the client has gone")
        case AnswerError():
            return Outcome(status="upstream_invalid", detail=error.detail)
        case UpstreamTimeout():
            return Outcome(status="timeout", detail=error.detail)
        case UpstreamError():
            return Outcome(status="unknown", detail=error.detail)
        case RequestError():
            return Outcome(status="error", detail=f"JSON-RPC error {error.code}")
        case None:
            return Outcome(status="unknown", detail="the exchange ended without a response")
        case _:
            return Outcome(status="unknown", detail="the gateway ended the exchange")


def target_of(request: Request) -> str:
    """What a guarded request is about, or "" where it does not say so with a string."""
    found = members(request.params) if request.params is not None else {}
    return as_string(found.get(TARGET_MEMBER[request.method])) or ""


def _authority(decision: PolicyDecision, chain_sha256: str) -> Authority | None:
    proved, entry = decision.proved, decision.entry
    if proved is None or entry is None:
        return None
    return Authority(
        principal_id=proved.principal_id,
        principal_name=proved.principal_name,
        agent_id=proved.agent_id,
        cert_ids=proved.cert_ids,
        chain_sha256=chain_sha256,
        scope=entry.scope,
        bound=proved.bound,
    )


def _withheld(decided: Decided) -> ProofRefused:
    return refusals.record_unavailable(decided.call.method, decided.call.target or "", forwarded=True)
