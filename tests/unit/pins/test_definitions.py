"""Digests of definitions: everything that a reader may see counts, and nothing else."""

import hashlib
import json
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st
from tests.world.tool_lists import HOSTILE_TEXTS

from accredit.base.steps import at_one_go
from accredit.errors import FrameError
from accredit.jsonrpc.encode import to_json
from accredit.limits import MAX_DEFINITIONS, MAX_LISTED_BYTES
from accredit.pins.definitions import Definitions, ListReader, digest_of, digest_of_text

TOOL: dict[str, Any] = {"name": "send", "description": "sends", "inputSchema": {"type": "object", "maximum": 1.0}}

TEXTS = st.sampled_from([text for text in HOSTILE_TEXTS if text.isprintable() or text.isascii()]) | st.text()
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS.filter(lambda text: text.isascii() or max(text) < "\ud800" or min(text) > "\udfff"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abé€𐀀", max_size=3), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


def digest(tool: object) -> str | None:
    return digest_of(json.dumps(tool).encode())


def listed(*pages: object) -> ListReader:
    reader = ListReader()
    for page in pages:
        at_one_go(reader.add(json.dumps(page).encode()))
    return reader


@pytest.mark.slow
@pytest.mark.holds("pins/definitions", "digest")
@given(st.dictionaries(st.sampled_from(["title", "annotations", "x"]), VALUES), VALUES)
def test_the_digest_is_that_of_the_canonical_form_of_all_but_meta(more: dict[str, Any], meta: object) -> None:
    tool = {**TOOL, **more}
    assert digest({**tool, "_meta": meta}) == hashlib.sha256(rfc8785.dumps(tool)).hexdigest()
    assert digest(dict(reversed(tool.items()))) == digest(tool)


@pytest.mark.holds("pins/definitions", "digest")
@given(st.integers(2**53, 2**80), st.integers(1, 3))
def test_integers_count_with_their_own_digits__doubles_would_take_two_limits_for_one(number: int, more: int) -> None:
    one, other = ({**TOOL, "inputSchema": {"maximum": each}} for each in (number, number + more))
    assert digest(one) != digest(other)
    assert digest(one) is not None


@pytest.mark.holds("pins/definitions", "ambiguous")
@pytest.mark.parametrize(
    "text",
    [
        b'{"name":"a","description":"one","description":"two"}',
        b'{"name":"a","inputSchema":{"x":1,"\\u0078":2}}',
        b'{"name":"a","description":"\\ud800"}',
        b'{"name":"a","x":1e999}',
        b"[]",
        b"7",
        b"",
    ],
)
def test_what_readers_take_differently_has_no_digest(text: bytes) -> None:
    assert digest_of(text) is None
    assert digest_of(text) is None  # remembered


@pytest.mark.holds("pins/definitions", "two-definitions")
def test_a_name_that_is_listed_twice_with_two_definitions_has_none__on_whatever_page() -> None:
    other = {**TOOL, "description": "other"}
    for pages in (
        [{"tools": [TOOL, other]}],
        [{"tools": [TOOL], "nextCursor": "1"}, {"tools": [other]}],
        [{"tools": [TOOL, other, TOOL]}],
    ):
        assert listed(*pages).tools["send"].sha256 is None
    assert listed({"tools": [TOOL, {**TOOL, "_meta": {}}]}).tools["send"].sha256 == digest(TOOL)


@pytest.mark.holds("pins/definitions", "bounds")
@pytest.mark.parametrize(
    "page",
    [
        {},
        [],
        7,
        {"tools": {}},
        {"tools": [7]},
        {"tools": [{}]},
        {"tools": [{"name": 7}]},
        {"tools": [{"name": "a", "Name": "b"}]},
        {"tools": [], "Tools": [TOOL]},
    ],
)
def test_what_is_no_list_is_refused(page: object) -> None:
    with pytest.raises(FrameError):
        listed(page)


@pytest.mark.holds("pins/definitions", "bounds")
def test_an_endless_list_is_refused() -> None:
    with pytest.raises(FrameError):
        listed({"tools": [{**TOOL, "name": str(number)} for number in range(MAX_DEFINITIONS + 1)]})
    with pytest.raises(FrameError):
        listed({"tools": [{**TOOL, "description": "x" * MAX_LISTED_BYTES}]})


@given(st.binary(max_size=80) | st.sampled_from([b'{"tools":[{"name":"\xff"}]}', b'{"tools":[' * 500]))
def test_no_bytes_escape_the_error_tree(data: bytes) -> None:
    try:
        listed()
        at_one_go(ListReader().add(data))
    except FrameError:
        pass
    digest_of(data)


def test_the_digest_of_a_set_does_not_depend_on_its_order_and_changes_with_each_tool() -> None:
    other = {**TOOL, "name": "other"}
    one, two = (Definitions(listed({"tools": tools}).tools) for tools in ([TOOL, other], [other, TOOL]))
    expected = hashlib.sha256(rfc8785.dumps(sorted([digest(TOOL) or "", digest(other) or ""]))).hexdigest()
    assert one.set_sha256 == two.set_sha256 == expected
    assert Definitions(listed({"tools": [TOOL]}).tools).set_sha256 != expected


def test_instructions_have_the_digest_of_their_canonical_form() -> None:
    assert digest_of_text("a\u2028b") == hashlib.sha256(rfc8785.dumps("a\u2028b")).hexdigest()
    assert digest_of_text("\ud800") is None
    assert to_json("") == b'""'
