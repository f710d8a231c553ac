"""Challenges that a verifier issues and accepts once (Ratify section 9). No I/O.

A challenge is valid while it is stored and has not expired, and only with the binding for which it was issued. The
binding is the session context or, in the gateway, the hash of the request. Time and randomness are arguments.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from accredit.errors import ChallengesFull

MAX_PENDING_CHALLENGES = 10_000
"""The most challenges in the memory store that were issued and not yet used (Ratify section 9), some 200 bytes each."""


CHALLENGE_BYTES = 32
_BINDING_BYTES = 32

_UNKNOWN = "challenge was not issued by this verifier or has already been used"


class ChallengeStore(Protocol):
    """The store of challenges that `verify_bundle` uses. `binding` is empty or has 32 bytes. `now` is in unix
    seconds."""

    def validate(self, challenge: bytes, binding: bytes, now: int) -> str | None:
        """Return None if the challenge could be consumed now, otherwise why not. Changes nothing."""
        ...

    def consume(self, challenge: bytes, binding: bytes, now: int) -> str | None:
        """Consume a challenge: return None, or why it can't be. Of two concurrent calls exactly one gets None."""
        ...


class IssuedChallenge(NamedTuple):
    """A fresh challenge of 32 bytes, and the last unix second in which it is valid."""

    challenge: bytes
    expires_at: int


class _Record(NamedTuple):
    binding: bytes
    expires_at: int


class MemoryChallengeStore:
    """A store within one process, safe to share between threads.

    `draw(n)` returns n unpredictable bytes: `secrets.token_bytes`, except in tests.
    """

    __slots__ = ("_draw", "_max_size", "_records", "_swept_at")

    def __init__(self, draw: Callable[[int], bytes], max_size: int = MAX_PENDING_CHALLENGES) -> None:
        """Raise `ValueError` for a size below 1."""
        if max_size < 1:
            raise ValueError("max_size is at least 1")
        self._draw = draw
        self._max_size = max_size
        self._records: dict[bytes, _Record] = {}
        self._swept_at = 0

    def __len__(self) -> int:
        return len(self._records)

    def issue(self, binding: bytes, ttl_seconds: int, now: int) -> IssuedChallenge:
        """Issue a challenge for one use. Raises `ChallengesFull`, or `ValueError` for a bad binding or lifetime."""
        if len(binding) not in (0, _BINDING_BYTES):
            raise ValueError(f"a binding has {_BINDING_BYTES} bytes")
        if ttl_seconds <= 0:
            raise ValueError("a challenge lives for at least a second")
        if len(self._records) >= self._max_size:
            self._sweep(now)
        issued = IssuedChallenge(self._draw(CHALLENGE_BYTES), now + ttl_seconds)
        self._records[issued.challenge] = _Record(binding, issued.expires_at)
        return issued

    def validate(self, challenge: bytes, binding: bytes, now: int) -> str | None:
        """Return None if the challenge could be consumed now, otherwise why not. Changes nothing."""
        record = self._records.get(challenge)
        return None if record and record.expires_at >= now and record.binding == binding else _UNKNOWN

    def consume(self, challenge: bytes, binding: bytes, now: int) -> str | None:
        """Consume a challenge: return None, or why it can't be. If it is presented with another binding, it stays
        valid."""
        refusal = self.validate(challenge, binding, now)
        if refusal is None and self._records.pop(challenge, None) is None:
            return _UNKNOWN  # another thread took it first
        return refusal

    def _sweep(self, now: int) -> None:
        # At most once a second: filling the store must not make every further request scan it.
        if now != self._swept_at:
            self._swept_at = now
            expired = [challenge for challenge, record in list(self._records.items()) if record.expires_at < now]
            for challenge in expired:
                self._records.pop(challenge, None)
        if len(self._records) >= self._max_size:
            raise ChallengesFull(f"{self._max_size} challenges are pending")
