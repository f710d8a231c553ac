"""Every refusal of the decision, as clients see it. No I/O.

One function per row of docs/reference/refusals.md. Nothing here quotes a proof, a key or an argument.
"""

import base64
from collections.abc import Collection

from accredit.base.text import excerpt
from accredit.errors import ProofRefused
from accredit.jsonrpc.encode import INVALID_PARAMS
from accredit.jsonrpc.methods import AGENT_MESSAGES
from accredit.limits import MAX_SCOPES_PER_CERT
from accredit.policy.catalog import Entry
from accredit.policy.guarded_call import GuardedCall
from accredit.policy.quotas import QuotaReached
from accredit.ratify.challenges import IssuedChallenge
from accredit.ratify.results import IdentityStatus
from accredit.refusals import (
    CHALLENGE_REQUIRED,
    DEFINITION_CHANGED,
    DENIED,
    MISSING,
    QUOTA_EXCEEDED,
    RECORD_UNAVAILABLE,
    REPLAYED,
    TOO_MANY_CHALLENGES,
    UNTRUSTED_ROOT,
)

MAX_TOLD_TARGET_CHARS = 512
"""The most characters of a call's target that its refusal repeats."""


UNKNOWN_ERRORS = {
    "tools/call": "unknown_tool",
    "resources/read": "unknown_resource",
    "prompts/get": "unknown_prompt",
    **dict.fromkeys(AGENT_MESSAGES, "unknown_skill"),
}

_STATUS_TEXT = {
    IdentityStatus.EXPIRED: "the delegation has expired",
    IdentityStatus.REVOKED: "the delegation has been revoked",
}


def unknown_target(call: GuardedCall) -> ProofRefused:
    """-32602: the catalog has no entry for the target, so no proof could allow the call."""
    error = UNKNOWN_ERRORS.get(call.method)
    if error is None:
        return _refusal(INVALID_PARAMS, "unknown_route", f"{call.method} of this path is no route here", call, None)
    named = call.method == "tools/call" or call.method in AGENT_MESSAGES
    what = "is not in the catalog" if named else "is not spelled so that its scope is certain"
    return _refusal(INVALID_PARAMS, error, f"{excerpt(call.target)} {what}", call, None)


def unknown_task(call: GuardedCall) -> ProofRefused:
    """-32602: the task is not this caller's. The text is the same whether the task is somebody else's, forged, expired
    or unknown."""
    return ProofRefused({"error": "unknown_task", "method": call.method, "_meta": {}}, "Invalid params", INVALID_PARAMS)


def task_not_kept(method: str, target: str) -> ProofRefused:
    """-31003: the call was made and has become a task, but the task can't be stored, so that nobody could ask for its
    result."""
    reason = "store_unavailable: the task that the call has become could not be remembered"
    return denial(GuardedCall(method, target, "", b"", None, None), None, IdentityStatus.INVALID, reason)


def missing_proof(call: GuardedCall, entry: Entry | None, verifier_id: str, binding: str) -> ProofRefused:
    """-31001: a guarded call without a proof. The error says how to make one, as each tool's `_meta` in a list does."""
    text = f"{_name(call)} needs a proof in {call.proof_place}{call.word_to_hosts}"
    how = {"ratify_verifier": verifier_id, "ratify_binding": binding}
    return _refusal(MISSING, "missing_ratify_proof", text, call, entry, _meta=how)


def ask_for_introduction(method: str, verifier_id: str, binding: str, challenge: str) -> ProofRefused:
    """-31001 with status 401: where OAuth clients are let in, an `initialize`, `server/discover` or list request came
    with neither a token nor a proof. `challenge` tells these clients where to go; the data tells others how to make a
    proof."""
    call = GuardedCall(method, "", "", b"", None, None)
    refused = missing_proof(call, None, verifier_id, binding)
    refused.challenge = challenge
    return refused


def challenge_required(
    call: GuardedCall, entry: Entry | None, issued: IssuedChallenge, verifier_id: str, binding: str
) -> ProofRefused:
    """-31002: the client has to sign this challenge and call again (Option B)."""
    challenge = {
        "challenge": base64.b64encode(issued.challenge).decode("ascii"),
        "expires_at": issued.expires_at,
        "verifier_id": verifier_id,
        "binding": binding,
    }
    word = call.word_to_hosts if call.proof is None else ""
    text = f"{_name(call)} needs a proof over the challenge in data._meta.ratify_challenge{word}"
    return _refusal(
        CHALLENGE_REQUIRED, "ratify_challenge_required", text, call, entry, _meta={"ratify_challenge": challenge}
    )


def denial(
    call: GuardedCall,
    entry: Entry | None,
    status: IdentityStatus,
    reason: str,
    words: str = "",
    *,
    granted: Collection[str] = (),
    principal_id: str = "",
    agent_id: str = "",
) -> ProofRefused:
    """-31003: the verifier refused the proof, or its grant does not cover the call. `words` are for people; without
    them, they are shown the reason. An id is "" if it is not known."""
    text = words or _STATUS_TEXT.get(status, reason)
    if status is IdentityStatus.SCOPE_DENIED and entry is not None:
        covers = ", ".join(granted) or "nothing"
        text = f"this delegation covers {covers}; {_name(call)} needs {entry.missing_from(granted) or entry.scope}"
    return _refusal(
        DENIED,
        f"ratify_{status}",
        text,
        call,
        entry,
        identity_status=str(status),
        granted_scope=list(granted),
        principal_id=principal_id or None,
        agent_id=agent_id or None,
        reason=reason,
    )


def untrusted_root(call: GuardedCall, entry: Entry | None) -> ProofRefused:
    """-31004: the chain begins with a principal who is not configured here."""
    text = "the delegation comes from nobody whom this gateway trusts"
    return _refusal(UNTRUSTED_ROOT, "ratify_untrusted_root", text, call, entry, identity_status="invalid")


def replay(call: GuardedCall, entry: Entry | None) -> ProofRefused:
    """-31005: the challenge was already spent."""
    text = "this proof was used before; each call needs a fresh one"
    return _refusal(REPLAYED, "ratify_replayed", text, call, entry, identity_status="invalid")


def definition_changed(call: GuardedCall, entry: Entry | None, expected: str | None, found: str | None) -> ProofRefused:
    """-31012: the tool's definition is not the pinned one. `expected` is the pinned digest, None for a tool that is not
    pinned. `found` is the current one, None if the server was asked and has no such definition."""
    if expected is None:
        text = f"nobody has approved the definition of {_name(call)}"
    elif found is None:
        text = f"the server does not list {_name(call)} as it was approved: its present definition is not to be had"
    else:
        text = f"the definition of {_name(call)} is not the one that was approved"
    return _refusal(DEFINITION_CHANGED, "definition_changed", text, call, entry, expected=expected, found=found)


def quota_reached(call: GuardedCall, entry: Entry | None, reached: QuotaReached) -> ProofRefused:
    """-31013: a quota has no room for the call. `retry_after_seconds` is None if there will never be room for this
    call."""
    quota, seconds = reached.quota, reached.seconds
    if reached.missing:
        text = f"{_name(call)} has no {reached.missing} that could be counted against a quota ({quota})"
    elif seconds is None:
        text = f"{_name(call)} asks for more than a quota allows at all ({quota})"
    else:
        text = f"a quota is used up ({quota}); there is room again in {seconds} s"
    return _refusal(QUOTA_EXCEEDED, "quota_exceeded", text, call, entry, retry_after_seconds=seconds)


def with_definition(refusal: ProofRefused, definition: str | None) -> ProofRefused:
    """Return a refusal with the tool's pinned digest added. With it, a delegation can be made that is valid only for
    that definition. The digest reveals no more than the tool's entry in a list."""
    if definition is None or refusal.code == DEFINITION_CHANGED:  # which tells it already
        return refusal
    return ProofRefused({**refusal.data, "definition": definition}, refusal.message, refusal.code)


def record_unavailable(method: str, target: str, *, forwarded: bool) -> ProofRefused:
    """-31006: the call could not be recorded. It was not forwarded; or, with `forwarded`, it was, and its result is
    withheld."""
    what = "what came of the call" if forwarded else "the call"
    then = "its result is withheld" if forwarded else "nothing was forwarded"
    call = GuardedCall(method, target, "", b"", None, None)
    text = f"{what} could not be recorded, so {then}"
    return _refusal(RECORD_UNAVAILABLE, "record_unavailable", text, call, None, forwarded=forwarded)


def too_many_challenges(call: GuardedCall, entry: Entry | None, retry_after: int) -> ProofRefused:
    """-31007: no further pending challenge can be stored. `retry_after` is in seconds."""
    text = f"too many challenges are pending; try again in {retry_after} s"
    return _refusal(TOO_MANY_CHALLENGES, "too_many_challenges", text, call, entry, retry_after_seconds=retry_after)


def no_decision(call: GuardedCall, entry: Entry | None) -> ProofRefused:
    """-31003: the decision could not be made, so the call is refused."""
    return _no_answer(call, entry, "the decision could not be made")


def clock_set_back(call: GuardedCall, entry: Entry | None) -> ProofRefused:
    """-31003: the clock is behind the time of entries that the store has already forgotten, so earlier uses can't be
    ruled out."""
    return _no_answer(call, entry, "the clock was set back, and whether this was used before is not known any more")


def _no_answer(call: GuardedCall, entry: Entry | None, why: str) -> ProofRefused:
    return denial(call, entry, IdentityStatus.INVALID, f"store_unavailable: {why}")


def _name(call: GuardedCall) -> str:
    return excerpt(call.target) or call.method


def _refusal(code: int, error: str, text: str, call: GuardedCall, entry: Entry | None, **more: object) -> ProofRefused:
    data: dict[str, object] = {"error": error, "method": call.method, "target": call.target[:MAX_TOLD_TARGET_CHARS]}
    if call.method == "tools/call":
        data["tool"] = data["target"]
    if entry is not None:
        data["required_scope"] = entry.scope
        if entry.also and len(entry.needed) <= MAX_SCOPES_PER_CERT:  # of more no delegation could be made
            data["required_scopes"] = entry.needed
    return ProofRefused({**data, "_meta": {}, **more}, f"{error}: {text}", code)
