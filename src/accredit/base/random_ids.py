"""Random ids, drawn in batches: each system call for randomness lets other threads take the interpreter. Reads
randomness."""

import secrets

_ID_BYTES = 16
_IDS_AT_ONCE = 64


class RandomIds:
    """Makes ids of 128 random bits. Processes must not share a batch: create this object, or first draw from it, after
    forking."""

    __slots__ = ("_stock",)

    def __init__(self) -> None:
        self._stock = b""

    def draw(self) -> str:
        """Return a new unique id, in hex."""
        if len(self._stock) < _ID_BYTES:
            self._stock = secrets.token_bytes(_ID_BYTES * _IDS_AT_ONCE)
        drawn, self._stock = self._stock[:_ID_BYTES], self._stock[_ID_BYTES:]
        return drawn.hex()
