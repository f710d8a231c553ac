"""Every difference of two sets of definitions is a finding, and says what somebody has to know of it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accredit.base.steps import at_one_go
from accredit.pins.compare import Change, changes
from accredit.pins.definitions import Definitions, ListReader

SEND: dict[str, Any] = {"name": "send", "description": "sends"}
READ: dict[str, Any] = {"name": "read", "description": "reads"}
SETS = st.dictionaries(st.sampled_from(["a", "b", "c", "A"]), st.sampled_from(["x", "y"]))


def definitions(*tools: dict[str, Any], instructions: str | None = None) -> Definitions:
    reader = ListReader()
    at_one_go(reader.add(json.dumps({"tools": tools}).encode()))
    return Definitions(reader.tools, instructions)


def found(*tools: dict[str, Any], pinned: tuple[dict[str, Any], ...] = (SEND, READ)) -> dict[str, Change]:
    return {change.tool: change for change in changes(definitions(*pinned), definitions(*tools))}


def problems(found: dict[str, Change]) -> dict[str, str]:
    return {tool: change.problem for tool, change in found.items()}


@pytest.mark.holds("pins/compare", "definition")
@given(SETS, SETS)
def test_every_difference_is_a_finding_and_nothing_else_is(old: dict[str, str], new: dict[str, str]) -> None:
    pinned, now = ([{"name": name, "description": text} for name, text in each.items()] for each in (old, new))
    expected = {
        name: "missing_definition" if name not in new else "new_definition" if name not in old else "definition_changed"
        for name in old.keys() | new.keys()
        if old.get(name) != new.get(name)
    }
    changed = found(*now, pinned=tuple(pinned))
    assert problems(changed) == expected
    assert all(each.text.endswith(f" ({each.problem})") for each in changed.values()), "the word for who searches"


@pytest.mark.holds("pins/compare", "moved-name")
def test_a_rename_and_a_swap_name_the_other_tool() -> None:
    renamed = found({**SEND, "name": "dispatch"}, READ)
    assert problems(renamed) == {"send": "missing_definition", "dispatch": "new_definition"}
    assert renamed["dispatch"].notes == ("dispatch says what send was approved for: renamed, swapped or copied",)
    swapped = found({**SEND, "description": "reads"}, {**READ, "description": "sends"})
    assert problems(swapped) == dict.fromkeys(("send", "read"), "definition_changed")
    assert [len(change.notes) for change in swapped.values()] == [1, 1]


@pytest.mark.holds("pins/compare", "instructions")
@pytest.mark.parametrize(("was", "now"), [(None, "a"), ("a", None), ("a", "b"), ("", None)])
def test_other_instructions_are_told(was: str | None, now: str | None) -> None:
    (change,) = changes(definitions(SEND, instructions=was), definitions(SEND, instructions=now))
    assert (change.problem, change.tool) == ("instructions_changed", "")
    assert changes(definitions(SEND, instructions=was), definitions(SEND, instructions=was)) == []


@pytest.mark.holds("pins/compare", "lookalike")
def test_a_name_that_looks_like_another_is_marked() -> None:
    notes = found(SEND, READ, {**READ, "name": "r\u0435ad", "description": "steals"})["r\u0435ad"].notes
    assert notes == ("r\u0435ad looks like read, and is another tool", "r\u0435ad mixes scripts: it is r⟨U+0435⟩ad")


def test_what_is_shown_of_a_change_hides_nothing() -> None:
    change = found({**SEND, "description": "sends\u200b to eve"}, READ)["send"]
    assert change.diff == ('- /description: "sends"', '+ /description: "sends⟨U+200B⟩ to eve"')


def test_a_definition_that_readers_take_differently_is_a_change() -> None:
    reader = ListReader()
    at_one_go(reader.add(b'{"tools":[{"name":"send","annotations":{"title":"sends","title":"steals"}}]}'))
    (change,) = changes(definitions(SEND), Definitions(reader.tools))
    assert (change.problem, change.found) == ("definition_changed", None)
    assert any("steals" in line for line in change.diff)
