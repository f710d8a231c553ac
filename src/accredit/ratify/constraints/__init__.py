"""Constraints: conditions under which a delegation is valid (Ratify section 7). No I/O but the time zone data.

`base` has the parts that all kinds share. `geo`, `timing`, `quantities`, `resource` and `extension` have the kinds,
each with its members on the wire, its canonical form and its rule. `registry` finds the kind of a received constraint.
"""

from accredit.ratify.constraints.base import Constraint, Outcome
from accredit.ratify.constraints.extension import Evaluator, Extension, evaluate
from accredit.ratify.constraints.geo import GeoBox, GeoCircle, GeoPolygon
from accredit.ratify.constraints.quantities import MaxAmount, MaxRate, MaxSpeed
from accredit.ratify.constraints.registry import BUILT_IN_TYPES, read_constraint
from accredit.ratify.constraints.resource import ResourcePath, path_fault, path_is_below
from accredit.ratify.constraints.timing import TimeWindow, zone_names

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
