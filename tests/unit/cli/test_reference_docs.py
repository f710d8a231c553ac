"""The reference pages name what there is: every key, every command, every option."""

import re
import tomllib
from pathlib import Path

import pytest
from msgspec import NODEFAULT, structs
from tests.world.command_tree import below, commands

from accredit.config.schema import LISTED, SECTIONS
from accredit.config.section import entries, keys
from accredit.http_api.routes import MAX_ROUTES
from accredit.policy import refusals
from accredit.ratify import IdentityStatus

DOCS = Path(__file__).parents[3] / "docs" / "reference"


@pytest.mark.parametrize("section", list(SECTIONS))
def test_every_key_is_in_the_configuration_page__with_its_default(section: str) -> None:
    page = (DOCS / "configuration.md").read_text("utf-8")
    written = re.escape(f"[[{section}]]" if section in LISTED else f"[{section}]")
    table = re.search(rf"^## [^\n]*`{written}`.*?(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert table, section
    named = entries(SECTIONS[section]) if section in LISTED else None
    found = named.table if named is not None else SECTIONS[section]
    rows = table[0][table[0].rindex(f"`[{section}]`") :] if section == "prompts" else table[0]
    for key in keys(found):
        row = re.search(rf"^\| `{key}` \| (?:`([^`]*)`)?", rows, re.MULTILINE)
        assert row, key
        (field,) = (each for each in structs.fields(found) if each.encode_name == key)
        default = field.default_factory() if field.default_factory is not NODEFAULT else field.default
        if row[1] and not row[1].endswith(".key") and default is not None:
            assert tomllib.loads(f"a = {row[1]}")["a"] == default, key


def test_the_page_says_how_many_routes_an_api_may_have() -> None:
    page = (DOCS / "configuration.md").read_text("utf-8")
    assert f"[where facts come from](http-apis.md#facts). At most {MAX_ROUTES:,}. |" in page


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
