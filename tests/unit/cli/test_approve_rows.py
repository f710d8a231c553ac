"""The rows of a call in a terminal: what is typed there may not pass for a row, a kind or a name."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.world.asked import an_ask

from accredit.cli.actions import approve
from accredit.consent.asks import params_digest
from accredit.consent.shown import shown_call

pytestmark = pytest.mark.holds("cli/actions/approve", 2)

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
    return [line for each in call.fields for line in approve.rows_of(each, unfolded=True)]


def digest(arguments: dict[str, Any]) -> bytes:
    return params_digest({"arguments": arguments})


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
