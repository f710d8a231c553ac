"""The constraint on when: a window of local time (Ratify section 7).

Zone names are those of the `tzdata` package, so that no name leads to another file. The zones' rules come from the
operating system if it has them, otherwise from that package. The rest of `ratify` reads no files.
"""

import re
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING

from accredit.base.deferred import Deferred
from accredit.errors import ConfigurationError
from accredit.ratify.constraints.base import BuiltIn, Outcome, denial
from accredit.ratify.facts import VerifierContext

if TYPE_CHECKING:
    import zoneinfo
else:
    zoneinfo = Deferred("zoneinfo")

_CLOCK = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")


@cache
def zone_names() -> frozenset[str]:
    """Return the names of all IANA time zones. Raises `ConfigurationError` if the zone data is missing.

    Call this once when the program starts: without zone data, a verifier would refuse calls that it should allow.
    """
    from importlib.resources import files  # noqa: PLC0415 - takes longer to load than all constraints

    try:
        names = files("tzdata").joinpath("zones").read_text("utf-8").split()
    except (ImportError, OSError):
        raise ConfigurationError("the time zone data is missing", "install the package tzdata") from None
    return frozenset(names)


class TimeWindow(BuiltIn, frozen=True, tag="time_window"):
    """From `start` to `end`, both included, by the clocks of zone `tz`. If `end` is before `start`, the window goes
    past midnight."""

    start: str
    end: str
    tz: str

    def judge(self, facts: VerifierContext, _cert_id: str, now: int, /) -> Outcome | None:
        """Check the form of `start`, `end` and `tz`, then the time, in whole minutes."""
        if not (self.tz and self.start and self.end):
            return denial("malformed time_window: tz/start/end required")
        start, end = _minutes(self.start), _minutes(self.end)
        if start is None:
            return denial(f"bad start time: {self.start}")
        if end is None:
            return denial(f"bad end time: {self.end}")
        if self.tz not in zone_names():
            return denial(f'unknown timezone "{self.tz}"')
        local = datetime.fromtimestamp(now, zoneinfo.ZoneInfo(self.tz))
        current = local.hour * 60 + local.minute
        wraps = end < start
        if (current >= start or current <= end) if wraps else (start <= current <= end):
            return None
        wrapped = "wrapped " if wraps else ""
        return denial(f"current {local:%H:%M} outside {wrapped}[{self.start}, {self.end}] {self.tz}")


def _minutes(clock: str) -> int | None:
    match = _CLOCK.fullmatch(clock)
    return int(match[1]) * 60 + int(match[2]) if match else None
