"""Rows of texts, facts and tables: no cell and no value reads as a row of ours, and nothing is cut off."""

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.world.terminal import screen

from accredit.base.terminal import MIN_TERMINAL_COLUMNS
from accredit.terminal.layout import Row, Words, fact_rows, table_rows, text_rows

pytestmark = pytest.mark.holds("terminal/layout")

TEXTS = st.text(st.sampled_from("ab :|\u0430漢é-"), max_size=90) | st.text(max_size=40)
WIDTHS = st.integers(MIN_TERMINAL_COLUMNS - 1, 140)
WIDE = st.integers(1, 2)
HEADINGS = ("call", "agent", "asks for", "ends")


def told(rows: Sequence[Row], width: int, wide: int = 1) -> list[str]:
    """The rows of a terminal of that width."""
    return screen("\n".join("".join(each.text for each in row).rstrip() for row in rows), width + 1, wide)


def test_a_line_goes_on_after_a_mark() -> None:
    assert told(text_rows("  to: " + "x " * 30, 40), 40)[1].startswith("    | x")
    assert [[each.text for each in row] for row in text_rows("x" * 300, None)] == [["x" * 300]]


@given(TEXTS, WIDTHS, WIDE)
@example("x" * 40 + "signature  good", 39, 1)
def test_no_value_of_a_fact_reads_as_another_fact(value: str, width: int, wide: int) -> None:
    facts = [("from", value), ("signature", Words("BAD", "bold red"))]
    rows = list(fact_rows(facts, width))
    seen = told(rows, width, wide)
    assert len(seen) == len(rows)
    assert [row[:9].rstrip() for row in seen if row and row[0] != " "] == [seen[0][:9].rstrip(), "signature"]


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=3), WIDTHS, WIDE)
@example([("Assistant" + " " * 30 + "Assistant", "send_email" + " " * 30 + "wire_money")], 79, 1)
@example([("| x", " y")], 79, 1)
def test_no_cell_of_a_table_reads_as_a_row_of_it(cells: list[tuple[str, str]], width: int, wide: int) -> None:
    rows = list(table_rows(HEADINGS, [("7KQ4-M2", *each, "in 9 minutes") for each in cells], width))
    seen = told(rows, width, wide)
    assert len(seen) == len(rows)
    if seen[1].startswith("--"):
        assert sum(row.startswith("7KQ4-M2") for row in seen) == len(cells)
        others = [row for row in seen[2:] if not row.startswith("7KQ4-M2")]
        assert all(row.lstrip(" ").startswith("|") for row in others)
    else:
        assert sum(row.startswith("call") for row in seen) == len(cells)
        assert all(row.startswith((" ", *HEADINGS)) or not row for row in seen)


def test_a_table_that_has_room_is_one_row_for_each_and_loses_nothing() -> None:
    rows = told(list(table_rows(("code", "agent"), [("7KQ4-M2", "Ada"), ("B", "é")], 79)), 79)
    assert rows == ["code     agent", "--------------", "7KQ4-M2  Ada", "B        é"]
    long = told(list(table_rows(("code", "agent"), [("7KQ4-M2", "x" * 200)], 79)), 79)
    assert "".join(long).count("x") == 200
    assert [[each.text.rstrip() for each in row] for row in table_rows(("a", "b"), [("1", "x" * 200)], None)] == [
        ["a", "b"], ["1", "x" * 200],
    ]  # fmt: skip
