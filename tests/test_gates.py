"""Documented commands exist and integration runs them: a gate that looks on but is off is worse than none."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
# At the beginning of a line of an example, or in backquotes.
MAKE = re.compile(r"(?:^\s*|`)make((?: [a-z][a-z-]*)+)(?=`| ARGS=| +#|$)", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def documented(page: Path) -> set[str]:
    return {target for targets in MAKE.findall(page.read_text("utf-8")) for target in targets.split()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_make_command_on_a_page_is_a_target(page: Path) -> None:
    assert documented(page) <= TARGETS


def test_the_developers_page_names_every_target_but_the_one_that_cleans() -> None:
    assert documented(ROOT / "CONTRIBUTING.md") == TARGETS - {"clean"}


def test_every_target_is_phony__a_file_of_its_name_would_turn_it_off() -> None:
    (phony,) = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert set(phony.split()) == TARGETS


def test_integration_runs_exactly_the_projects_own_commands() -> None:
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    assert re.findall(r"^[ \t]*make .*$", script, re.MULTILINE) == ["make check test"]
    assert "set -euo pipefail" in script
    assert "|| true" not in script


@pytest.mark.parametrize(("target", "continuous", "left_out"), [
    ("test", "true", False), ("test", "", True), ("test-all", "", False), ("test-all", "true", False),
])  # fmt: skip
def test_integration_leaves_no_test_out_but_what_has_a_short_form(target: str, continuous: str, left_out: bool) -> None:
    environment = {**os.environ, "CI": continuous}
    printed = subprocess.run(
        ["make", "-n", target], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    (run,) = [line for line in printed.stdout.splitlines() if "bin/pytest" in line]
    assert ("not slow" in run) == left_out
    assert (" -m " not in run) or ('-m "not long' in run)
    assert "export CI=true" in (ROOT / ".ci" / "run").read_text("utf-8")


def test_check_runs_every_checker() -> None:
    (recipe,) = re.findall(r"^check:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    for command in (
        "ruff check .",
        "ruff format --check .",
        "basedpyright",
        "lint-imports",
        "check_sizes.py",
        "house.py",
    ):
        assert command in recipe
    assert not re.search(r"^\t-|\|\| ?true|--exit-zero", recipe, re.MULTILINE)


ARCHITECTURE = (ROOT / "docs/explanation/architecture.md").read_text("utf-8")


def drawn() -> list[str]:
    """The folders in the architecture page's tree, each in the one under which it stands."""
    found: list[str] = []
    folders: list[tuple[int, str]] = []
    (tree,) = re.findall(r"^```\nsrc/accredit/\n(.*?)^```", ARCHITECTURE, re.MULTILINE | re.DOTALL)
    for depth, name in re.findall(r"^( +)(\w+/) ", tree, re.MULTILINE):
        while folders and folders[-1][0] >= len(depth):
            folders.pop()
        folders.append((len(depth), "".join([folders[-1][1] if folders else "", name])))
        found.append(folders[-1][1].removesuffix("/"))
    return found


def test_every_file_that_the_architecture_page_names_is_there() -> None:
    files = {str(path.relative_to(ROOT / "src/accredit")) for path in (ROOT / "src/accredit").rglob("*.py")}
    named = set(re.findall(r"[\w/]+\.py", ARCHITECTURE))
    assert len(named) > 50
    assert named - files == set()


def test_the_architecture_pages_tree_is_the_tree() -> None:
    source = ROOT / "src/accredit"
    expected = {path.parent.relative_to(source).as_posix() for path in source.rglob("*.py")} - {"."}
    assert sorted(drawn()) == sorted(expected)


def anchors(page: Path) -> set[str]:
    """What leads to the headings of a page, as the hosts of repositories make it."""
    headings = HEADING.findall(CODE.sub("", page.read_text("utf-8")))
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "SECURITY.md"], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_on_a_page_leads_to_a_file_and_a_heading_that_are_there(page: Path) -> None:
    links = LINK.findall(CODE.sub("", page.read_text("utf-8")))
    broken = [
        (name, anchor)
        for name, anchor in links
        if not (target := page.parent / name if name else page).exists() or (anchor and anchor not in anchors(target))
    ]
    assert broken == []
