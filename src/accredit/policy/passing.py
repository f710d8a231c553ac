"""What is taken out of a client's message, and what is put in, before the upstream gets it. No I/O.

1. `dev.accredit/authorization` of a client is always removed, however it is spelled: upstreams trust it.
2. A proof is removed where proofs are judged here: it is a credential.
3. An allowed call carries `dev.accredit/authorization`: on whose word it comes (contract, section 4).

All else stays byte for byte.
"""

from typing import TypeVar

from msgspec import Raw
from msgspec.structs import replace

from accredit.errors import FrameError
from accredit.jsonrpc.encode import with_members
from accredit.jsonrpc.frames import Notification, Request
from accredit.jsonrpc.objects import members
from accredit.jsonrpc.requests import meta_of
from accredit.policy.asked import PROOF, read_freely
from accredit.policy.decide import Authority

AUTHORIZATION = "dev.accredit/authorization"

C = TypeVar("C", bound=Request | Notification)


def passed_on(call: C, *, judged: bool, authority: Authority | None = None) -> C:
    """The call as the upstream gets it; `judged` says that proofs are judged here."""
    try:
        meta = meta_of(call.params)
    except FrameError:
        return call  # no object: nothing can be in it
    kept = {name: value for name, value in meta.items() if not is_authorization(name)}
    if judged:
        kept.pop(PROOF, None)
    changes: dict[str, object] = {} if authority is None else {AUTHORIZATION: authorization(authority)}
    if len(kept) == len(meta) and not changes:
        return call
    params = members(call.params) if call.params is not None else {}
    new_params = Raw(with_members(params, {"_meta": Raw(with_members(kept, changes))}))
    return replace(call, params=new_params, text=with_members(members(call.text), {"params": new_params}))


def authorization(authority: Authority) -> dict[str, object]:
    """What an upstream is told of who authorized a call."""
    return {
        "principal_id": authority.principal_id,
        "principal_name": authority.principal_name,
        "agent_id": authority.agent_id,
        "granted_scope": authority.granted_scope,
        "cert_ids": authority.cert_ids,
        "token_subject": None,
    }


def is_authorization(name: str) -> bool:
    """Whether a member of `_meta` could be taken for ours."""
    return read_freely(name) == AUTHORIZATION
