"""The facts of a call: nothing that an argument holds makes a fact of what it is not, and nothing raises."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accredit.policy.facts import Facts, facts_fault

NUMBERS = ["amount", "lat", "lon", "alt_m", "speed_mps"]
TEXTS = ["currency", "resource_id", "requested_path"]


def fact(name: str, source: str | float, arguments: object) -> object:
    """The fact, or None where it is absent."""
    return Facts({name: source}).of(arguments).get(name)


@pytest.mark.holds("policy/facts", "pointer")
@pytest.mark.parametrize(
    ("pointer", "found"),
    [
        ("/a", 1),
        ("/b/0", 2),
        ("/b/1/c", 3),
        ("/d~1e", 4),
        ("/f~0g", 5),
        ("/~01", 6),
        ("/", 7),
        ("/h i", 8),
        ("/0", 9),
        ("/n/00", 10),
        ("/\u00fc", 11),
        ('/"', 12),
        ("/n//x", 13),
    ],
)
def test_a_pointer_finds_what_it_points_at(pointer: str, found: int) -> None:
    arguments = {
        "a": 1,
        "b": [2, {"c": 3}],
        "d/e": 4,
        "f~g": 5,
        "~1": 6,
        "": 7,
        "h i": 8,
        "0": 9,
        "n": {"00": 10, "": {"x": 13}},
        "\u00fc": 11,
        '"': 12,
    }
    assert fact("amount", pointer, arguments) == found


@pytest.mark.parametrize(
    "pointer",
    [
        *("/x", "/a/b", "/l/2", "/l/-1", "/l/-", "/l/00", "/l/01", "/l/1e0", "/l/ 1", "/l/\u0661", "/l/1/0", "/a/"),
        *("/l/999999999999999999999", "/s/0", "/n/0", "/t/0"),
    ],
)
def test_a_pointer_to_nothing_finds_nothing(pointer: str) -> None:
    assert fact("amount", pointer, {"a": 1, "l": [1, 2], "s": "12", "n": None, "t": True}) is None


@pytest.mark.parametrize("arguments", [None, [], {}, "x", 7, True, [[]], {"a": {}}], ids=repr)
def test_no_arguments_give_no_facts(arguments: object) -> None:
    sources = dict.fromkeys(NUMBERS, "/a") | dict.fromkeys(TEXTS, "/a")
    assert Facts(sources).of(arguments) == {}


HOSTILE: list[Any] = [
    *(True, False, None, "", "5", "5.0", "NaN", "Infinity", [], [5], {}, {"value": 5}),
    *(math.nan, math.inf, -math.inf, 10**400, -(10**400)),
]


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value)[:20])
@pytest.mark.parametrize("name", NUMBERS)
def test_what_is_no_number_is_no_number(name: str, value: object) -> None:
    assert fact(name, "/a", {"a": value}) is None


@pytest.mark.parametrize("value", [0, 1, 5.5, 2**53, 2**400, 1e308, 5e-324, -0.0])
def test_what_is_a_number_is_one(value: float) -> None:
    for name in ("amount", "alt_m", "speed_mps"):
        assert fact(name, "/a", {"a": value}) == float(value)


@pytest.mark.parametrize("value", [-1, -0.01, -1e308])
def test_a_negative_amount_or_speed_means_nothing(value: float) -> None:
    names = ("amount", "alt_m", "speed_mps")
    assert [fact(name, "/a", {"a": value}) is None for name in names] == [True, False, True]


@pytest.mark.parametrize(("name", "last"), [("lat", 90), ("lon", 180)])
def test_a_place_beyond_the_globe_is_none__a_server_may_take_it_for_another(name: str, last: int) -> None:
    for value in (last, -last, last - 0.5, 0, -0.0, 5e-324):
        assert fact(name, "/a", {"a": value}) == value
    for value in (math.nextafter(last, math.inf), -last - 1, 2 * last, 4 * last + 1, 2**53, -1e308):
        assert fact(name, "/a", {"a": value}) is None


@pytest.mark.parametrize(
    "value",
    [*(True, None, 5, 5.0, [], ["EUR"], {}), *("", "EUR\n", "\0", "EU\u200bR", "\ud800", "a\u2028b", "a\tb")],
    ids=ascii,
)
@pytest.mark.parametrize("name", TEXTS)
def test_what_is_no_plain_text_is_no_text(name: str, value: object) -> None:
    assert fact(name, "/a", {"a": value}) is None


@pytest.mark.parametrize("value", ["EUR", "eur", " EUR", "\u20ac", "5", "null", "git:x/../y"])
def test_a_text_is_taken_as_it_is(value: str) -> None:
    assert fact("currency", "/a", {"a": value}) == value
    assert fact("resource_id", "/a", {"a": value}) == value


@pytest.mark.parametrize("path", ["/", "/a", "/a/b/", "/a/%2e%2e/b", "/\u00fc", "/...", "/a/.b", "/{/x}", "/~"])
def test_a_path_is_one(path: str) -> None:
    assert fact("requested_path", "/a", {"a": path}) == path


@pytest.mark.parametrize(
    "path",
    [
        "a",
        "./a",
        "../a",
        "/..",
        "/.",
        "/a/../b",
        "/a/./b",
        "/a//b",
        "//",
        "/a//",
        "\\a",
        "/a\\..\\b",
        "/a\0",
        "C:/x",
        " /a",
    ],
)
def test_what_breaks_the_path_rules_is_no_path(path: str) -> None:
    assert fact("requested_path", "/a", {"a": path}) is None


class TestTemplates:
    @pytest.mark.holds("policy/facts", "template")
    def test_what_is_put_in_is_text_or_an_integer(self) -> None:
        source = "git:example.com/{/owner}/{/repo/0}"
        assert fact("resource_id", source, {"owner": "me", "repo": ["x"]}) == "git:example.com/me/x"
        assert fact("resource_id", source, {"owner": 7, "repo": [-1]}) == "git:example.com/7/-1"

    @pytest.mark.parametrize("value", [True, None, 1.0, "", [], {}, ["x"]], ids=repr)
    def test_anything_else_makes_the_whole_absent(self, value: object) -> None:
        assert fact("resource_id", "{/a}:{/b}", {"a": "x", "b": value}) is None
        assert fact("resource_id", "{/a}:{/b}", {"a": "x"}) is None

    def test_what_is_put_in_is_no_template(self) -> None:
        arguments = {"a": "{/b}", "b": "secret", "c": "\\1 \\g<0>"}
        assert fact("resource_id", "x:{/a}", arguments) == "x:{/b}"
        assert fact("resource_id", "x:{/c}", arguments) == "x:\\1 \\g<0>"

    @pytest.mark.parametrize("value", ["../../etc", "..", ".", "", "a//b", "a\\b", "/", "a/.."])
    def test_a_path_that_is_put_together_keeps_the_path_rules(self, value: str) -> None:
        assert fact("requested_path", "/home/{/user}/x", {"user": value}) is None

    def test_a_template_of_a_path_may_begin_with_a_slash(self) -> None:
        assert fact("requested_path", "/home/{/user}/x", {"user": "me"}) == "/home/me/x"
        assert fact("requested_path", "{/user}", {"user": "/me"}) == "/me"

    def test_a_huge_integer_gives_a_long_text_or_none_and_never_raises(self) -> None:
        assert fact("resource_id", "{/a}", {"a": 2**53 - 1}) == "9007199254740991"
        assert fact("resource_id", "{/a}", {"a": 10**5000}) is None


@pytest.mark.holds("policy/facts", "constant")
def test_a_constant_is_what_it_is() -> None:
    sources: dict[str, str | float] = {"currency": "EUR", "amount": 5, "lat": -1.5, "resource_id": "{x} {} /a"}
    assert facts_fault(sources) is None
    assert Facts(sources).of(None) == {"currency": "EUR", "amount": 5.0, "lat": -1.5, "resource_id": "{x} {} /a"}


@pytest.mark.parametrize(
    "sources",
    [
        {"amount": "/a"},
        {"amount": 0},
        {"lat": -5.5},
        {"currency": "EUR"},
        {"currency": "/a/0/b~1c~0d"},
        {"resource_id": "{/a}"},
        {"requested_path": "/a"},
        {"requested_path": "/x{/a}"},
        {},
    ],
    ids=repr,
)
def test_a_sound_mapping_has_no_fault(sources: dict[str, object]) -> None:
    assert facts_fault(sources) is None


@pytest.mark.parametrize(
    ("sources", "text"),
    [
        ({"price": "/a"}, "price is no fact"),
        ({"Amount": "/a"}, "Amount is no fact"),
        ({"amount": True}, "should be"),
        ({"amount": None}, "should be"),
        ({"amount": ["/a"]}, "should be"),
        ({"amount": "5"}, "can't be '5'"),
        ({"amount": "a/b"}, "can't be"),
        ({"amount": ""}, "can't be ''"),
        ({"amount": -1}, "can't be -1"),
        ({"amount": math.nan}, "can't be nan"),
        ({"amount": math.inf}, "can't be inf"),
        ({"amount": 10**400}, "can't be 1000"),
        ({"amount": "{/a}"}, "is a number"),
        ({"amount": "/x{/a}"}, "is a number"),
        ({"amount": "/a~"}, "no JSON Pointer"),
        ({"amount": "/a~2b"}, "no JSON Pointer"),
        ({"resource_id": "x{/a~2}"}, "no JSON Pointer"),
        ({"resource_id": 5}, "can't be 5"),
        ({"resource_id": ""}, "can't be ''"),
        ({"currency": "E\n"}, "can't be"),
        ({"requested_path": "a/b"}, "can't be"),
        ({"currency": "EUR", "lat": "north"}, "lat can't be"),
        ({"lat": 90.5}, "lat can't be 90.5"),
        ({"lon": -181}, "lon can't be -181"),
    ],
)
def test_a_mapping_that_would_not_work_says_so(sources: dict[str, object], text: str) -> None:
    assert text in str(facts_fault(sources))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", "b", "0", ""]), inner, max_size=4)
    ),
    max_leaves=12,
)
POINTERS = st.lists(st.sampled_from(["", "a", "b", "0", "1", "~0", "~1", "-"]), min_size=1, max_size=4).map(
    lambda steps: "/" + "/".join(steps)
)
SOURCES = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(NUMBERS, POINTERS)
    | {name: POINTERS | POINTERS.map(lambda pointer: "x:{" + pointer + "}") for name in TEXTS},
)


@pytest.mark.slow
@given(JSON, SOURCES)
@settings(max_examples=200)
def test_whatever_the_arguments_are_a_fact_is_sound_or_absent(arguments: object, sources: dict[str, str]) -> None:
    assert facts_fault(sources) is None
    for name, value in Facts(sources).of(arguments).items():
        if name in NUMBERS:
            assert isinstance(value, float)
            assert math.isfinite(value)
        else:
            assert isinstance(value, str)
            assert value.isprintable()
            assert value
        if name in {"amount", "speed_mps"}:
            assert isinstance(value, float)
            assert value >= 0


@pytest.mark.holds("policy/facts", "template")
def test_a_slash_in_one_part_of_a_template_is_not_taken_for_the_one_between_two() -> None:
    facts = Facts({"resource_id": "git:{/owner}/{/repo}"})
    assert facts.of({"owner": "a", "repo": "b"}) == {"resource_id": "git:a/b"}
    assert facts.of({"owner": "a/b", "repo": "c"}) == facts.of({"owner": "a", "repo": "b/c"}) == {}
    assert Facts({"resource_id": "git:{/repo}"}).of({"repo": "a/b"}) == {"resource_id": "git:a/b"}
