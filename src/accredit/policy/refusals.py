"""Every refusal of the decision, as clients get to see it. No I/O.

One function a row of docs/reference/refusals.md. Nothing here quotes a proof, a key or an argument.
"""

import base64
from collections.abc import Collection

from accredit.errors import ProofRefused
from accredit.jsonrpc.encode import INVALID_PARAMS
from accredit.jsonrpc.text import excerpt
from accredit.limits import MAX_TOLD_TARGET_CHARS
from accredit.policy.catalog import Entry
from accredit.policy.guarded_call import GuardedCall
from accredit.ratify.challenges import IssuedChallenge
from accredit.ratify.results import IdentityStatus, VerifyResult

MISSING = -31001
CHALLENGE_REQUIRED = -31002
DENIED = -31003
UNTRUSTED_ROOT = -31004
REPLAYED = -31005
RECORD_UNAVAILABLE = -31006
TOO_MANY_CHALLENGES = -31007

UNKNOWN_ERRORS = {"tools/call": "unknown_tool", "resources/read": "unknown_resource", "prompts/get": "unknown_prompt"}

_STATUS_TEXT = {
    IdentityStatus.EXPIRED: "the delegation has expired",
    IdentityStatus.REVOKED: "the delegation has been revoked",
}


def unknown_target(asked: GuardedCall) -> ProofRefused:
    """The catalog has no scope for it, so no proof could allow it."""
    what = "is not in the catalog" if asked.method == "tools/call" else "is not spelled so that its scope is certain"
    return _refused(INVALID_PARAMS, UNKNOWN_ERRORS[asked.method], f"{excerpt(asked.target)} {what}", asked, None)


def unknown_task(asked: GuardedCall) -> ProofRefused:
    """A task that is not this caller's: another's, forged, expired, or none. One text for all."""
    return ProofRefused(
        {"error": "unknown_task", "method": asked.method, "_meta": {}}, "Invalid params", INVALID_PARAMS
    )


def task_not_kept(method: str, target: str) -> ProofRefused:
    """-31003: the call was made, and is a task that can't be remembered; so nobody could ask about it."""
    reason = "store_unavailable: the task that the call has become could not be remembered"
    result = VerifyResult(valid=False, identity_status=IdentityStatus.INVALID, error_reason=reason)
    return denied(GuardedCall(method, target, "", b"", None, None), None, result)


def missing_proof(asked: GuardedCall, entry: Entry | None, verifier_id: str, binding: str) -> ProofRefused:
    """-31001: a guarded call without a proof. It says how one is to be made, as the tools in a list do."""
    text = f"{_name(asked)} needs a proof in _meta.ratify_proof"
    how = {"ratify_verifier": verifier_id, "ratify_binding": binding}
    return _refused(MISSING, "missing_ratify_proof", text, asked, entry, _meta=how)


def challenge_required(
    asked: GuardedCall, entry: Entry | None, issued: IssuedChallenge, verifier_id: str, binding: str
) -> ProofRefused:
    """-31002: sign this challenge, and call again (Option B)."""
    challenge = {
        "challenge": base64.b64encode(issued.challenge).decode("ascii"),
        "expires_at": issued.expires_at,
        "verifier_id": verifier_id,
        "binding": binding,
    }
    text = f"{_name(asked)} needs a proof over the challenge in data._meta.ratify_challenge"
    return _refused(
        CHALLENGE_REQUIRED, "ratify_challenge_required", text, asked, entry, _meta={"ratify_challenge": challenge}
    )


def denied(
    asked: GuardedCall, entry: Entry | None, result: VerifyResult, reason: str = "", granted: Collection[str] = ()
) -> ProofRefused:
    """-31003: the verifier said no, or what it found does not cover the call."""
    status = result.identity_status
    reason = reason or result.error_reason
    text = _STATUS_TEXT.get(status, reason)
    if status is IdentityStatus.SCOPE_DENIED and entry is not None:
        covers = ", ".join(granted) or "nothing"
        text = f"this delegation covers {covers}; {_name(asked)} needs {entry.scope}"
    return _refused(
        DENIED,
        f"ratify_{status}",
        text,
        asked,
        entry,
        identity_status=str(status),
        granted_scope=list(granted),
        principal_id=result.principal_id or None,
        agent_id=result.agent_id or None,
        reason=reason,
    )


def untrusted_root(asked: GuardedCall, entry: Entry | None) -> ProofRefused:
    """-31004: the chain starts with a principal that is not configured here."""
    text = "the delegation comes from nobody whom this gateway trusts"
    return _refused(UNTRUSTED_ROOT, "ratify_untrusted_root", text, asked, entry, identity_status="invalid")


def replayed(asked: GuardedCall, entry: Entry | None) -> ProofRefused:
    """-31005: the challenge was spent already."""
    text = "this proof was used before; each call needs a fresh one"
    return _refused(REPLAYED, "ratify_replayed", text, asked, entry, identity_status="invalid")


def record_unavailable(method: str, target: str, *, forwarded: bool) -> ProofRefused:
    """-31006: no record, no call; or, where it was `forwarded`, no result."""
    what = "what came of the call" if forwarded else "the call"
    then = "its result is withheld" if forwarded else "nothing was forwarded"
    asked = GuardedCall(method, target, "", b"", None, None)
    text = f"{what} could not be recorded, so {then}"
    return _refused(RECORD_UNAVAILABLE, "record_unavailable", text, asked, None, forwarded=forwarded)


def too_many_challenges(asked: GuardedCall, entry: Entry | None, retry_after: int) -> ProofRefused:
    """-31007: no room for one more pending challenge."""
    text = f"too many challenges are pending; try again in {retry_after} s"
    return _refused(TOO_MANY_CHALLENGES, "too_many_challenges", text, asked, entry, retry_after_seconds=retry_after)


def undecided(asked: GuardedCall, entry: Entry | None) -> ProofRefused:
    """-31003, too: the decision could not be made, so it is a no."""
    return _no_answer(asked, entry, "the decision could not be made")


def clock_set_back(asked: GuardedCall, entry: Entry | None) -> ProofRefused:
    """-31003, too: what was used before was forgotten by a clock that was ahead."""
    return _no_answer(asked, entry, "the clock was set back, and whether this was used before is not known any more")


def _no_answer(asked: GuardedCall, entry: Entry | None, why: str) -> ProofRefused:
    reason = f"store_unavailable: {why}"
    return denied(asked, entry, VerifyResult(valid=False, identity_status=IdentityStatus.INVALID, error_reason=reason))


def _name(asked: GuardedCall) -> str:
    return excerpt(asked.target) or asked.method


def _refused(code: int, error: str, text: str, asked: GuardedCall, entry: Entry | None, **more: object) -> ProofRefused:
    data: dict[str, object] = {"error": error, "method": asked.method, "target": asked.target[:MAX_TOLD_TARGET_CHARS]}
    if asked.method == "tools/call":
        data["tool"] = data["target"]
    if entry is not None:
        data["required_scope"] = entry.scope
    return ProofRefused({**data, "_meta": {}, **more}, f"{error}: {text}", code)
