"""Challenges that carry their own state, so that none has to be stored. No I/O.

Anybody may request a challenge before proving anything. If issued challenges were stored, strangers could fill that
store, so they are not. The 32 bytes of a challenge issued here are

| bytes | |
|---|---|
| 0 to 7 | random |
| 8 to 12 | its last second: unix time, big-endian |
| 13 to 20 | the mark: the first bytes of an HMAC-SHA256 over what precedes it |
| 21 to 31 | the seal: the first bytes of an HMAC-SHA256 over what precedes it and the hash of the challenge's request |

Both HMACs use a key that is shared by all that accept the same proofs. With it they can always tell a challenge issued
here from one that a client made (one in 2^64 of the latter has a valid mark). Until a challenge expires, they can also
tell whether it is valid for a request. Only spent challenges have to be stored, and to spend one takes a valid proof.
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
    """The content of a challenge issued here: whether it is valid for the request in question, and its last valid
    second."""

    fits: bool
    expires_at: int


def mint_challenge(key: bytes, random: bytes, request_hash: bytes, expires_at: int) -> bytes:
    """Return a challenge for a request. `random` has `RANDOM_BYTES` bytes."""
    plain = random + expires_at.to_bytes(_ENDS - RANDOM_BYTES, "big")
    marked = plain + _code(key, _MARK + plain)[: _MARKED - _ENDS]
    return marked + _code(key, _SEAL + marked + request_hash)[: CHALLENGE_BYTES - _MARKED]


def read(key: bytes, challenge: bytes, request_hash: bytes) -> Issued | None:
    """Decode a challenge, or return None if it was not issued here."""
    plain, mark, marked, seal = challenge[:_ENDS], challenge[_ENDS:_MARKED], challenge[:_MARKED], challenge[_MARKED:]
    if not hmac.compare_digest(mark, _code(key, _MARK + plain)[: _MARKED - _ENDS]):
        return None
    fits = hmac.compare_digest(seal, _code(key, _SEAL + marked + request_hash)[: CHALLENGE_BYTES - _MARKED])
    return Issued(fits, int.from_bytes(plain[RANDOM_BYTES:], "big"))


def _code(key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, sha256)
