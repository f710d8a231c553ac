"""Finds the kind of a constraint that was received (Ratify section 7). No I/O."""

from collections.abc import Mapping
from typing import cast

import msgspec

from accredit.errors import WireError
from accredit.ratify.constraints.base import BuiltIn, Constraint
from accredit.ratify.constraints.extension import Extension
from accredit.ratify.constraints.geo import GeoBox, GeoCircle, GeoPolygon
from accredit.ratify.constraints.quantities import MaxAmount, MaxRate, MaxSpeed
from accredit.ratify.constraints.resource import ResourcePath
from accredit.ratify.constraints.timing import TimeWindow

_BUILT_IN: Mapping[str, type[BuiltIn]] = {
    "geo_circle": GeoCircle,
    "geo_polygon": GeoPolygon,
    "geo_bbox": GeoBox,
    "time_window": TimeWindow,
    "max_speed_mps": MaxSpeed,
    "max_amount": MaxAmount,
    "max_rate": MaxRate,
    "resource_path": ResourcePath,
}


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
