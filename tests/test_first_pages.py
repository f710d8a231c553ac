"""The first page of each reader is short, says what the page after it does, and names that page at its end."""

import ast
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted((DOCS / "start").iterdir())
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
NEXT = re.compile(r"^\*\*Next: \[[^]]+\]\(([^)#]+)\)\*\*")


def next_page(page: Path) -> Path:
    """The page that the last paragraph names."""
    found = NEXT.match(page.read_text("utf-8").rstrip().rpartition("\n\n")[2])
    assert found, "the last paragraph names the next page"
    return page.parent / found[1]


def test_the_front_page_leads_each_of_the_five_to_theirs() -> None:
    table = (DOCS / "index.md").read_text("utf-8")
    assert re.findall(r"\(start/(\w+)\.md\) \|$", table, re.MULTILINE) == [
        "assistant", "server", "agent", "operator", "auditor"
    ]  # fmt: skip
    assert {page.stem for page in PAGES} == {"assistant", "server", "agent", "operator", "auditor"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_it_shows_is_what_the_next_page_shows__whose_test_runs_it(page: Path) -> None:
    shown = next_page(page).read_text("utf-8").splitlines()
    blocks = BLOCK.findall(page.read_text("utf-8"))
    assert blocks
    assert [line for _, block in blocks for line in block.splitlines() if line and line not in shown] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_its_commands_come_in_the_order_of_the_next_page(page: Path) -> None:
    shown = next_page(page).read_text("utf-8").splitlines()
    commands = [
        line
        for kind, block in BLOCK.findall(page.read_text("utf-8"))
        if kind == "console"
        for line in block.splitlines()
    ]
    places = [shown.index(line) for line in commands]
    assert places == sorted(places), "such as a key that is made before a gateway needs it"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_its_code_imports_what_it_uses(page: Path) -> None:
    for kind, block in BLOCK.findall(page.read_text("utf-8")):
        if kind == "python":
            tree = list(ast.walk(ast.parse(block)))
            names = {name.id for name in tree if isinstance(name, ast.Name)}
            imports = {
                each.name for line in tree if isinstance(line, ast.Import | ast.ImportFrom) for each in line.names
            }
            assert imports <= names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_its_code_can_be_read_by_python(page: Path) -> None:
    for kind, block in BLOCK.findall(page.read_text("utf-8")):
        if kind == "python":
            compile(block, str(page), "exec")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_it_is_short(page: Path) -> None:
    text = page.read_text("utf-8")
    assert len(text.split()) <= 180, "the code counts, too"
    assert len(text.splitlines()) <= 45
