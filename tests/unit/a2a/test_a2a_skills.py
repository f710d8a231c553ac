"""The scopes that are proposed for an agent's skills: no two have the same, whatever a card says."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.world.a2a_agents import CARD
from tests.world.tool_lists import HOSTILE_TEXTS

from accredit.a2a.cards import read_card
from accredit.a2a.shapes import Card
from accredit.a2a.skills import MAX_PROPOSED_SKILLS, agent_url, ask_scope, propose_skills


def card(*ids: str, **more: Any) -> Card:
    skills = [{"id": id, "name": "", "description": "", "tags": []} for id in ids]
    return read_card(json.dumps({**CARD, "skills": skills, **more}).encode())


@pytest.mark.holds("a2a/skills", "own-scope", "sensitive")
def test_each_skill_has_a_scope_of_its_own__and_what_nobody_takes_back_is_sensitive() -> None:
    found = propose_skills(card("summarize", "send_mail", "wipeAll"), "helper")
    assert [(each.skill.id, each.scope, each.sensitive) for each in found.skills] == [
        ("summarize", "custom:helper:summarize", False),
        ("send_mail", "custom:helper:send_mail", True),
        ("wipeAll", "custom:helper:wipeAll", True),
    ]
    assert ask_scope("helper") == "custom:helper:ask"


@pytest.mark.holds("a2a/skills", "own-scope", "left-out")
def test_a_skill_that_would_share_a_scope_or_an_id_is_left_out() -> None:
    """Whoever may use one of the two could use the other."""
    found = propose_skills(
        card("ask", "twice", "twice", "one", "new", "accredit.drill"),
        "helper",
        {"one": 0, "old": 0},
        ["custom:helper:new"],
    )
    assert found.skills == []
    assert dict(found.left_out).keys() == {"ask", "twice", "new", "accredit.drill"}
    assert found.gone == ["old"]


@pytest.mark.holds("a2a/skills", "left-out")
def test_a_card_of_thousands_of_skills_makes_a_bounded_file() -> None:
    found = propose_skills(card(*map(str, range(2 * MAX_PROPOSED_SKILLS))), "helper")
    assert len(found.skills) == len(found.left_out) == MAX_PROPOSED_SKILLS


@pytest.mark.holds("a2a/skills", "one-way")
def test_an_agent_is_where_json_rpc_of_1_0_is() -> None:
    def at(*interfaces: tuple[str, str, str]) -> str | None:
        names = ("url", "protocolBinding", "protocolVersion")
        return agent_url(card(supportedInterfaces=[dict(zip(names, each, strict=True)) for each in interfaces]))

    other = [("https://a", "GRPC", "1.0"), ("https://b", "JSONRPC", "0.3")]
    assert at(*other) is None
    assert at(*other, ("https://c", "JSONRPC", "1.0"), ("https://d", "JSONRPC", "1.0")) == "https://c"


@pytest.mark.holds("a2a/skills", "own-scope", "left-out")
@given(st.lists(st.text(min_size=1, max_size=40) | st.sampled_from([each for each in HOSTILE_TEXTS if each][:50])))
def test_whatever_skills_are_called__each_is_told_of_once__and_no_two_scopes_are_the_same(ids: list[str]) -> None:
    ids = [each[:1000] for each in ids if each.isprintable()]
    found = propose_skills(card(*ids), "helper")
    scopes = [each.scope for each in found.skills]
    assert len({*scopes, ask_scope("helper")}) == len(scopes) + 1
    assert sorted([*(each.skill.id for each in found.skills), *(skill for skill, _ in found.left_out)]) == sorted(
        {*ids}
    )
