"""Judges what the record of an allowed call proves by itself: who allowed it, who signed it, who recorded it. No I/O.

`Auditor.judge` takes a decision's record, the evidence kept beside it, and the keys of people that its caller trusts.
Where the gateway's statements can be checked, they are not believed:

- [chain] Who allowed the call: the chain of certificates has the digest that the record names. Both signatures of each
  certificate are valid; its issuer is the subject of the next one, which may delegate; and all were valid when the call
  came. The chain's two ends are the record's principal and agent. It covers the scope by which the call was allowed,
  according to the record. Its root is a trusted key.
- [constraints] The constraints about the time, the gateway and the target hold: the record is enough to judge these.
  The others (rates, arguments, facts, evaluators) are listed, but are not a fault.
- [proof] Who signed: the proof has the digest that the record names. Both signatures of the agent over its challenge
  are valid, by the key at the chain's leaf. The challenge's time was at most 300 seconds before or after the call's.
- [context] What was signed is this call: the session context is derived from the kept context, and the kept context is
  of this gateway, agent, session, scope, method and target, and of the params whose digest is the record's subject.
- [path] For a request that is not MCP's, only the SHA-256 of the path is kept. Only a caller that supplies the path can
  check that the session context is derived from it. Otherwise it is unknown who signed, unless something contradicts
  the record. If the caller supplies the path of this very call, another one in the proof is a contradiction.

Each part of the evidence (who allowed, who signed) is True if all of it holds, False if something contradicts it, and
None if it is unknown: for a record before version 3, a proof that was not kept, a root without a key to compare. Not
judged here: the record's own signature, revocation, the outcome, and which scopes a tool accepts. For the last three
there is only the gateway's word.
"""

import hmac
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from msgspec import UNSET

from accredit.attest import CallRecord, RecordedAuthority, Statement, canonical, sha256_hex, timestamp
from accredit.attest.canonical import (
    PATH_DIGEST,
    PROTOCOLS_WITH_PATH,
    WORKSPACES,
    KeptProof,
    SignedContext,
    decode_proof,
)
from accredit.attest.statements import Call as RecordedCall
from accredit.attest.statements import milliseconds
from accredit.base.caching import RecentlyUsed
from accredit.base.text import excerpt, one_line
from accredit.consent.call import CALL, CallTerms, request_digest
from accredit.errors import AttestationError, WireError
from accredit.jsonrpc.methods import AGENT_CHANGES, AGENT_MESSAGES, TASK_CHANGES, TASK_LIST, TASKS
from accredit.limits import (
    CHALLENGE_WINDOW_SECONDS,
    CLOCK_BACK_SECONDS,
    MAX_RECORDED_CHAINS,
    MAX_RECORDED_TARGET,
    MAX_RECORDED_TEXT,
    MAX_SAID_CHARS,
    SESSION_ID_SECONDS,
)
from accredit.policy.evaluators import OWN_EVALUATORS
from accredit.ratify import (
    CallFacts,
    CertificateCache,
    Constraint,
    DelegationCert,
    Extension,
    HybridPublicKey,
    HybridSignature,
    IdentityStatus,
    VerifierContext,
    VerifyResult,
    build_session_context,
    challenge_sign_bytes,
    operation_context_hash,
)
from accredit.ratify.callbacks import run
from accredit.ratify.constraints import TimeWindow, evaluate
from accredit.ratify.hybrid import signature_fault
from accredit.ratify.structures import UNTIL_REVOKED, decode_chain
from accredit.ratify.terms import Terms
from accredit.ratify.verify import chain_verification

_Chain = tuple[DelegationCert, ...]
_Proof = KeptProof | bytes | None
"""A proof, or its text."""
_SESSION_DIGITS = 32
_PLAIN = re.compile(r"[A-Za-z0-9_.:/-]{1,200}")
_LOST = "its proof was kept, but is not there (if the file was written right after the call, export the call again)"
_VERBS = {"tools/call": "call", "resources/read": "read", "prompts/get": "get the prompt"}


class ProvenPart(NamedTuple):
    """One part of what a record proves: who, when, whether that is `verified` (None if unknown), and why not.

    `who` is the caller's name for a key, else the key's id. `when` is RFC 3339.
    """

    who: str
    when: str
    verified: bool | None
    why: str = ""


class Evidence(NamedTuple):
    """What the record of an allowed call proves: who allowed it, and who signed it. In `allowed`, `when` is the end of
    the permission. `unanswered` are the constraints that can't be judged by the record."""

    allowed: ProvenPart
    signed: ProvenPart
    unanswered: tuple[str, ...] = ()

    @property
    def faults(self) -> list[str]:
        """The contradictions to the record, in words."""
        return [f"{name}: {part.why}" for name, part in self._judged if part.verified is False]

    @property
    def unshown(self) -> list[str]:
        """The parts that should be proved but are not, in words."""
        return [f"{name}: proofs are required, and {part.why}" for name, part in self._judged if not part.verified]

    @property
    def _judged(self) -> tuple[tuple[str, ProvenPart], ...]:
        return ("allowed", self.allowed), ("signed", self.signed)

    def parts(self, record: CallRecord) -> dict[str, ProvenPart]:
        """Return the three parts by name: allowed, signed and recorded. The caller must have verified the record, and
        so knows who recorded it."""
        recorded = ProvenPart(record.gateway, record.times.recorded, True)
        return {"allowed": self.allowed, "signed": self.signed, "recorded": recorded}

    def members(self, record: CallRecord, names: Mapping[str, str]) -> dict[str, Any]:
        """Return the evidence as JSON members."""
        parts = {name: part._asdict() for name, part in self.parts(record).items()}
        return {**parts, "unanswered": self.unanswered, "sentence": sentence(record, self, names)}


NO_EVIDENCE: Mapping[str, object] = {
    **dict.fromkeys(("allowed", "signed", "recorded")),
    "unanswered": (),
    "sentence": None,
}
"""The members for a record that is unverified, or not of an allowed call."""
RESTS_ON: Mapping[str, str] = {
    "allowed": "by both signatures in each certificate",
    "signed": "by both signatures of the agent over this very call",
    "recorded": "by the signature over the record",
}
"""What each part is based on if it is verified, in words."""


def in_words(name: str, part: ProvenPart, names: Mapping[str, str]) -> str:
    """Return a text for people about a part: who, when, and what proves it. `names` are as for `sentence`."""
    if part.verified is None:
        return f"can't be told: {part.why}"
    if not part.verified:
        return f"BAD: {one_line(part.why)}"
    who = f"{names[part.who]} ({part.who})" if part.who in names else part.who
    return f"verified {RESTS_ON[name]}: {one_line(who)}, {'until' if name == 'allowed' else 'at'} {part.when}"


def who_allowed(allowed: ProvenPart) -> str:
    """Return a text for people on who allowed a call: a name, with the reason if it is not verified. If it is not known
    who did, return why."""
    if allowed.verified is False or not allowed.when:
        return f"nobody is shown: {one_line(allowed.why)}"
    return one_line(allowed.who) if allowed.verified else f"{one_line(allowed.who)} ({allowed.why})"


def sentence(record: CallRecord, evidence: Evidence, names: Mapping[str, str]) -> str:
    """Return what the record of an allowed call proves, in one sentence for people. `names` are names of agents and
    gateways, by id. Others may have chosen the names, so they are escaped: they can't control a terminal or imitate our
    words."""
    allowed, signed, _ = evidence
    agent = one_line(names.get(signed.who, f"agent {signed.who}")) if signed.who else "whoever called"
    gateway = one_line(names[record.gateway]) if record.gateway in names else _printable_name(record.gateway)
    server = record.call.server
    act = f"{_act(record.call)} at {f'{_printable_name(server)} ({gateway})' if server else gateway}"
    until = "until it is taken back" if allowed.when == _time(UNTIL_REVOKED) else f"until {allowed.when[:10]}"
    if allowed.verified is False or not allowed.when:
        first = f"nobody is shown to have allowed {agent} to {act} ({one_line(allowed.why)})"
    else:
        first = f"{who_allowed(allowed)} allowed {agent} to {act} {until}"
    if signed.verified and record.call.client is not None:
        login = f"on a login of {_printable_name(record.call.client)}"
        second = f"{gateway} signed this call for {agent} at {signed.when}, {login}"
    elif signed.verified:
        second = f"{agent} signed this call at {signed.when}"
    elif signed.verified is None:
        second = f"that {agent} signed this call is {gateway}'s word ({signed.why})"
    else:
        second = f"{agent} is not shown to have signed this call ({one_line(signed.why)})"
    return f"{first}; {second}; {gateway} recorded it."


def _act(call: RecordedCall) -> str:
    """Return what a call asks for, in words."""
    target = _printable_name(call.target) if call.target else ""
    if call.method in AGENT_MESSAGES:
        return f"ask for {target or 'any skill'}"
    if call.protocol in PROTOCOLS_WITH_PATH:  # the target has the method
        return f"request {target}".rstrip()
    return f"{_VERBS.get(call.method) or _printable_name(call.method)} {target}".rstrip()


class _Contradiction(Exception):
    """Raised if something contradicts the record."""


class _Untold(Exception):
    """Raised if there is no evidence for or against the record."""


class Auditor:
    """Judges records. `roots` are the trusted people's keys, with their names. With `only_these`, a chain with another
    root is a contradiction; otherwise its root is unknown. `now` (unix seconds) is given for exports. They lack the
    proofs of recent calls, so it is unknown who signed these. `target` is a request's path, according to the caller
    ([path]): that of some call or, with `one_call`, of the only one that is judged."""

    def __init__(
        self,
        roots: Mapping[HybridPublicKey, str],
        *,
        only_these: bool = False,
        now: int | None = None,
        target: str | None = None,
        one_call: bool = False,
    ) -> None:
        self.now = now
        self.target = target
        self.one_call = one_call
        self._roots = roots
        self._only_these = only_these
        self._chains = RecentlyUsed[bytes, tuple[_Chain, str]](MAX_RECORDED_CHAINS)
        self._verified = RecentlyUsed[bytes, VerifyResult](MAX_RECORDED_CHAINS)
        self._certificates = CertificateCache()

    def judge(self, decision: Statement, certificates: bytes | None, proof: _Proof) -> Evidence | None:
        """Judge the record of an allowing decision; return None for any other record. `certificates` is the text of its
        chain (a JSON array), and `proof` its proof, as far as they were kept; b"" stands for a proof that should exist.
        Raises nothing that depends on them."""
        record = decision.predicate
        if not isinstance(record, CallRecord) or record.decision is None or record.decision.verdict != "allow":
            return None
        if record.authority is None:
            untold = ProvenPart("", "", None, "nobody's authority is on record: proofs were not asked for")
            return Evidence(untold, untold)
        return _Case(decision, record, record.authority).judge(self, certificates, proof)

    def chain_in(self, text: bytes, authority: RecordedAuthority) -> _Chain:
        """Return the certificates in a text, which must be the chain that the record names. An unreadable chain is a
        fault, with one exception: without `only_these`, a record of version 2 may have one, as gateways then also
        recorded the chains of persons that nobody trusted."""
        known = self._chains.get(text)
        if known is None:
            try:
                known = decode_chain(text), sha256_hex(canonical(text))
            except (WireError, AttestationError):
                is_old = authority.proof is None and not self._only_these
                raise (_Untold if is_old else _Contradiction)("its certificates can't be read") from None
            self._chains.put(text, known)
        if known[1] != authority.chain_sha256:
            raise _Contradiction("its certificates are not those that the record names")
        return known[0]

    def verified(self, text: bytes, chain: _Chain, now: int) -> VerifyResult:
        """Verify a chain by itself, as of a time. Any scopes are accepted: the gateway's catalog may have defined them.
        A valid result is kept, and returned for every other time at which all certificates are valid."""
        known = self._verified.get(text)
        if known is not None and all(cert.issued_at <= now <= cert.expires_at for cert in chain):
            return known
        vocabulary = frozenset(scope for cert in chain for scope in cert.scope)
        terms = Terms(now=now, vocabulary=vocabulary, cert_cache=self._certificates)
        result = run(chain_verification(chain, terms), now)
        if result.valid:
            self._verified.put(text, result)
        return result

    def check_root(self, key: HybridPublicKey) -> None:
        """Check that a chain's root is a trusted key."""
        if key not in self._roots:
            if self._only_these:
                raise _Contradiction("the chain begins with none of the keys that were named")
            raise _Untold("compared with no key of yours")

    def name(self, key: HybridPublicKey) -> str:
        """Return the name of a person's key, or its id."""
        return self._roots.get(key, key.id)


class _Case:
    """One record while it is judged, and its authority."""

    def __init__(self, decision: Statement, record: CallRecord, authority: RecordedAuthority) -> None:
        self._subject = decision.sha256
        self._record = record
        self._authority = authority
        self._at = milliseconds(record.times.received) // 1000
        self._chain: _Chain = ()
        self._unanswered: list[str] = []

    def judge(self, auditor: Auditor, certificates: bytes | None, proof: _Proof) -> Evidence:
        """Judge who allowed the call, and who signed it. To judge who signed, only the key of the chain's leaf is used,
        if the chain is readable."""
        allowed, why_not = _verdict(lambda: self._check_chain(auditor, certificates))
        read: list[KeptProof] = []
        signed, why_unsigned = _verdict(lambda: self._check_proof(proof, auditor, read))
        root, until = self._authority.principal_id, ""
        if self._chain:
            root, end = auditor.name(self._chain[-1].issuer_pub_key), min(cert.expires_at for cert in self._chain)
            until = _time(end)
        at = _time(read[0].challenge_at) if read else ""
        return Evidence(
            ProvenPart(root, until, allowed, why_not),
            ProvenPart(self._authority.agent_id, at, signed, why_unsigned),
            tuple(self._unanswered),
        )

    def _check_chain(self, auditor: Auditor, certificates: bytes | None) -> None:
        """Check the chain and its constraints ([chain] and [constraints])."""
        authority = self._authority
        if certificates is None:
            raise _Untold("its certificates are not there")
        self._chain = chain = auditor.chain_in(certificates, authority)
        result = auditor.verified(certificates, chain, self._at)
        if not result.valid:
            raise _Contradiction(f"its chain does not verify: {result.error_reason}")
        if tuple(cert.cert_id for cert in chain) != authority.cert_ids:
            raise _Contradiction("its certificates have other ids than the record names")
        if (result.human_id, result.agent_id) != (authority.principal_id, authority.agent_id):
            raise _Contradiction("its chain is from, or for, somebody else than the record names")
        self._check_constraints(self._params_sha256(auditor.target))
        self._check_scope(result.granted_scope)
        auditor.check_root(chain[-1].issuer_pub_key)

    def _check_scope(self, granted: list[str]) -> None:
        authority = self._authority
        if authority.granted_scope is not None:
            if authority.granted_scope not in granted:
                raise _Contradiction(f"its chain does not cover {authority.granted_scope}")
        elif authority.scope not in granted and not self._only_looks():
            if authority.proof is not None:
                raise _Contradiction("no scope of its chain is named that covers the call")
            raise _Untold("by which scope it was allowed is not on record")

    def _check_constraints(self, params_sha256: str) -> None:
        context = VerifierContext(call=self._facts(params_sha256))
        for index, cert in enumerate(self._chain):
            for constraint in cert.constraints:
                what = f"certificate {index}: {constraint.type}"
                if not self._answers(constraint, params_sha256):
                    self._unanswered.append(what)
                    continue
                outcome = evaluate(constraint, context, cert.cert_id, self._at, OWN_EVALUATORS)
                if outcome is not None and outcome.status is not IdentityStatus.CONSTRAINT_DENIED:
                    self._unanswered.append(what)
                elif outcome is not None:
                    raise _Contradiction(f"{what}: {outcome.detail}")

    def _params_sha256(self, target: str | None) -> str:
        """Return the digest that a constraint for exactly this call names, or "" if it is unknown. For a request with a
        path, the record is not enough: the caller must know the path (`target`)."""
        protocol = self._record.call.protocol
        if protocol not in PROTOCOLS_WITH_PATH:
            return self._subject
        if target is None or not target.isascii():  # no request has another one
            return ""
        return request_digest(target, self._subject if protocol == "http" else "").hex()

    def _answers(self, constraint: Constraint, params_sha256: str) -> bool:
        """Return whether the record is enough to judge a constraint. The record holds only one digest of the call's
        arguments. For a later leg of a call, this digest differs from the one in a certificate for the call."""
        if self._record.call.method in TASKS:
            return False
        if not isinstance(constraint, Extension) or constraint.name != CALL:
            return isinstance(constraint, TimeWindow)
        try:
            terms = CallTerms.read(constraint)
        except WireError:
            return True  # it refuses every call
        return terms.params_sha256 in (UNSET, params_sha256)

    def _facts(self, params_sha256: str) -> CallFacts | None:
        call, authority = self._record.call, self._authority
        if authority.verifier_id is None or len(call.target or "") >= MAX_RECORDED_TARGET:
            return None
        return CallFacts(
            verifier_id=authority.verifier_id,
            method=call.method,
            target=call.target or "",
            arguments=None,
            params_digest=lambda: bytes.fromhex(params_sha256),
            definition=call.definition,
            argument_digests={},
        )

    def _only_looks(self) -> bool:
        """Return whether the call is a request about tasks that needs no scope."""
        call = self._record.call
        if call.protocol == "a2a":
            return call.method not in AGENT_MESSAGES | AGENT_CHANGES
        return call.method in TASKS - TASK_CHANGES

    def _check_proof(self, kept: _Proof, auditor: Auditor, read: list[KeptProof]) -> None:
        """Check the proof ([proof] to [path]). If it can be read, add it to `read`."""
        proof = self._named_proof(kept, auditor.now)
        read.append(proof)
        key = HybridPublicKey(proof.agent_pub_key.ed25519, proof.agent_pub_key.ml_dsa_65)
        if self._chain and key == self._chain[0].subject_pub_key:
            key = self._chain[0].subject_pub_key  # whose halves are loaded already
        if key.id != self._authority.agent_id or (self._chain and key != self._chain[0].subject_pub_key):
            raise _Contradiction("its proof is of another agent")
        if proof.context is None:
            raise _Contradiction("its proof is bound to no call")
        path = self._requested_path(proof.context, auditor)
        self._check_context(proof.context, path, proof.session_context)
        message = challenge_sign_bytes(proof.challenge, proof.challenge_at, proof.session_context)
        signature = HybridSignature(proof.challenge_sig.ed25519, proof.challenge_sig.ml_dsa_65)
        fault = signature_fault(message, signature, key)
        if fault is not None:
            raise _Contradiction(f"the agent's signature over the call is not good: {fault}")
        if abs(self._at - proof.challenge_at) > CHALLENGE_WINDOW_SECONDS:
            raise _Contradiction("its proof was made at another time")
        if path is None:
            raise _Untold("its path is kept as a SHA-256 alone: say with --target what it was")

    def _requested_path(self, context: SignedContext, auditor: Auditor) -> str | None:
        """Return the path that was signed, or None if it is not known ([path])."""
        target = auditor.target
        if self._record.call.protocol not in PROTOCOLS_WITH_PATH:
            return context.requested_path
        if target is None:
            return None
        if context.requested_path == PATH_DIGEST + sha256_hex(target.encode("utf-8", "replace")):
            return target
        if auditor.one_call:
            raise _Contradiction("its proof is for another target than the one that is named here")
        return None

    def _may_be_held(self, now: int | None) -> bool:
        """Return whether a proof may still be withheld, since the session that it names may still be open."""
        is_sealed = (self._record.call.session or "").startswith("sha256:")
        longest = SESSION_ID_SECONDS if is_sealed else CHALLENGE_WINDOW_SECONDS
        return now is not None and abs(now - self._at) <= longest + CLOCK_BACK_SECONDS

    def _named_proof(self, kept: _Proof, now: int | None) -> KeptProof:
        authority = self._authority
        if authority.proof is None:
            raise _Untold("records of this version keep no proof")
        if not authority.bound:
            raise _Untold("the proof was bound to no call")
        if authority.proof == "digest":
            raise _Untold("its proof was not kept")
        if kept is None and self._may_be_held(now):
            raise _Untold("its proof is not in this file yet: `accredit log export` says when it will be")
        if not kept:
            raise _Contradiction(_LOST)
        try:
            proof = kept if isinstance(kept, KeptProof) else decode_proof(kept)
        except AttestationError as error:
            raise _Contradiction(str(error)) from None
        if sha256_hex(proof.text()) != authority.proof_sha256:
            raise _Contradiction("its proof is not the one that the record names")
        return proof

    def _check_context(self, context: SignedContext, path: str | None, signed: bytes) -> None:
        """Compare the signed context with the call ([context]), as far as the path is known ([path])."""
        request = self._check_derived(context, path, signed) if path is not None else None
        other = next(self._differences(context, request), None)
        if other is not None:
            raise _Contradiction(f"its proof is for another {other}")

    def _check_derived(self, context: SignedContext, path: str, signed: bytes) -> bytes:
        """Check that the signed session context is derived from the kept context. Return the hash of the request from
        which it was derived."""
        try:
            request = operation_context_hash(
                context.required_scope,
                context.operation,
                context.resource_id,
                path,
                context.payload_digest,
            )
            made = build_session_context(
                context.verifier_id,
                context.workspace_id,
                context.agent_id,
                context.session_id,
                context.invocation_id,
                request,
            )
        except ValueError:
            raise _Contradiction("what its proof says of the call has no hash") from None
        if not hmac.compare_digest(made, signed):
            raise _Contradiction("what its proof says of the call is not what was signed")
        return request

    def _differences(self, context: SignedContext, request: bytes | None) -> Iterator[str]:
        """Yield the parts of a signed context that differ from the record. Without the request's path, its hash can't
        be computed."""
        record, authority, call = self._record, self._authority, self._record.call
        gateways = (record.gateway, f"{record.gateway}/{call.server}" if call.server is not None else record.gateway)
        scope = "" if self._only_looks() else authority.scope
        digest = "" if call.method == TASK_LIST else self._subject
        has_path = call.protocol in PROTOCOLS_WITH_PATH
        return (
            what
            for what, same in (
                ("gateway", context.verifier_id == authority.verifier_id and context.verifier_id in gateways),
                ("agent", context.agent_id == authority.agent_id),
                ("session", (call.session or "") in _recorded_names(context.session_id)),
                ("scope", context.required_scope == scope),
                ("method", context.operation == call.method),
                ("target", context.resource_id[:MAX_RECORDED_TARGET] == ("" if has_path else call.target or "")),
                ("call: its params have another digest", context.payload_digest.hex() == digest),
                ("call: the record has another digest of its params", (authority.call_sha256 or "") == digest),
                ("protocol", _protocol_is(context, call)),
                ("request", request is None or authority.request_sha256 == request.hex()),
            )
            if not same
        )


def _protocol_is(context: SignedContext, call: RecordedCall) -> bool:
    """Return whether a context fits the call's protocol. For an OAuth client's call, the context must name client and
    call."""
    protocol = call.protocol
    workspace, invocation = (call.client, call.id) if call.client is not None else (WORKSPACES[protocol], "")
    is_kept_short = context.requested_path.startswith(PATH_DIGEST)
    has_own = is_kept_short if protocol in PROTOCOLS_WITH_PATH else not context.requested_path
    return has_own and (context.workspace_id, context.invocation_id) == (workspace, invocation)


def _recorded_names(session: str) -> tuple[str, ...]:
    """Return how a record may name a session: by the beginning of the session's id or, if that is sealed, by its
    digest."""
    if not session:
        return ("",)
    digest = sha256_hex(session.encode("latin-1", "replace"))[:_SESSION_DIGITS]
    return session[:MAX_RECORDED_TEXT], f"sha256:{digest}"


def _verdict(check: Callable[[], None]) -> tuple[bool | None, str]:
    try:
        check()
    except _Contradiction as contradiction:
        return False, str(contradiction)
    except _Untold as untold:
        return None, str(untold)
    return True, ""


def _time(at: int) -> str:
    """Return unix seconds in RFC 3339."""
    return timestamp(at * 1000).replace(".000Z", "Z")


def _printable_name(text: str) -> str:
    """Return a name that somebody chose: unchanged if it is unambiguous, else as a JSON string in ASCII."""
    return text if _PLAIN.fullmatch(text) else json.dumps(excerpt(text, MAX_SAID_CHARS))
