"""Constraints: what passes, what is denied and with which words, and what can't be known."""

import math
import sys
from typing import Any, ClassVar

import pytest
from tests.unit.ratify.world import NOW, answering, constrained, verdict

from accredit.errors import ConfigurationError
from accredit.ratify import Extension, VerifierContext, read_constraint, zone_names
from accredit.ratify.constraints import Evaluator, ResourcePath, evaluate

pytestmark = [
    pytest.mark.holds("ratify/constraints/base"),
    pytest.mark.holds("ratify/constraints/geo"),
    pytest.mark.holds("ratify/constraints/kinds"),
]

Members = dict[str, Any]

BERLIN: Members = {"current_lat": 52.52, "current_lon": 13.405}


def outcome(members: Members, now: int = NOW, **facts: Any) -> str:
    """`denied`, `unverifiable` or `unknown` and the detail; "" for a pass."""
    found = read_constraint(members).judge(VerifierContext(**facts), "cert", now)
    return f"{found.status.value.removeprefix('constraint_')}: {found.detail}" if found else ""


NO_LOCATION = "unverifiable: constraint_unverifiable: no current location in context"


def test_where_it_stands_is_part_of_the_reason() -> None:
    bundle = constrained({"type": "max_speed_mps", "max_mps": 10}, {"type": "max_speed_mps", "max_mps": 5})
    assert verdict(bundle, context=VerifierContext(current_speed_mps=7)) == (
        "constraint_denied",
        "constraint_denied: cert 0: constraint[1] (max_speed_mps): speed 7.00mps exceeds max 5.00mps",
    )
    assert verdict(bundle) == (
        "constraint_unverifiable",
        "constraint_unverifiable: cert 0: constraint[0] (max_speed_mps):"
        " constraint_unverifiable: no current speed in context",
    )


def test_the_status_is_not_read_out_of_the_text() -> None:
    bundle = constrained({"type": "resource_path", "resource_id": "r", "path_prefix": "/a"})
    context = VerifierContext(requested_resource_id="r", requested_path="/constraint_unverifiable: x")
    assert verdict(bundle, context=context)[0] == "constraint_denied"


class TestGeoCircle:
    CIRCLE: ClassVar[Members] = {"type": "geo_circle", "lat": 52.52, "lon": 13.405, "radius_m": 1000}

    def test_inside_and_outside(self) -> None:
        assert outcome(self.CIRCLE, NOW, **BERLIN) == ""
        assert outcome(self.CIRCLE, current_lat=52.53, current_lon=13.405) == (
            "denied: outside allowed radius: 1111.9m > 1000.0m"
        )

    def test_the_other_side_of_the_earth(self) -> None:
        circle = {"type": "geo_circle", "lat": 0, "lon": 0, "radius_m": 20_015_087}
        assert outcome(circle, current_lat=0, current_lon=180) == ""

    @pytest.mark.parametrize("fact", [math.nan, math.inf, -math.inf, None, 10**400, "1", True])
    def test_a_place_that_is_no_number_is_no_place(self, fact: Any) -> None:
        assert outcome(self.CIRCLE, current_lat=fact, current_lon=13.405) == NO_LOCATION
        assert outcome(self.CIRCLE, current_lat=52.52, current_lon=fact) == NO_LOCATION


class TestGeoPolygon:
    SQUARE: ClassVar[Members] = {"type": "geo_polygon", "points": [[0, 0], [0, 10], [10, 10], [10, 0]]}

    def test_inside_and_outside(self) -> None:
        assert outcome(self.SQUARE, current_lat=5, current_lon=5) == ""
        assert outcome(self.SQUARE, current_lat=5, current_lon=11) == "denied: outside allowed polygon"

    def test_the_place_comes_first(self) -> None:
        assert outcome({"type": "geo_polygon", "points": []}) == NO_LOCATION

    def test_too_few_points(self) -> None:
        line = {"type": "geo_polygon", "points": [[0, 0], [1, 1]]}
        assert outcome(line, NOW, **BERLIN) == "denied: polygon has fewer than 3 points"

    def test_over_the_antimeridian(self) -> None:
        wide = {"type": "geo_polygon", "points": [[0, -100], [10, 0], [0, 100]]}
        assert outcome(wide, current_lat=1, current_lon=1) == (
            "denied: geo_polygon spans >180° longitude — v1 semantics are undefined for"
            " anti-meridian-crossing polygons (see SPEC §5.7.2)"
        )

    def test_a_concave_shape(self) -> None:
        shape = {"type": "geo_polygon", "points": [[0, 0], [10, 0], [10, 10], [5, 2], [0, 10]]}
        assert outcome(shape, current_lat=5, current_lon=1) == ""
        assert outcome(shape, current_lat=5, current_lon=8) == "denied: outside allowed polygon"


class TestGeoBox:
    BOX: ClassVar[Members] = {"type": "geo_bbox", "min_lat": 1, "max_lat": 2, "min_lon": 3, "max_lon": 4}
    HIGH: ClassVar[Members] = BOX | {"min_alt_m": 0, "max_alt_m": 100}

    @pytest.mark.parametrize(("lat", "lon"), [(1, 3), (2, 4), (1.5, 3.5)])
    def test_the_bounds_are_inside(self, lat: float, lon: float) -> None:
        assert outcome(self.BOX, current_lat=lat, current_lon=lon) == ""

    def test_outside(self) -> None:
        assert outcome(self.BOX, current_lat=2.5, current_lon=3) == (
            "denied: latitude 2.500000 outside [1.000000, 2.000000]"
        )
        assert outcome(self.BOX, current_lat=1, current_lon=5) == (
            "denied: longitude 5.000000 outside [3.000000, 4.000000]"
        )

    def test_over_the_antimeridian(self) -> None:
        box = self.BOX | {"min_lon": 170, "max_lon": -170}
        for lon in (170, 180, -180, -170):
            assert outcome(box, current_lat=1, current_lon=lon) == ""
        assert outcome(box, current_lat=1, current_lon=0) == (
            "denied: longitude 0.000000 outside wrapped [170.000000, -170.000000]"
        )

    def test_altitude_counts_where_a_bound_is_not_zero(self) -> None:
        here: Members = {"current_lat": 1, "current_lon": 3}
        zero = self.BOX | {"min_alt_m": 0, "max_alt_m": 0.0}
        assert outcome(zero, **here, current_alt_m=5000) == outcome(zero, **here) == ""
        assert outcome(self.HIGH, **here, current_alt_m=100) == ""
        assert outcome(self.HIGH, **here, current_alt_m=-0.5) == "denied: altitude -0.5m outside [0.0m, 100.0m]"
        unknown: list[Members] = [{}, {"current_alt_m": math.nan}]
        for fact in unknown:
            assert outcome(self.HIGH, **here, **fact) == (
                "unverifiable: constraint_unverifiable: no altitude in context but bbox has altitude bounds"
            )

    def test_a_place_that_is_no_number_is_no_place(self) -> None:
        assert outcome(self.BOX, current_lat=math.nan, current_lon=3) == NO_LOCATION


class TestTimeWindow:
    # 1,800,000,000 is 2027-01-15 08:00:00 UTC.
    def window(self, start: str, end: str, tz: str = "UTC") -> dict[str, Any]:
        return {"type": "time_window", "start": start, "end": end, "tz": tz}

    @pytest.mark.parametrize(
        ("start", "end", "tz"),
        [
            ("08:00", "08:00", "UTC"),
            ("07:00", "08:00", "UTC"),
            ("09:00", "09:00", "Europe/Berlin"),
            ("22:00", "08:00", "UTC"),
            ("08:00", "07:59", "UTC"),
            ("13:30", "13:30", "Asia/Kolkata"),
        ],
    )
    def test_inside(self, start: str, end: str, tz: str) -> None:
        assert outcome(self.window(start, end, tz)) == outcome(self.window(start, end, tz), now=NOW + 59) == ""

    def test_outside(self) -> None:
        assert outcome(self.window("09:00", "17:00")) == "denied: current 08:00 outside [09:00, 17:00] UTC"
        assert outcome(self.window("22:00", "06:00", "Europe/Berlin")) == (
            "denied: current 09:00 outside wrapped [22:00, 06:00] Europe/Berlin"
        )

    def test_summer_time(self) -> None:
        assert outcome(self.window("10:00", "10:00", "Europe/Berlin"), now=NOW + 181 * 86400) == ""

    def test_something_is_missing(self) -> None:
        for members in (self.window("", "1", "x"), self.window("1", "", "x"), self.window("1", "2", "")):
            assert outcome(members) == "denied: malformed time_window: tz/start/end required"

    @pytest.mark.parametrize(
        "clock",
        [" 1:30", "+1:30", "1:30", "24:00", "12:60", "12:00\n", "١٢:٠٠", "12-00", "12:00:00", "-1:30"],  # noqa: RUF001
    )
    def test_clocks_are_two_ascii_digits_twice(self, clock: str) -> None:
        assert outcome(self.window(clock, "bad", "bad")) == f"denied: bad start time: {clock}"
        assert outcome(self.window("12:00", clock, "bad")) == f"denied: bad end time: {clock}"

    @pytest.mark.parametrize(
        "zone",
        [
            "../../etc/passwd",
            "/etc/passwd",
            "America",
            "Mars/Olympus",
            "UTC\0",
            "europe/berlin",
            "localtime",
            "posixrules",
            "right/UTC",
            "\ud800",
            "x" * 70_000,
            ".",
        ],
    )
    def test_an_odd_zone_is_an_unknown_one(self, zone: str) -> None:
        assert outcome(self.window("00:00", "23:59", zone)) == f'denied: unknown timezone "{zone}"'

    def test_every_zone_of_the_list_can_be_read(self) -> None:
        for zone in sorted(zone_names()):
            assert outcome(self.window("00:00", "23:59", zone)) == ""

    def test_missing_zone_data_shows_at_the_start(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "tzdata", None)
        zone_names.cache_clear()
        with pytest.raises(ConfigurationError, match="time zone data"):
            zone_names()


class TestSpeed:
    LIMIT: ClassVar[Members] = {"type": "max_speed_mps", "max_mps": 2.5}

    def test_the_bound_is_allowed(self) -> None:
        assert outcome(self.LIMIT, current_speed_mps=2.5) == ""
        assert outcome(self.LIMIT, current_speed_mps=2.51) == "denied: speed 2.51mps exceeds max 2.50mps"

    @pytest.mark.parametrize("fact", [None, math.nan, math.inf])
    def test_not_known(self, fact: float | None) -> None:
        assert outcome(self.LIMIT, current_speed_mps=fact) == (
            "unverifiable: constraint_unverifiable: no current speed in context"
        )


class TestAmount:
    LIMIT: ClassVar[Members] = {"type": "max_amount", "currency": "USD", "max_amount": 500}

    def test_the_bound_is_allowed(self) -> None:
        assert outcome(self.LIMIT, requested_amount=500, requested_currency="USD") == ""
        assert outcome(self.LIMIT, requested_amount=500.01, requested_currency="USD") == (
            "denied: amount 500.01 USD exceeds max 500.00 USD"
        )

    @pytest.mark.parametrize("currency", ["EUR", "usd", "", "USD "])
    def test_exactly_this_currency(self, currency: str) -> None:
        assert outcome(self.LIMIT, requested_amount=1, requested_currency=currency) == (
            f'denied: currency mismatch: requested "{currency}", constraint "USD"'
        )

    @pytest.mark.parametrize(
        "facts",
        [
            {},
            {"requested_amount": 1},
            {"requested_currency": "USD"},
            {"requested_amount": math.nan, "requested_currency": "USD"},
            {"requested_amount": -math.inf, "requested_currency": "USD"},
        ],
    )
    def test_not_known(self, facts: dict[str, Any]) -> None:
        assert outcome(self.LIMIT, **facts) == "unverifiable: constraint_unverifiable: no requested amount in context"


class TestRate:
    LIMIT: ClassVar[Members] = {"type": "max_rate", "count": 3, "window_s": 60}

    def test_so_many_uses_in_the_window(self) -> None:
        asked: list[tuple[str, int]] = []

        def count(cert_id: str, window_s: int) -> int:
            asked.append((cert_id, window_s))
            return len(asked)

        assert outcome(self.LIMIT, invocations_in_window=count) == ""
        assert outcome(self.LIMIT, invocations_in_window=count) == ""
        assert outcome(self.LIMIT, invocations_in_window=count) == (
            "denied: rate limit exceeded: 3 invocations in last 60s (max 3)"
        )
        assert asked == [("cert", 60)] * 3
        bundle = constrained(self.LIMIT)
        verdict(bundle, context=VerifierContext(invocations_in_window=count))
        assert asked[3:] == [(bundle.delegations[0].cert_id, 60)]

    def test_no_counter_comes_first(self) -> None:
        for members in (self.LIMIT, self.LIMIT | {"count": 0}):
            assert outcome(members) == "unverifiable: constraint_unverifiable: no rate counter in context"

    @pytest.mark.parametrize("change", [{"count": 0}, {"count": -1}, {"window_s": 0}, {"window_s": -1}])
    def test_malformed(self, change: dict[str, int]) -> None:
        found = outcome(self.LIMIT | change, invocations_in_window=answering(0))
        assert found == "denied: malformed max_rate: count and window_s must be positive"

    def test_a_counter_that_raises_does_not_know(self) -> None:
        def broken(_cert_id: str, _window_s: int) -> int:
            raise OSError("gone")

        assert outcome(self.LIMIT, invocations_in_window=broken) == (
            "unverifiable: constraint_unverifiable: the rate counter failed"
        )

    @pytest.mark.parametrize("answer", [math.nan, None, "1"])
    def test_a_counter_that_gives_no_number_allows_nothing(self, answer: Any) -> None:
        bundle = constrained(self.LIMIT)
        context = VerifierContext(invocations_in_window=answering(answer))
        assert verdict(bundle, context=context)[0] == "constraint_unverifiable"


class TestResourcePath:
    REPO = "git:github.com/acme/api"

    def ask(self, prefix: str | None, path: str, resource: str = REPO) -> str:
        members: dict[str, Any] = {"type": "resource_path", "resource_id": self.REPO}
        if prefix is not None:
            members["path_prefix"] = prefix
        return outcome(members, requested_resource_id=resource, requested_path=path)

    @pytest.mark.parametrize(
        ("prefix", "path"),
        [
            (None, ""),
            (None, "not a path"),
            ("/", "/"),
            ("/", "/a/b"),
            ("/src", "/src"),
            ("/src", "/src/"),
            ("/src/", "/src"),
            ("/src", "/src/a"),
            ("/src/", "/src/a/"),
            ("/a%2e%2e", "/a%2e%2e/b"),
            ("/...", "/.../.hidden"),
        ],
    )
    def test_below_the_prefix(self, prefix: str | None, path: str) -> None:
        assert self.ask(prefix, path) == ""

    @pytest.mark.parametrize(
        ("prefix", "path"), [("/src", "/srcx"), ("/src", "/"), ("/src", "/Src/a"), ("/a/b", "/a"), ("/é", "/e\u0301")]
    )
    def test_outside_the_prefix(self, prefix: str, path: str) -> None:
        assert self.ask(prefix, path) == f'denied: requested path "{path}" is outside the authorized prefix "{prefix}"'

    @pytest.mark.parametrize(
        ("path", "why"),
        [
            ("src", "path must begin with '/'"),
            ("/a\0", "path contains a NUL byte"),
            ("/a\\b", "path contains a backslash; '/' is the only separator"),
            ("//", "path contains an empty segment"),
            ("/a//b", "path contains an empty segment"),
            ("/a/../b", "path contains a dot-segment; dot-segments are rejected, never resolved"),
            ("/.", "path contains a dot-segment; dot-segments are rejected, never resolved"),
            ("/..//", "path contains a dot-segment; dot-segments are rejected, never resolved"),
        ],
    )
    def test_what_is_no_path(self, path: str, why: str) -> None:
        assert self.ask("/", path) == f"denied: invalid requested path: {why}"
        assert self.ask(path, "") == f"denied: malformed path_prefix: {why}"

    def test_what_is_not_known(self) -> None:
        assert self.ask("/", "x", resource="") == (
            "unverifiable: constraint_unverifiable: no requested resource in context"
        )
        assert self.ask("/", "") == "unverifiable: constraint_unverifiable: no requested path in context"

    @pytest.mark.parametrize(("said", "status"), [(True, ""), (False, "unverifiable: ")])
    def test_whoever_says_that_there_is_none_is_believed(self, said: bool, status: str) -> None:
        found = outcome(
            {"type": "resource_path", "resource_id": self.REPO}, requested_resource_id=self.REPO, has_resource=said
        )
        assert found.startswith(status)
        assert bool(found) is bool(status)

    def test_another_resource(self) -> None:
        for resource in (self.REPO + "/", self.REPO.upper(), "git:github.com/acme"):
            assert self.ask(None, "", resource) == ("denied: requested resource does not match the authorized resource")

    def test_what_only_a_program_could_build(self) -> None:
        facts = VerifierContext(requested_resource_id="y" * 600)
        for resource_id, text in (
            ("", "malformed resource_path: resource_id is required"),
            ("y" * 600, "malformed resource_path: resource_id exceeds MAX_IDENTIFIER_LENGTH_BYTES"),
        ):
            found = ResourcePath(resource_id=resource_id).judge(facts, "", NOW)
            assert found is not None
            assert found.detail == text


class TestExtension:
    HOURS: ClassVar[Members] = {"type": "com.example.hours", "params": {"days": [1, 2], "strict": True, "note": None}}

    def test_nobody_knows_it(self) -> None:
        assert verdict(constrained(self.HOURS)) == (
            "constraint_unknown",
            "constraint_unknown: cert 0: constraint[0] (com.example.hours):"
            ' constraint_unknown: unknown constraint type "com.example.hours"',
        )

    @pytest.mark.parametrize(
        ("answer", "status"),
        [
            (None, "authorized_agent"),
            (True, "authorized_agent"),
            (False, "constraint_denied"),
            ("closed", "constraint_denied"),
            ("", "constraint_denied"),
            (0, "constraint_denied"),
            (1, "constraint_denied"),
            ("constraint_unverifiable: no calendar", "constraint_unverifiable"),
            ("not constraint_unverifiable", "constraint_denied"),
        ],
    )
    def test_a_registered_evaluator_decides(self, answer: object, status: str) -> None:
        evaluators: dict[str, Evaluator] = {"com.example.hours": answering(answer)}
        assert verdict(constrained(self.HOURS), constraint_evaluators=evaluators)[0] == status

    def test_its_words_are_the_reason(self) -> None:
        for answer, text in (
            ("closed", "constraint_denied: cert 0: constraint[0] (com.example.hours): closed"),
            (
                "constraint_unverifiable: no calendar",
                "constraint_unverifiable: cert 0: constraint[0] (com.example.hours):"
                " constraint_unverifiable: no calendar",
            ),
        ):
            evaluators: dict[str, Evaluator] = {"com.example.hours": answering(answer)}
            assert verdict(constrained(self.HOURS), constraint_evaluators=evaluators)[1] == text

    def test_an_exception_is_a_denial(self) -> None:
        def broken(*_facts: object) -> None:
            raise ZeroDivisionError("oops")

        assert verdict(constrained(self.HOURS), constraint_evaluators={"com.example.hours": broken}) == (
            "constraint_denied",
            "constraint_denied: cert 0: constraint[0] (com.example.hours): evaluator failed: oops",
        )

    def test_it_sees_the_constraint_and_the_facts(self) -> None:
        seen: list[object] = []
        facts = VerifierContext(current_speed_mps=1)
        hours = read_constraint(self.HOURS)

        def look(*found: object) -> None:
            seen.extend(found)

        assert evaluate(hours, facts, "cert", NOW, {"com.example.hours": look}) is None
        assert seen == [hours, "cert", facts, NOW]
        assert isinstance(hours, Extension)
        assert (hours.type, hours.params) == (self.HOURS["type"], self.HOURS["params"])

    def test_built_in_types_are_nobodys_to_change(self) -> None:
        bundle = constrained({"type": "max_speed_mps", "max_mps": 1})
        allow: dict[str, Evaluator] = {"max_speed_mps": answering(None)}
        assert verdict(bundle, constraint_evaluators=allow)[0] == "constraint_unverifiable"
