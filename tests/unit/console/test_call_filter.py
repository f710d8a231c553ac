"""A filter of calls, as people write it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.world.records import DENY, NOW_MS, OK, Chained, decided

from accredit.attest import CallRecord, decode_statement
from accredit.console.call_filter import read_filter
from accredit.errors import DeskError
from accredit.limits import MAX_CALL_FILTER_CHARS
from accredit.stores.audit_log.calls import CallRow

pytestmark = pytest.mark.holds("console/call_filter")
NAMES = {"bb" * 16: "Assistant", "aa" * 16: "Ada"}


def rows() -> tuple[CallRow, CallRow]:
    """A call that was allowed and answered, and one that was refused."""
    chain, good, bad = Chained(), decided(), decided("pay now", decision=DENY)
    records = [chain.decision(good), chain.outcome(good, OK), chain.decision(bad)]
    read = [decode_statement(each.payload).predicate for each in records]
    assert all(isinstance(each, CallRecord) for each in read)
    return CallRow(read[0], read[1]), CallRow(read[2], None)  # type: ignore[arg-type]


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
    assert tuple(wanted.passes(each, NAMES) for each in rows()) == passes


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


@given(text=st.text(max_size=MAX_CALL_FILTER_CHARS))
def test_no_text_does_anything_else(text: str) -> None:
    try:
        wanted = read_filter(text, NOW_MS)
    except DeskError:
        return
    wanted.passes(rows()[0], NAMES)
