"""Certificates that need not be verified again. No I/O.

Remembered is the digest of everything that was signed and of both signatures, only after both were good. Whatever
can change (time, revocation, linkage, scopes, constraints, the challenge) is evaluated every time.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

from accredit.limits import MAX_CACHED_CERTIFICATES

Name = TypeVar("Name", bound=Hashable)
Value = TypeVar("Value")


class RecentlyUsed(Generic[Name, Value]):
    """A bounded memory; the least recently used goes first.

    Threads may share it: the worst that a race can do is to forget something.
    """

    __slots__ = ("_entries", "_max_entries")

    def __init__(self, max_entries: int) -> None:
        """Raise `ValueError` for a bound below 1."""
        if max_entries < 1:
            raise ValueError("max_entries is at least 1")
        self._max_entries = max_entries
        self._entries: dict[Name, Value] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, name: Name) -> Value | None:
        """Return what is remembered by this name."""
        found = self._entries.pop(name, None)
        if found is not None:
            self._entries[name] = found
        return found

    def put(self, name: Name, value: Value) -> None:
        """Remember a value."""
        self._entries.pop(name, None)
        self._entries[name] = value
        while len(self._entries) > self._max_entries:
            try:
                self._entries.pop(next(iter(self._entries)), None)
            except (RuntimeError, StopIteration):  # another thread changed it at this moment
                return


class CertificateCache:
    """The digests of certificates whose signatures were both good, to be shared between calls and threads."""

    __slots__ = ("_digests",)

    def __init__(self, max_entries: int = MAX_CACHED_CERTIFICATES) -> None:
        """Raise `ValueError` for a bound below 1."""
        self._digests = RecentlyUsed[bytes, bool](max_entries)

    def __len__(self) -> int:
        return len(self._digests)

    def __contains__(self, digest: bytes) -> bool:
        return self._digests.get(digest) is not None

    def add(self, digest: bytes) -> None:
        """Remember a certificate whose signatures were both verified."""
        self._digests.put(digest, True)
