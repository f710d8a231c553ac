"""What the project says of itself is so: what it imports it declares, and what a sentence names is there."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/accredit"
FILES = sorted(PACKAGE.rglob("*.py"))
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
MODULES = {path.relative_to(PACKAGE).with_suffix("").as_posix().removesuffix("/__init__") for path in FILES}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

NOT_EVERYWHERE = {"simdjson": ["pysimdjson"]}
"""Modules of libraries that some machines have no wheel of."""

PATH_NAME = re.compile(r"`((?:[a-z_]+[./])+[a-z_]+)`")
ASIDE = re.compile(r"\(`([a-z_]+)`\)")
PAGE_FILE = re.compile(r"`((?:(?!guarded/)[\w-]+/)+[\w-]+\.py)`")  # `guarded` is the folder that a tutorial makes
FILE_TYPES = {"json", "lock", "pid", "toml"}
OTHER_WORDS = {
    *("_meta", "crit", "gateway_changed", "gateway_mismatch", "secure_delete"),
    *("log_clear_day", "log_make_days"),
}
"""What stands in brackets and is the word of somebody else: a member, an error, a setting, a database's function."""


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]
        elif isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)


@pytest.mark.slow
def test_every_library_that_is_imported_is_declared__another_s_dependency_can_go_with_its_next_version() -> None:
    extras = [each for group in PROJECT["optional-dependencies"].values() for each in group]
    declared = {re.split(r"[<>=!~;\[ ]", each)[0].lower() for each in [*PROJECT["dependencies"], *extras]}
    used = {name for path in FILES for name in imported(path)} - sys.stdlib_module_names - {"accredit"}
    by = {**packages_distributions(), **NOT_EVERYWHERE}
    found = {name: {name, *(each.lower().replace("_", "-") for each in by.get(name, []))} for name in used}
    assert {name for name, distributions in found.items() if not declared & distributions} == set()


def is_there(name: str) -> bool:
    """Whether a dotted or slashed name is that of a module of ours, or of something in one."""
    wanted = name.removesuffix(".py").replace(".", "/").removeprefix("accredit/")
    inside = wanted.rpartition("/")[0]
    return any(module == each or module.endswith(f"/{each}") for each in (wanted, inside) for module in MODULES)


def defined_in(tree: ast.Module) -> set[str]:
    """Functions, classes, parameters and attributes: what a sentence of a module may name beside modules."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
    return found


@pytest.mark.parametrize("folder", sorted({path.parent for path in FILES}), ids=lambda path: path.name)
def test_every_module_that_a_docstring_or_a_comment_names_is_there(folder: Path) -> None:
    """Dotted names that begin as a package of ours does, and single ones that stand in brackets."""
    missing: list[tuple[str, str]] = []
    for path in folder.glob("*.py"):
        text = path.read_text("utf-8")
        tree = ast.parse(text)
        for name in PATH_NAME.findall(text):
            begins = re.split(r"[./]", name)[0]
            is_file = name.rpartition(".")[2] in FILE_TYPES
            if (begins == "accredit" or begins in MODULES) and not is_file and not is_there(name):
                missing.append((path.name, name))
        known = {module.rpartition("/")[2] for module in MODULES} | defined_in(tree) | OTHER_WORDS
        missing += [(path.name, name) for name in ASIDE.findall(ast.get_docstring(tree) or "") if name not in known]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_of_code_that_a_page_names_is_there(page: Path) -> None:
    named = PAGE_FILE.findall(page.read_text("utf-8"))
    assert [name for name in named if not (ROOT / name).exists() and not is_there(name)] == []
