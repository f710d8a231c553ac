"""The reference pages name what there is: every key, every command, every option."""

import re
from pathlib import Path

import pytest
from tests.world.command_tree import below, commands

from accredit.config.schema import LISTED, SECTIONS
from accredit.config.section import entries, keys
from accredit.policy import refusals
from accredit.ratify import IdentityStatus

DOCS = Path(__file__).parents[3] / "docs" / "reference"


@pytest.mark.parametrize("section", list(SECTIONS))
def test_every_key_is_in_the_configuration_page(section: str) -> None:
    page = (DOCS / "configuration.md").read_text("utf-8")
    written = re.escape(f"[[{section}]]" if section in LISTED else f"[{section}]")
    table = re.search(rf"^## [^\n]*`{written}`.*?(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert table, section
    named = entries(SECTIONS[section]) if section in LISTED else None
    for key in keys(named.table if named is not None else SECTIONS[section]):
        assert f"| `{key}` |" in table[0], key


def test_every_command_and_option_is_in_the_commands_page() -> None:
    page = (DOCS / "commands.md").read_text("utf-8")
    for words, command in commands().items():
        if not words or (below(command) and not command.params):
            continue
        path = " ".join(("accredit", *words))
        section = re.search(rf"^## `{path}\b.*?(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
        assert section, path
        for parameter in command.params:
            for option in parameter.opts:
                assert not option.startswith("--") or option in section[0], f"{path} {option}"


def test_every_refusal_is_in_the_refusals_page() -> None:
    page = (DOCS / "refusals.md").read_text("utf-8")
    codes = {value for value in vars(refusals).values() if isinstance(value, int) and value < 0}
    assert len(codes) >= 8
    assert [code for code in codes if f"| {code} |" not in page] == []
    reserved = {IdentityStatus.VALID, IdentityStatus.VERIFIED_HUMAN, IdentityStatus.UNAUTHORIZED}
    assert [status for status in set(IdentityStatus) - reserved if f"| `ratify_{status}` |" not in page] == []
    assert [word for word in refusals.UNKNOWN_ERRORS.values() if f"`{word}`" not in page] == []
