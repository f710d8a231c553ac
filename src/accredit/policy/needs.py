"""What a decision needs from the world while it runs; `drive` answers. No I/O.

Any need may be answered with an exception: the call is then refused.
"""

from typing import NamedTuple

from accredit.ports import RateLimit


class IsRevoked(NamedTuple):
    """Is this certificate revoked? The answer is a bool."""

    cert_id: str


class LookAtChallenge(NamedTuple):
    """Ask what `SpendChallenge` would answer, without changing anything. The answer is a `Spending`."""

    challenge: bytes
    request_hash: bytes
    issued: bool


class SpendChallenge(NamedTuple):
    """Spend this challenge, once for all. The answer is a `Spending`. `keep_until` is in unix seconds."""

    challenge: bytes
    request_hash: bytes
    issued: bool
    keep_until: int


class IssueChallenge(NamedTuple):
    """Issue a fresh challenge for this request. The answer is an `IssuedChallenge`. `expires_at` is in unix seconds."""

    request_hash: bytes
    expires_at: int


class CountUses(NamedTuple):
    """How often was this certificate used in the last `window_s` seconds? The answer is an int."""

    cert_id: str
    window_s: int


class TakeUse(NamedTuple):
    """Record one use of each certificate, unless that would exceed a limit. The answer is a bool."""

    limits: tuple[RateLimit, ...]


class FindTask(NamedTuple):
    """Which task is remembered under this key? The answer is a `Task`, or None."""

    key: bytes


Need = IsRevoked | LookAtChallenge | SpendChallenge | IssueChallenge | CountUses | TakeUse | FindTask
