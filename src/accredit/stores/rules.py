"""The rules common to all kinds of store. No I/O.

A challenge is judged in this order: one that was presented before is spent, whatever it is presented for now; one that
was issued here is valid for its own request until it expires, and for nothing else; any other is valid unless it must
be issued here.

A store that was lost, or is one process's memory, does not know what was spent before it began. So a challenge that a
client made before that must be one issued here, too (`made_before`): the caller is asked to sign one.

Expired entries are forgotten, by the clock. For each kind of entry the store remembers the latest end of those that it
forgot. If the clock was ahead then and has been set back, an entry ending no later may be missing although it counts
again: it is refused (`certain`).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from accredit.errors import ClockSetBack
from accredit.limits import CHALLENGE_WINDOW_SECONDS, CLOCK_LEAD_SECONDS, USE_MARKS
from accredit.ports import RateLimit, Spending
from accredit.stores.minted import Issued

NEVER = -1
"""No entry was forgotten; as `since`, all spent challenges are known."""


class ListChange(NamedTuple):
    """An issuer's revocation list before (None if there was none) and after."""

    before: bytes | None
    after: bytes


class SchemaState(NamedTuple):
    """The version of a store's tables (None without any), the one that this accredit makes, and the `oldest` that a
    gateway works on."""

    found: int | None
    known: int
    oldest: int = 0

    @property
    def serves(self) -> bool:
        """Whether a gateway works on it."""
        return self.found is not None and self.oldest <= self.found <= self.known


class DiskSpace(NamedTuple):
    """Free and total bytes of a file system."""

    free: int
    size: int


class Series(NamedTuple):
    """The uses of one certificate that one limit counts."""

    cert_id: str
    window_s: int


def judge(*, spent: bool, ours: Issued | None, issued: bool, now: int) -> Spending:
    """Return the verdict on a challenge. `ours` is its content if it was issued here; `issued`: only such count."""
    if spent:
        return Spending.SPENT
    if ours is None:
        return Spending.NOT_ISSUED if issued else Spending.FIRST
    good = ours.fits and now <= ours.expires_at
    return Spending.FIRST if good else Spending.NOT_ISSUED


def made_before(since: int, keep_until: int) -> bool:
    """Return whether a client made its challenge before `since`, so that it may have been spent before. Clients date
    theirs back by `CLOCK_LEAD_SECONDS`; each is kept for the window."""
    return keep_until - 1 - CHALLENGE_WINDOW_SECONDS < since - CLOCK_LEAD_SECONDS


def certain(ends: int, forgotten: int) -> None:
    """Raise `ClockSetBack` if an entry that ends at `ends` may be forgotten; the latest of those ended at
    `forgotten`."""
    if ends <= forgotten:
        raise ClockSetBack(forgotten)


class Taking(NamedTuple):
    """What one use of a series counts for, the most in its window, and the number of parts of the window."""

    amount: int
    most: int
    parts: int


class UseMark(NamedTuple):
    """A mark of a series, and the total of the uses under earlier marks."""

    at: int
    before: int


def strictest(limits: Iterable[RateLimit]) -> dict[Series, Taking]:
    """Return what to take of each series: within the smaller limit if a certificate has two for one window."""
    takings: dict[Series, Taking] = {}
    for limit in limits:
        series = Series(limit.cert_id, limit.window_s)
        other = takings.get(series, Taking(limit.amount, limit.count, limit.parts))
        takings[series] = Taking(max(limit.amount, other.amount), min(limit.count, other.most), limit.parts)
    return takings


def room_at(marks: Sequence[UseMark], total: int, limit: RateLimit, now: int) -> int | None:
    """Return when there is room for one more use; None if never. `marks` are those in the window, in order, and `total`
    is that of all uses of the series."""
    room = limit.count - limit.amount
    if room < 0:
        return None
    befores = [each.before for each in marks] + [total]
    if total - befores[0] <= room:
        return now
    return next(
        mark.at + limit.window_s for mark, after in zip(marks, befores[1:], strict=True) if total - after <= room
    )


def mark(window_s: int, now: int, parts: int = USE_MARKS) -> int:
    """Return the second under which a use at `now` is recorded: the end of its part, so that it counts long enough."""
    step = max(1, window_s // parts)
    return -(-now // step) * step
