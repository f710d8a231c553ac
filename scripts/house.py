"""Measures the house and prints its figures; fails when one that was reached is lost.

Run by `make check`. What is counted, over `src/accredit`:

- circles: modules that import each other, whatever way round, also under TYPE_CHECKING and inside functions;
- private imports: names of other people's packages that begin with an underscore, which only one file may import;
- crumbs: files of 60 lines or fewer, without the `__init__.py` that only name what a package offers;
- public names: classes, functions and constants at the top level, by 1,000 lines;
- participles: functions at the top level that are named by one (`told`, `_shown`, `asked_of_desk`). A function is named
  by what it does or by what it gives: `read_answer`, `quoted_text`;
- checks of a class of `stores/` outside that package: what a store or a log can do are its methods.
"""

import ast
import re
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1] / "src"
PACKAGE = "accredit"
DOCUMENTED = {"asyncio.tasks._enter_task", "asyncio.tasks._leave_task"}
"""Names that are no private ones, whatever they look like: "Extending asyncio" gives them to tasks of another make."""
SHIM = "accredit/client/sdk.py"
"""The one file that may import what is private to others."""
CRUMB_LINES = 60
MAX_CRUMBS = 0.068
"""The share of crumbs may only fall: lower this when it has."""

MAX_PARTICIPLES = 7
"""Their number may only fall, too."""
PARTICIPLE = re.compile(
    r"_*(?!(?:em)?bed\b|exceed|feed|need|proceed|red\b|seed|shed|speed|succeed)"
    r"(?:[a-z]+ed|begun|bound|broken|brought|built|chosen|drawn|forgotten|found|given|gone|held|hidden|kept|known|left|lost"
    r"|made|meant|proven|said|seen|sent|shown|sold|spent|sworn|taken|told|torn|understood|won|written)"
    r"(?:_(?:again|along|as|at|by|each|from|for|in|late|of|off|on|only|out|over|through|to|with)(?:_.*)?)?"
)
"""A name that is a participle, or one with what follows it (`kept_by`); `kept_proof` is a plain noun."""

STORES = "accredit/stores/"
"""The package whose classes nobody outside it asks for."""

Module = tuple[str, ...]
"""A module's dotted name in its parts."""


def main(root: Path = ROOT) -> int:
    """Prints the figures of the package below `root`; returns 1 for a circle, a private import, or too many crumbs."""
    files = sorted((root / PACKAGE).rglob("*.py"))
    trees = {path: ast.parse(path.read_text("utf-8")) for path in files}
    modules = {name_of(path.relative_to(root)): path for path in files}
    imports = {module: set(imported(trees[path], module, modules)) for module, path in modules.items()}
    private = {
        str(path.relative_to(root)): names
        for path in files
        if (names := sorted({*private_names(trees[path])} - DOCUMENTED))
    }
    private.pop(SHIM, None)
    circle = find_circle(imports)
    crumbs = print_figures(trees, private)
    if circle:
        print(f"house: a circle of imports: {' -> '.join('.'.join(module) for module in circle)}")
    if crumbs > MAX_CRUMBS:
        print(f"house: more than {MAX_CRUMBS:.0%} of the files are crumbs")
    named = [name for tree in trees.values() for name in participles(tree)]
    print(f"house: {len(named)} functions are named by a participle")
    if len(named) > MAX_PARTICIPLES:
        print(f"house: more than {MAX_PARTICIPLES}: {', '.join(named)}")
    checks = {str(path.relative_to(root)): len(list(checks_of_store(tree))) for path, tree in trees.items()}
    checks = {path: number for path, number in checks.items() if number and not path.startswith(STORES)}
    for path, number in checks.items():
        print(f"house: {path} asks {number} times for the class of a store")
    return 1 if circle or private or checks or crumbs > MAX_CRUMBS or len(named) > MAX_PARTICIPLES else 0


def print_figures(trees: dict[Path, ast.Module], private: dict[str, list[str]]) -> float:
    """Prints a line for each figure; returns the share of crumbs."""
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in trees}
    written = {path: length for path, length in lengths.items() if path.name != "__init__.py"}
    crumbs = sum(length <= CRUMB_LINES for length in written.values())
    names = sum(len(list(public_names(tree))) for tree in trees.values())
    total = sum(lengths.values())
    print(f"house: {total} lines in {len(lengths)} files")
    print(f"house: {1000 * names / total:.1f} public names per 1,000 lines")
    print(f"house: {crumbs} of {len(written)} files have {CRUMB_LINES} lines or fewer ({crumbs / len(written):.0%})")
    for path, found in private.items():
        print(f"house: {path} imports what is private to others: {', '.join(found)}")
    return crumbs / len(written)


def name_of(path: Path) -> Module:
    """The dotted name of a file; a package's is that of its `__init__.py`."""
    parts = path.with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def imported(tree: ast.Module, module: Module, modules: dict[Module, Path]) -> Iterator[Module]:
    """The modules of the package that one names anywhere in its text.

    A package's own `__init__.py` counts only where it is what is imported: whoever imports a module of a package from
    outside depends on that module.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == PACKAGE:
            base = tuple(node.module.split("."))
            for alias in node.names:
                found = (*base, alias.name) if (*base, alias.name) in modules else base
                if found != module:
                    yield found
        elif isinstance(node, ast.Import):
            yield from (found for alias in node.names if (found := tuple(alias.name.split("."))) in modules)


def find_circle(imports: dict[Module, set[Module]]) -> list[Module]:
    """One circle, its first module again at its end; empty where there is none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def private_names(tree: ast.Module) -> Iterator[str]:
    """Names that other packages mark as their own."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] != PACKAGE:
            for alias in node.names:
                if any(is_private(part) for part in (*node.module.split("."), alias.name)):
                    yield f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if any(map(is_private, alias.name.split("."))))


def is_private(name: str) -> bool:
    """Whether a name begins with one underscore."""
    return name.startswith("_") and not name.startswith("__")


def public_names(tree: ast.Module) -> Iterator[str]:
    """Classes, functions and assigned names at the top level that do not begin with an underscore."""
    for node in tree.body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                targets = [name]
            case ast.Assign(targets=assigned):
                targets = [target.id for target in assigned if isinstance(target, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name)):
                targets = [name]
            case _:
                targets = []
        yield from (name for name in targets if not name.startswith("_"))


def participles(tree: ast.Module) -> Iterator[str]:
    """Functions at the top level that are named by a participle."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and PARTICIPLE.fullmatch(node.name):
            yield node.name


def checks_of_store(tree: ast.Module) -> Iterator[ast.expr]:
    """Where a value's class is compared with one of `stores/`: by `isinstance`, or by a pattern."""
    theirs = {"stores", *names_from_stores(tree)}
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, kinds]) | ast.MatchClass(cls=kinds):
                named = {each.id for each in ast.walk(kinds) if isinstance(each, ast.Name)}
                named |= {each.attr for each in ast.walk(kinds) if isinstance(each, ast.Attribute)}
                if named & theirs:
                    yield kinds
            case _:
                pass


def names_from_stores(tree: ast.Module) -> Iterator[str]:
    """The names that a module has for what it imports from `stores/`, or for a module there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(f"{PACKAGE}.stores."):
            yield from (alias.asname or alias.name for alias in node.names)


if __name__ == "__main__":
    sys.exit(main())
