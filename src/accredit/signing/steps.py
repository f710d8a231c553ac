"""The numbered steps of a verification, and the one where it ended. No I/O.

The verifier (`ratify.verify`) returns only the reason of the first failure. A reason begins with a word that the
protocol fixes, and each word belongs to one step. So the step is found by that word, and the rules stay in the
verifier.
"""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from accredit.ratify import DelegationCert, IdentityStatus, VerifyResult

_Outcome = Literal["ok", "failed", "not checked", "not reached"]


class Step(NamedTuple):
    """One step of a verification. `certificate` is the index of the certificate that the step checks, if it checks
    one."""

    number: int
    what: str
    outcome: _Outcome
    certificate: int | None = None


DECODE, CERTIFICATES, SPENT = 0, 11, (6, 14)

_STEPS: dict[int, tuple[str, str]] = {
    DECODE: ("the proof is well-formed", "wire"),
    1: ("there are certificates", "no_delegations"),
    2: ("at most eight of them", "chain_too_deep"),
    3: ("there is a challenge", "no_challenge invalid_challenge"),
    4: ("counts and lengths are within bounds", "invalid"),
    5: (
        "the proof is bound to the expected call, or neither names one",
        "invalid_session_context missing_session_context session_context_mismatch session_context_unverifiable",
    ),
    6: ("the challenge is one that could be spent", "unknown_challenge"),
    7: (
        "the proof is the next turn of its stream, or none",
        "invalid_stream_id invalid_stream_seq missing_stream_context stream_id_mismatch stream_seq_replay"
        " stream_seq_skip stream_context_unverifiable",
    ),
    8: ("the agent's key has the right lengths", "invalid_agent_key"),
    9: ("the agent is whom the delegation is for", "key_mismatch id_mismatch"),
    10: ("every id is the one of its key", "id_derivation"),
    CERTIFICATES: (
        "certificate {}: scopes, time, revocation, signatures, constraints, issuer",
        "version_mismatch invalid_scope expired not_yet_valid revoked revocation_error bad_signature"
        " constraint_denied constraint_unverifiable constraint_unknown broken_chain broken_chain_keys"
        " delegation_not_authorized",
    ),
    12: ("the challenge is fresh", "stale_challenge"),
    13: ("the agent signed the challenge", "bad_challenge_sig"),
    14: ("the challenge is spent now", ""),
    15: ("the scope is granted by every certificate", "scope_denied"),
    16: ("the chain begins with a trusted human", "untrusted_root"),
}
STEP_OF = {word: number for number, (_, words) in _STEPS.items() for word in words.split()}
"""The number of the step to which the first word of a reason belongs."""

_CERTIFICATE = re.compile(r"\bcert ([0-9]+)\b")
_WITHOUT_WORD = (IdentityStatus.EXPIRED, IdentityStatus.REVOKED)


class FailurePoint(NamedTuple):
    """Where a verification ended. `certificate` is the index of the certificate that this step checks, if it checks
    one."""

    step: int
    certificate: int | None = None


def failure_point(
    result: VerifyResult, chain: Sequence[DelegationCert], now: int, revoked: frozenset[str]
) -> FailurePoint | None:
    """Return where a failed verification ended; None if it succeeded."""
    if result.valid:
        return None
    reason = result.error_reason
    word = str(result.identity_status) if result.identity_status in _WITHOUT_WORD else reason.partition(":")[0]
    step = STEP_OF.get(word, STEP_OF["invalid"])
    if step != CERTIFICATES:
        return FailurePoint(step)
    if result.identity_status is IdentityStatus.EXPIRED:
        return FailurePoint(step, next(index for index, cert in enumerate(chain) if now > cert.expires_at))
    if result.identity_status is IdentityStatus.REVOKED:
        return FailurePoint(step, next(index for index, cert in enumerate(chain) if cert.cert_id in revoked))
    named = _CERTIFICATE.search(reason)
    return FailurePoint(step, int(named[1]) if named else None)


def walk(length: int, end: FailurePoint | None) -> list[Step]:
    """Return every step of a verification that ended at `end`, for a chain of `length` certificates."""
    places = [
        (number, what.format(index), index)
        for number, (what, _) in _STEPS.items()
        for index in (range(length) if number == CERTIFICATES else (None,))
    ]
    return [Step(number, what, _outcome(number, index, end), index) for number, what, index in places]


def _outcome(number: int, certificate: int | None, end: FailurePoint | None) -> _Outcome:
    here = (number, certificate or 0)
    there = (end.step, end.certificate or 0) if end else (len(_STEPS), 0)
    if here == there:
        return "failed"
    if here > there:
        return "not reached"
    return "not checked" if number in SPENT else "ok"
