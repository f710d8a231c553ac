"""What all kinds of store have alike. No I/O.

A challenge is judged in this order: one that was presented before is spent, whatever it is presented for now; one that
was issued here is good for its own request while it is alive, and for nothing else; any other is good unless it has to
be issued here.

Expired entries are forgotten, by the clock. For each kind of entry the store remembers the latest end of those that it
forgot. If the clock was ahead then and has been set back, an entry ending no later may be missing although it counts
again: it is refused (`certain`).
"""

from collections.abc import Iterable
from typing import NamedTuple

from accredit.errors import ClockSetBack
from accredit.limits import USE_MARKS
from accredit.ports import RateLimit, Spending
from accredit.stores.minted import Issued

NEVER = -1
"""The latest end of forgotten entries, while there are none."""


class ListChange(NamedTuple):
    """An issuer's revocation list before (None if there was none) and after."""

    before: bytes | None
    after: bytes


class Series(NamedTuple):
    """The uses of one certificate that one limit counts."""

    cert_id: str
    window_s: int


def judge(*, spent: bool, ours: Issued | None, issued: bool, now: int) -> Spending:
    """Return the verdict on a challenge. `ours` is what it says if it was issued here, and `issued` that it must be."""
    if spent:
        return Spending.SPENT
    if ours is None:
        return Spending.NOT_ISSUED if issued else Spending.FIRST
    good = ours.fits and now <= ours.expires_at
    return Spending.FIRST if good else Spending.NOT_ISSUED


def certain(ends: int, forgotten: int) -> None:
    """Raise `ClockSetBack` if what ends at `ends` may be among the forgotten; the latest of those ended at
    `forgotten`."""
    if ends <= forgotten:
        raise ClockSetBack(forgotten)


def strictest(limits: Iterable[RateLimit]) -> dict[Series, int]:
    """Return the limit of each series: the smaller one if a certificate has two limits for one window."""
    counts: dict[Series, int] = {}
    for limit in limits:
        series = Series(limit.cert_id, limit.window_s)
        counts[series] = min(limit.count, counts.get(series, limit.count))
    return counts


def mark(window_s: int, now: int) -> int:
    """Return the second under which a use at `now` is recorded: the end of its part, so that it counts long enough."""
    step = max(1, window_s // USE_MARKS)
    return -(-now // step) * step
