"""What both stores decide alike. No I/O.

A challenge is judged in this order: one that was presented before is spent, whatever it is presented for now; one that
was issued is good for its own request while it is alive, and for nothing else; one that nobody here knows is good
where it need not have been issued.

What has ended is forgotten, by the clock. Of each kind the store remembers the latest end of what it forgot: where the
clock was ahead then, and was set back, what ends no later may count again and be gone, and is refused (`certain`).
"""

from collections.abc import Iterable
from typing import NamedTuple

from accredit.errors import ClockSetBack
from accredit.limits import USE_MARKS
from accredit.ports import RateLimit, Spending
from accredit.stores.minted import Issued

NEVER = -1
"""The latest end of what was forgotten, where nothing was."""


class Series(NamedTuple):
    """The uses of one certificate that one limit counts."""

    cert_id: str
    window_s: int


def judge(*, spent: bool, ours: Issued | None, issued: bool, now: int) -> Spending:
    """What becomes of a challenge; `ours` is what it says, if it is, and `issued` says that it must be."""
    if spent:
        return Spending.SPENT
    if ours is None:
        return Spending.NOT_ISSUED if issued else Spending.FIRST
    good = ours.fits and now <= ours.expires_at
    return Spending.FIRST if good else Spending.NOT_ISSUED


def certain(ends: int, forgotten: int) -> None:
    """Raises `ClockSetBack` unless what ends then, or later, is remembered still. `forgotten` is the latest end of what
    was forgotten."""
    if ends <= forgotten:
        raise ClockSetBack(forgotten)


def strictest(limits: Iterable[RateLimit]) -> dict[Series, int]:
    """The count of each series; the smaller where a certificate has two limits for one window."""
    counts: dict[Series, int] = {}
    for limit in limits:
        series = Series(limit.cert_id, limit.window_s)
        counts[series] = min(limit.count, counts.get(series, limit.count))
    return counts


def mark(window_s: int, now: int) -> int:
    """The second under which a use at `now` is noted: the end of its part of the window, so that it is never counted
    for less than `window_s` seconds."""
    step = max(1, window_s // USE_MARKS)
    return -(-now // step) * step
