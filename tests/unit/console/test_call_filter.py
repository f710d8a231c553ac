"""A filter of calls, as people write it."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.world.records import DENY, NOW_MS, Chained, decided

from accredit.attest import CallRecord, decode_statement
from accredit.console.call_filter import read_filter, values_of
from accredit.errors import DeskError
from accredit.limits import MAX_CALL_FILTER_CHARS

pytestmark = pytest.mark.holds("console/call_filter")
NAMES = {"bb" * 16: "Assistant", "aa" * 16: "Ada"}


def calls() -> list[tuple[str, Mapping[str, tuple[str, ...]]]]:
    """When a call came, and what a filter asks of it: of one that was answered, and of one that was refused."""
    chain, good, bad = Chained(), decided(), decided("pay now", decision=DENY)
    found: list[tuple[str, Mapping[str, tuple[str, ...]]]] = []
    for call, status in ((good, "ok"), (bad, "")):
        record = decode_statement(chain.decision(call).payload).predicate
        assert isinstance(record, CallRecord)
        found.append((record.times.received, values_of(record, status, NAMES)))
    return found


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("", (True, True)),
        ("tool:send_email", (True, False)),
        ("-tool:send_email", (False, True)),
        ('tool:"pay now"', (False, True)),
        ("tool:send_email tool:x", (True, False)),
        ("agent:Assistant", (True, True)),
        ("agent:bbbb", (True, True)),
        ("-agent:Assistant", (False, False)),
        ("principal:Ada decision:refused", (False, True)),
        ("decision:deny", (False, True)),
        ("outcome:ok", (True, False)),
        ("-outcome:ok error:ratify_scope_denied", (False, True)),
        ("after:2020-01-01 before:2100-01-01", (True, True)),
        ("before:1h", (False, False)),
        ("after:1d", (True, True)),
        ("agent:*", (False, False)),
    ],
)
def test_words_hold_together(text: str, passes: tuple[bool, bool]) -> None:
    wanted = read_filter(text, NOW_MS)
    assert tuple(wanted.passes(*each) for each in calls()) == passes


@pytest.mark.parametrize(
    "text",
    [
        "send_email",
        "colour:red",
        "-after:1d",
        "after:soon",
        "after:9999999d9",
        'tool:"x',
        "tool:",
        "x" * 501,
        "after:0d",
    ],
)
def test_what_is_no_filter_is_told(text: str) -> None:
    with pytest.raises(DeskError):
        read_filter(text, NOW_MS)


CALL = calls()[0]


@given(text=st.text(max_size=MAX_CALL_FILTER_CHARS))
def test_no_text_does_anything_else(text: str) -> None:
    try:
        wanted = read_filter(text, NOW_MS)
    except DeskError:
        return
    wanted.passes(*CALL)
