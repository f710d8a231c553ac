"""The facts of a call, taken from its arguments. No I/O.

`[tools.NAME.facts]` maps a fact to one of:

- [template] a text with pointers in braces, such as `git:github.com/{/repo}`. An inserted value is a string or an
  integer, and must have no slash if the template has more than one pointer;
- [pointer] another text that begins with `/`: a JSON Pointer (RFC 6901) into the arguments;
- [constant] a number, or any other text.

A fact is absent if an argument is missing, of another type, not finite, out of the fact's range, or not a path where
one is expected. A constraint on an absent fact can't be verified, so leaving out an argument never allows a call.
"""

import math
import re
from collections.abc import Mapping
from functools import cache

from msgspec import Struct

from accredit.base.caching import CachedProperty
from accredit.consent.call import ABSENT, value_at
from accredit.limits import MAX_SAFE_INTEGER
from accredit.ratify.constraints import path_fault

CONTEXT_NAMES = {
    "amount": "requested_amount",
    "currency": "requested_currency",
    "resource_id": "requested_resource_id",
    "requested_path": "requested_path",
    "lat": "current_lat",
    "lon": "current_lon",
    "alt_m": "current_alt_m",
    "speed_mps": "current_speed_mps",
}
"""Every fact, with the verifier's name for it (Ratify's `VerifierContext`)."""

TEXTS = frozenset({"currency", "resource_id", "requested_path"})
_RANGES = {
    "amount": (0, math.inf),
    "speed_mps": (0, math.inf),
    # A server may read 200 degrees east as 160 west, which a box that crosses the antimeridian would judge otherwise.
    "lat": (-90, 90),
    "lon": (-180, 180),
    "alt_m": (-math.inf, math.inf),
}
"""The numeric facts, with their ranges."""
_NUMBERS = frozenset(_RANGES)
_HOLE = re.compile(r"\{(/[^{}]*)\}")
_NO_ESCAPE = re.compile(r"~(?![01])")


class Facts(Struct, frozen=True, dict=True):
    """The source of each fact, as configured. `facts_fault` must have checked it before."""

    sources: Mapping[str, str | float] = {}

    def of(self, arguments: object) -> dict[str, str | float]:
        """Return the facts of one call, by name. Absent facts are left out."""
        taken = {name: _resolve_source(source, arguments) for name, source in self.sources.items()}
        return {name: value for name, fact in taken.items() if (value := _sound(name, fact)) is not None}

    @CachedProperty
    def arguments(self) -> frozenset[str]:
        """The names of the arguments from which facts are taken."""
        texts = [source for source in self.sources.values() if isinstance(source, str)]
        names = [pointer.split("/")[1] for text in texts for pointer in _pointers(text)]
        return frozenset(name.replace("~1", "/").replace("~0", "~") for name in names)


NO_FACTS = Facts()


def facts_fault(sources: Mapping[str, object]) -> str | None:
    """Return why `sources` is not a valid mapping of facts, or None."""
    for name, source in sources.items():
        if name not in _NUMBERS | TEXTS:
            return f"{name} is no fact; known are {', '.join(sorted(_NUMBERS | TEXTS))}"
        if isinstance(source, bool) or not isinstance(source, str | int | float):
            return f"{name} should be a JSON Pointer, a template or a constant"
        pointers = _pointers(source) if isinstance(source, str) else []
        if not pointers:
            if _sound(name, source) is None:
                return f"{name} can't be {source!r}"
        elif any(_NO_ESCAPE.search(pointer) for pointer in pointers):
            return f"{name}: {source!r} is no JSON Pointer"
        elif name in _NUMBERS and pointers != [source]:
            return f"{name} is a number: a template would make a text"
    return None


@cache  # bounded: its arguments come from the configuration alone
def _pointers(source: str) -> list[str]:
    """Return the pointers in a template. For a text that is a pointer, return that one; for a constant, return none."""
    return _HOLE.findall(source) or ([source] if source.startswith("/") else [])


def _resolve_source(source: str | float, arguments: object) -> object:
    pointers = _pointers(source) if isinstance(source, str) else []
    if not isinstance(source, str) or not pointers:
        return source
    values = [value_at(arguments, pointer) for pointer in pointers]
    if pointers == [source]:
        return values[0]
    texts = [_text(value) for value in values]
    # With several parts, a slash in one could be the slash between two: a/b and c, or a and b/c.
    if not all(texts) or (len(texts) > 1 and any("/" in text for text in texts)):
        return ABSENT
    filling = iter(texts)
    return _HOLE.sub(lambda _: next(filling), source)


def _text(value: object) -> str:
    """Return the text that a value has in a template; "" if it can't be inserted."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_SAFE_INTEGER:
        return str(value)
    return value if isinstance(value, str) else ""


def _sound(name: str, fact: object) -> str | float | None:
    if name in _NUMBERS:
        if isinstance(fact, bool) or not isinstance(fact, int | float):
            return None
        try:
            number = float(fact)
        except OverflowError:
            return None
        low, high = _RANGES[name]
        return number if math.isfinite(number) and low <= number <= high else None
    if not isinstance(fact, str) or not fact or not fact.isprintable():
        return None
    return None if name == "requested_path" and path_fault(fact) else fact
