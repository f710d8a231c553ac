"""Times, scopes and constraints in words. No I/O.

Times are unix seconds; `now` is the time at which the words are read.
"""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from accredit.consent import CALL, CallTerms
from accredit.errors import WireError
from accredit.ratify import Constraint, DelegationCert, Extension, VerifyResult
from accredit.ratify.canonical import canonical
from accredit.ratify.constraints import (
    GeoBox,
    GeoCircle,
    GeoPolygon,
    MaxAmount,
    MaxRate,
    MaxSpeed,
    ResourcePath,
    TimeWindow,
)
from accredit.ratify.scopes import expand, is_sensitive

UNTIL_REVOKED = 4_070_908_799
"""What `expires_at` is when a delegation ends only by revocation (Ratify section 1, NO_EXPIRY_SENTINEL)."""

UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
"""Seconds of the units in which durations are written."""

_NAMES = {"d": "day", "h": "hour", "m": "minute", "s": "second"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def timestamp(at: int) -> str:
    """RFC 3339, UTC; outside the years that it can write, the number."""
    try:
        return (_EPOCH + timedelta(seconds=at)).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return f"{at} s after 1970"


def duration(length: int) -> str:
    """Seconds in the largest unit that says them exactly, such as 12h."""
    unit = next(unit for unit, size in UNITS.items() if length % size == 0)
    return f"{length // UNITS[unit]}{unit}"


def relative(at: int, now: int) -> str:
    """`in 6 days`, `3 hours ago`, `now`: whole units only, the largest there is."""
    distance = abs(at - now)
    unit = next((unit for unit, size in UNITS.items() if distance >= size), None)
    if unit is None:
        return "now"
    words = several(distance // UNITS[unit], _NAMES[unit])
    return f"in {words}" if at > now else f"{words} ago"


def several(number: int, what: str) -> str:
    """`1 call`, `2 calls`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def ends(cert: DelegationCert, now: int) -> str:
    """When a certificate ends."""
    if cert.expires_at == UNTIL_REVOKED:
        return "until revoked"
    verb = "expired" if cert.expires_at < now else "expires"
    return f"{verb} {relative(cert.expires_at, now)} ({timestamp(cert.expires_at)})"


def begins(cert: DelegationCert, now: int) -> str:
    """When a certificate begins."""
    verb = "will be valid" if cert.issued_at > now else "signed"
    return f"{verb} {relative(cert.issued_at, now)} ({timestamp(cert.issued_at)})"


def verdict(result: VerifyResult) -> str:
    """Why a proof does not verify: its status, once, and the reason, which the protocol begins with it (and, of a
    constraint that can't be judged, says it again)."""
    status = f"{result.identity_status}: "
    reason = result.error_reason.removeprefix(status)
    if reason.startswith("cert "):
        reason = reason.replace(f"): {status}", "): ", 1)
    return f"does not verify ({result.identity_status}): {reason}"


def scopes(granted: Iterable[str]) -> str:
    """Scopes as they were written; wildcards with what they stand for, sensitive ones marked."""
    return ", ".join(map(_scope, granted)) or "none"


def _scope(scope: str) -> str:
    if is_sensitive(scope):
        return f"{scope} (sensitive)"
    members = expand((scope,))
    return scope if members == [scope] else f"{scope} ({', '.join(members)})"


def constraints(found: Iterable[Constraint]) -> str:
    """Constraints, all of which must hold."""
    return "; ".join(map(constraint, found)) or "none"


def constraint(found: Constraint) -> str:
    """One constraint."""
    match found:
        case MaxAmount():
            return f"at most {_number(found.max_amount)} {found.currency} in one call"
        case MaxRate():
            return f"at most {several(found.count, 'call')} in {duration(found.window_s)}"
        case MaxSpeed():
            return f"at most {_number(found.max_mps)} metres per second"
        case TimeWindow():
            return f"from {found.start} to {found.end} in {found.tz}"
        case ResourcePath():
            return f"only {found.resource_id}" + (f", {found.path_prefix} and below" if found.path_prefix else "")
        case GeoCircle():
            return f"within {_number(found.radius_m)} m of {_number(found.lat)}, {_number(found.lon)}"
        case GeoPolygon():
            return f"inside a polygon of {len(found.points)} points"
        case GeoBox():
            return _box(found)
        case Extension() if found.name == CALL:
            return _call(found)
        case _:
            return f"{found.type}, as judged by a verifier that knows it: {canonical(found.members()).decode()}"


def _call(found: Extension) -> str:
    try:
        return CallTerms.read(found).words()
    except WireError as error:
        return f"nothing: {error.reason}"


def _box(box: GeoBox) -> str:
    south, north, west, east = map(_number, (box.min_lat, box.max_lat, box.min_lon, box.max_lon))
    words = f"between latitudes {south} and {north}, longitudes {west} and {east}"
    if box.min_alt_m or box.max_alt_m:
        words += f", altitudes {_number(box.min_alt_m)} m and {_number(box.max_alt_m)} m"
    return words


def _number(value: float) -> str:
    return json.dumps(int(value) if value == int(value) else value)
