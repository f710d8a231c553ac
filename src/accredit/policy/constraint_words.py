"""Scopes and constraints in words: what a constraint allows, which facts it needs, and why it refuses a call. No I/O.

The verifier's reason (`constraint_denied: cert 0: constraint[1] (max_amount): ...`) is kept as it is, for programs. It
names the constraint by its position. Its detail begins with fixed words of the protocol (Ratify section 7).
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from accredit.base.text import excerpt, several
from accredit.consent.call import CALL, OTHER_DEFINITION, CallTerms
from accredit.errors import WireError
from accredit.limits import MAX_TOLD_REASON_CHARS
from accredit.policy.catalog import Entry
from accredit.policy.facts import CONTEXT_NAMES
from accredit.policy.guarded_call import GuardedCall
from accredit.ratify import Constraint, DelegationCert, Extension, VerifierContext
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

UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
"""The units in which durations are written, and the seconds of each."""

_FACTS: Mapping[type, tuple[str, ...]] = {
    MaxAmount: ("amount", "currency"),
    MaxSpeed: ("speed_mps",),
    ResourcePath: ("resource_id",),
    GeoBox: ("lat", "lon"),
    GeoCircle: ("lat", "lon"),
    GeoPolygon: ("lat", "lon"),
}
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_PLACE = re.compile(r"constraint_\w+: cert ([0-9]+): constraint\[([0-9]+)\] \([^)]*\): (.*)", re.DOTALL)
_BEYOND = re.compile(
    r"speed |amount |currency mismatch|rate limit exceeded|current |requested |outside |latitude |longitude |altitude "
)
"""How a detail begins if another call could avoid the refusal. With any other detail, no call can pass."""


def duration(length: int) -> str:
    """Return seconds in words: in the largest unit that divides them, such as 12h."""
    unit = next(unit for unit, size in UNITS.items() if length % size == 0)
    return f"{length // UNITS[unit]}{unit}"


def scopes(granted: Iterable[str]) -> str:
    """Return scopes as they were written, each wildcard with its expansion, and sensitive ones marked."""
    return ", ".join(map(_scope, granted)) or "none"


def _scope(scope: str) -> str:
    if is_sensitive(scope):
        return f"{scope} (sensitive)"
    members = expand((scope,))
    return scope if members == [scope] else f"{scope} ({', '.join(members)})"


def facts_needed(condition: Constraint) -> tuple[str, ...]:
    """Return which facts of a call a gateway must know to judge the constraint, by their names in a catalog."""
    path = ("requested_path",) if isinstance(condition, ResourcePath) and condition.path_prefix else ()
    height = ("alt_m",) if isinstance(condition, GeoBox) and (condition.min_alt_m or condition.max_alt_m) else ()
    return (*_FACTS.get(type(condition), ()), *path, *height)


def facts_table(facts: Sequence[str]) -> str:
    """Return the line for a tool's table in a catalog by which each of these facts is taken from the argument of the
    same name."""
    sources = ", ".join(f'{fact} = "/{fact}"' for fact in facts)
    return f"facts = {{ {sources} }}"


def refused_constraint(reason: str, chain: Sequence[DelegationCert]) -> tuple[Constraint, str] | None:
    """Return the constraint of the chain that a verifier's reason is about, and the detail in the reason. Return None
    if the reason is not about a constraint."""
    place = _PLACE.fullmatch(reason)
    if place is None or int(place[1]) >= len(chain) or int(place[2]) >= len(chain[int(place[1])].constraints):
        return None
    return chain[int(place[1])].constraints[int(place[2])], place[3]


def why_refused(
    reason: str, chain: Sequence[DelegationCert], facts: VerifierContext, call: GuardedCall, entry: Entry | None
) -> str:
    """Return a text with the requested value, the allowed one, and what would help. Return "" for a reason that is not
    about a constraint."""
    place = refused_constraint(reason, chain)
    if place is None:
        return ""
    condition, detail = place
    allowed = f"this delegation allows {constraint(condition)}"
    if reason.startswith("constraint_unknown"):
        text = (
            f"this delegation has a condition that this gateway can't judge ({condition.type}); ask for one without it"
        )
    elif reason.startswith("constraint_unverifiable"):
        # What the delegation allows is told only for a call that it could be tested against.
        text = (
            f"this delegation has a condition ({condition.type}), and {_unknown(condition, detail, facts, call, entry)}"
        )
    elif isinstance(condition, Extension) and detail == OTHER_DEFINITION:
        text = (
            "this delegation is for what the tool was, and another definition is approved by now; ask for another one"
        )
    elif isinstance(condition, Extension) and condition.name != CALL:
        text = f"{allowed}: {detail}"
    elif isinstance(condition, Extension) or _BEYOND.match(detail):
        text = (
            f"{_describe_call(condition, facts)}, and {allowed}; make a call within that, or ask for another delegation"
        )
    else:
        text = f"no call can meet a condition of this delegation ({detail}); ask for another one"
    return excerpt(text, MAX_TOLD_REASON_CHARS)


def _describe_call(condition: Constraint, facts: VerifierContext) -> str:
    match condition:
        case MaxAmount():
            return f"the call is for {_number(facts.requested_amount or 0)} {facts.requested_currency}"
        case MaxRate():
            return "the calls are used up for now"
        case MaxSpeed():
            return f"the speed is {_number(facts.current_speed_mps or 0)} metres per second"
        case TimeWindow():
            return "the call comes at another time"
        case ResourcePath():
            return f"the call is about {facts.requested_resource_id} {facts.requested_path}".rstrip()
        case GeoBox() | GeoCircle() | GeoPolygon():
            return f"the call is made at {_number(facts.current_lat or 0)}, {_number(facts.current_lon or 0)}"
        case _:
            return "this is another call"


def _unknown(condition: Constraint, detail: str, facts: VerifierContext, call: GuardedCall, entry: Entry | None) -> str:
    sources: Mapping[str, str | float] = entry.facts.sources if entry is not None else {}
    missing = [fact for fact in facts_needed(condition) if getattr(facts, CONTEXT_NAMES[fact]) in (None, "")]
    unsaid = [fact for fact in missing if fact not in sources]
    if unsaid:
        table = f"[tools.{_key(call.target)}]" if call.method == "tools/call" else "catalog"
        return (
            f"the gateway does not know the {' and '.join(unsaid)} of this call: its {table} has to say"
            f" {facts_table(unsaid)} (each the JSON Pointer of an argument, or a constant)"
        )
    if missing:
        named = " and ".join(f"{fact} ({sources[fact]})" for fact in missing)
        return f"the call does not say its {named} in a form that can be judged: correct its arguments"
    return f"that can't be judged here ({detail.removeprefix('constraint_unverifiable: ')}); ask for another delegation"


def constraint(condition: Constraint) -> str:
    """Return in words what one constraint allows."""
    match condition:
        case MaxAmount():
            return f"at most {_number(condition.max_amount)} {condition.currency} in one call"
        case MaxRate():
            return f"at most {several(condition.count, 'call')} in {duration(condition.window_s)}"
        case MaxSpeed():
            return f"at most {_number(condition.max_mps)} metres per second"
        case TimeWindow():
            return f"from {condition.start} to {condition.end} in {condition.tz}"
        case ResourcePath():
            return f"only {condition.resource_id}" + (
                f", {condition.path_prefix} and below" if condition.path_prefix else ""
            )
        case GeoCircle():
            return f"within {_number(condition.radius_m)} m of {_number(condition.lat)}, {_number(condition.lon)}"
        case GeoPolygon():
            return f"inside a polygon of {len(condition.points)} points"
        case GeoBox():
            return _box(condition)
        case Extension() if condition.name == CALL:
            return _call(condition)
        case _:
            return f"{condition.type}, as judged by a verifier that knows it: {canonical(condition.members()).decode()}"


def _call(condition: Extension) -> str:
    try:
        return CallTerms.read(condition).words()
    except WireError as error:
        return f"nothing: {error.reason}"


def _box(box: GeoBox) -> str:
    south, north, west, east = map(_number, (box.min_lat, box.max_lat, box.min_lon, box.max_lon))
    words = f"between latitudes {south} and {north}, longitudes {west} and {east}"
    if box.min_alt_m or box.max_alt_m:
        words += f", altitudes {_number(box.min_alt_m)} m and {_number(box.max_alt_m)} m"
    return words


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name)


def _number(value: float) -> str:
    return json.dumps(int(value) if value == int(value) else value)
