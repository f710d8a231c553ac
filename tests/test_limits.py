"""The page of shared bounds says of each what the code has, and leaves none out."""

import re
from pathlib import Path

import pytest

from accredit import limits

pytestmark = pytest.mark.holds("limits")

PAGE = (Path(__file__).parents[1] / "docs/reference/limits.md").read_text("utf-8")
ROWS = dict(re.findall(r"^\| `(\w+)` \| ([\d,]+) \|", PAGE, re.MULTILINE))
OF_ONE = set(re.findall(r"`(\w+)`", PAGE.partition("Counts of one thing only:")[2]))
UNITS = ("_BYTES", "_CHARS", "_SECONDS")


def test_each_number_on_the_page_of_shared_bounds_is_the_code_s() -> None:
    assert len(ROWS) > 20
    for name, number in ROWS.items():
        assert float(number.replace(",", "")) == getattr(limits, name), name


def test_every_count_is_on_the_page__shared_or_of_one_thing() -> None:
    counts = {name for name in vars(limits) if name.startswith("MAX_") and not name.endswith(UNITS)}
    assert counts - ROWS.keys() - OF_ONE == set(), "say in docs/reference/limits.md who can use it up"
    assert {name for name in OF_ONE if not hasattr(limits, name)} == set()
    assert OF_ONE & ROWS.keys() == set()
