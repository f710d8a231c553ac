"""Tokens that need not be verified again. No I/O.

A token's claims are remembered by the SHA-256 of its text, only after its signature was verified, and only for the key
set that verified it. Its expiry is checked on every use.
"""

from msgspec import Struct

from accredit.base.caching import RecentlyUsed
from accredit.limits import MAX_CACHED_TOKENS
from accredit.tokens.claims import VerifiedToken


class _Known(Struct, frozen=True):
    token: VerifiedToken
    keys: bytes


class VerifiedTokens:
    """A bounded memory that drops the least recently used first. Threads may share it: a race can only make it
    forget."""

    __slots__ = ("_known",)

    def __init__(self, max_entries: int = MAX_CACHED_TOKENS) -> None:
        """A bound of 0 remembers nothing."""
        self._known = RecentlyUsed[bytes, _Known](max_entries)

    def __len__(self) -> int:
        return len(self._known)

    def peek(self, sha256: bytes) -> VerifiedToken | None:
        """Return the claims of a token that was verified, with whatever keys."""
        found = self._known.peek(sha256)
        return found.token if found is not None else None

    def get(self, sha256: bytes, keys: bytes) -> VerifiedToken | None:
        """Return the claims of a token that was verified with the key set of this digest; forget it if that differs."""
        found = self._known.get(sha256)
        if found is None:
            return None
        if found.keys != keys:
            self._known.forget(sha256)
            return None
        return found.token

    def put(self, sha256: bytes, keys: bytes, token: VerifiedToken) -> None:
        """Remember a verified token."""
        self._known.put(sha256, _Known(token, keys))
