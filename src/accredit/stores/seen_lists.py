"""The age of the newest revocation list of each issuer that any worker process has had in force, in memory that all
workers share. I/O: anonymous memory, mapped before workers are forked.

A restarted worker may find a list gone, or an older one in its place. From this memory it learns of the newer list, and
so does not accept certificates that the other workers refuse.

There is one slot for each issuer, wherever its lists lie, and a slot's value only grows. Workers write without a lock.
If a worker overwrites another's value, the other writes its value again half a second later, when it next reads the
lists. If two issuers share a slot, the older of their lists counts as out of date, so that calls are refused.
"""

import hashlib
import mmap
import struct
from collections.abc import Iterable

from accredit.ratify import RevocationList

SEEN_LISTS = 1_024
"""How many issuers have a slot of their own: 16 KiB. With more issuers, two may share a slot, and a new worker may then
refuse calls, but never accept a revoked certificate."""


_PLACE = struct.Struct("=8sQ")
_EMPTY = bytes(8)
_IDS_BITS = 20
"""Bits for a list's number of ids. No list has more ids: it would be longer than `MAX_STATEMENT_BYTES`."""
_MOST = (1 << 64) - 1


class SeenLists:
    """The age of the newest list of each issuer that any worker has had in force."""

    def __init__(self) -> None:
        """Map the memory, to be shared by processes that are forked later."""
        self._memory = mmap.mmap(-1, SEEN_LISTS * _PLACE.size)

    def note(self, revoked: RevocationList) -> None:
        """Note that a list is in force in this worker."""
        start, name, seen = self._place(revoked.issuer_id)
        newest = _age(revoked)
        if seen < newest:
            _PLACE.pack_into(self._memory, start, name, newest)

    def misses(self, issuer_id: str, here: Iterable[RevocationList]) -> bool:
        """Return whether any worker has had a newer list of the issuer in force than this worker has now."""
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
    """Return a number that orders lists by age: it grows with the list's time, and within a second with the number of
    ids."""
    ids = min(len(revoked.revoked_certs), (1 << _IDS_BITS) - 1)
    return max(1, min((revoked.updated_at << _IDS_BITS) + ids, _MOST))
