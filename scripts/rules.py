"""Prints which tests hold each rule of the source, and which rules each test holds.

A rule is an item `- [replay] A challenge is spent once...` in a module's docstring. A test says that it would fail
without one by a mark, `@pytest.mark.holds("policy/decide", "replay")`; without a name it is about the module as a
whole, which has no test file of its own name then. `tests/test_rules.py` fails for a rule that no test holds, and for
a mark that names none. In some rooms rules still have numbers in place of names.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SOURCE, TESTS = ROOT / "src/accredit", ROOT / "tests"
SMALL_LINES = 60
"""Up to this size a module is tested with the one that uses it."""


class Rule(NamedTuple):
    """A rule by its module (`policy/decide`) and its name or number; "" stands for the module as a whole."""

    module: str
    name: str


def rules(source: Path = SOURCE) -> dict[Rule, str]:
    """Every rule with the beginning of its text. Raises `ValueError` if two of one module have the same name."""
    found: dict[Rule, str] = {}
    for path in sorted(source.rglob("*.py")):
        text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        for name, beginning in items(text):
            rule = Rule(module_of(path, source), name)
            if rule in found:
                raise ValueError(f"{rule.module} has two rules with the name [{name}]")
            found[rule] = beginning
    return found


def items(text: str) -> list[tuple[str, str]]:
    """Each rule of a docstring by its name, with the beginning of its text; by its number if none has a name."""
    named = re.compile(r"^- \[([a-z][a-z0-9]*(?:-[a-z0-9]+)*)\] (.+)", re.MULTILINE).findall(text)
    return named or [(str(number), beginning) for number, beginning in enumerate(_numbered(text), 1)]


def _numbered(text: str) -> Iterator[str]:
    """The beginnings of the items of a numbered list: 1, 2, 3 and so on, at the start of a line or within one."""
    number, start = 1, 0
    while found := re.compile(rf"(?:^ *|[,;.] ){number}\. (.+)", re.MULTILINE).search(text, start):
        yield re.split(rf"[,;.] {number + 1}\. ", found[1])[0]
        number, start = number + 1, found.start(1)


def untested(held_by: Iterable[Rule], source: Path = SOURCE, tests: Path = TESTS) -> list[str]:
    """The larger modules that have neither a test file of their own name nor one that names them."""
    own = {path.relative_to(tests / "unit").as_posix() for path in (tests / "unit").rglob("test_*.py")}
    named = {rule.module for rule in held_by}
    return [
        module
        for path in sorted(source.rglob("*.py"))
        if (module := module_of(path, source)) not in named
        and path.relative_to(source).with_name(f"test_{path.name}").as_posix() not in own
        and len(path.read_text("utf-8").splitlines()) > SMALL_LINES
    ]


def module_of(path: Path, source: Path = SOURCE) -> str:
    """A module's name as marks have it."""
    return path.relative_to(source).with_suffix("").as_posix().removesuffix("/__init__")


def held(tests: Path = TESTS) -> dict[Rule, list[str]]:
    """Which tests say that they hold a rule, or a module."""
    found: dict[Rule, list[str]] = defaultdict(list)
    for path in sorted(tests.rglob("test_*.py")):
        text = path.read_text("utf-8")
        for name, mark in marks(ast.parse(text)) if "mark.holds" in text else ():
            module, *names = (ast.literal_eval(argument) for argument in mark.args)
            test = "::".join(filter(None, (path.relative_to(tests).as_posix(), name)))
            for each in names or [""]:
                found[Rule(module, str(each))].append(test)
    return dict(found)


def marks(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    """Each `pytest.mark.holds(...)` with the name of its test; "" for one of the file (`pytestmark`)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            places, name = node.decorator_list, node.name
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            places, name = [node.value], ""
        else:
            continue
        for place in places:
            for call in ast.walk(place):
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.holds":
                    yield name, call


def main() -> int:
    """Prints both directions; returns 0."""
    texts, tests = rules(), held()
    for rule, beginning in texts.items():
        print(f"{rule.module} [{rule.name}] {beginning}")
        print(*(f"    {test}" for test in tests.get(rule, ["(none)"])), sep="\n")
    by_test = by_tests(tests)
    for test, whole in by_test.items():
        print(f"{test}: {', '.join(f'{rule.module} [{rule.name}]' for rule in whole)}")
    print(*(f"{module}: no test file of its name, and none that names it" for module in untested(tests)), sep="\n")
    print(f"{len(texts)} rules, {len(texts.keys() - tests.keys())} of them held by no test; {len(by_test)} tests")
    return 0


def by_tests(held_by: Mapping[Rule, list[str]]) -> dict[str, list[Rule]]:
    """The same the other way round."""
    found: dict[str, list[Rule]] = defaultdict(list)
    for rule, tests in held_by.items():
        for test in tests:
            found[test].append(rule)
    return dict(sorted(found.items()))


if __name__ == "__main__":
    sys.exit(main())
