"""Times, scopes and constraints in words."""

import pytest
from tests.world.delegations import NOW, World

from accredit.policy.constraint_words import duration
from accredit.ratify import Constraint
from accredit.ratify.constraints import (
    Extension,
    GeoBox,
    GeoCircle,
    GeoPolygon,
    MaxAmount,
    MaxRate,
    MaxSpeed,
    ResourcePath,
    TimeWindow,
)
from accredit.ratify.structures import UNTIL_REVOKED
from accredit.terminal import wording as words

pytestmark = pytest.mark.holds("terminal/wording")


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (NOW, "2027-01-15T08:00:00Z"),
        (UNTIL_REVOKED, "2098-12-31T23:59:59Z"),
        (-62_135_596_800, "0001-01-01T00:00:00Z"),
        (253_402_300_799, "9999-12-31T23:59:59Z"),
        (253_402_300_800, "253402300800 s after 1970"),
        (2**53 - 1, "9007199254740991 s after 1970"),
        (-(2**53) + 1, "-9007199254740991 s after 1970"),
    ],
)
def test_timestamps_are_rfc_3339_where_it_reaches(at: int, text: str) -> None:
    assert words.date_time(at) == text


@pytest.mark.parametrize(
    ("distance", "text"),
    [
        (0, "now"),
        (1, "in 1 second"),
        (59, "in 59 seconds"),
        (60, "in 1 minute"),
        (3_600, "in 1 hour"),
        (86_399, "in 23 hours"),
        (86_400, "in 1 day"),
        (7 * 86_400 - 1, "in 6 days"),
        (-1, "1 second ago"),
        (-3 * 86_400, "3 days ago"),
    ],
)
def test_relative_times_never_promise_more_than_there_is(distance: int, text: str) -> None:
    assert words.relative(NOW + distance, NOW) == text


@pytest.mark.parametrize(
    ("length", "text"), [(30, "30s"), (90, "90s"), (900, "15m"), (43_200, "12h"), (604_800, "7d"), (-5, "-5s")]
)
def test_durations_are_written_as_they_are_read(length: int, text: str) -> None:
    assert duration(length) == text


def test_when_a_certificate_begins_and_ends(world: World) -> None:
    cert = world.grant("files:read", begins=NOW, ends=NOW + 3600)
    assert words.begins(cert, NOW + 60) == "signed 1 minute ago (2027-01-15T08:00:00Z)"
    assert words.begins(cert, NOW - 60) == "will be valid in 1 minute (2027-01-15T08:00:00Z)"
    assert words.ends(cert, NOW) == "expires in 1 hour (2027-01-15T09:00:00Z)"
    assert words.ends(cert, NOW + 3600) == "expires now (2027-01-15T09:00:00Z)"
    assert words.ends(cert, NOW + 3601) == "expired 1 second ago (2027-01-15T09:00:00Z)"
    assert words.ends(world.grant("files:read", ends=UNTIL_REVOKED), NOW) == "until revoked"


def test_scopes_say_what_they_stand_for() -> None:
    assert words.scopes([]) == "none"
    assert words.scopes(["email:send", "files:write", "execute:*", "custom:*"]) == (
        "email:send, files:write (sensitive), execute:* (execute:tool), custom:*"
    )


@pytest.mark.parametrize(
    ("constraint", "text"),
    [
        (MaxAmount(currency="USD", max_amount=500), "at most 500 USD in one call"),
        (MaxAmount(currency="USD", max_amount=1_234_567.5), "at most 1234567.5 USD in one call"),
        (MaxRate(count=10, window_s=3600), "at most 10 calls in 1h"),
        (MaxSpeed(max_mps=2.5), "at most 2.5 metres per second"),
        (TimeWindow(start="09:00", end="17:00", tz="Europe/Berlin"), "from 09:00 to 17:00 in Europe/Berlin"),
        (ResourcePath(resource_id="git:acme"), "only git:acme"),
        (ResourcePath(resource_id="git:acme", path_prefix="/src"), "only git:acme, /src and below"),
        (GeoCircle(lat=52.5, lon=13, radius_m=500), "within 500 m of 52.5, 13"),
        (GeoPolygon(points=((0, 0), (1, 1), (0, 1))), "inside a polygon of 3 points"),
        (
            GeoBox(min_lat=1, max_lat=2, min_lon=3, max_lon=4),
            "between latitudes 1 and 2, longitudes 3 and 4",
        ),
        (
            GeoBox(min_lat=1, max_lat=2, min_lon=3, max_lon=4, min_alt_m=5, max_alt_m=6),
            "between latitudes 1 and 2, longitudes 3 and 4, altitudes 5 m and 6 m",
        ),
        (
            Extension("com.example.x", {"b": [1], "a": None}),
            "com.example.x, as judged by a verifier that knows it:"
            ' {"params":{"a":null,"b":[1]},"type":"com.example.x"}',
        ),
        (
            Extension("dev.accredit.call", {"v": 1, "gateway": "m", "method": "tools/call", "target": ["a", "b"]}),
            "only at gateway m, only tools/call a or b",
        ),
        (Extension("dev.accredit.call", {"v": 2}), "nothing: Invalid enum value 2 - at `$.v`"),
    ],
)
def test_every_kind_of_constraint_has_words(constraint: Constraint, text: str) -> None:
    assert words.constraint(constraint) == text


def test_constraints_are_joined() -> None:
    assert words.constraints([]) == "none"
    both = [MaxRate(count=1, window_s=60), MaxSpeed(max_mps=1)]
    assert words.constraints(both) == "at most 1 call in 1m; at most 1 metres per second"
