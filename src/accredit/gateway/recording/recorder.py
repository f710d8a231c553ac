"""Records guarded calls: the decision before anything is forwarded, and the outcome before the client sees the answer.

Asks the log (`ports.Records`). A call's life, in this order:

- [decision-first] `Recorder.begin` puts the decision into the log ([record] of `policy/decide`). If that fails, nothing
  is forwarded;
- [settled] a forwarded call is open until it is settled: by its response, by an error, or by the end of its exchange,
  whichever comes first. It is settled once, and that continues even if the task that asked for it is cancelled;
- [outcome-first] if the outcome can't be recorded, the client gets a refusal in place of the answer;
- [observed] where proofs are only observed, each recorded decision says that it was not enforced. A call may still be
  refused: for its token, a pinned definition, a quota or its form. Then its outcome is recorded at once, and says so.

Lists are not recorded. Recorded params have neither `_meta` nor tokens. They have arguments only if records are full.
Otherwise the reason for a refusal by a constraint is shortened too, as it quotes arguments. The target is recorded
unchanged, up to a bound.
"""

import asyncio
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Literal, NamedTuple

from msgspec.structs import replace as changed

from accredit.attest import Call as RecordedCall
from accredit.attest import (
    CallDecision,
    Outcome,
    RecordedAuthority,
    RecordedChain,
    RecordedDecision,
    RecordedParams,
    RecordedToken,
    in_short,
    record_params,
    recorded_chain,
    recorded_params,
    sha256_hex,
)
from accredit.attest.canonical import RecordedProof, recorded_proof
from accredit.attest.statements import has_outcome
from accredit.base.caching import RecentlyUsed
from accredit.base.clock import unix_ms
from accredit.errors import (
    AccreditError,
    AttestationError,
    ConfigurationError,
    FrameError,
    KeysUnavailable,
    MessageId,
    ProofRefused,
    RequestError,
    StoreUnavailable,
    TokenError,
)
from accredit.gateway.call import Call
from accredit.gateway.counters import Counters
from accredit.gateway.recording.open_calls import NOT_FORWARDED, OpenCall, ResumedCalls, Settler, withheld
from accredit.gateway.replies import refusal
from accredit.gateway.settings import GatewaySettings, RecordSettings
from accredit.gateway.settings_digest import settings_digest
from accredit.gateway.turns import in_turns
from accredit.jsonrpc.encode import HEADER_MISMATCH, INVALID_PARAMS
from accredit.jsonrpc.frames import Request
from accredit.limits import (
    MAX_RECORDED_CHAINS,
    MAX_RECORDED_TARGET,
    MAX_RECORDED_TEXT,
    SESSION_ID_SECONDS,
    SHORT_MESSAGE_BYTES,
)
from accredit.pins.definitions import Pins
from accredit.policy import refusals
from accredit.policy.decision import CONSTRAINT_REFUSALS, Authority, Decision
from accredit.policy.guarded_call import digest_in_steps
from accredit.policy.merging import member_of_target
from accredit.ports import Records
from accredit.ratify import DelegationCert, encode_delegation_cert
from accredit.refusals import CHALLENGE_REQUIRED
from accredit.telemetry.tracing import RandomIds, trace_of
from accredit.tokens.claims import VerifiedToken

_CONSTRAINT = re.compile(r"constraint_\w+: cert \d+: constraint\[\d+\] \(\w+\)")
_ALLOWED = RecordedDecision(verdict="allow")
_SESSION_DIGITS = 32
_REFUSED_ALL_THE_SAME = "refused all the same"
_WORDS = {HEADER_MISMATCH: "header_mismatch", INVALID_PARAMS: "invalid_params"}


class About(NamedTuple):
    """The call that the record of a decision is about. `id` is the request's. `trace` is the client's trace id. `call`
    is the call's id in its records. `protocol` is None for MCP's calls."""

    method: str
    target: str
    params: RecordedParams
    id: MessageId
    trace: str | None
    call: str
    protocol: Literal["http", "authorize", "a2a"] | None = None


class Recorder(Settler):
    """Writes the gate's decisions and their outcomes into the log. One per server, by the server's name in `[servers]`.

    Where several servers are `merged`, the target of a call tells which of them it is for.
    """

    def __init__(
        self,
        records: Records,
        settings: RecordSettings,
        counters: Counters,
        *,
        hides_sessions: bool = False,
        pins: Pins | None = None,
        server: str = "",
        before: "Recorder | None" = None,
        merged: Collection[str] = (),
        observes: bool = False,
    ) -> None:
        """`before` is the server's previous recorder, whose open calls pass to this one. With `observes`, decisions are
        not enforced. If a call is still refused, its outcome says so ([observed])."""
        super().__init__(before)
        self._server = server
        self._observes = observes
        self._merged = frozenset(merged)
        self._records = records
        self._hides_sessions = hides_sessions
        self._settings = settings
        self._counters = counters
        self._pinned: Mapping[str, str] = pins.tools if pins is not None and pins.enforced else {}
        self._chains = RecentlyUsed[bytes, RecordedChain](MAX_RECORDED_CHAINS)
        self._ids = RandomIds()

    async def begin(
        self,
        request: Request,
        call: Call,
        refused: AccreditError | None = None,
        *,
        reason: str | None = None,
        omit_arguments: bool = False,
    ) -> OpenCall | None:
        """Record the decision on a `call`. Its tokens have been removed from `request`.

        Unless `refused`, the call is open from now on. `reason` is for a refusal that has no reason of its own.
        `omit_arguments` keeps an anonymous caller's arguments out of the log, even of full records. Raises
        `ProofRefused`, or `RequestError` for params that no record can hold.
        """
        try:
            params = await _params(request, call.decision, full=self._settings.full and not omit_arguments)
        except (AttestationError, FrameError):
            detail = "Invalid params: params hold what has no canonical form"
            raise RequestError(INVALID_PARAMS, detail, id=request.id, status=200) from None
        target, id = request.target or "", call.id or self._ids.draw()
        about = About(request.method, target, params, request.id, trace_of(request), id)
        return await self.begin_about(about, call, refused, reason=reason)

    async def begin_about(
        self, about: "About", call: Call, refused: AccreditError | None = None, *, reason: str | None = None
    ) -> OpenCall | None:
        """Record the decision on a `call` as `begin` does, but take the call's data from `about`. Raises
        `ProofRefused`."""
        decision = call.decision
        received_ms = _received_ms(decision)
        proved = decision.proved if decision is not None else None
        chain = self._chain(proved.chain) if proved is not None else None
        recorded, verdict = self._call(about, call), self._verdict(decision, refused, reason)
        token = _token(call.token) if call.token is not None else None
        proof: RecordedProof | None = None
        if proved is not None and proved.proof is not None:
            proof = recorded_proof(proved.proof, self._held_until(verdict, proved, call))
        decided = CallDecision(
            gateway=self._settings.gateway_id,
            call=recorded,
            params=about.params,
            decision=verdict,
            received_ms=received_ms,
            policy_digest=self._settings.policy_digest,
            authority=_authority(decision, chain, proof),
            token=token,
            certificates=chain.text if chain is not None else None,
            resume=self._resume(call.session, about.id) if call.session else None,
            proof=proof.packed if proof is not None else None,
        )
        try:
            await self._records.begin(decided)
        except (StoreUnavailable, AttestationError):
            raise refusals.record_unavailable(about.method, about.target, forwarded=False) from None
        except asyncio.CancelledError:
            # The decision may be on record, but nothing will be forwarded.
            OpenCall(self, in_short(decided), about.id).settle_later(NOT_FORWARDED)
            raise
        if not has_outcome(recorded, verdict):
            return None
        opened = OpenCall(self, in_short(decided), about.id, call.session)
        if refused is not None:
            await opened.settle(Outcome(status="error", detail=f"{_REFUSED_ALL_THE_SAME}: {verdict.error}"))
            return None
        return self.keep(opened)

    def finish(self, call: OpenCall, outcome: Outcome) -> asyncio.Future[None]:
        """Record an outcome, even if no caller awaits the result. Raises `StoreUnavailable` or `AttestationError`."""
        assert call.decided is not None  # noqa: S101 - `begin` has opened it
        return self._records.finish(call.decided, outcome)

    def withhold(self, call: OpenCall) -> bytes:
        """Return the client's response for a call whose outcome could not be recorded."""
        refused = withheld(call)
        self._counters.refused(refused, method=str(refused.data.get("method")))
        return refusal(refused).frame(call.id)

    def taken_back(self, session_id: str, id: MessageId | None) -> None:
        """Note that the client of a session has cancelled a request. If no answer comes, the call's outcome is
        "cancelled"."""
        call = self._in_sessions.get((session_id, id)) if id is not None else None
        if call is not None:
            call.taken_back = True

    def in_session(self, session_id: str) -> ResumedCalls:
        """Return the open calls of a session, for a stream resumed in it. If the stream answers a call of another
        process, that call is claimed from it."""
        calls = {id: call for (session, id), call in self._in_sessions.items() if session == session_id}
        return ResumedCalls(calls, partial(self._claim, session_id))

    async def _claim(self, session_id: str, id: MessageId) -> OpenCall | None:
        call = self._in_sessions.get((session_id, id))
        if call is None:
            decided = await self._records.claim(self._resume(session_id, id))
            if decided is not None and decided.call.session != (self._session(session_id) or None):
                # The key by which a call is found is not signed, but the session is.
                raise AttestationError("the call that is found there is another session's")
            call = OpenCall(self, decided, id) if decided is not None else None
        return call

    def problem(self) -> str | None:
        """Return why records can't be written, or None."""
        return self._records.problem()

    async def ready(self) -> bool:
        """Return whether a decision could be recorded now. The first time, this opens the log."""
        return await self._records.ready()

    async def drain(self) -> None:
        """Wait until pending outcomes are recorded, and for all other work that was started here."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def aclose(self) -> None:
        """Wait as `drain` does, then close the log."""
        await self.drain()
        await self._records.aclose()

    def _held_until(self, verdict: RecordedDecision, proved: Authority, call: Call) -> int | None:
        """Return the time until which the proof kept with a call is shown to nobody, or None if no proof is kept. A
        proof that is not bound to a call is not kept: it would be valid for other calls. A proof with a sealed session
        id, which gives access, is kept secret until that id has expired."""
        if verdict.verdict != "allow" or not proved.bound or not self._settings.keeps_proofs:
            return None
        is_secret = call.session and self._hides_sessions
        return max(proved.fresh_until, unix_ms() // 1000 + SESSION_ID_SECONDS if is_secret else 0)

    def _chain(self, chain: tuple[DelegationCert, ...]) -> RecordedChain:
        # An agent calls again and again with the same chain, and encoding it takes as long as all the rest.
        name = b"".join(cert.digest for cert in chain)
        recorded = self._chains.get(name)
        if recorded is None:
            recorded = recorded_chain(encode_delegation_cert(cert) for cert in chain)
            self._chains.put(name, recorded)
        return recorded

    def _call(self, about: "About", call: Call) -> RecordedCall:
        flow, round = _round_of(call)
        method, target = about.method, about.target
        return RecordedCall(
            id=about.call,
            method=method,
            target=target[:MAX_RECORDED_TARGET],
            session=self._session(call.session) or None,
            revision=call.revision and call.revision[:MAX_RECORDED_TEXT],
            flow=flow,
            round=round,
            definition=self._pinned.get(target) if method == "tools/call" else None,
            trace=about.trace,
            server=self._server_of(method, target) or None,
            protocol=about.protocol,
            client=call.token.client if call.token is not None else None,
        )

    def _server_of(self, method: str, target: str) -> str:
        found = member_of_target(method, target) if self._merged else None
        return found.server if found is not None and found.server in self._merged else self._server

    def _resume(self, session_id: str, id: MessageId) -> bytes:
        """Return the 32 bytes by which an open call of a session is found. All gateways in front of the same server
        compute the same bytes for this session id."""
        session = f"{session_id} {self._server}" if self._server else session_id
        named = session.encode("utf-8", "surrogatepass")
        request = f"{type(id).__name__} {id}".encode("utf-8", "surrogatepass")
        return sha256(b"accredit resumed call 1" + len(named).to_bytes(8, "big") + named + request).digest()

    def _session(self, id: str) -> str:
        """Return the id by which a record names a session.

        A sealed id gives access to the session, so the record holds its digest instead.
        """
        if id and self._hides_sessions:
            return f"sha256:{sha256_hex(id.encode('latin-1'))[:_SESSION_DIGITS]}"
        return id[:MAX_RECORDED_TEXT]

    def _verdict(
        self, decision: Decision | None, refused: AccreditError | None, reason: str | None
    ) -> RecordedDecision:
        """Return the decision to record: allowed or refused. Where decisions are only observed, it is the one that
        would have been enforced ([observed])."""
        if refused is not None and self._observes:
            return changed(self._word_on(refused, reason), enforced=False)
        if refused is None and decision is not None and not decision.enforced:
            return changed(self._verdict(None, decision.refusal, reason), enforced=False)
        if refused is None:
            return _ALLOWED
        return self._word_on(refused, reason)

    def _word_on(self, refused: AccreditError, reason: str | None) -> RecordedDecision:
        """Return the decision to record for a call that is refused, or would be if decisions were enforced."""
        if not isinstance(refused, ProofRefused):
            return RecordedDecision(verdict="deny", error=_word(refused), reason=reason)
        given = refused.data.get("reason")
        text = given if isinstance(given, str) else None
        if text is not None and not self._settings.full and refused.data.get("identity_status") in CONSTRAINT_REFUSALS:
            constraint = _CONSTRAINT.match(text)
            text = constraint[0] if constraint else None
        verdict = "challenge" if refused.code == CHALLENGE_REQUIRED else "deny"
        return RecordedDecision(verdict=verdict, error=refused.error, reason=text)


def recorder_of(
    settings: GatewaySettings, counters: Counters, records: Records | None, before: Recorder | None = None
) -> Recorder | None:
    """Return the recorder of a server, or None if calls are not recorded. `before` is the server's previous recorder.

    Raises `ConfigurationError` if there is no log.
    """
    if settings.records is None:
        return None
    if records is None:
        raise ConfigurationError("calls are to be recorded, and there is no log", "give create_app records")
    recording = settings.records
    if not recording.policy_digest:
        recording = replace(recording, policy_digest=settings_digest(settings))
    return Recorder(
        records,
        recording,
        counters,
        hides_sessions=settings.seals_sessions,
        pins=settings.pins,
        server=settings.server,
        before=before,
        merged=[each.server for each in settings.members],
        observes=settings.observes,
    )


def _round_of(call: Call) -> tuple[str | None, int | None]:
    """Return the multi-round-trip request that a call is part of, and its round, counted from 1. A request about a task
    belongs to the call that made the task, but to no round."""
    if call.task is not None:
        return call.task.flow, None
    return (call.flow, call.round + 1) if call.flow else (None, None)


def _received_ms(decision: Decision | None) -> int:
    """Return the time of a call, in unix milliseconds: now, but within the second in which its proof was judged. Later
    checks may take long, or the clock be set back, and what was valid must not look expired in the record."""
    now_ms, judged_at = unix_ms(), decision and decision.proved and decision.proved.judged_at
    return now_ms if judged_at is None else min(max(now_ms, judged_at * 1000), judged_at * 1000 + 999)


async def _params(request: Request, decision: Decision | None, *, full: bool) -> RecordedParams:
    # Both digests are over the same form; the decision has computed its own where a proof was judged.
    decided = decision.call if decision is not None and not full else None
    if request.size > SHORT_MESSAGE_BYTES:
        digest = await in_turns(digest_in_steps(decided)) if decided is not None else b""
        if not digest:
            return await in_turns(record_params(request.members, token_argument=False, full=full))
    else:
        digest = decided.digest if decided is not None else b""
    return RecordedParams(digest.hex()) if digest else recorded_params(request.members, token_argument=False, full=full)


def _authority(
    decision: Decision | None, chain: RecordedChain | None, proof: RecordedProof | None
) -> RecordedAuthority | None:
    if decision is None or decision.proved is None or chain is None:
        return None
    proved, entry = decision.proved, decision.entry
    context = proved.proof.context if proved.proof is not None else None
    return RecordedAuthority(
        principal_id=proved.principal_id,
        principal_name=proved.principal_name,
        agent_id=proved.agent_id,
        cert_ids=proved.cert_ids,
        chain_sha256=chain.sha256,
        scope=entry.scope if entry is not None else "",
        bound=proved.bound,
        proof="kept" if proof is not None and proof.packed is not None else "digest",
        proof_sha256=proof.sha256 if proof is not None else None,
        verifier_id=context.verifier_id if context is not None else None,
        request_sha256=proved.request_hash.hex() or None,
        call_sha256=(context.payload_digest.hex() or None) if context is not None else None,
        granted_scope=entry.covered_by(proved.granted_scope) if entry is not None else None,
    )


def _token(token: VerifiedToken) -> RecordedToken:
    return RecordedToken(issuer=token.issuer, subject=token.subject, sha256=token.sha256, jti=token.jti, kid=token.kid)


def _word(refused: AccreditError) -> str:
    """Return the code of a refusal that is not about a proof."""
    match refused:
        case TokenError():
            return refused.error
        case KeysUnavailable():
            return "keys_unavailable"
        case RequestError():
            return refused.word or _WORDS.get(refused.code, "invalid_request")
        case _:
            return "refused"
