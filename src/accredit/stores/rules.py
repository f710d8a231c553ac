"""The rules common to all kinds of store. No I/O.

A challenge is judged in this order. If it was presented before, it is spent, even for another request. If it was issued
here, it is valid for its own request until it expires, and for nothing else. Otherwise a client made it: then it is
valid unless the request needs one issued here.

A store that was lost, or is in one process's memory, does not know what was spent before it began. A challenge that a
client made before that time could be a spent one, so it is not accepted (`made_before`): the caller is asked to sign
one issued here.

Expired entries are forgotten, by the clock. For each kind of entry, the store remembers the latest expiry time of those
that it forgot. If the clock was ahead then and has been set back since, an entry that expires by that time may be
missing, although it is needed again. So any entry that expires by that time is refused (`certain`).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from accredit.errors import ClockSetBack
from accredit.limits import CHALLENGE_WINDOW_SECONDS, CLOCK_LEAD_SECONDS, USE_MARKS
from accredit.ports import RateLimit, Spending
from accredit.stores.minted import Issued

NEVER = -1
"""Long ago. As the latest end of forgotten entries, it means that none was forgotten; as `since`, that all spent
challenges are known."""


class FoundList(NamedTuple):
    """A revocation list as it was found, and the id of the issuer in whose row it was; None for a file that holds one
    list."""

    text: bytes
    row: str | None = None


class ListChange(NamedTuple):
    """An issuer's revocation list before a change (None if there was none), and after it."""

    before: bytes | None
    after: bytes


class SchemaState(NamedTuple):
    """The version of a store's tables (None if it has none), the version that this accredit creates, and the `oldest`
    version that a gateway works on."""

    found: int | None
    known: int
    oldest: int = 0

    @property
    def serves(self) -> bool:
        """Whether a gateway works on tables of this version."""
        return self.found is not None and self.oldest <= self.found <= self.known


class DiskSpace(NamedTuple):
    """Free and total bytes of a file system."""

    free: int
    size: int


class Series(NamedTuple):
    """The uses of one certificate in windows of one length, as one limit counts them."""

    cert_id: str
    window_s: int


def judge(*, spent: bool, ours: Issued | None, issued: bool, now: int) -> Spending:
    """Return the verdict on a challenge. `spent` says that it was presented before. `ours` is its content if it was
    issued here. `issued` says that only a challenge issued here is accepted."""
    if spent:
        return Spending.SPENT
    if ours is None:
        return Spending.NOT_ISSUED if issued else Spending.FIRST
    good = ours.fits and now <= ours.expires_at
    return Spending.FIRST if good else Spending.NOT_ISSUED


def made_before(since: int, keep_until: int) -> bool:
    """Return whether a client made its challenge before `since`, so that it may be a spent one. Clients date their
    challenges back by `CLOCK_LEAD_SECONDS`, and each is kept for the whole window of time in which it is fresh."""
    return keep_until - 1 - CHALLENGE_WINDOW_SECONDS < since - CLOCK_LEAD_SECONDS


def certain(ends: int, forgotten: int) -> None:
    """Raise `ClockSetBack` if an entry that ends at `ends` may have been forgotten. `forgotten` is the latest end of
    all forgotten entries."""
    if ends <= forgotten:
        raise ClockSetBack(forgotten)


class WindowUse(NamedTuple):
    """How much of a series' window one use takes, how much the window may hold, and into how many parts it is
    divided."""

    amount: int
    most: int
    parts: int


class UseMark(NamedTuple):
    """A mark: the time in seconds under which uses of a series are recorded, and the total recorded under earlier
    marks."""

    at: int
    before: int


def strictest(limits: Iterable[RateLimit]) -> dict[Series, WindowUse]:
    """Return what one use takes of each series. If a certificate has two limits with windows of the same length, the
    smaller one counts."""
    takings: dict[Series, WindowUse] = {}
    for limit in limits:
        series = Series(limit.cert_id, limit.window_s)
        other = takings.get(series, WindowUse(limit.amount, limit.count, limit.parts))
        takings[series] = WindowUse(max(limit.amount, other.amount), min(limit.count, other.most), limit.parts)
    return takings


def room_at(marks: Sequence[UseMark], total: int, limit: RateLimit, now: int) -> int | None:
    """Return when there is room for one more use; None if never. `marks` are those within the window, in order, and
    `total` is the total of all uses of the series."""
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
    """Return the second under which a use at `now` is recorded. A window is divided into `parts`. The second is the end
    of the part that `now` is in, so that the use counts for at least the whole window: that many whole seconds, of
    which the first may be over but for a moment."""
    step = max(1, window_s // parts)
    return -(-now // step) * step
