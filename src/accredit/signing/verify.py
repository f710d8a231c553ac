"""Implements `accredit verify`: judges a proof as a gateway would, and names the step that failed."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import UNSET, Struct
from msgspec.structs import replace

from accredit.base.clock import unix_seconds
from accredit.errors import ConfigurationError, WireError
from accredit.keys import DelegationFile, KeyFile, load_root, read_file
from accredit.limits import MAX_STATEMENT_BYTES
from accredit.policy.catalog import MCP_SCOPES
from accredit.policy.evaluators import OWN_EVALUATORS
from accredit.ratify import (
    HybridPublicKey,
    IdentityStatus,
    ProofBundle,
    VerifierContext,
    VerifyResult,
    decode_proof_bundle,
    derive_id,
    revocation_list_fault,
    verify_bundle,
)
from accredit.signing import arguments
from accredit.signing.documents import read_revocations
from accredit.signing.steps import DECODE, FailurePoint, Step, failure_point, walk
from accredit.signing.vocabulary import catalog_scopes
from accredit.terminal import wording as words
from accredit.terminal.output import BAD, GOOD, QUIET, Words, print_result, print_table, say

_STYLES = {"ok": GOOD, "failed": BAD, "not checked": QUIET, "not reached": QUIET}


class Verdict(Struct, frozen=True, kw_only=True):
    """The result of verifying a proof, with its steps. `notes` state assumptions, and help to understand a refusal."""

    result: VerifyResult
    steps: list[Step]
    notes: list[str] = []


def run_verify(
    *,
    bundle: Path,
    root: Sequence[Path],
    scope: str,
    fact: Sequence[str],
    params: Path | None,
    method: str,
    gateway_id: str,
    session_context: str,
    revoked: Sequence[Path],
    now: str | None,
) -> int:
    """Run `accredit verify`; return the exit code. Raises `ConfigurationError`."""
    facts = replace(arguments.facts(fact), call=arguments.call_facts(params, method, gateway_id))
    context, at = arguments.session_context(session_context), unix_seconds() if now is None else arguments.moment(now)
    roots = {key.id: key for key in map(load_root, root)}
    data = read_file(bundle, MAX_STATEMENT_BYTES).data
    try:
        proof = decode_proof_bundle(data)
    except WireError as error:
        _refuse_delegation(bundle, data)
        result = VerifyResult(valid=False, identity_status=IdentityStatus.INVALID, error_reason=f"invalid: {error}")
        answer = Verdict(result=result, steps=walk(1, FailurePoint(DECODE)))
    else:
        revoked_ids = _revoked_ids(revoked, proof, roots)
        answer = _judge(proof, scope, at, roots, revoked_ids, session_context=context, facts=facts)
        if not revoked:
            answer.notes.append("taken for granted: nothing was revoked (no list was given with --revoked)")
    _print_members(answer)
    _print_words(answer, roots)
    return 0 if answer.result.valid else 1


def _refuse_delegation(path: Path, data: bytes) -> None:
    """Raise `ConfigurationError` for a delegation, which is easily confused with a proof."""
    try:
        DelegationFile.decode(data)
    except WireError:
        return
    raise ConfigurationError(
        f"{path} is a delegation, and a proof is asked for",
        f"`accredit inspect {shlex.quote(str(path))}` says what it grants and whether its signatures are good",
    )


def _judge(
    bundle: ProofBundle,
    scope: str,
    now: int,
    roots: Mapping[str, KeyFile],
    revoked: frozenset[str],
    *,
    session_context: bytes,
    facts: VerifierContext,
) -> Verdict:
    chain = bundle.delegations
    assumed = catalog_scopes([scope, *(scope for cert in chain for scope in cert.scope)])
    result = verify_bundle(
        bundle,
        scope or UNSET,
        now=now,
        vocabulary=MCP_SCOPES | assumed,
        roots=[key.public_key for key in roots.values()],
        is_revoked=revoked.__contains__,
        constraint_evaluators=OWN_EVALUATORS,
        session_context=session_context or None,
        context=facts,
    )
    end = failure_point(result, chain, now, revoked)
    notes: list[str] = []
    if result.identity_status is IdentityStatus.EXPIRED and end:
        notes.append(f"certificate {end.certificate} {words.ends(chain[end.certificate or 0], now)}")
    if assumed:
        notes.append(f"taken for granted: the gateway's catalog names {', '.join(sorted(assumed))}")
    return Verdict(result=result, steps=walk(len(chain), end), notes=notes)


def _revoked_ids(lists: Sequence[Path], bundle: ProofBundle, roots: Mapping[str, KeyFile]) -> frozenset[str]:
    """Return the ids on all revocation lists. Each list must be signed by a root or by an issuer in the chain."""
    issuers: dict[str, HybridPublicKey] = {
        derive_id(cert.issuer_pub_key): cert.issuer_pub_key for cert in bundle.delegations
    }
    issuers |= {key.id: key.public_key for key in roots.values()}
    found: set[str] = set()
    for path in lists:
        revoked = read_revocations(path)
        issuer = issuers.get(revoked.issuer_id)
        fault = revocation_list_fault(revoked, issuer) if issuer else "it is from no root and no issuer of the chain"
        if fault:
            raise ConfigurationError(
                f"{path} can't be used (issuer {revoked.issuer_id}): {fault}",
                "name a list that is whole, or leave it out",
            )
        found.update(revoked.revoked_certs)
    return frozenset(found)


def _print_words(answer: Verdict, roots: Mapping[str, KeyFile]) -> None:
    print_table(
        ("step", "what", "outcome"),
        [(str(step.number), step.what, Words(step.outcome, _STYLES[step.outcome])) for step in answer.steps],
    )
    say("")
    result = answer.result
    if result.valid:
        granted = ", ".join(result.granted_scope) or "nothing"
        say(f"verified: {roots[result.principal_id].name} ({result.principal_id}) lets", GOOD)
        say(f"agent {result.agent_id} use {granted}", GOOD)
    else:
        say(words.verdict(result), BAD)
    for note in answer.notes:
        say(note, QUIET)


def _print_members(answer: Verdict) -> None:
    result = answer.result
    failed = next((step for step in answer.steps if step.outcome == "failed"), None)
    print_result(
        {
            "valid": result.valid,
            "identity_status": result.identity_status,
            "error_reason": result.error_reason,
            "failed_step": failed and failed.number,
            "failed_certificate": failed and failed.certificate,
            "principal_id": result.principal_id,
            "agent_id": result.agent_id,
            "granted_scope": result.granted_scope,
            "root_checked": result.root_checked,
            "notes": answer.notes,
            "steps": [step._asdict() for step in answer.steps],
        }
    )
