"""What is removed from a client's message, and what is added, before the upstream gets it. No I/O.

1. A client's `dev.accredit/authorization`, `com.ratifyprotocol/authority` and `/admission` are always removed, however
   they are spelled: upstreams trust them.
2. Where proofs are judged here, a proof is removed, under either of its names: it is a credential.
3. Where the upstream is to be told, an allowed call carries `dev.accredit/authorization`: on whose authority it comes,
   and by and for whom its token was issued, with which scopes.

Everything else stays byte for byte.
"""

from typing import TypeVar

from msgspec import Raw, Struct
from msgspec.structs import replace

from accredit.errors import FrameError
from accredit.jsonrpc.encode import with_members
from accredit.jsonrpc.frames import Notification, Request
from accredit.jsonrpc.objects import may_name, members
from accredit.jsonrpc.requests import meta_in
from accredit.policy.decide import Authority
from accredit.policy.guarded_call import GUARDED, PROOFS, read_freely
from accredit.tokens import VerifiedToken

AUTHORIZATION = "dev.accredit/authorization"
_CLAIMS = frozenset({AUTHORIZATION, "com.ratifyprotocol/authority", "com.ratifyprotocol/admission"})
"""Members of `_meta` in which an intermediary tells a server who authorized a call."""
_PROOF_MEMBERS = ("principal_id", "principal_name", "agent_id", "granted_scope", "cert_ids")


class Speaker(Struct, frozen=True):
    """On whose authority a request comes: that of a proof's principal, else of a token. `call_id` is the id in its
    records, or "" if it has none."""

    authority: Authority | None
    token: VerifiedToken | None
    call_id: str = ""

    @property
    def subject(self) -> str:
        """The agent's id; with proofs off, the token's subject."""
        if self.authority is not None:
            return self.authority.agent_id
        return self.token.subject if self.token is not None else ""

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that all certificates of the proof grant; with proofs off, the token's."""
        if self.authority is not None:
            return self.authority.granted_scope
        return tuple(sorted(self.token.scopes)) if self.token is not None else ()


def speaker_of(
    request: Request, authority: Authority | None, token: VerifiedToken | None, call_id: str = ""
) -> Speaker | None:
    """Return on whose authority an allowed request comes, or None if it needs none."""
    return Speaker(authority, token, call_id) if _on_authority(request, authority, token) else None


def _on_authority(call: Request | Notification, authority: Authority | None, token: VerifiedToken | None) -> bool:
    """Return whether a call comes on somebody's authority. A list may come on nobody's; a token alone authorizes
    calls."""
    return authority is not None or (token is not None and call.method in GUARDED)


C = TypeVar("C", bound=Request | Notification)


def for_upstream(
    call: C,
    *,
    judged: bool,
    authority: Authority | None = None,
    token: VerifiedToken | None = None,
    tell: bool = True,
) -> C:
    """Return the call as the upstream gets it.

    `judged` says that proofs are judged here, `tell` that the upstream is told on whose authority the call comes.
    """
    told = tell and _on_authority(call, authority, token)
    if not told and not may_name(call.params, b"_meta"):
        return call
    try:
        params = members(call.params) if call.params is not None else {}
        meta = meta_in(params)
    except FrameError:
        return call  # no object: nothing can be in it
    kept = {name: value for name, value in meta.items() if not is_claim(name) and not (judged and name in PROOFS)}
    changes: dict[str, object] = {AUTHORIZATION: authorization(authority, token)} if told else {}
    if len(kept) == len(meta) and not changes:
        return call
    new_params = Raw(with_members(params, {"_meta": Raw(with_members(kept, changes))}))
    return replace(call, params=new_params, text=with_members(members(call.text), {"params": new_params}))


def authorization(authority: Authority | None, token: VerifiedToken | None = None) -> dict[str, object]:
    """Return the value of `dev.accredit/authorization`: who authorized a call."""
    value: dict[str, object] = {name: getattr(authority, name, None) for name in _PROOF_MEMBERS}
    if token is None:
        return {**value, "token_issuer": None, "token_subject": None, "token_scopes": None}
    scopes = sorted(token.scopes)
    return {**value, "token_issuer": token.issuer, "token_subject": token.subject, "token_scopes": scopes}


def is_claim(name: str) -> bool:
    """Return whether a reader could take this member of `_meta` for a gateway's statement of who authorized a call."""
    return read_freely(name) in _CLAIMS
