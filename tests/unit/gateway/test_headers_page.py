"""The page of the headers says what the code does, and the other way round."""

import re
from pathlib import Path

import pytest

from accredit.gateway.forwarding import TO_CLIENT, TO_UPSTREAM, Fate, Table

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "headers.md").read_text("utf-8")
WORDS = {
    "passes": Fate.PASSES,
    "own words": Fate.OWN,
    "never": Fate.NEVER,
    "unread only": Fate.READ,
    "other": Fate.OTHER,
}


def told(section: str) -> dict[bytes, Fate]:
    """The names of a section's table, and what it says of them."""
    text = re.search(rf"^## {section}$.*?(?=^## )", PAGE, re.MULTILINE | re.DOTALL)
    assert text
    found: dict[bytes, Fate] = {}
    for names, word in re.findall(r"^\| (`[^|]+) \| ([a-z ]+) \|", text[0], re.MULTILINE):
        for name in re.findall(r"`([^`]+)`", names):
            assert name.encode() not in found, name
            found[name.encode()] = WORDS[word]
    return found


@pytest.mark.parametrize(("section", "table"), [("Requests", TO_UPSTREAM), ("Answers", TO_CLIENT)])
def test_the_page_names_each_header_and_its_fate_and_no_other(section: str, table: Table) -> None:
    assert told(section) == table.listed


@pytest.mark.parametrize(("section", "table"), [("Requests", TO_UPSTREAM), ("Answers", TO_CLIENT)])
def test_what_the_page_says_is_what_becomes_of_it(section: str, table: Table) -> None:
    for name, fate in told(section).items():
        assert table.fate(name.replace(b"*", b"zz") if name.endswith(b"*") else name) is fate, name
    assert table.fate(b"x-anything") is Fate.OTHER
