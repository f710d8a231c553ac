"""Seals the upstream's `requestState` for the client, and opens it when the client returns it.

This protects a server that trusts the state that a client returns to it (2026-07-28, basic/patterns/mrtr, "Server
Requirements"). Reads the clock and randomness; logs.

- [round] When a request of a guarded method returns a sealed state, the upstream gets its own state back, byte for
  byte; or none, if it gave none. A state that does not open is refused, with the same text whatever the cause.
- [always-sealed] An `input_required` answer to a modern request gets a sealed state even if the upstream gave none. The
  sealed state holds the flow's name and the round's number, and binds the answers to the client that was asked.
- [task-state] A state that comes with a task, or in an answer about one, is sealed for that task. It opens in requests
  about the task, for as long as a task without a `ttl` is remembered.

A state is bound to the server (one of several), the principal, the method, the target and the other params. In the
legacy era nothing is sealed, and every returned state is refused: it could be forged, and some server might read it.

Not checked here: whether a state was returned before. Each round is authorized anew. If a certificate is valid for one
call only, the decision also needs the flow's name and the number of the round.
"""

import hashlib
import logging
import secrets
from collections.abc import Mapping, Sequence
from functools import partial

import msgspec
from msgspec import Raw

from accredit.base.clock import unix_seconds
from accredit.base.log_events import log_event
from accredit.base.steps import Steps
from accredit.errors import FrameError, RequestError, SealError
from accredit.gateway.admission.held_answer import WaitingCall
from accredit.gateway.call import Call
from accredit.gateway.settings import RoundsSettings
from accredit.jsonrpc.encode import INVALID_PARAMS, to_json
from accredit.jsonrpc.frames import Notification, Request, Success
from accredit.jsonrpc.methods import INPUT_REQUIRED_METHODS, TASK_MEMBER, TASK_METHODS, Era
from accredit.jsonrpc.objects import as_string, is_object, may_hold, may_name, members
from accredit.jsonrpc.responses import INPUT_REQUIRED, TASK
from accredit.jsonrpc.tasks import may_announce
from accredit.limits import TASK_SECONDS
from accredit.policy.decision import Authority, Flow
from accredit.policy.guarded_call import looks_guarded, payload_digest
from accredit.rounds.sealing import NONCE_BYTES, FlowState, state_binding
from accredit.telemetry.tracing import RandomIds, trace_field
from accredit.tokens.claims import VerifiedToken

_ANSWERS = "inputResponses"
_OUR_REQUEST = "accredit_ask"
_STATE = "requestState"
_NOT_BOUND = frozenset({"_meta", "inputResponses", _STATE})
_INPUT_REQUIRED, _TASK = INPUT_REQUIRED.encode("ascii"), TASK.encode("ascii")

_log = logging.getLogger("accredit.gateway.sealing")


def state_refused(request: Request, error: SealError) -> RequestError:
    """Return the refusal of a request whose state does not open, and log the cause."""
    log_event(_log, logging.WARNING, "state_refused", reason=error.reason, method=request.method, **trace_field())
    return RequestError(INVALID_PARAMS, str(error), id=request.id, status=200, word="invalid_request_state")


class RequestStateSealer:
    """Seals and opens states; one per server. Two sealers of a server that have the same keys open each other's
    states."""

    def __init__(self, settings: RoundsSettings, server: str = "") -> None:
        self._ring = settings.ring
        self._seconds = settings.state_seconds
        self._server = ("server", server) if server else ()
        self._flows = RandomIds()

    def open(self, request: Request, call: Call, principal: Sequence[str] = ()) -> Request:
        """Open the state in a request of the client `principal` (`principal_of`). Return the request as it is forwarded
        ([round]), and store in its call the flow, the round, and the edit that seals the response.

        Raises `RequestError` (-32602) for a state that does not open.
        """
        principal = (*self._server, *principal)
        if brings_state(request):
            state = self._opened(request, principal)
            request, call.flow, call.round = _with_state(request, state.state), state.flow, state.round
            request = _without_own_answer(request)
        elif request.method in TASK_METHODS:
            pass  # a task is no round of the call that made it
        elif request.method in INPUT_REQUIRED_METHODS and (request.era is Era.MODERN or may_announce(request)):
            call.flow = self._flows.draw()
        else:
            return request
        if request.era is Era.MODERN:
            flow, round = call.flow, call.round + 1
            call.edit = partial(self._sealed, request=request, principal=principal, flow=flow, round=round)
        return request

    def ask(self, request: Request, call: Call, waits: WaitingCall) -> bytes:
        """Return the gateway's own `input_required` for a call that waits for a person. The first one has the address
        of the ask's page and a sealed state. If the client comes back too early, it gets that state again, without the
        address. The state is taken off before the call is forwarded. Raises `SealError` for a state that was not sealed
        for this call."""
        own: dict[str, object] = {"resultType": INPUT_REQUIRED}
        principal = (*self._server, *principal_of(None, subject_of(call.token)))
        if brings_state(request):
            self._open(request, principal)
            own[_STATE] = request.members[_STATE]
        else:
            asked = {"method": "elicitation/create", "params": waits.elicitation}
            own["inputRequests"] = {_OUR_REQUEST: asked}
            flow = FlowState(None, self._flows.draw(), 1, unix_seconds() + self._seconds)
            own[_STATE] = self._ring.seal(flow, _binding(request, principal), secrets.token_bytes(NONCE_BYTES))
        return to_json({"jsonrpc": "2.0", "id": request.id, "result": own})

    def place(self, request: Request, principal: Sequence[str]) -> Flow:
        """Return the flow and the round of a request that returns a state. Raises `SealError` if the state does not
        open."""
        state = self._open(request, (*self._server, *principal))
        return Flow(state.flow, state.round)

    def _open(self, request: Request, principal: Sequence[str]) -> FlowState:
        """Open the state of a request. Raises `SealError`."""
        text = as_string(request.members[_STATE])
        if text is None:
            raise SealError("no string")
        if request.method not in INPUT_REQUIRED_METHODS | TASK_METHODS:
            raise SealError("for another method")
        return self._ring.open(text, _binding(request, principal), unix_seconds())

    def _opened(self, request: Request, principal: Sequence[str]) -> FlowState:
        try:
            return self._open(request, principal)
        except SealError as error:
            raise state_refused(request, error) from None

    def _sealed(
        self, response: Success, *, request: Request, principal: Sequence[str], flow: str, round: int
    ) -> Steps[bytes]:
        """Seal the state in the response to `request` ([always-sealed] and [task-state]). Raises `FrameError` if it
        can't be sealed."""
        of_task = request.method in TASK_METHODS
        if not of_task and (response.is_complete or not may_hold(response.result, _INPUT_REQUIRED, _TASK)):
            return response.text
        yield
        result = response.members()
        kind, given = as_string(result.get("resultType")), as_string(result.get(_STATE))
        if not of_task and kind not in (INPUT_REQUIRED, TASK):
            return response.text
        binding, seconds = _binding(request, principal), self._seconds
        if kind == TASK or of_task:
            if _STATE not in result:
                return response.text
            if given is None:
                raise FrameError("requestState: no string")
            if kind == TASK:
                binding = _task_binding(principal, as_string(result.get(TASK_MEMBER)) or "")
            seconds = TASK_SECONDS
        state = FlowState(given, flow, round, unix_seconds() + seconds)
        try:
            text = self._ring.seal(state, binding, secrets.token_bytes(NONCE_BYTES))
        except SealError as error:
            raise FrameError(f"requestState: {error.reason}", bound=True) from None
        return response.with_result(result, {_STATE: text}).text


def sealed_for(call: Call) -> tuple[str, ...]:
    """Return the principal for whom a state in the answer is sealed.

    Where proofs are only observed, the proof's principal is not used: a follow-up with another proof, or with none,
    must not be refused because its state does not open.
    """
    is_enforced = call.decision is not None and call.decision.enforced
    return principal_of(call.authority if is_enforced else None, subject_of(call.token))


def subject_of(token: VerifiedToken | None) -> tuple[str, str] | None:
    """Return a token's issuer and subject."""
    return (token.issuer, token.subject) if token is not None else None


def principal_of(authority: Authority | None, token: tuple[str, str] | None = None) -> tuple[str, ...]:
    """Return the principal of a state: the `token`'s issuer and subject, else the proof's principal and agent, else
    nobody."""
    if authority is None:
        return ("token", *token) if token is not None else ()
    return principal_by_id(authority.principal_id, authority.agent_id, token)


def principal_by_id(principal_id: str, agent_id: str, token: tuple[str, str] | None) -> tuple[str, ...]:
    """Return the same as `principal_of`, from the ids in a proof: for use before there is an authority."""
    return ("token", *token) if token is not None else ("proof", principal_id, agent_id)


def brings_state(call: Request | Notification) -> bool:
    """Return whether a request returns a state, of any JSON type, and a lenient server could take its method for a
    guarded one."""
    return _STATE in call.parts and looks_guarded(call.method)


def _without_own_answer(request: Request) -> Request:
    """Return a request without its answer to the gateway's own question, which the server did not ask."""
    answers = request.members.get(_ANSWERS)
    if answers is None or not may_name(answers, _OUR_REQUEST.encode()) or not is_object(answers):
        return request
    kept = {name: value for name, value in members(answers).items() if name != _OUR_REQUEST}
    return request.with_params({_ANSWERS: Raw(to_json(kept))} if kept else {}, without=(_ANSWERS,))


def _with_state(request: Request, state: str | None) -> Request:
    if state is None:
        return request.with_params({}, without=(_STATE,))
    return request.with_params({_STATE: Raw(to_json(state))})


def _task_binding(principal: Sequence[str], id: str) -> bytes:
    return state_binding(principal, "tasks", id, hashlib.sha256().digest())


def _binding(request: Request, principal: Sequence[str]) -> bytes:
    target = request.target or ""
    if request.method in TASK_METHODS:
        return _task_binding(principal, target)
    return state_binding(principal, request.method, target, _digest(request.members))


def _digest(params: Mapping[str, Raw]) -> bytes:
    bound = {name: value for name, value in params.items() if name not in _NOT_BOUND}
    try:
        return payload_digest({name: msgspec.json.decode(value) for name, value in bound.items()})
    except (FrameError, msgspec.MsgspecError, RecursionError):
        # Params without an RFC 8785 form (an integer beyond 2^53-1) are bound as spelled; the prefix sets them apart.
        return hashlib.sha256(b"spelled " + msgspec.json.encode(bound, order="sorted")).digest()
