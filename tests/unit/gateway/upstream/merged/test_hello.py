"""What several servers say of themselves as one: no server says more than its part."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from tests.world.calls import compact

from accredit.gateway.upstream.merged.hello import (
    MAX_MERGED_INSTRUCTIONS_CHARS,
    merged_capabilities,
    merged_instructions,
    merged_versions,
)
from accredit.jsonrpc.objects import members

pytestmark = pytest.mark.holds("gateway/upstream/merged/hello")


def said(**servers: Any) -> dict[str, dict[str, Raw]]:
    return {name: members(compact(result)) for name, result in servers.items()}


@pytest.mark.holds("gateway/upstream/merged/hello", 1)
def test_a_capability_of_any_is_one_of_all__and_only_of_those_that_are_served() -> None:
    results = said(
        mail={"capabilities": {"tools": {"listChanged": False}, "logging": {}, "experimental": {"x": {}}}},
        files={"capabilities": {"tools": {"listChanged": True}, "resources": {"subscribe": True, "x": True}}},
        other={"capabilities": {"prompts": True, "completions": None, "extensions": {"vendor/x": {}}}},
        none={},
        odd={"capabilities": []},
    )
    assert merged_capabilities(results) == {
        "tools": {"listChanged": True},
        "logging": {},
        "resources": {"subscribe": True},
    }


@pytest.mark.holds("gateway/upstream/merged/hello", 2)
def test_instructions_are_each_servers_under_its_name__and_one_that_talks_much_takes_no_others_part() -> None:
    results = said(mail={"instructions": "x" * 10**6}, files={"instructions": "Be kind."}, other={"instructions": 5})
    text = merged_instructions(results) or ""
    assert len(text) < MAX_MERGED_INSTRUCTIONS_CHARS
    assert text.endswith("files (its tools and prompts begin with files__):\nBe kind.")
    assert text.startswith("mail (")
    assert merged_instructions(said(mail={}, files={"instructions": ""})) is None


@pytest.mark.holds("gateway/upstream/merged/hello", 3)
@pytest.mark.parametrize(
    ("one", "other", "asked", "expected"),
    [
        (["a", "b", "c"], ["c", "a"], "a", ["a", "c"]),
        (["a"], ["b"], "x", ["x"]),
        (["a"], 5, None, []),
        (["a", "a"], ["a", 5], "a", ["a"]),
    ],
)
def test_a_version_is_supported_if_all_support_it(one: Any, other: Any, asked: str | None, expected: list[str]) -> None:
    results = said(mail={"supportedVersions": one}, files={"supportedVersions": other})
    assert merged_versions(results, asked) == expected


@given(st.dictionaries(st.text(), st.none() | st.integers() | st.text() | st.lists(st.integers())))
def test_whatever_a_server_says_of_itself_the_others_are_heard(odd: Any) -> None:
    good = {"capabilities": {"tools": {}}, "instructions": "Be kind."}
    results = said(odd={"capabilities": odd, "instructions": odd, "supportedVersions": odd}, files=good)
    assert "tools" in merged_capabilities(results)
    assert "Be kind." in (merged_instructions(results) or "")
    assert merged_versions(results, "v") == ["v"]
    json.dumps(merged_capabilities(results))
