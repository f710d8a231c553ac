"""Certificates that need not be verified again. No I/O.

Remembered is the digest of everything that was signed and of both signatures, only after both were good. Whatever
can change (time, revocation, linkage, scopes, constraints, the challenge) is evaluated every time.
"""

from accredit.base.caching import RecentlyUsed
from accredit.limits import MAX_CACHED_CERTIFICATES


class CertificateCache:
    """The digests of certificates whose signatures were both good, to be shared between calls and threads."""

    __slots__ = ("_digests",)

    def __init__(self, max_entries: int = MAX_CACHED_CERTIFICATES) -> None:
        """Raise `ValueError` for a bound below 1."""
        if max_entries < 1:
            raise ValueError("max_entries is at least 1")
        self._digests = RecentlyUsed[bytes, bool](max_entries)

    def __len__(self) -> int:
        return len(self._digests)

    def __contains__(self, digest: bytes) -> bool:
        return self._digests.get(digest) is not None

    def add(self, digest: bytes) -> None:
        """Remember a certificate whose signatures were both verified."""
        self._digests.put(digest, True)
