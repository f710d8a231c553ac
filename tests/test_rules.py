"""Each numbered rule of what is security is held by a test that says so, and each module's tests can be found."""

from pathlib import Path

import pytest
from scripts.rules import SOURCE, Rule, held, items, module_of, rules, untested

pytestmark = pytest.mark.slow

NO_SECURITY = {"asking", "base", "cli", "config", "hosts", "ops", "setup", "telemetry", "terminal"}
"""Rooms whose rules need no marks: what goes wrong there is seen by who sets up, and lets no call through."""
MAX_UNHELD = 0
"""How many rules no test names yet: it may only fall."""
MAX_UNTESTED = 0
"""How many modules have neither a test file of their own name nor one that names them: it may only fall."""


@pytest.fixture(scope="module")
def known() -> dict[Rule, str]:
    return rules()


@pytest.fixture(scope="module")
def marked() -> dict[Rule, list[str]]:
    return held()


def test_every_mark_names_a_rule_that_exists(known: dict[Rule, str], marked: dict[Rule, list[str]]) -> None:
    modules = {module_of(path) for path in SOURCE.rglob("*.py")}
    assert {rule for rule in marked if rule not in known and not (rule.number == 0 and rule.module in modules)} == set()


def test_no_rule_is_without_a_test_that_fails_without_it(known: dict[Rule, str], marked: dict[Rule, list[str]]) -> None:
    unheld = {rule for rule in known.keys() - marked.keys() if rule.module.split("/")[0] not in NO_SECURITY}
    assert len(unheld) <= MAX_UNHELD, sorted(unheld)


def test_the_tests_of_every_module_can_be_found(marked: dict[Rule, list[str]]) -> None:
    lost = untested(marked)
    assert len(lost) <= MAX_UNTESTED, lost


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Checks:\n\n1. one\n   and more\n2. two: 3. is none\n", ["one", "two: 3. is none"]),
        ("1. there are some, 2. at most eight, 3. and one", ["there are some", "at most eight", "and one"]),
        ("Version 2. begins with no 1.", []),
    ],
)
def test_the_items_of_a_numbered_list_are_found(text: str, found: list[str]) -> None:
    assert list(items(text)) == found


def test_a_mark_of_a_test_and_one_of_its_file_are_found(tmp_path: Path) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(
        'pytestmark = [pytest.mark.holds("a/b")]\n\n'
        '@pytest.mark.holds("policy/decide", 3, 4)\ndef test_this() -> None: ...\n'
    )
    assert held(tmp_path) == {
        Rule("a/b", 0): ["test_it.py"],
        Rule("policy/decide", 3): ["test_it.py::test_this"],
        Rule("policy/decide", 4): ["test_it.py::test_this"],
    }
