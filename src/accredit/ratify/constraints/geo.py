"""Constraints on where a call is made: inside a circle, a polygon or a box (Ratify section 7). No I/O.

Units are degrees and metres. If the location is unknown, that is the reason given, even if something else is wrong,
too. A comparison with a value that is not a number (NaN) refuses the call.
"""

import math

from accredit.base.values import decodable
from accredit.ratify.canonical import number
from accredit.ratify.constraints.base import BuiltIn, Outcome, denial, unverifiable
from accredit.ratify.facts import VerifierContext, finite

_EARTH_RADIUS_M = 6_371_000

_NO_LOCATION = unverifiable("no current location in context")


def _location(facts: VerifierContext) -> tuple[float, float] | None:
    lat, lon = finite(facts.current_lat), finite(facts.current_lon)
    return None if lat is None or lon is None else (lat, lon)


@decodable
class GeoCircle(BuiltIn, frozen=True, tag="geo_circle"):
    """Within `radius_m` of a point, along a great circle."""

    lat: float
    lon: float
    radius_m: float

    def judge(self, facts: VerifierContext, _cert_id: str, _now: int, /) -> Outcome | None:
        """Compare the haversine distance with the radius. A distance equal to the radius passes."""
        here = _location(facts)
        if here is None:
            return _NO_LOCATION
        distance = _haversine(*here, self.lat, self.lon)
        if not distance <= self.radius_m:
            return denial(f"outside allowed radius: {distance:.1f}m > {self.radius_m:.1f}m")
        return None


def _haversine(lat1: float, lon1: float, lat2: float, lon2: float) -> float:
    north, east = math.radians(lat2 - lat1), math.radians(lon2 - lon1)
    across = math.cos(math.radians(lat1)) * math.cos(math.radians(lat2)) * math.sin(east / 2) ** 2
    return 2 * _EARTH_RADIUS_M * math.asin(min(1, math.sqrt(math.sin(north / 2) ** 2 + across)))


@decodable
class GeoPolygon(BuiltIn, frozen=True, tag="geo_polygon"):
    """Inside a polygon of `(lat, lon)` points that does not cross the antimeridian."""

    points: tuple[tuple[float, float], ...]

    def members(self) -> dict[str, object]:
        """Return the canonical form, with the points as pairs."""
        return {"type": self.type, "points": [(number(lat), number(lon)) for lat, lon in self.points]}

    def judge(self, facts: VerifierContext, _cert_id: str, _now: int, /) -> Outcome | None:
        """Cast a ray along the latitude: the point is inside if the ray crosses an odd number of edges."""
        here = _location(facts)
        if here is None:
            return _NO_LOCATION
        if len(self.points) < 3:
            return denial("polygon has fewer than 3 points")
        longitudes = [lon for _, lon in self.points]
        if not max(longitudes) - min(longitudes) <= 180:
            return denial(
                "geo_polygon spans >180° longitude — v1 semantics are undefined for"
                " anti-meridian-crossing polygons (see SPEC §5.7.2)"
            )
        return None if _inside(*here, self.points) else denial("outside allowed polygon")


def _inside(lat: float, lon: float, points: tuple[tuple[float, float], ...]) -> bool:
    inside = False
    for (lat1, lon1), (lat2, lon2) in zip(points, (points[-1], *points[:-1]), strict=True):
        if (lat1 > lat) != (lat2 > lat) and lon < (lon2 - lon1) * (lat - lat1) / (lat2 - lat1) + lon1:
            inside = not inside
    return inside


@decodable
class GeoBox(BuiltIn, frozen=True, tag="geo_bbox"):
    """Inside a box of latitudes and longitudes; its bounds are inside. The box crosses the antimeridian if `min_lon`
    exceeds `max_lon`.

    Altitudes are checked only if one of their bounds is not zero.
    """

    min_lat: float
    max_lat: float
    min_lon: float
    max_lon: float
    min_alt_m: float = 0
    max_alt_m: float = 0

    def members(self) -> dict[str, object]:
        """Return the canonical form, which has the altitudes only if they count."""
        members = super().members()
        if not (self.min_alt_m or self.max_alt_m):
            del members["min_alt_m"], members["max_alt_m"]
        return members

    def judge(self, facts: VerifierContext, _cert_id: str, _now: int, /) -> Outcome | None:
        """Check latitude, longitude and altitude, in this order."""
        here = _location(facts)
        if here is None:
            return _NO_LOCATION
        lat, lon = here
        if not self.min_lat <= lat <= self.max_lat:
            return denial(f"latitude {lat:.6f} outside [{self.min_lat:.6f}, {self.max_lat:.6f}]")
        wraps = self.min_lon > self.max_lon
        if not (lon >= self.min_lon or lon <= self.max_lon if wraps else self.min_lon <= lon <= self.max_lon):
            wrapped = "wrapped " if wraps else ""
            return denial(f"longitude {lon:.6f} outside {wrapped}[{self.min_lon:.6f}, {self.max_lon:.6f}]")
        return self._judge_altitude(finite(facts.current_alt_m))

    def _judge_altitude(self, altitude: float | None) -> Outcome | None:
        if not (self.min_alt_m or self.max_alt_m):
            return None
        if altitude is None:
            return unverifiable("no altitude in context but bbox has altitude bounds")
        if not self.min_alt_m <= altitude <= self.max_alt_m:
            return denial(f"altitude {altitude:.1f}m outside [{self.min_alt_m:.1f}m, {self.max_alt_m:.1f}m]")
        return None
