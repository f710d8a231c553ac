"""The table of refusals: the name, code and status of each, and what helps. No I/O.

A row stands for one word, which is `data.error` in the answer and the error in the call's record. Code that refuses
raises an error of `errors` with that word; the text is written where it is raised (`policy/refusals.py`, `tokens`,
`client`). docs/reference/refusals.md has a row for each.
"""

from typing import NamedTuple

MISSING = -31001
CHALLENGE_REQUIRED = -31002
DENIED = -31003
UNTRUSTED_ROOT = -31004
REPLAYED = -31005
RECORD_UNAVAILABLE = -31006
TOO_MANY_CHALLENGES = -31007
INVALID_TOKEN = -31010
MISSING_TOKEN = -31011
DEFINITION_CHANGED = -31012
QUOTA_EXCEEDED = -31013
GATEWAY_CHANGED = -31020
"""Nothing was signed for this gateway. This code and the next are used only within the client."""
SESSION_LOST = -31021
"""The session is over, and the request was not executed. This answers a request, but does not refuse a call."""
_UNKNOWN = -32602
"""JSON-RPC's own code for invalid params, used for a target that does not exist."""


def is_own_code(code: int) -> bool:
    """Return whether an error with this code is a refusal of a gateway's."""
    return -31_100 < code <= -31_000


_HOSTS = "claude.ai, ChatGPT and Copilot's cloud agent can only log in by OAuth"
_HOW = "docs/how-to/hosts-that-log-in.md lets them in"
OAUTH_ONLY = f"{_HOSTS}: {_HOW}"
"""A sentence for people with such a host. It is true whether or not they can log in here."""


def oauth_hosts(public_url: str) -> str:
    """Return advice for people whose host speaks only OAuth. `public_url` is the gateway's front door; "" if it has
    none."""
    return f"{_HOSTS}, and do so at {public_url}" if public_url else f"{_HOSTS}, and are refused here: {_HOW}"


class Refused(NamedTuple):
    """One row. `status` is the HTTP status. It is 200 if clients should show the error's text: with any other status
    they don't.

    `kind` is what logs and counters call the refusal. `grant_helps`: a new delegation can let the call pass.
    `other_may_pass`: so can another delegation that the agent already has. `lacks_scope`: nobody has allowed the
    target. `advice` is a text for people, in addition to the refusal itself.
    """

    word: str
    code: int
    status: int = 200
    kind: str = "call_denied"
    grant_helps: bool = False
    other_may_pass: bool = False
    lacks_scope: bool = False
    advice: str = ""


_ROWS = (
    Refused("missing_ratify_proof", MISSING, grant_helps=True, lacks_scope=True),
    Refused("ratify_challenge_required", CHALLENGE_REQUIRED, kind="call_challenged", grant_helps=True),
    Refused("ratify_scope_denied", DENIED, grant_helps=True, lacks_scope=True),
    Refused("ratify_expired", DENIED, grant_helps=True, other_may_pass=True),
    Refused(
        "ratify_revoked", DENIED, grant_helps=True, other_may_pass=True,
        advice="Its principal has withdrawn it; only a new one counts.",
    ),
    Refused(
        "ratify_constraint_denied", DENIED, grant_helps=True, other_may_pass=True,
        advice="The new delegation must allow this call by its constraints, too.",
    ),
    Refused(
        "ratify_constraint_unverifiable", DENIED, grant_helps=True, other_may_pass=True,
        advice="Whoever runs the gateway can say in its catalog where the fact is (`facts` in the tool's table). Or the"
        " new delegation must do without this constraint.",
    ),
    Refused(
        "ratify_constraint_unknown", DENIED, grant_helps=True, other_may_pass=True,
        advice="The new delegation must do without this constraint: the gateway does not know it.",
    ),
    Refused(
        "ratify_invalid_scope", DENIED,
        advice="The delegation has a scope that is not known here, so none of its scopes counts here. Whoever signed it"
        " corrects that scope, or signs one delegation for each gateway or server, with its scopes alone.",
    ),
    Refused("ratify_delegation_not_authorized", DENIED),
    Refused("ratify_invalid", DENIED),
    Refused(
        "ratify_untrusted_root", UNTRUSTED_ROOT, grant_helps=True, other_may_pass=True,
        advice="Only a delegation from a principal whose key this gateway has as a root counts.",
    ),
    Refused("ratify_replayed", REPLAYED),
    Refused("record_unavailable", RECORD_UNAVAILABLE),
    Refused("too_many_challenges", TOO_MANY_CHALLENGES),
    Refused(
        "unknown_tool", _UNKNOWN,
        advice="No delegation can allow it before it has a scope. Where the gateway runs, run `accredit check --fix`,"
        " then `accredit reload`. In a server with a guard of its own, write `@require` over the function.",
    ),
    Refused("unknown_resource", _UNKNOWN),
    Refused("unknown_prompt", _UNKNOWN),
    Refused("unknown_route", _UNKNOWN),
    Refused("unknown_skill", _UNKNOWN),
    Refused("unknown_task", _UNKNOWN),
    Refused(
        "definition_changed", DEFINITION_CHANGED,
        advice="Whoever runs the gateway sees what is different with `accredit check`, and approves it with"
        " `accredit pin`.",
    ),
    Refused("quota_exceeded", QUOTA_EXCEEDED, advice="Whoever runs the gateway set the quota: `[[quotas]]`."),
    Refused(
        "missing_token", MISSING_TOKEN, 401, "token_refused",
        advice="Name the environment variable that holds one with --token-env.",
    ),
    Refused(
        "invalid_token", INVALID_TOKEN, 401, "token_refused",
        advice="The variable that --token-env names needs a token that this gateway accepts.",
    ),
    Refused("insufficient_scope", INVALID_TOKEN, 403, "token_refused"),
    Refused("invalid_request", INVALID_TOKEN, 400, "token_refused"),  # two Authorization headers
    Refused(
        "gateway_changed", GATEWAY_CHANGED,
        advice="If the gateway was replaced on purpose, correct its id in known_gateways.json, or name it with"
        " --gateway-id.",
    ),
    Refused(
        "gateway_mismatch", GATEWAY_CHANGED,
        advice="Somebody may be posing as that gateway. If both URLs lead to it, say so with --gateway-id.",
    ),
    Refused(
        "gateway_unknown", GATEWAY_CHANGED, advice="If it binds proofs to an id, name that with --gateway-id."
    ),
)  # fmt: skip

KINDS = {row.code: row.kind for row in _ROWS}
BY_WORD = {row.word: row for row in _ROWS}
CODES = frozenset(row.code for row in _ROWS) - {_UNKNOWN}
"""Codes that are used only for refusals: every error with one of them is a refusal."""
