"""Challenges that say themselves what is to be known of them, so that nobody has to remember them. No I/O.

Anybody may ask for a challenge, before they have proved anything; what is remembered of each could be filled up by
strangers. So nothing is. The 32 bytes of a challenge of ours are

| bytes | |
|---|---|
| 0 to 7 | random |
| 8 to 12 | when it ends: unix seconds, big-endian, inclusive |
| 13 to 20 | the mark: the beginning of an HMAC-SHA256 over what stands before it |
| 21 to 31 | the seal: the beginning of another over all that, and the hash of the request that it is good for |

under a key that those share who accept the same proofs. Who knows the key can tell a challenge of ours from one that a
client made (of those, one in 2^64 has a good mark), for ever; and whether it is good for a request, until it ends.
Only that it was spent has to be remembered, and that costs somebody a good proof.
"""

import hmac
from hashlib import sha256
from typing import NamedTuple

from accredit.ratify.challenges import CHALLENGE_BYTES

KEY_BYTES = 32
RANDOM_BYTES = 8
_ENDS, _MARKED = 13, 21
_MARK, _SEAL = b"accredit/challenge/mark/v1\0", b"accredit/challenge/seal/v1\0"


class Issued(NamedTuple):
    """What a challenge of ours says: whether it is good for the request at hand, and until when (inclusive)."""

    fits: bool
    expires_at: int


def minted(key: bytes, random: bytes, request_hash: bytes, expires_at: int) -> bytes:
    """A challenge for a request. `random` has `RANDOM_BYTES`."""
    plain = random + expires_at.to_bytes(_ENDS - RANDOM_BYTES, "big")
    marked = plain + _code(key, _MARK + plain)[: _MARKED - _ENDS]
    return marked + _code(key, _SEAL + marked + request_hash)[: CHALLENGE_BYTES - _MARKED]


def read(key: bytes, challenge: bytes, request_hash: bytes) -> Issued | None:
    """What a challenge says of itself, or None for one that is not ours."""
    plain, mark, marked, seal = challenge[:_ENDS], challenge[_ENDS:_MARKED], challenge[:_MARKED], challenge[_MARKED:]
    if not hmac.compare_digest(mark, _code(key, _MARK + plain)[: _MARKED - _ENDS]):
        return None
    fits = hmac.compare_digest(seal, _code(key, _SEAL + marked + request_hash)[: CHALLENGE_BYTES - _MARKED])
    return Issued(fits, int.from_bytes(plain[RANDOM_BYTES:], "big"))


def _code(key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, sha256)
