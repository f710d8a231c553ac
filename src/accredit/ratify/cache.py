"""Certificates that need not be verified again (Ratify brief, section 19). No I/O.

Remembered is the hash of everything that was signed and of both signatures, only after both were good. Whatever can
change (time, revocation, linkage, scopes, constraints, the challenge) is evaluated every time.
"""

from accredit.limits import MAX_CACHED_CERTIFICATES


class CertificateCache:
    """The digests of certificates whose signatures were good; the least recently used go first.

    One object may be shared by threads: the worst that a race can do is to forget a digest, which costs one
    verification.
    """

    __slots__ = ("_digests", "_max_entries")

    def __init__(self, max_entries: int = MAX_CACHED_CERTIFICATES) -> None:
        """Raises `ValueError` for a bound below 1."""
        if max_entries < 1:
            raise ValueError("max_entries is at least 1")
        self._max_entries = max_entries
        self._digests: dict[bytes, None] = {}

    def __len__(self) -> int:
        return len(self._digests)

    def __contains__(self, digest: bytes) -> bool:
        try:
            del self._digests[digest]
        except KeyError:
            return False
        self._digests[digest] = None
        return True

    def add(self, digest: bytes) -> None:
        """Remembers a certificate whose signatures were both verified."""
        self._digests[digest] = None
        while len(self._digests) > self._max_entries:
            try:
                self._digests.pop(next(iter(self._digests)), None)
            except (RuntimeError, StopIteration):  # another thread changed it at this moment
                return
