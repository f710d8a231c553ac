"""The promise of stability: what the page calls public is there, and nothing else is what pages and examples import."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from accredit import errors

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/reference/stability.md").read_text("utf-8")
SECTION = re.compile(r"^### `(accredit[\w.]*)`\n\n[^\n]+\n\n([^\n]+)\n", re.MULTILINE)
PUBLIC = {module: re.findall(r"`(\w+)`", names) for module, names in SECTION.findall(PAGE)}
WHOLE = {*PUBLIC} - {"accredit.errors", "accredit.keys", "accredit.policy"}
"""Modules of which every exported name is public."""
FROM_THE_START = {
    *("accredit.gateway", "accredit.ratify", "accredit.rounds", "accredit.client", "accredit.server"),
    *("accredit.attest", "accredit.errors"),
}
"""What was public first. A module may be added, and none may go without being announced."""
PYTHON = re.compile(r"^ *```python\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
STORY = {"stage.py", "story.py", "story_frames.py", "story_proofs.py", "story_rounds.py"}
"""Parts of `accredit demo`, which is the package's own."""
EXAMPLES = [path for path in sorted((ROOT / "examples").glob("*.py")) if path.name not in STORY]


def imports(code: str) -> Iterator[tuple[str, str]]:
    """The names that code imports from modules of ours."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names if each.name.startswith("accredit"))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("accredit"):
            yield from ((str(node.module), each.name) for each in node.names)


def code_of(page: Path) -> str:
    """All Python of a page; of a block that is part of a program, what can be read alone."""
    found: list[str] = []
    for block in PYTHON.findall(page.read_text("utf-8")):
        lines = block.splitlines()
        margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
        found.append("\n".join(line[margin:] for line in lines if line.strip()))
    return "\n".join(found)


def test_the_modules_that_were_public_from_the_start_are() -> None:
    assert PUBLIC.keys() >= FROM_THE_START


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_every_name_that_the_page_calls_public_can_be_imported(module: str) -> None:
    found = importlib.import_module(module)
    assert PUBLIC[module]
    assert [name for name in PUBLIC[module] if not hasattr(found, name)] == []


@pytest.mark.parametrize("module", sorted(WHOLE))
def test_the_page_names_all_that_a_public_module_exports(module: str) -> None:
    assert PUBLIC[module] == sorted(PUBLIC[module], key=importlib.import_module(module).__all__.index)
    assert set(PUBLIC[module]) == set(importlib.import_module(module).__all__)


def test_the_page_names_every_error() -> None:
    ours = {
        name for name, kind in vars(errors).items() if isinstance(kind, type) and kind.__module__ == errors.__name__
    }
    assert set(PUBLIC["accredit.errors"]) == ours
    assert all(issubclass(getattr(errors, name), errors.AccreditError) for name in ours)


@pytest.mark.parametrize("path", [*EXAMPLES, *PAGES], ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_and_examples_import_nothing_else(path: Path) -> None:
    code = path.read_text("utf-8") if path.suffix == ".py" else code_of(path)
    other = [(module, name) for module, name in imports(code) if name not in PUBLIC.get(module, [])]
    assert [each for each in other if each != ("accredit", "__version__")] == []
