"""What several servers answer as one: no server says more than its part, and none takes another's."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from tests.world.calls import compact

from accredit.gateway.upstream.merged.answers import (
    MAX_MERGED_INSTRUCTIONS_CHARS,
    UNAVAILABLE,
    CacheTerms,
    MergedLists,
    hello_in,
    merge_initialize,
    merged_capabilities,
    merged_instructions,
    merged_versions,
    read_cache_terms,
    strictest,
)
from accredit.jsonrpc.frames import Request, decode_frame
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.objects import members

pytestmark = pytest.mark.holds("gateway/upstream/merged/answers")

INFO = {"name": "gate", "version": "1"}


@pytest.mark.holds("gateway/upstream/merged/answers", "cache")
@pytest.mark.parametrize(
    ("kept", "complete", "expected"),
    [
        ([CacheTerms(5, public=True), CacheTerms(3, public=True)], True, CacheTerms(3, public=True)),
        ([CacheTerms(5, public=True), CacheTerms(9, public=False)], True, CacheTerms(5, public=False)),
        ([CacheTerms(5, public=True)], False, CacheTerms(0, public=True)),
        ([], True, CacheTerms(0, public=False)),
        ([], False, CacheTerms(0, public=False)),
    ],
)
def test_the_strictest_counts__and_what_is_not_complete_is_not_kept(
    kept: list[CacheTerms], complete: bool, expected: CacheTerms
) -> None:
    assert strictest(kept, complete=complete) == expected


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"ttlMs": 5, "cacheScope": "public"}, CacheTerms(5, public=True)),
        ({"ttlMs": -5, "cacheScope": "private"}, CacheTerms(0, public=False)),
        ({"ttlMs": "5", "cacheScope": True}, CacheTerms(0, public=False)),
        ({"ttlMs": 1e3, "cacheScope": "Public"}, CacheTerms(0, public=False)),
        ({}, CacheTerms(0, public=False)),
    ],
)
def test_who_does_not_say_how_long_is_not_kept(result: dict[str, object], expected: CacheTerms) -> None:
    found: dict[str, Raw] = members(compact(result))
    assert read_cache_terms(found) == expected


async def test_a_server_that_lists_a_task_by_nothing_is_left_out__it_passed_under_its_own_name_alone() -> None:
    listed = {"mail": "", "files": "t1"}

    async def ask(server: str, request: Request, _: int) -> bytes:
        return compact({"jsonrpc": "2.0", "id": request.id, "result": {"tasks": [{"taskId": listed[server]}]}})

    request = decode_frame(compact({"jsonrpc": "2.0", "id": 1, "method": "tasks/list", "params": {}}))
    assert isinstance(request, Request)
    text, count = await MergedLists(tuple(listed)).result(request, Era.LEGACY, ask)
    result = json.loads(text)
    assert (count, result["tasks"]) == (1, [{"taskId": "files__t1"}])
    assert result["_meta"] == {UNAVAILABLE: ["mail"]}


def said(**servers: Any) -> dict[str, dict[str, Raw]]:
    return {name: members(compact(result)) for name, result in servers.items()}


@pytest.mark.holds("gateway/upstream/merged/answers", "capabilities")
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


@pytest.mark.holds("gateway/upstream/merged/answers", "instructions")
def test_instructions_are_each_servers_under_its_name__and_one_that_talks_much_takes_no_others_part() -> None:
    results = said(mail={"instructions": "x" * 10**6}, files={"instructions": "Be kind."}, other={"instructions": 5})
    text = merged_instructions(results) or ""
    assert len(text) < MAX_MERGED_INSTRUCTIONS_CHARS
    assert text.endswith("files (its tools and prompts begin with files__):\nBe kind.")
    assert text.startswith("mail (")
    assert merged_instructions(said(mail={}, files={"instructions": ""})) is None


@pytest.mark.holds("gateway/upstream/merged/answers", "versions")
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


def hello(revision: str, **more: Any) -> Any:
    return hello_in(Raw(json.dumps({"protocolVersion": revision, "capabilities": {}, **more}).encode()))


@pytest.mark.holds("gateway/upstream/merged/answers", "revision")
def test_a_client_is_told_the_oldest_revision_of_all() -> None:
    hellos = {"new": hello("2025-11-25"), "old": hello("2024-11-05"), "middle": hello("2025-06-18")}
    revision, result = merge_initialize(hellos, [], INFO)
    assert (revision, json.loads(result)["protocolVersion"]) == ("2024-11-05", "2024-11-05")


@pytest.mark.holds("gateway/upstream/merged/answers", "revision")
@pytest.mark.parametrize("result", [b"{}", b"[]", b'{"protocolVersion":7}', b'{"protocolVersion":"1999-01-01"}', b"7"])
def test_one_odd_server_takes_nothing_from_the_others(result: bytes) -> None:
    assert hello_in(Raw(result)) is None
    assert hello("2026-07-28") is None


@pytest.mark.holds("gateway/upstream/merged/answers", "instructions")
def test_what_any_server_can_do_the_merged_endpoint_can() -> None:
    hellos = {
        "mail": hello(
            "2025-11-25", capabilities={"tools": {}, "tasks": {"list": {}, "x": {}}}, instructions="Be kind."
        ),
        "files": hello("2025-11-25", capabilities={"tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}}),
    }
    result = json.loads(merge_initialize(hellos, ["down"], INFO)[1])
    assert result["capabilities"] == {
        "tools": {},
        "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
    }
    assert "Be kind." in result["instructions"]
    assert result["serverInfo"] == INFO
    assert result["_meta"] == {"dev.accredit/unavailable": ["down"]}
