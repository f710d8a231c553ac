"""What both stores decide alike. No I/O.

A challenge is judged in this order: one that was presented before is spent, whatever it is presented for now; one that
was issued is good for its own request while it is alive, and for nothing else; one that nobody here knows is good
where it need not have been issued.
"""

from collections.abc import Iterable
from typing import NamedTuple

from accredit.limits import USE_MARKS
from accredit.ports import RateLimit, Spending
from accredit.stores.minted import Issued


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
