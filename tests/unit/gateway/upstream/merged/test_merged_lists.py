"""How long a merged answer may be kept, and what of one server's list is taken."""

import pytest
from msgspec import Raw
from tests.world.calls import compact

from accredit.gateway.upstream.merged.lists import Kept, kept_of, strictest
from accredit.jsonrpc.objects import members

pytestmark = pytest.mark.holds("gateway/upstream/merged/lists")


@pytest.mark.holds("gateway/upstream/merged/lists", 4)
@pytest.mark.parametrize(
    ("kept", "complete", "expected"),
    [
        ([Kept(5, public=True), Kept(3, public=True)], True, Kept(3, public=True)),
        ([Kept(5, public=True), Kept(9, public=False)], True, Kept(5, public=False)),
        ([Kept(5, public=True)], False, Kept(0, public=True)),
        ([], True, Kept(0, public=False)),
        ([], False, Kept(0, public=False)),
    ],
)
def test_the_strictest_counts__and_what_is_not_complete_is_not_kept(
    kept: list[Kept], complete: bool, expected: Kept
) -> None:
    assert strictest(kept, complete=complete) == expected


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"ttlMs": 5, "cacheScope": "public"}, Kept(5, public=True)),
        ({"ttlMs": -5, "cacheScope": "private"}, Kept(0, public=False)),
        ({"ttlMs": "5", "cacheScope": True}, Kept(0, public=False)),
        ({"ttlMs": 1e3, "cacheScope": "Public"}, Kept(0, public=False)),
        ({}, Kept(0, public=False)),
    ],
)
def test_who_does_not_say_how_long_is_not_kept(result: dict[str, object], expected: Kept) -> None:
    found: dict[str, Raw] = members(compact(result))
    assert kept_of(found) == expected
