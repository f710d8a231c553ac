"""Which scope a tool is given, going by what it says of itself."""

import pytest
from hypothesis import given, settings
from mcp.types import Tool
from tests.world.tool_lists import HOSTILE_TEXTS, texts, tool, tools

from accredit.signing.suggest_scopes import READING, fault_of, suggestion

pytestmark = pytest.mark.holds("signing/suggest_scopes")


def suggested(found: Tool, server: str = "mail") -> tuple[str, bool]:
    said = suggestion(found, server)
    return said.scope, said.sensitive


@pytest.mark.holds("signing/suggest_scopes", "read-only")
def test_tools_that_only_read_share_one_scope() -> None:
    assert suggested(tool("list", reads=True)) == (READING, False)
    assert suggested(tool("list", reads=True, destroys=False)) == (READING, False)


@pytest.mark.holds("signing/suggest_scopes", "own-scope")
@pytest.mark.parametrize("said", [{}, {"reads": False}, {"destroys": True}, {"reads": None}])
def test_a_tool_that_does_not_say_what_it_changes_is_sensitive(said: dict[str, bool]) -> None:
    assert suggested(tool("send", **said)) == ("custom:mail:send", True)


def test_a_tool_that_reads_and_destroys_is_not_taken_at_its_better_word() -> None:
    assert suggested(tool("wipe", reads=True, destroys=True)) == ("custom:mail:wipe", True)


def test_a_tool_that_destroys_nothing_has_a_scope_of_its_own() -> None:
    assert suggested(tool("add", destroys=False)) == ("custom:mail:add", False)


@pytest.mark.holds("signing/suggest_scopes", "own-scope")
def test_a_scope_of_its_own_names_the_server__a_grant_for_one_is_none_for_another() -> None:
    assert suggested(tool("send"), "bank")[0] == "custom:bank:send"
    assert suggested(tool("send"), "")[0] == "custom:send"


@pytest.mark.holds("signing/suggest_scopes", "advertised-scope")
def test_a_scope_that_the_server_asks_for_is_kept() -> None:
    assert suggested(tool("send", reads=True, scope="email:send")) == ("email:send", False)


@pytest.mark.parametrize("scope", ["", "email:*", "comms:*", "a b", "x-own:a", "urn:a", "word", 7, "x:" + "y" * 256])
def test_a_scope_that_nobody_can_ask_for_or_grant_is_not(scope: object) -> None:
    assert suggested(tool("send", scope=scope)) == ("custom:mail:send", True)


@pytest.mark.parametrize("name", sorted(set(HOSTILE_TEXTS) - {"model_config", "__class__", "a.b"}))
def test_a_name_that_fits_no_scope_is_made_up_for(name: str) -> None:
    assert "~" in suggested(tool(name))[0]


@pytest.mark.slow
@settings(max_examples=100)
@given(texts(), texts(), texts())
def test_other_tools_have_other_scopes__a_grant_for_one_is_none_for_another(one: str, other: str, server: str) -> None:
    scopes = {suggested(tool(name), server)[0] for name in (one, other)}
    assert (len(scopes) == 1) == (one == other)


@pytest.mark.slow
@settings(max_examples=100)
@given(tools(), texts())
def test_whatever_is_suggested_can_be_asked_for_and_granted(found: Tool, server: str) -> None:
    assert fault_of(suggestion(found, server).scope) is None
