"""Random ids, drawn in batches, as each system call lets other threads take the interpreter. Reads randomness."""

import secrets

_ID_BYTES = 16
_IDS_AT_ONCE = 64


class RandomIds:
    """Ids of 128 random bits. Processes must not share a batch: create it, or first draw, after forking."""

    __slots__ = ("_stock",)

    def __init__(self) -> None:
        self._stock = b""

    def draw(self) -> str:
        """Return a new unique id, in hex."""
        if len(self._stock) < _ID_BYTES:
            self._stock = secrets.token_bytes(_ID_BYTES * _IDS_AT_ONCE)
        drawn, self._stock = self._stock[:_ID_BYTES], self._stock[_ID_BYTES:]
        return drawn.hex()
