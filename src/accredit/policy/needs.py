"""What a decision asks of the world while it runs. No I/O: see `drive` for who answers.

Every need can be answered by an exception, and then the answer is no.
"""

from typing import NamedTuple

from accredit.ports import RateLimit


class IsRevoked(NamedTuple):
    """Is this certificate revoked? The answer is a bool."""

    cert_id: str


class LookAtChallenge(NamedTuple):
    """What would `SpendChallenge` say? The answer is a `Spending`; nothing changes."""

    challenge: bytes
    request_hash: bytes
    issued: bool


class SpendChallenge(NamedTuple):
    """Spend this challenge, once for all. The answer is a `Spending`."""

    challenge: bytes
    request_hash: bytes
    issued: bool
    keep_until: int


class IssueChallenge(NamedTuple):
    """A fresh challenge for this request. The answer is an `IssuedChallenge`."""

    request_hash: bytes
    expires_at: int


class CountUses(NamedTuple):
    """How often was this certificate used in the last seconds? The answer is an int."""

    cert_id: str
    window_s: int


class TakeUse(NamedTuple):
    """Note one use of each certificate, unless that exceeds a limit. The answer is a bool."""

    limits: tuple[RateLimit, ...]


class FindTask(NamedTuple):
    """Which task is remembered under this key? The answer is a `Task`, or None."""

    key: bytes


Need = IsRevoked | LookAtChallenge | SpendChallenge | IssueChallenge | CountUses | TakeUse | FindTask
