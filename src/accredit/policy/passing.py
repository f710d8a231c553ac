"""Removes members from a client's message, and adds others, before the upstream gets it. No I/O.

- [credentials] A client's `dev.accredit/authorization`, `com.ratifyprotocol/authority` and
  `com.ratifyprotocol/admission` are always removed, however they are spelled: upstreams trust them.
- [proof] Where proofs are judged here, a proof is removed, under either of its names: it is a credential.
- [authorization] If the upstream is to be told, an allowed call carries `dev.accredit/authorization`. It says on whose
  authority the call is made, and names the issuer, subject and scopes of its token.

Every other value keeps its bytes, and an unchanged message keeps all of them.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import TypeVar

from msgspec import Raw, Struct

from accredit.errors import FrameError
from accredit.jsonrpc.encode import to_json
from accredit.jsonrpc.frames import Notification, Request
from accredit.limits import MAX_META_MEMBERS
from accredit.policy.decision import Authority
from accredit.policy.guarded_call import GUARDED, PROOFS, read_freely
from accredit.tokens.claims import VerifiedToken

AUTHORIZATION = "dev.accredit/authorization"
_CLAIMS = frozenset({AUTHORIZATION, "com.ratifyprotocol/authority", "com.ratifyprotocol/admission"})
"""Members of `_meta` in which an intermediary tells a server who authorized a call."""
_NO_MEMBERS: Mapping[str, Raw] = {}
_PROOF_MEMBERS = ("principal_id", "principal_name", "agent_id", "granted_scope", "cert_ids")


class CallerIdentity(Struct, frozen=True):
    """The authority on which a request is made: the principal of its proof, else its token. `call_id` is the call's id
    in its records, or ""."""

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
) -> CallerIdentity | None:
    """Return the authority on which an allowed request is made, or None if there is none."""
    return CallerIdentity(authority, token, call_id) if _on_authority(request, authority, token) else None


def _on_authority(call: Request | Notification, authority: Authority | None, token: VerifiedToken | None) -> bool:
    """Return whether a request is made on somebody's authority. A proof gives that. So does a token alone, if the
    request is not a list."""
    return authority is not None or (token is not None and call.method in GUARDED)


_C = TypeVar("_C", bound=Request | Notification)


def for_upstream(
    call: _C,
    *,
    judged: bool,
    authority: Authority | None = None,
    token: VerifiedToken | None = None,
    tell: bool = True,
) -> _C:
    """Return the call in the form in which the upstream gets it.

    `judged` says that proofs are judged here. `tell` says that the upstream is told on whose authority the call is
    made.
    """
    tells = tell and _on_authority(call, authority, token)
    try:
        meta = call.meta if "_meta" in call.parts else _NO_MEMBERS
        taken = [name for name in meta if is_claim(name) or (judged and name in PROOFS)] if meta else []
        if not taken and not tells:
            return call
        put = {AUTHORIZATION: Raw(to_json(authorization(authority, token)))} if tells else {}
        return call.with_meta(put, without=taken)
    except FrameError:
        return call  # no object holds no members


def authorization(authority: Authority | None, token: VerifiedToken | None = None) -> dict[str, object]:
    """Return the value of `dev.accredit/authorization`: who authorized a call."""
    value: dict[str, object] = {name: getattr(authority, name, None) for name in _PROOF_MEMBERS}
    if token is None:
        return {**value, "token_issuer": None, "token_subject": None, "token_scopes": None}
    scopes = sorted(token.scopes)
    return {**value, "token_issuer": token.issuer, "token_subject": token.subject, "token_scopes": scopes}


@lru_cache(MAX_META_MEMBERS)
def is_claim(name: str) -> bool:
    """Return whether a reader could take this member of `_meta` for a gateway's statement on who authorized a call."""
    return read_freely(name) in _CLAIMS
