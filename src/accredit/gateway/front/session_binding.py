"""Sessions belong to whoever opened them: an issuer's subject, whatever token of theirs comes. No I/O.

The id that a client gets is the upstream's, a dot, and a tag over that id and the subject, which only the gateways of
one key can make (2025-11-25, basic/security_best_practices, "Session Hijacking"). Nothing is remembered, so it does not
matter which worker is asked. Whoever comes without a token is nobody, and has sessions of their own.
"""

import hmac
from base64 import urlsafe_b64encode
from hashlib import sha256

from accredit.errors import RequestError
from accredit.jsonrpc.encode import INVALID_REQUEST
from accredit.tokens import VerifiedToken

Principal = tuple[str, str]
"""An issuer, and whom its token is for; two empty texts for nobody."""

_TAG_CHARS = 22
"""Characters of base64url: 132 bits."""


def principal_of(token: VerifiedToken | None) -> Principal:
    """Whose token it is."""
    return (token.issuer, token.subject) if token is not None else ("", "")


class SessionTags:
    """Makes and checks tags with one key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def tagged(self, id: bytes, principal: Principal) -> bytes:
        """The id as the client gets it."""
        return id + b"." + self._tag(id, principal)

    def untagged(self, value: bytes, principal: Principal) -> bytes:
        """The id as the upstream knows it. Raises `RequestError` (404) for a session of somebody else."""
        id, tag = _parts(value)
        if not hmac.compare_digest(tag, self._tag(id, principal)):
            raise not_found()
        return id

    def _tag(self, id: bytes, principal: Principal) -> bytes:
        parts = [id, *(part.encode("utf-8", "surrogatepass") for part in principal)]
        text = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        return urlsafe_b64encode(hmac.digest(self._key, text, sha256))[:_TAG_CHARS]


def without_tag(value: bytes) -> bytes:
    """The id as the upstream knows it, unchecked: whatever is found by it is shown to nobody."""
    return _parts(value)[0]


def not_found() -> RequestError:
    """What anybody else's session looks like, and one that never was."""
    return RequestError(INVALID_REQUEST, "Session not found", status=404, word="session_not_found")


def _parts(value: bytes) -> tuple[bytes, bytes]:
    id, _, tag = value.rpartition(b".")
    return id, tag
