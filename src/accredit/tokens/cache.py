"""Tokens that need not be verified again. No I/O.

Remembered is what a token says, by the SHA-256 of its bytes, only after its signature was good, and only for the very
keys that it was good with. Its time is looked at on every use.
"""

from msgspec import Struct

from accredit.limits import MAX_CACHED_TOKENS
from accredit.tokens.claims import VerifiedToken


class _Known(Struct, frozen=True):
    token: VerifiedToken
    keys: bytes


class VerifiedTokens:
    """A bounded memory; the least recently used goes first. Threads may share it: a race only makes it forget."""

    __slots__ = ("_known", "_max_entries")

    def __init__(self, max_entries: int = MAX_CACHED_TOKENS) -> None:
        """With a bound of 0 nothing is remembered."""
        self._max_entries = max_entries
        self._known: dict[bytes, _Known] = {}

    def __len__(self) -> int:
        return len(self._known)

    def peek(self, sha256: bytes) -> VerifiedToken | None:
        """Return what this token said when it was verified, with whatever keys."""
        found = self._known.get(sha256)
        return found.token if found is not None else None

    def get(self, sha256: bytes, keys: bytes) -> VerifiedToken | None:
        """Return what this token says, if it was verified with the key set of this digest."""
        found = self._known.pop(sha256, None)
        if found is None or found.keys != keys:
            return None
        self._known[sha256] = found
        return found.token

    def put(self, sha256: bytes, keys: bytes, token: VerifiedToken) -> None:
        """Remember a token that was verified."""
        self._known[sha256] = _Known(token, keys)
        while len(self._known) > self._max_entries:
            try:
                self._known.pop(next(iter(self._known)), None)
            except (RuntimeError, StopIteration):  # another thread changed it at this moment
                return
