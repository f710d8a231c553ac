"""The facts of a call, taken from its arguments. No I/O.

`[tools.NAME.facts]` maps a fact to one of:

1. a text with pointers in braces, such as `git:github.com/{/repo}`: a template; what is put in is text or an integer,
   without a slash where there is more than one;
2. another text that begins with `/`: a JSON Pointer (RFC 6901) into the arguments;
3. a number, or any other text: a constant.

An argument that is missing, of another type, not finite, out of the range in which it means something, or no path where
one is asked for, makes its fact absent. A constraint on an absent fact can't be verified, so nothing is allowed because
an argument was missing.
"""

import math
import re
from collections.abc import Mapping
from functools import cache

from msgspec import Struct

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
"""The facts that there are, and what the verifier calls them."""

TEXTS = frozenset({"currency", "resource_id", "requested_path"})
_RANGES = {
    "amount": (0, math.inf),
    "speed_mps": (0, math.inf),
    # 200 degrees east is 160 west to whoever reads on, and outside of what a box that wraps allows.
    "lat": (-90, 90),
    "lon": (-180, 180),
    "alt_m": (-math.inf, math.inf),
}
"""The facts that are numbers, and where they mean something, bounds included."""
NUMBERS = frozenset(_RANGES)
_HOLE = re.compile(r"\{(/[^{}]*)\}")
_NO_ESCAPE = re.compile(r"~(?![01])")


class Facts(Struct, frozen=True):
    """Where each fact comes from, as configured and checked by `facts_fault`."""

    sources: Mapping[str, str | float] = {}

    def of(self, arguments: object) -> dict[str, str | float]:
        """The facts of one call, by name; what is absent is left out."""
        found = {name: _taken(source, arguments) for name, source in self.sources.items()}
        return {name: value for name, fact in found.items() if (value := _sound(name, fact)) is not None}


NO_FACTS = Facts()


def facts_fault(sources: Mapping[str, object]) -> str | None:
    """Why a mapping is none, or None."""
    for name, source in sources.items():
        if name not in NUMBERS | TEXTS:
            return f"{name} is no fact; known are {', '.join(sorted(NUMBERS | TEXTS))}"
        if isinstance(source, bool) or not isinstance(source, str | int | float):
            return f"{name} should be a JSON Pointer, a template or a constant"
        pointers = _pointers(source) if isinstance(source, str) else []
        if not pointers:
            if _sound(name, source) is None:
                return f"{name} can't be {source!r}"
        elif any(_NO_ESCAPE.search(pointer) for pointer in pointers):
            return f"{name}: {source!r} is no JSON Pointer"
        elif name in NUMBERS and pointers != [source]:
            return f"{name} is a number: a template would make a text"
    return None


@cache  # what it is asked for is the configuration's
def _pointers(source: str) -> list[str]:
    """The pointers of a template, or the one that the text is; none of a constant."""
    return _HOLE.findall(source) or ([source] if source.startswith("/") else [])


def _taken(source: str | float, arguments: object) -> object:
    pointers = _pointers(source) if isinstance(source, str) else []
    if not isinstance(source, str) or not pointers:
        return source
    values = [value_at(arguments, pointer) for pointer in pointers]
    if pointers == [source]:
        return values[0]
    texts = [_text(value) for value in values]
    # With more than one part, a slash in one could be the slash between two: a/b and c, or a and b/c.
    if not all(texts) or (len(texts) > 1 and any("/" in text for text in texts)):
        return ABSENT
    filling = iter(texts)
    return _HOLE.sub(lambda _: next(filling), source)


def _text(value: object) -> str:
    """What is put into a template, "" for what is not."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_SAFE_INTEGER:
        return str(value)
    return value if isinstance(value, str) else ""


def _sound(name: str, fact: object) -> str | float | None:
    if name in NUMBERS:
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
