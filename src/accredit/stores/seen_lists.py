"""The age of the newest revocation lists that any worker has had in force, in memory shared by all. I/O: anonymous
memory, mapped before workers are forked.

A restarted worker may find a list gone, or an older one in its place. Here it sees that there was a newer one, so that
it does not accept what the others refuse.

There is one slot for each issuer, wherever its lists lie, and its value only grows. Workers write without a lock: an
overwritten value is written again at its worker's next look, half a second later. If all slots are taken two issuers
share one, and the older list of the two then counts as unread: no answer is a refusal.
"""

import hashlib
import mmap
import struct
from collections.abc import Iterable

from accredit.ratify import RevocationList

SEEN_LISTS = 1_024
"""Issuers whose newest list's age is shared by all workers: 16 KiB. With more, two that share a slot make a new worker
refuse rather than forget."""


_PLACE = struct.Struct("=8sQ")
_EMPTY = bytes(8)
_IDS_BITS = 20
"""No list has more ids: it would be longer than `MAX_STATEMENT_BYTES`."""
_MOST = (1 << 64) - 1


class SeenLists:
    """The newest age of each list that any worker has seen."""

    def __init__(self) -> None:
        """Map the memory, to be shared by processes that are forked later."""
        self._memory = mmap.mmap(-1, SEEN_LISTS * _PLACE.size)

    def note(self, revoked: RevocationList) -> None:
        """Note that a list is in force here."""
        start, name, seen = self._place(revoked.issuer_id)
        newest = _age(revoked)
        if seen < newest:
            _PLACE.pack_into(self._memory, start, name, newest)

    def misses(self, issuer_id: str, here: Iterable[RevocationList]) -> bool:
        """Return whether any worker has seen a newer list of an issuer than those in force here."""
        _, _, seen = self._place(issuer_id)
        return seen > max(map(_age, here), default=0)

    def _place(self, issuer_id: str) -> tuple[int, bytes, int]:
        name = hashlib.sha256(issuer_id.encode("utf-8", "surrogatepass")).digest()[:8]
        first = int.from_bytes(name, "big") % SEEN_LISTS
        for step in range(SEEN_LISTS):
            start = (first + step) % SEEN_LISTS * _PLACE.size
            found, seen = _PLACE.unpack_from(self._memory, start)
            if found in (name, _EMPTY):
                return start, name, seen
        found, seen = _PLACE.unpack_from(self._memory, first * _PLACE.size)
        return first * _PLACE.size, found, seen


def _age(revoked: RevocationList) -> int:
    """Return a number that grows with the time, and within a second with the number of ids."""
    ids = min(len(revoked.revoked_certs), (1 << _IDS_BITS) - 1)
    return max(1, min((revoked.updated_at << _IDS_BITS) + ids, _MOST))
