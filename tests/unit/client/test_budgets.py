"""What a server may have of a client for one call: dialogs and characters, over any transport."""

from typing import Any

import anyio
import pytest
from mcp import MCPError
from mcp.server.mcpserver import MCPServer
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, TextContent

from accredit.client import AccreditedClient
from accredit.client.budgets import MAX_CALL_ASKED_CHARS, MAX_CALL_CHARS, MAX_NOTIFICATION_CHARS, Budgets, characters
from accredit.client.sdk import in_memory
from accredit.errors import FrameError
from accredit.limits import MAX_ANSWER_BYTES, MAX_ANSWER_VALUES, MAX_DIALOGS, MAX_TYPED_VALUES

pytestmark = pytest.mark.holds("client/budgets", "message", "call", "excess")


def response(**result: Any) -> JSONRPCResponse:
    return JSONRPCResponse(jsonrpc="2.0", id=7, result=result)


def itself(server: MCPServer) -> MCPServer:
    return server


def test_each_call_has_dialogs_of_its_own__one_that_never_ends_leaves_the_next_without_none() -> None:
    budgets = Budgets(1)
    with budgets.call():
        assert [budgets.asked() for _ in range(MAX_DIALOGS + 1)] == [True] * MAX_DIALOGS + [False]
        with budgets.call():
            assert budgets.asked()
        assert not budgets.asked()  # what that one did not use is gone with it
        with budgets.call(), budgets.call():
            assert sum(budgets.asked() for _ in range(10 * MAX_DIALOGS)) == 2 * MAX_DIALOGS


def test_between_calls_a_server_asks_no_more_than_in_one() -> None:
    budgets = Budgets(1)
    assert sum(budgets.asked() for _ in range(10 * MAX_DIALOGS)) == MAX_DIALOGS


def test_one_budget_of_characters_is_for_all_that_is_said_in_a_call() -> None:
    budgets = Budgets()
    said = SessionMessage(response(text="x" * (MAX_ANSWER_BYTES - 4)))
    told = SessionMessage(
        JSONRPCNotification(jsonrpc="2.0", method="notifications/message", params={"data": "x" * 100})
    )
    with budgets.call():
        for _ in range(MAX_CALL_CHARS // MAX_ANSWER_BYTES):
            assert budgets.heard(said) is said
        refused: Any = budgets.heard(said)
        assert (refused.message.id, str(MAX_CALL_CHARS) in refused.message.error.data) == (7, True)
        assert budgets.heard(told) is None
    with budgets.call():
        assert budgets.heard(told) is told


def notified(chars: int) -> SessionMessage:
    params = {"progressToken": 1, "progress": 1, "message": "x" * (chars - len("progressTokenprogressmessage"))}
    return SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="notifications/progress", params=params))


def asked(chars: int) -> SessionMessage:
    params = {"message": "x" * (chars - len("message"))}
    return SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=1, method="elicitation/create", params=params))


def test_what_waits_for_a_slow_host_is_short__four_notifications_of_60_mebibytes_were_kept_for_it() -> None:
    budgets = Budgets()
    with budgets.call():
        assert budgets.heard(longest := notified(MAX_NOTIFICATION_CHARS)) is longest
        assert budgets.heard(notified(MAX_NOTIFICATION_CHARS + 1)) is None


def test_all_that_is_asked_in_one_call_has_one_budget__people_take_long_to_answer() -> None:
    budgets = Budgets()
    half = asked(MAX_CALL_ASKED_CHARS // 2)
    with budgets.call():
        assert [budgets.heard(half) for _ in range(3)] == [half, half, None]
        with budgets.call():
            assert budgets.heard(half) is half
    with budgets.call():
        assert budgets.heard(asked(MAX_CALL_ASKED_CHARS + 1)) is None
        assert budgets.heard(half) is half


def test_schemas_and_structured_content_may_have_more_values_than_what_the_models_look_at() -> None:
    rows = [0] * (MAX_ANSWER_VALUES - 8)
    assert characters(response(structuredContent={"rows": rows})) == len("structuredContent") + len("rows")
    for result in ({"content": [0] * MAX_TYPED_VALUES}, {"structuredContent": {"rows": [rows, rows]}}):
        with pytest.raises(FrameError, match="values"):
            characters(response(**result))
    with pytest.raises(FrameError, match="characters"):
        characters(response(text=["x" * (MAX_ANSWER_BYTES // 2)] * 3))


@pytest.mark.parametrize("bring", [in_memory, itself], ids=["a transport", "a server"])
async def test_over_a_transport_that_the_caller_brings_messages_are_counted_too(bring: Any) -> None:
    server = MCPServer("large")

    @server.tool()
    def blocks(count: int) -> list[TextContent]:
        return [TextContent(text="")] * count

    async with AccreditedClient(bring(server), mode="legacy") as client:
        assert len((await client.call_tool("blocks", {"count": 1_000})).content) == 1_000
        with anyio.fail_after(60), pytest.raises(MCPError, match="Invalid upstream JSON-RPC response"):
            await client.call_tool("blocks", {"count": MAX_TYPED_VALUES})
