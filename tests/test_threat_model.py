"""The pages that promise something name the tests that show it: they exist, and no promise is without one."""

import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    page
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    if re.search(r"`test_\w+`", page.read_text("utf-8"))
)


@functools.cache
def defined() -> frozenset[str]:
    files = (ROOT / "tests").rglob("test_*.py")
    return frozenset(name for file in files for name in re.findall(r"def (test_\w+)", file.read_text("utf-8")))


def shown_in(text: str) -> set[str]:
    return set(re.findall(r"`(test_\w+)`", text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    named = shown_in(page.read_text("utf-8"))
    assert named <= defined(), named - defined()


def test_each_promise_of_security_is_shown_by_a_test() -> None:
    text = (ROOT / "SECURITY.md").read_text("utf-8")
    promises = re.findall(r"^(\d+)\. \*\*", text, re.MULTILINE)
    shown = {number: shown_in(row) for number, row in re.findall(r"^\| (\d+) \|(.*)\|$", text, re.MULTILINE)}
    assert promises == [str(number) for number in range(1, len(promises) + 1)]
    assert list(shown) == promises
    assert [number for number, tests in shown.items() if not tests] == []


def test_each_attack_of_the_threat_model_is_shown_by_a_test() -> None:
    text = (ROOT / "docs/explanation/threat-model.md").read_text("utf-8")
    tables = re.findall(r"^\| attack \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    rows = [row for table in tables for row in table.splitlines()]
    assert len(rows) > 60
    assert [row for row in rows if not shown_in(row)] == []
