"""Binding of sessions to their owners: an issuer's subject, with whichever of its tokens. No I/O.

The id that a client gets is the upstream's, a dot, and a tag over that id and the subject, which only gateways with the
same key can make (2025-11-25, basic/security_best_practices, "Session Hijacking"). Nothing is remembered, so any worker
can serve a session. Callers without a token count as one nobody, with sessions of their own.
"""

import hmac
from base64 import urlsafe_b64encode
from hashlib import sha256

from accredit.errors import RequestError
from accredit.jsonrpc.encode import INVALID_REQUEST
from accredit.tokens import VerifiedToken

Principal = tuple[str, str]
"""An issuer and a token's subject; two empty strings for nobody."""

_TAG_CHARS = 22
"""Characters of base64url: 132 bits."""


def principal_of(token: VerifiedToken | None) -> Principal:
    """Return the issuer and subject of a token."""
    return (token.issuer, token.subject) if token is not None else ("", "")


class SessionTags:
    """Makes and checks tags with one key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def tagged(self, id: bytes, principal: Principal) -> bytes:
        """Return the id that the client gets."""
        return id + b"." + self._tag(id, principal)

    def untagged(self, value: bytes, principal: Principal) -> bytes:
        """Return the upstream's own id. Raises `RequestError` (404) for somebody else's session."""
        id, tag = _parts(value)
        if not hmac.compare_digest(tag, self._tag(id, principal)):
            raise not_found()
        return id

    def _tag(self, id: bytes, principal: Principal) -> bytes:
        parts = [id, *(part.encode("utf-8", "surrogatepass") for part in principal)]
        text = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        return urlsafe_b64encode(hmac.digest(self._key, text, sha256))[:_TAG_CHARS]


def without_tag(value: bytes) -> bytes:
    """Return the upstream's own id, unchecked: only for lookups that reveal nothing to anybody."""
    return _parts(value)[0]


def not_found() -> RequestError:
    """Return the refusal for somebody else's session, which is the same as for one that never existed."""
    return RequestError(INVALID_REQUEST, "Session not found", status=404, word="session_not_found")


def _parts(value: bytes) -> tuple[bytes, bytes]:
    id, _, tag = value.rpartition(b".")
    return id, tag
