"""The constraints that the protocol defines, except those on places (`geo`), and the reading of received ones (Ratify
section 7): how much (speed, money, number of uses), what (one resource, and a path in it), and when.

A path is compared as text, byte for byte: nothing is decoded, folded or resolved. If a path has to be decoded, the
caller must do that before it passes the path as a fact, so that what is executed is what was compared.

Zone names are those of the `tzdata` package, so that no name leads to another file. The zones' rules come from the
operating system if it has them, otherwise from that package. The rest of `ratify` reads no files.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Annotated, cast

import msgspec
from msgspec import Meta

from accredit.base.deferred import Deferred
from accredit.base.values import decodable
from accredit.errors import ConfigurationError, WireError
from accredit.limits import MAX_IDENTIFIER_LENGTH_BYTES
from accredit.ratify.constraints.base import BuiltIn, Constraint, Extension, Outcome, denial, unverifiable
from accredit.ratify.constraints.geo import GeoBox, GeoCircle, GeoPolygon
from accredit.ratify.facts import VerifierContext, finite

if TYPE_CHECKING:
    import zoneinfo
else:
    zoneinfo = Deferred("zoneinfo")

_DOTS = frozenset({".", ".."})
_CLOCK = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")


@decodable
class MaxSpeed(BuiltIn, frozen=True, tag="max_speed_mps"):
    """At most `max_mps` metres per second."""

    max_mps: float

    def judge(self, facts: VerifierContext, _cert_id: str, _now: int, /) -> Outcome | None:
        """Compare the speed with the bound. A speed equal to the bound passes."""
        speed = finite(facts.current_speed_mps)
        if speed is None:
            return unverifiable("no current speed in context")
        if not speed <= self.max_mps:
            return denial(f"speed {speed:.2f}mps exceeds max {self.max_mps:.2f}mps")
        return None


@decodable
class MaxAmount(BuiltIn, frozen=True, tag="max_amount"):
    """At most `max_amount` of exactly this currency in one call."""

    currency: str
    max_amount: float

    def judge(self, facts: VerifierContext, _cert_id: str, _now: int, /) -> Outcome | None:
        """Compare the currency byte for byte, then the amount with the bound. An amount equal to the bound passes."""
        amount, currency = finite(facts.requested_amount), facts.requested_currency
        if amount is None or currency is None:
            return unverifiable("no requested amount in context")
        if currency != self.currency:
            return denial(f'currency mismatch: requested "{currency}", constraint "{self.currency}"')
        if not amount <= self.max_amount:
            return denial(f"amount {amount:.2f} {currency} exceeds max {self.max_amount:.2f} {currency}")
        return None


@decodable
class MaxRate(BuiltIn, frozen=True, tag="max_rate"):
    """At most `count` uses of the certificate in `window_s` seconds."""

    count: int
    window_s: int

    def judge(self, facts: VerifierContext, cert_id: str, _now: int, /) -> Outcome | None:
        """Compare the uses with the limit. The caller must make sure that counting and using are one step: otherwise
        two concurrent calls may both see the same count."""
        if facts.invocations_in_window is None:
            return unverifiable("no rate counter in context")
        if self.count <= 0 or self.window_s <= 0:
            return denial("malformed max_rate: count and window_s must be positive")
        try:
            used = finite(facts.invocations_in_window(cert_id, self.window_s))
        except Exception:  # a counter that fails counts as unknown
            used = None
        if used is None:
            return unverifiable("the rate counter failed")
        if not used < self.count:
            return denial(f"rate limit exceeded: {used} invocations in last {self.window_s}s (max {self.count})")
        return None


def path_fault(path: str) -> str | None:
    """Return why a text is not a path, or None."""
    if not path:
        return "path is empty"
    if not path.startswith("/"):
        return "path must begin with '/'"
    if "\0" in path:
        return "path contains a NUL byte"
    if "\\" in path:
        return "path contains a backslash; '/' is the only separator"
    if path == "/":
        return None
    for segment in path.removesuffix("/")[1:].split("/"):
        if not segment:
            return "path contains an empty segment"
        if segment in _DOTS:
            return "path contains a dot-segment; dot-segments are rejected, never resolved"
    return None


def path_is_below(path: str, prefix: str) -> bool:
    """Return whether a path is the prefix or lies below it. For both, `path_fault` must have returned None. A trailing
    slash makes no difference."""
    path, prefix = path.removesuffix("/"), prefix.removesuffix("/")
    return path == prefix or path.startswith(prefix + "/")


@decodable
class ResourcePath(BuiltIn, frozen=True, tag="resource_path"):
    """Exactly one resource. With a `path_prefix`, only that path and what lies below it; without one, all of the
    resource."""

    resource_id: Annotated[str, Meta(min_length=1)]
    path_prefix: Annotated[str, Meta(min_length=1)] = ""

    def members(self) -> dict[str, object]:
        """Return the canonical form, with the prefix only if there is one."""
        members = super().members()
        if not self.path_prefix:
            del members["path_prefix"]
        return members

    def judge(self, facts: VerifierContext, _cert_id: str, _now: int, /) -> Outcome | None:
        """Check the resource, then the path."""
        if not (facts.has_resource and facts.requested_resource_id):
            return unverifiable("no requested resource in context")
        if not self.resource_id:
            return denial("malformed resource_path: resource_id is required")
        if len(self.resource_id.encode()) > MAX_IDENTIFIER_LENGTH_BYTES:
            return denial("malformed resource_path: resource_id exceeds MAX_IDENTIFIER_LENGTH_BYTES")
        if facts.requested_resource_id != self.resource_id:
            return denial("requested resource does not match the authorized resource")
        return self._judge_path(facts.requested_path) if self.path_prefix else None

    def _judge_path(self, path: str) -> Outcome | None:
        fault = path_fault(self.path_prefix)
        if fault:
            return denial(f"malformed path_prefix: {fault}")
        if not path:
            return unverifiable("no requested path in context")
        fault = path_fault(path)
        if fault:
            return denial(f"invalid requested path: {fault}")
        if not path_is_below(path, self.path_prefix):
            return denial(f'requested path "{path}" is outside the authorized prefix "{self.path_prefix}"')
        return None


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


@decodable
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


_KINDS = (GeoCircle, GeoPolygon, GeoBox, TimeWindow, MaxSpeed, MaxAmount, MaxRate, ResourcePath)
_BUILT_IN: Mapping[str, type[BuiltIn]] = {str(kind.__struct_config__.tag): kind for kind in _KINDS}
BUILT_IN_TYPES = frozenset(_BUILT_IN)
"""The names of the kinds that the protocol defines."""


def read_constraint(value: object) -> Constraint:
    """Return a constraint from its members on the wire. Raises `ValueError` with the reason; `wire` adds the place to
    that."""
    if not isinstance(value, dict):
        raise ValueError("expected a constraint object")
    members = cast("dict[str, object]", value)
    kind = members.get("type")
    if not isinstance(kind, str):
        raise ValueError("a constraint's type is a string")
    if kind == "geo_bbox" and ("min_alt_m" in members) != ("max_alt_m" in members):
        raise ValueError("min_alt_m and max_alt_m go together")
    try:
        constraint = msgspec.convert(members, _BUILT_IN.get(kind, Extension))
        constraint.members()  # raises if a number in it has no canonical form
    except msgspec.ValidationError as error:
        reason, _, member = str(error).rpartition(" - at `$.")
        raise ValueError(f"{member.rstrip('`')}: {reason}" if reason else str(error)) from None
    except WireError as error:
        raise ValueError(error.reason) from None
    return constraint
