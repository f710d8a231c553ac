"""Constraints: conditions under which a delegation is valid (Ratify section 7). No I/O but the time zone data.

`base` has what all of them share, and those that deployments define. `geo` and `kinds` have the protocol's, each with
its members on the wire, its canonical form and its rule.
"""

from accredit.ratify.constraints.base import Constraint, Evaluator, Extension, Outcome, evaluate
from accredit.ratify.constraints.geo import GeoBox, GeoCircle, GeoPolygon
from accredit.ratify.constraints.kinds import (
    BUILT_IN_TYPES,
    MaxAmount,
    MaxRate,
    MaxSpeed,
    ResourcePath,
    TimeWindow,
    path_fault,
    path_is_below,
    read_constraint,
    zone_names,
)

__all__ = [
    "BUILT_IN_TYPES",
    "Constraint",
    "Evaluator",
    "Extension",
    "GeoBox",
    "GeoCircle",
    "GeoPolygon",
    "MaxAmount",
    "MaxRate",
    "MaxSpeed",
    "Outcome",
    "ResourcePath",
    "TimeWindow",
    "evaluate",
    "path_fault",
    "path_is_below",
    "read_constraint",
    "zone_names",
]
