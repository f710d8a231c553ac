"""An entry of somebody's YAML changes, and no line beside it."""

from contextlib import suppress
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from accredit.errors import ConfigurationError
from accredit.hosts.yaml_text import drop, parse, put
from accredit.limits import MAX_DEPTH, MAX_HOST_TEXT_CHARS

GOOSE = ("extensions", "mail")
CONTINUE = ("mcpServers", "mail")
ENTRY = {"cmd": "/opt/accredit", "args": ["connect", "é: #"], "enabled": True, "timeout": 300}
ITEM = {"name": "mail", **ENTRY}

MAPPINGS = [
    "extensions:\n  dev:\n    a: 1\n  # of mine\n\n# of z\nz: 2\n",
    "extensions: {}\n",
    "extensions: # mine\n    a: |\n      hey\n\n      you\n\n",
    "a: 'x'\r\nextensions:\r\n  dev: {b: 1}\r\n",
    "---\nextensions:\n  dev:\n    b:\n    - 1\n    c:\nz: 2\n",
]
LISTS = [
    "name: x\nmcpServers:\n- name: a\n  b: 1\n\nmodels: []\n",
    "mcpServers:\n    # of a\n    - name: a\n      args:\n        - 1\n",
]


@pytest.mark.parametrize("text", MAPPINGS)
def test_an_entry_that_is_put_in_and_taken_out_again_leaves_the_very_bytes(text: str) -> None:
    new = put(text, GOOSE, ENTRY)
    meant: Any = yaml.safe_load(new)
    assert meant["extensions"].pop("mail") == ENTRY
    assert meant == yaml.safe_load(text)
    assert drop(new, GOOSE) == text


@pytest.mark.parametrize("text", LISTS)
def test_an_item_that_is_put_in_and_taken_out_again_leaves_the_very_bytes(text: str) -> None:
    new = put(text, CONTINUE, ITEM, listed=True)
    meant: Any = yaml.safe_load(new)
    assert meant["mcpServers"].pop(0) == ITEM
    assert meant == yaml.safe_load(text)
    assert drop(new, CONTINUE, listed=True) == text


@pytest.mark.parametrize("text", ["", "a: 1", "extensions:\n", "extensions: ~\nz: 1\n", "extensions: {} # mine"])
def test_where_there_is_nothing_a_table_is_made(text: str) -> None:
    new = put(text, GOOSE, ENTRY)
    assert yaml.safe_load(new) == {**(yaml.safe_load(text) or {}), "extensions": {"mail": ENTRY}}
    assert yaml.safe_load(drop(new, GOOSE))["extensions"] == {}
    assert ("# mine" in new) is ("# mine" in text)


def test_an_entry_that_is_there_is_replaced__and_names_stay_strings() -> None:
    text = put("extensions:\n  mail:\n    a: 1\n    b:\n      c: 2\n  z: 1\n", GOOSE, ENTRY)
    assert yaml.safe_load(text) == {"extensions": {"mail": ENTRY, "z": 1}}
    assert yaml.safe_load(put("", ("extensions", "on"), ENTRY)) == {"extensions": {"on": ENTRY}}
    assert yaml.safe_load(put("", ("extensions", "1"), ENTRY)) == {"extensions": {"1": ENTRY}}


REFUSED = {
    "an anchor": "a: &x 1\nextensions:\n  b: *x\n",
    "a tag": "a: !!python/object:os.system x\n",
    "two documents": "a: 1\n---\nb: 1\n",
    "a name twice": "a: 1\na: 2\n",
    "entries on one line": "extensions: {a: {b: 1}}\n",
    "all on one line": "{a: 1}\n",
    "a list": "- a\n",
    "a text for a table": "extensions: hello\n",
    "a list for a table": "extensions:\n- a\n",
    "names that are no scalars": "? [a]\n: 1\n",
    "no YAML": "a: [1\n",
    "a name without a colon": "? extensions\n",
    "a control character": "a: \x07\n",
    "deep": "a: " + "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1),
    "long": "#" * (MAX_HOST_TEXT_CHARS + 1),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_only_mean_what_stands_there_is_refused(case: str) -> None:
    with pytest.raises(ConfigurationError):
        parse(put(REFUSED[case], GOOSE, ENTRY))


def test_numbers_that_look_alike_are_not_the_same() -> None:
    assert parse("a: 1") != parse("a: '1'")
    assert parse("a: .nan") == parse("a: .nan")


@given(st.text(alphabet="extnsio:mal-#{}[]|>&*!'\"\n\r \t~?1\u2028\u0085") | st.text())
def test_whatever_the_characters_are__there_is_a_text_or_our_own_error(text: str) -> None:
    for edit in (
        lambda: put(text, GOOSE, ENTRY),
        lambda: drop(text, GOOSE),
        lambda: put(text, CONTINUE, ITEM, listed=True),
        lambda: drop(text, CONTINUE, listed=True),
    ):
        with suppress(ConfigurationError):
            parse(edit())
