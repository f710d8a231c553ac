"""The rows of a call in a terminal: what is typed there may not pass for a row, a kind or a name."""

from functools import reduce
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.world.asked import an_ask
from tests.world.terminal import screen

from accredit.base.terminal import MIN_TERMINAL_COLUMNS
from accredit.cli.actions.ask_screen import screen_rows, value_rows
from accredit.consent.asks import params_digest
from accredit.consent.shown import shown_call

pytestmark = [pytest.mark.holds("cli/actions/ask_screen"), pytest.mark.holds("cli/actions/approve")]

TEXTS = st.sampled_from(
    (
        *(
            "a",
            "a: b",
            "b: c",
            ": ",
            ":",
            "| a",
            "! a",
            " a",
            "  a",
            "a ",
            "",
            "\n",
            "a\n| b",
            "5 (number)",
            "⟨object⟩",
        ),
        *("(empty text)", "(object)", "5", "null", "a\nb: c", "b", "c", "empty text", "5 ⟨number⟩"),
    )
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.just(5) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


def rows(arguments: dict[str, Any]) -> list[str]:
    call = shown_call(an_ask({"name": "x", "arguments": arguments}))
    return [line for each in call.fields for line in value_rows(each, 79, unfolded=True)]


def digest(arguments: dict[str, Any]) -> bytes:
    return params_digest({"arguments": arguments})


@pytest.mark.slow
@given(st.dictionaries(TEXTS, VALUES, max_size=3), st.dictionaries(TEXTS, VALUES, max_size=3))
def test_two_calls_with_different_digests_have_different_rows(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert (rows(one) == rows(other)) is (digest(one) == digest(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a: b": "c"}, {"a": "b: c"}),
        ({"a": ""}, {"a": "(empty text)"}),
        ({"a": "\n"}, {"a": ""}),
        ({"a": 5}, {"a": "5 (number)"}),
        ({"a": {}}, {"a": "(object)"}),
        ({"a": {"x": 1}, "b": 1}, {"a": {}, "  x": 1, "b": 1}),
        ({"a": {"| x": "1"}}, {"a": "(object)\nx: 1"}),
    ],
)
def test_what_only_seems_the_same_has_other_rows(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert rows(one) != rows(other)


LONG = st.text(st.sampled_from("ab :|!⟨⟩…\n\u0430漢\u202e"), max_size=150) | TEXTS | st.just("x" * 60 + "\n  | y")
LONG_VALUES = st.recursive(
    st.none() | st.just(5) | LONG,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(LONG, inner, max_size=2),
    max_leaves=4,
)
ARGUMENTS = st.dictionaries(LONG, LONG_VALUES, max_size=2)
PADDED = {"to": "x" * 60 + "\n" + "y", "zz": "cc: " + "x" * 70 + "to: ada@example.org" + "." * 60 + "cc:"}
DEEP = reduce(lambda inner, _: {"a": inner}, range(30), cast("Any", "to: x"))


def on_screen(arguments: dict[str, Any], width: int) -> list[str]:
    call = shown_call(an_ask({"name": "x", "arguments": arguments}))
    return [row for each in call.fields for row in screen_rows(each, width, unfolded=True)]


@pytest.mark.slow
@given(ARGUMENTS, st.integers(MIN_TERMINAL_COLUMNS - 1, 130), st.integers(1, 2))
@example(PADDED, 79, 1)
@example(PADDED, 39, 2)
@example({"deep": DEEP}, 19, 2)
@example({"a": [[["x\n| y"]]]}, 19, 2)
def test_no_value_makes_a_row_on_the_screen_that_reads_as_one_of_ours(
    arguments: dict[str, Any], width: int, wide: int
) -> None:
    call = shown_call(an_ask({"name": "x", "arguments": arguments}))
    for each in call.fields:
        first, *more = screen("\n".join(screen_rows(each, width, unfolded=True)), width + 1, wide)
        levels = min(4, width // 16)
        deep = f"⟨level {each.level}⟩ " if each.level > levels else ""
        begins = f"{'  ' * (min(each.level, levels) + 1)}{deep}{each.label}: "
        assert first.startswith(begins[: len(first.removesuffix("⟨…⟩"))])
        assert all(row.startswith("  ") and row.lstrip(" ").startswith("| ") for row in more)


@pytest.mark.slow
@given(ARGUMENTS, ARGUMENTS, st.integers(MIN_TERMINAL_COLUMNS - 1, 90))
@example({"a": "x" * 71 + "\ny"}, {"a": "x" * 71 + "y"}, 79)
@example({"a": "x" * 65 + "⟨…⟩\ny"}, {"a": "x" * 65 + "y"}, 79)
def test_two_calls_with_different_digests_have_different_rows_in_every_width(
    one: dict[str, Any], other: dict[str, Any], width: int
) -> None:
    assert (on_screen(one, width) == on_screen(other, width)) is (digest(one) == digest(other))
