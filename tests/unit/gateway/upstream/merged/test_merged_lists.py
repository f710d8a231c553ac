"""How long a merged answer may be kept, and what of one server's list is taken."""

import json

import pytest
from msgspec import Raw
from tests.world.calls import compact
from tests.world.running import run

from accredit.gateway.upstream.merged.lists import UNAVAILABLE, CacheTerms, MergedLists, read_cache_terms, strictest
from accredit.jsonrpc.frames import Request, decode_frame
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.objects import members

pytestmark = pytest.mark.holds("gateway/upstream/merged/lists")


@pytest.mark.holds("gateway/upstream/merged/lists", 4)
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


def test_a_server_that_lists_a_task_by_nothing_is_left_out__it_passed_under_its_own_name_alone() -> None:
    listed = {"mail": "", "files": "t1"}

    async def ask(server: str, request: Request, _: int) -> bytes:
        return compact({"jsonrpc": "2.0", "id": request.id, "result": {"tasks": [{"taskId": listed[server]}]}})

    async def main() -> None:
        request = decode_frame(compact({"jsonrpc": "2.0", "id": 1, "method": "tasks/list", "params": {}}))
        assert isinstance(request, Request)
        text, count = await MergedLists(tuple(listed)).result(request, Era.LEGACY, ask)
        result = json.loads(text)
        assert (count, result["tasks"]) == (1, [{"taskId": "files__t1"}])
        assert result["_meta"] == {UNAVAILABLE: ["mail"]}

    run(main())
