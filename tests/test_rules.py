"""Each rule of what is security is held by a test that says so, and each module's tests can be found."""

from pathlib import Path

import pytest
from scripts.rules import SOURCE, Rule, held, items, module_of, rules, untested

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
    assert {rule for rule in marked if rule not in known and not (rule.name == "" and rule.module in modules)} == set()


def test_no_rule_is_without_a_test_that_fails_without_it(known: dict[Rule, str], marked: dict[Rule, list[str]]) -> None:
    unheld = {rule for rule in known.keys() - marked.keys() if rule.module.split("/")[0] not in NO_SECURITY}
    assert len(unheld) <= MAX_UNHELD, sorted(unheld)


def test_the_tests_of_every_module_can_be_found(marked: dict[Rule, list[str]]) -> None:
    lost = untested(marked)
    assert len(lost) <= MAX_UNTESTED, lost


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Checks:\n\n- [root] one\n  and [more]\n- [single-use] two\n", [("root", "one"), ("single-use", "two")]),
        ("- [root] has a name, so 1. is no rule", [("root", "has a name, so 1. is no rule")]),
        ("- plain\n- [Root] neither\n- `[root]` nor\n", []),
        ("Checks:\n\n1. one\n   and more\n2. two: 3. is none\n", [("1", "one"), ("2", "two: 3. is none")]),
        ("1. some, 2. at most eight, 3. and one", [("1", "some"), ("2", "at most eight"), ("3", "and one")]),
        ("Version 2. begins with no 1.", []),
    ],
)
def test_the_rules_of_a_docstring_are_found(text: str, found: list[tuple[str, str]]) -> None:
    assert items(text) == found


def test_a_module_with_two_rules_of_one_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text('"""- [root] here"""\n')
    (tmp_path / "other.py").write_text('"""- [root] there"""\n')
    assert rules(tmp_path) == {Rule("one", "root"): "here", Rule("other", "root"): "there"}
    (tmp_path / "other.py").write_text('"""\n- [root] there\n- [root] and again\n"""\n')
    with pytest.raises(ValueError, match=r"other has two rules with the name \[root\]"):
        rules(tmp_path)


@pytest.mark.parametrize("name", ["key", 2, "1"])
def test_a_mark_with_a_name_that_no_rule_has_is_found(tmp_path: Path, name: str | int) -> None:
    (tmp_path / "one.py").write_text('"""- [root] here"""\n')
    (tmp_path / "test_one.py").write_text(
        f'@pytest.mark.holds("one", "root", {name!r})\ndef test_this() -> None: ...\n'
    )
    assert held(tmp_path).keys() - rules(tmp_path).keys() == {Rule("one", str(name))}


def test_a_mark_of_a_test_and_one_of_its_file_are_found(tmp_path: Path) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(
        'pytestmark = [pytest.mark.slow, pytest.mark.holds("a/b")]\n\n'
        '@pytest.mark.holds("policy/decide", "replay", 4)\ndef test_this() -> None: ...\n'
    )
    assert held(tmp_path) == {
        Rule("a/b", ""): ["test_it.py"],
        Rule("policy/decide", "replay"): ["test_it.py::test_this"],
        Rule("policy/decide", "4"): ["test_it.py::test_this"],
    }
