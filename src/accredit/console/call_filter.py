"""A filter of calls, as people write it: `tool:send_email -outcome:ok after:1d`. No I/O.

Each word is `QUALIFIER:VALUE`; `-` before it negates it. A call must match every qualifier; if one qualifier has
several values, one of them is enough. A value with blanks is quoted. `after` and `before` take a time (RFC 3339, or a
day), or an age (`30m`, `12h`, `7d`). An agent or principal matches by name, or by a prefix of its id.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from msgspec import Struct

from accredit.attest import CallRecord, timestamp
from accredit.errors import DeskError
from accredit.limits import MAX_CALL_FILTER_CHARS

QUALIFIERS = ("tool", "agent", "principal", "server", "decision", "outcome", "error", "call")
TIMES = ("after", "before")
_WORD = re.compile(r'\s*(-?)([a-z]+):(?:"([^"]*)"|([^\s"]\S*))(?=\s|\Z)')
_AGO = re.compile(r"([1-9][0-9]{0,5})([smhd])")
_UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000}
_REMEDY = "write words such as tool:send_email, -outcome:ok or after:1d"


class CallFilter(Struct, frozen=True):
    """A parsed filter. Times are as in records: RFC 3339, UTC, with milliseconds."""

    wanted: Mapping[str, frozenset[str]] = {}
    unwanted: Mapping[str, frozenset[str]] = {}
    after: str = ""
    before: str = ""

    def passes(self, received: str, values: Mapping[str, tuple[str, ...]]) -> bool:
        """Return whether a call matches. `received` is the time at which it was received, `values` its values by
        qualifier (`values_of`)."""
        if received < self.after or (self.before and received >= self.before):
            return False
        return all(_any(each, values[name]) for name, each in self.wanted.items()) and not any(
            _any(each, values[name]) for name, each in self.unwanted.items()
        )


def read_filter(text: str, now_ms: int) -> CallFilter:
    """Parse a filter; `now_ms` is in unix milliseconds. Raises `DeskError`."""
    if len(text) > MAX_CALL_FILTER_CHARS:
        raise DeskError("filter", f"a filter has at most {MAX_CALL_FILTER_CHARS} characters")
    wanted: dict[str, frozenset[str]] = {}
    unwanted: dict[str, frozenset[str]] = {}
    times: dict[str, str] = {}
    place, end = 0, len(text.rstrip())
    while place < end:
        word = _WORD.match(text, place)
        if word is None:
            raise DeskError("filter", f"this filter can't be read: {_REMEDY}")
        name, value = word[2], word[3] if word[3] is not None else word[4]
        if name in TIMES and not word[1]:
            times[name] = _time(value, now_ms)
        elif name in QUALIFIERS:
            side = unwanted if word[1] else wanted
            side[name] = side.get(name, frozenset()) | {value}
        else:
            raise DeskError("filter", f"there is no {word[1]}{name}: {_REMEDY}")
        place = word.end()
    return CallFilter(wanted, unwanted, **times)


def values_of(decision: CallRecord, status: str, names: Mapping[str, str]) -> Mapping[str, tuple[str, ...]]:
    """Return a call's values by qualifier. If a value ends with an asterisk, a prefix of it matches. `status` is how
    the call ended; `names` are the known names by id."""
    call, decided, authority = decision.call, decision.decision, decision.authority
    agent, principal = (authority.agent_id, authority.principal_id) if authority else ("", "")
    verdict = decided.verdict if decided else ""
    return {
        "tool": (call.target or call.method,),
        "server": (call.server or "",),
        "decision": (verdict, {"allow": "allowed", "deny": "refused"}.get(verdict, "")),
        "outcome": (status,),
        "error": ((decided.error if decided else None) or "",),
        "agent": (names.get(agent, ""), f"{agent}*"),
        "principal": (names.get(principal, (authority.principal_name if authority else "") or ""), f"{principal}*"),
        "call": (f"{call.id}*",),
    }


def _any(values: Iterable[str], found: tuple[str, ...]) -> bool:
    return any(
        value == each or (each.endswith("*") and value and each.startswith(value)) for value in values for each in found
    )


def _time(text: str, now_ms: int) -> str:
    ago = _AGO.fullmatch(text)
    if ago:
        return timestamp(max(0, now_ms - int(ago[1]) * _UNITS_MS[ago[2]]))
    try:
        time = datetime.fromisoformat(text)
        return timestamp(max(0, int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1_000)))
    except (ValueError, OverflowError):
        raise DeskError("filter", "a time is written like 2026-11-22, 2026-11-22T10:00:00Z or 1d") from None
