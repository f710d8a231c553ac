"""Quotas: how many calls may be made in a window of time, or how much a fact of these calls (such as an amount) may add
up to. No I/O.

- [subject] A quota counts calls of tools for each principal, agent, token's subject or server. If a call has no such
  key, or lacks the fact to be summed, it can't be counted, and is refused. Calls of the gateway's own tools (`drill`)
  are not counted: they go to no server.
- [capacity] Every quota that applies to a call must have room, and so must the certificates' own limits. If one has
  not, nothing is counted (`uses`).
- [count-key] The key of a count does not include the limit. So a changed limit applies to the existing count. At the
  merged endpoint of all servers, a call counts as a call of its own server's tool.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Literal, NamedTuple

from msgspec import Struct

from accredit.policy.drill import DRILLS
from accredit.policy.merging import Member, member_of_name, merged_name
from accredit.ports import RateLimit

MAX_RATE_WINDOW_SECONDS = 31 * 86_400
"""The longest window in which uses are counted, and so the longest time for which they are kept. A month is the longest
common billing period."""
QUOTA_MARKS = 50
"""The number of parts of a quota's window that are counted separately. It is small, as quotas count many more callers
than delegations do."""


ANY_TOOL = "*"
QUOTA_UNITS = 1_000_000
"""Sums are counted in millionths, and each value is rounded up to a whole millionth. So sums are exact for values with
up to six decimals, and otherwise never too small."""

_WINDOW = re.compile(r"(0|[1-9][0-9]{0,6})([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}

By = Literal["principal", "agent", "subject", "server"]


class Quota(Struct, frozen=True, kw_only=True):
    """At most `most` calls of `tools` in any `window_s` seconds. With a `fact`, `most` limits that fact's sum instead,
    in millionths. `window` is the window's length as the configuration writes it."""

    by: By
    tools: frozenset[str]
    window_s: int
    window: str
    most: int
    fact: str = ""

    def __str__(self) -> str:
        """Describe it in words."""
        what = f"a sum of {self.most / QUOTA_UNITS:.15g} ({self.fact})" if self.fact else f"{self.most} calls"
        whom = "each server" if self.by == "server" else f"each {self.by}"
        return f"{what} in {self.window} for {whom}"


class QuotaCaller(NamedTuple):
    """The keys by which a call is counted; None for one that is unknown. `subject` is the token's issuer and
    subject."""

    principal: str | None = None
    agent: str | None = None
    subject: tuple[str, str] | None = None


class QuotaReached(Exception):
    """Raised if a quota has no room for a call. There will be room after `seconds`; None means never for this call.
    `missing` names the property that the call lacks, if it can't be counted at all."""

    def __init__(self, quota: Quota, seconds: int | None, missing: str = "") -> None:
        super().__init__(quota, seconds, missing)
        self.quota = quota
        self.seconds = seconds
        self.missing = missing


Taken = tuple[tuple[Quota, RateLimit], ...]
"""Quotas, each with the amount that a call takes of it."""


class Quotas(Struct, frozen=True):
    """The quotas of a server's calls, or of all servers' calls at the merged endpoint (`merged`)."""

    entries: tuple[Quota, ...] = ()
    server: str = ""
    merged: frozenset[str] = frozenset()

    def taken_by(self, tool: str, caller: QuotaCaller, facts: Mapping[str, str | float]) -> Taken:
        """Return what a call of a tool takes of each quota. Raises `QuotaReached`."""
        if tool in DRILLS:
            return ()  # drills reach no server
        own = member_of_name(tool) if self.merged else Member(self.server, tool)
        if own is None or (self.merged and own.server not in self.merged):
            return ()  # an unknown tool: the call is refused, and strangers could invent any number of them
        names = {ANY_TOOL, own.own, merged_name(own.server, own.own)}
        return tuple(
            (quota, _limit(quota, own.server, caller, facts))
            for quota in self.entries
            if not quota.tools.isdisjoint(names)
        )


def window_seconds(text: str) -> int:
    """Return the seconds of a window, such as `15m`. Raises `ValueError`, whose text follows the setting's name in an
    error message."""
    match = _WINDOW.fullmatch(text)
    found = int(match[1]) * _UNITS[match[2]] if match is not None else 0
    if not 0 < found <= MAX_RATE_WINDOW_SECONDS:
        raise ValueError(f"should be like 60s, 15m, 12h or 7d, and at most {MAX_RATE_WINDOW_SECONDS // 86_400}d")
    return found


def _limit(quota: Quota, server: str, caller: QuotaCaller, facts: Mapping[str, str | float]) -> RateLimit:
    whom = server if quota.by == "server" else getattr(caller, quota.by)
    if whom is None:
        raise QuotaReached(quota, None, quota.by)
    amount = 1
    if quota.fact:
        found = facts.get(quota.fact)
        if not isinstance(found, float) or found < 0:
            raise QuotaReached(quota, None, quota.fact)
        amount = math.ceil(Decimal(repr(found)) * QUOTA_UNITS)
    of = ["quota", quota.by, sorted(quota.tools), quota.fact, whom]
    return RateLimit(
        hashlib.sha256(json.dumps(of).encode()).hexdigest(), quota.window_s, quota.most, amount, QUOTA_MARKS
    )
