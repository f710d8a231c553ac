"""Which tools a check finds fault with."""

import json

import pytest
from mcp.types import Tool
from tests.world.tool_lists import tool

from accredit.asking.listing import ServerListing
from accredit.base.standard import printing_json
from accredit.policy.catalog import Catalog, Entry
from accredit.policy.facts import Facts
from accredit.setup.check import check_offer

pytestmark = pytest.mark.holds("setup/check")

Capture = pytest.CaptureFixture[str]


def found(capture: Capture, catalog: Catalog | None, *offered: Tool) -> dict[str, str]:
    """The problem of each tool that has one."""
    with printing_json():
        code = check_offer(ServerListing("", offered), catalog)
    told = json.loads(capture.readouterr().out)
    assert code == (0 if told["ok"] else 1)
    assert told["ok"] == (not told["findings"])
    assert told["tools"] == len(offered)
    assert code == check_offer(ServerListing("", offered), catalog)
    lines = capture.readouterr().out.splitlines()
    assert lines == [each["text"] for each in told["findings"]] or (code == 0 and lines[0].startswith("ok: "))
    return {each["tool"]: each["problem"] for each in told["findings"]}


SENT, ANY = Entry(scope="email:send"), Catalog(default_tool=Entry(scope="mcp:tool"))
SAID = (tool("a", scope="email:send"), tool("b"), tool("c", scope="comms:*"), tool("d", scope=["email:send"]))


@pytest.mark.parametrize(
    ("catalog", "offered", "problems"),
    [
        pytest.param(
            Catalog(tools={"a": SENT, "b": Entry(scope="mcp:tool")}), (tool("a", scope="email:send"), tool("b")), {},
            id="tools_that_the_catalog_has_are_well",
        ),
        pytest.param(Catalog(), (tool("a"),), {"a": "no_scope"}, id="a_tool_without_a_scope_is_refused"),
        pytest.param(ANY, (tool("a"),), {}, id="a_default_is_a_scope"),
        pytest.param(
            Catalog(tools={"a": SENT}), (tool("a", scope="email:read"),), {"a": "other_scope"},
            id="readers_of_the_list_would_ask_for_the_wrong_scope",
        ),
        pytest.param(
            ANY, (tool("accredit.drill"), tool("a")), {"accredit.drill": "reserved_name"},
            id="nobody_could_call_a_tool_that_is_called_as_one_of_the_gateways_own",
        ),
        pytest.param(Catalog(tools={"a": SENT}), (), {"a": "no_such_tool"}, id="an_entry_may_be_misspelt"),
        pytest.param(
            Catalog(tools={"a": Entry(scope="word")}), (tool("a"),), {"a": "invalid_scope"},
            id="nobody_can_grant_a_word_as_a_scope",
        ),
        pytest.param(
            None, SAID, {"b": "no_scope", "c": "invalid_scope", "d": "no_scope"},
            id="without_a_catalog_each_tool_has_to_say_its_scope",
        ),
    ],
)  # fmt: skip
def test_what_would_keep_a_tool_from_being_called_or_asked_for_is_found(
    catalog: Catalog | None, offered: tuple[Tool, ...], problems: dict[str, str], capsys: Capture
) -> None:
    assert found(capsys, catalog, *offered) == problems


def test_a_name_can_not_steer_the_terminal(capsys: Capture) -> None:
    check_offer(ServerListing("", (tool("\x1b[2J\u202e"),)), None)
    assert capsys.readouterr().out.rstrip("\n").isprintable()


def test_arguments_that_constraints_are_about_are_told_where_the_table_does_not_take_them_for_facts(
    capsys: Capture,
) -> None:
    properties = {"amount": {"type": "number"}, "to": {"type": "string"}}
    pay = Tool(name="pay", input_schema={"type": "object", "properties": properties})
    assert check_offer(ServerListing("", (pay,)), Catalog(tools={"pay": Entry(scope="mcp:tool")})) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "note: pay: a constraint on its amount would refuse every call, until its table says",
        '  facts = { amount = "/amount" }',
    ]
    known = Catalog(tools={"pay": Entry(scope="mcp:tool", facts=Facts({"amount": "/amount"}))})
    assert check_offer(ServerListing("", (pay,)), known) == 0
    assert "note" not in capsys.readouterr().out
