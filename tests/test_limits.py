"""The page of bounds says of each what the code has, and leaves none out; a bound stands beside its one use."""

import ast
import re
import runpy
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from accredit import limits

pytestmark = pytest.mark.holds("limits")

ROOT = Path(__file__).parents[1]
SCRIPT = runpy.run_path(str(ROOT / "scripts/limits.py"))
PAGE = SCRIPT["PAGE"].read_text("utf-8")
ROWS = dict(re.findall(r"^\| `(\w+)` \| ([\d,]+) \|", PAGE, re.MULTILINE))


@pytest.fixture(scope="module")
def bounds() -> list[Any]:
    """All that the code has (`scripts/limits.py`)."""
    return list(SCRIPT["bounds"]())


def test_each_number_on_the_page_of_shared_bounds_is_the_code_s(bounds: list[Any]) -> None:
    written = {bound.name: bound.number for bound in bounds}
    assert len(ROWS) > 20
    assert {name: float(number.replace(",", "")) for name, number in ROWS.items()} == {
        name: float(written[name].replace(",", "")) for name in ROWS
    }


def test_every_bound_is_on_the_page__as_the_code_has_it(bounds: list[Any]) -> None:
    assert len(bounds) > 500
    assert SCRIPT["with_list"](PAGE, bounds) == PAGE, "run `make fmt`"


def test_one_name_is_one_bound(bounds: list[Any]) -> None:
    assert [name for name, times in Counter(bound.name for bound in bounds).items() if times > 1] == []


@pytest.mark.slow
def test_what_one_file_uses_stands_in_that_file() -> None:
    used: Counter[str] = Counter()
    for path in (ROOT / "src/accredit").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "accredit.limits":
                used.update({alias.name for alias in node.names})
    shared = {name for name in vars(limits) if name.isupper()}
    assert {name for name in shared if used[name] < 2} == set()
