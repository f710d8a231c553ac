"""Tokens that need not be verified again. No I/O.

A token's claims are remembered by the SHA-256 of its text, only after its signature was verified, and only for the key
set that verified it. Its expiry is checked on every use.
"""

from msgspec import Struct

from accredit.limits import MAX_CACHED_TOKENS
from accredit.tokens.claims import VerifiedToken


class _Known(Struct, frozen=True):
    token: VerifiedToken
    keys: bytes


class VerifiedTokens:
    """A bounded memory that drops the least recently used first. Threads may share it: a race can only make it
    forget."""

    __slots__ = ("_known", "_max_entries")

    def __init__(self, max_entries: int = MAX_CACHED_TOKENS) -> None:
        """A bound of 0 remembers nothing."""
        self._max_entries = max_entries
        self._known: dict[bytes, _Known] = {}

    def __len__(self) -> int:
        return len(self._known)

    def peek(self, sha256: bytes) -> VerifiedToken | None:
        """Return the claims of a token that was verified, with whatever keys."""
        found = self._known.get(sha256)
        return found.token if found is not None else None

    def get(self, sha256: bytes, keys: bytes) -> VerifiedToken | None:
        """Return the claims of a token that was verified with the key set of this digest."""
        found = self._known.pop(sha256, None)
        if found is None or found.keys != keys:
            return None
        self._known[sha256] = found
        return found.token

    def put(self, sha256: bytes, keys: bytes, token: VerifiedToken) -> None:
        """Remember a verified token."""
        self._known[sha256] = _Known(token, keys)
        while len(self._known) > self._max_entries:
            try:
                self._known.pop(next(iter(self._known)), None)
            except (RuntimeError, StopIteration):  # another thread changed it at this moment
                return
