"""The child that all modern clients share: nobody gets what is another's, and it comes back when it dies."""

import asyncio
import os
import signal
from typing import Any

import pytest
from tests.world.calls import Posted, notification, post
from tests.world.memory import MemoryWatch
from tests.world.raw_client import RawClient
from tests.world.raw_server import PATIENCE, until
from tests.world.stdio_bridge import (
    Bridge,
    error_of,
    events_of,
    has_read,
    modern,
    next_event,
    open_stream,
    parsed,
    text_of,
)

from accredit.jsonrpc.methods import Era

pytestmark = [
    pytest.mark.holds("gateway/upstream/stdio/shared"),
    pytest.mark.holds("gateway/upstream/stdio/conversation"),
]

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"


INVALID = "Invalid upstream JSON-RPC response"
UNAVAILABLE = "Upstream unavailable"
NOTE = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}


async def begin(client: RawClient, posted: Posted) -> None:
    await client.ask("POST", "/mcp", posted.headers, posted.body)


def listen(id: int | str) -> Posted:
    return post(Era.MODERN, "subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id=id)


@pytest.mark.holds("gateway/upstream/stdio/shared", "request")
async def test_clients_share_a_child_and_may_use_the_same_ids() -> None:
    async with Bridge() as bridge:
        answers = await asyncio.gather(*(bridge.call("echo", id=7, mine=n) for n in range(20)))
        assert [(status, message["id"], text_of(message)) for status, message in answers] == [
            (200, 7, {"mine": n}) for n in range(20)
        ]
        assert len(bridge.children) == 1
        numbers = [line["id"] for line in await bridge.lines()]
        assert len(set(numbers)) == len(numbers) == 21


@pytest.mark.holds("gateway/upstream/stdio/shared", "request")
async def test_clients_may_use_the_same_progress_token() -> None:
    async with Bridge() as bridge, RawClient(bridge.port) as one, RawClient(bridge.port) as two:
        await begin(one, modern("notes", count=2, meta={"progressToken": "t"}))
        await begin(two, modern("notes", count=3, meta={"progressToken": "t"}))
        for client, count in ((one, 2), (two, 3)):
            assert (await client.head())[0] == 200
            *told, last = [event async for event in events_of(client)]
            assert [event.message["params"] for event in told] == [
                {"progressToken": "t", "progress": number} for number in range(count)
            ]
            assert last.message["id"] == 7
            assert [event.id for event in told] == [None] * count


@pytest.mark.holds("gateway/upstream/stdio/shared", "other")
async def test_what_belongs_to_no_request_reaches_nobody() -> None:
    async with Bridge() as bridge, RawClient(bridge.port) as bystander:
        await begin(bystander, modern("mute", id="bystander"))
        await has_read(bridge, method="tools/call")
        for message in (
            NOTE,
            {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"},
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 999}},
            {"jsonrpc": "2.0", "method": "notifications/x", "params": {"_meta": {SUBSCRIPTION: 1}}},
            {"jsonrpc": "2.0", "method": "notifications/x", "params": {"_meta": {SUBSCRIPTION: [1]}}},
            {"jsonrpc": "2.0", "method": "notifications/x", "params": {"_meta": 1}},
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
            {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": {}},
            {"jsonrpc": "2.0", "id": 999, "result": {}},
        ):
            status, answer = await bridge.call("tell", message=message)
            assert (status, text_of_plain(answer)) == (200, "sound")
        bystander.writer.write(b"")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(bystander.reader.read(1), 0.1)


def text_of_plain(message: Any) -> str:
    return message["result"]["content"][0]["text"]


@pytest.mark.holds("gateway/upstream/stdio/pending_calls", "long-line")
async def test_a_request_of_the_child_over_the_bound_is_answered__it_would_wait_for_ever() -> None:
    async with Bridge(max_event_bytes=100_000) as bridge:
        status, answer = await bridge.call("long_ask", bytes=150_000)
        answered = text_of(answer)
        assert (status, answered["id"], answered["error"]["code"]) == (200, "q1", -32600)


@pytest.mark.holds("gateway/upstream/stdio/shared", "log-messages")
async def test_a_log_message_goes_to_the_one_request_that_asked_for_logging() -> None:
    async with Bridge() as bridge, RawClient(bridge.port) as asked, RawClient(bridge.port) as other:
        await begin(other, modern("mute", id="other"))
        await begin(asked, modern("mute", id="asked", meta={LOG_LEVEL: "debug"}))
        await has_read(bridge, id=2)
        await bridge.call("tell", message=NOTE)
        assert (await asked.head())[0] == 200
        told = await next_event(asked)
        assert told is not None
        assert told.message == NOTE
        # two who asked: it could be either's
        status, _ = await bridge.call("tell", message=NOTE, meta={LOG_LEVEL: "debug"})
        assert status == 200


@pytest.mark.slow
async def test_a_subscription_stands_until_its_client_leaves() -> None:
    async with Bridge(upstream_timeout_seconds=2) as bridge:  # the child has to start within it
        async with RawClient(bridge.port) as one, RawClient(bridge.port) as two:
            for client, id in ((one, "mine"), (two, 7)):
                await open_stream(client, listen(id))
                acknowledged = await next_event(client)
                assert acknowledged is not None
                assert acknowledged.message["params"]["_meta"] == {SUBSCRIPTION: id}
            await asyncio.sleep(2.2)  # longer than any other request may be silent
            await bridge.call("change")
            for client, id in ((one, "mine"), (two, 7)):
                told = await next_event(client)
                assert told is not None
                assert told.message["method"] == "notifications/tools/list_changed"
                assert told.message["params"]["_meta"] == {SUBSCRIPTION: id}
        listened = [line["id"] for line in await bridge.lines() if line["method"] == "subscriptions/listen"]
        for number in listened:
            reason = "the client has gone"
            await has_read(bridge, method="notifications/cancelled", params={"requestId": number, "reason": reason})


@pytest.mark.parametrize("cancel", [False, True])
async def test_a_subscription_that_the_server_ends_is_over(cancel: bool) -> None:
    async with Bridge() as bridge, RawClient(bridge.port) as client:
        await open_stream(client, listen("mine"))
        await next_event(client)
        await bridge.call("close", cancel=cancel)
        last = [event.message async for event in events_of(client)]
        expected = {"jsonrpc": "2.0", "id": "mine", "result": {"_meta": {SUBSCRIPTION: "mine"}}}
        assert last == ([] if cancel else [expected])


async def test_a_client_that_goes_away_cancels_its_own_request_and_no_others() -> None:
    async with Bridge() as bridge, RawClient(bridge.port) as stays:
        await begin(stays, modern("mute", id=7))
        await has_read(bridge, id=1)
        async with RawClient(bridge.port) as leaves:
            await begin(leaves, modern("mute", id=7))
            await has_read(bridge, method="tools/call", id=3)
        cancelled = await has_read(bridge, method="notifications/cancelled")
        assert cancelled["params"]["requestId"] == 3


@pytest.mark.holds("gateway/upstream/stdio/backend", "modern")
async def test_clients_notifications_are_taken_and_concern_nobody() -> None:
    async with Bridge() as bridge:
        await bridge.call("echo")
        for method in ("notifications/cancelled", "notifications/progress", "notifications/x"):
            answer = await bridge.send(notification(Era.MODERN, method))
            assert (answer.status, answer.body) == (202, b"")
        assert [line["method"] for line in await bridge.lines()] == ["tools/call"] * 2


@pytest.mark.holds("gateway/upstream/stdio/backend", "modern")
async def test_initialize_never_reaches_the_child__it_would_turn_all_clients_back() -> None:
    async with Bridge() as bridge:
        status, message = parsed(await bridge.send(post(Era.MODERN, "initialize", id="i")))
        assert (status, message["id"], message["error"]["code"]) == (404, "i", -32601)
        assert not bridge.children


STATUS = {-32700: 400, -32600: 400, -32601: 404, -32602: 400, -32020: 400, -32021: 400, -32022: 400}


@pytest.mark.parametrize("code", [*STATUS, -32603, -32000, 7])
async def test_an_error_has_the_status_that_goes_with_its_code(code: int) -> None:
    async with Bridge() as bridge:
        answer = await bridge.call("fail", code=code)
        error = {"code": code, "message": "no", "data": {"a": 1}}
        assert answer == (STATUS.get(code, 200), {"jsonrpc": "2.0", "id": 7, "error": error})


async def test_bad_answers_become_clean_errors() -> None:
    async with Bridge() as bridge:
        status, id, message, _ = error_of(await bridge.call("both"))
        assert (status, id, message) == (502, None, INVALID)
        status, answer = await bridge.call("chatter")
        assert (status, answer["result"]) == (200, {"sound": True})
        result: dict[str, Any] = {"resultType": "input_required", "inputRequests": {}}
        answer = {"jsonrpc": "2.0", "id": "ID", "result": result}
        assert error_of(await bridge.call("tell", message=answer, answer=False))[0] == 502


async def test_an_error_after_the_beginning_of_a_stream_has_the_clients_id() -> None:
    async with Bridge() as bridge, RawClient(bridge.port) as client:
        await open_stream(client, modern("news_then_bad", id="mine", meta={LOG_LEVEL: "info"}))
        *_, last = [event.message async for event in events_of(client)]
        assert (last["id"], last["error"]["message"]) == ("mine", INVALID)


@pytest.mark.slow
async def test_a_child_that_dies_fails_what_is_open_and_is_started_again_at_once() -> None:
    async with Bridge() as bridge, RawClient(bridge.port) as client:
        await begin(client, modern("mute", id="open"))
        await has_read(bridge, id=1)
        fate = "the upstream ended with signal 9"
        assert error_of(await bridge.call("die", signal=signal.SIGKILL)) == (502, None, UNAVAILABLE, fate)
        assert error_of(parsed(await client.answer())) == (502, None, UNAVAILABLE, fate)
        assert (await bridge.call("echo"))[0] == 200
        assert (await bridge.call("die"))[0] == 502
        assert (await bridge.call("echo"))[0] == 200


@pytest.mark.slow
async def test_a_child_that_dies_again_and_again_is_left_alone_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    # Long enough to be met on a machine that stalls.
    monkeypatch.setattr("accredit.gateway.upstream.stdio.shared.BACKOFF_FIRST_SECONDS", 3.0)

    async with Bridge("--dies") as bridge:
        details = [error_of(await bridge.call("echo"))[3] for _ in range(3)]
        assert details == ["the upstream ended with code 7"] * 2 + [
            "the upstream has ended repeatedly, and is not started again yet"
        ]
        async with RawClient(bridge.port) as client:
            await client.ask("GET", "/readyz")
            assert (await client.answer()).status == 503
        async with asyncio.timeout(PATIENCE):
            while error_of(await bridge.call("echo"))[3] != "the upstream ended with code 7":
                await asyncio.sleep(0.05)


@pytest.mark.slow
async def test_a_client_that_does_not_read_is_cut_off__the_others_do_not_wait_for_it() -> None:
    async with Bridge() as bridge, RawClient(bridge.port, buffer=65_536) as slow:
        with MemoryWatch() as watch:
            await begin(slow, modern("notes", count=20_000, bytes=5_000, id="slow", meta={LOG_LEVEL: "debug"}))
            status, message = await bridge.call("echo", a=1)
        assert (status, text_of(message)) == (200, {"a": 1})
        assert watch.peak_mib < 24
        assert (await slow.head())[0] == 200
        *_, last = [event.message async for event in events_of(slow)]
        assert last["method"] == "notifications/message"  # its stream ended without a response
        cancelled = await has_read(bridge, method="notifications/cancelled")
        assert cancelled["params"]["reason"] == "the client does not read"


async def test_subscriptions_end_when_the_gateway_is_about_to_stop() -> None:
    async with Bridge() as bridge, RawClient(bridge.port) as client, RawClient(bridge.port) as standing:
        await open_stream(client, listen("mine"))
        await next_event(client)
        session = await bridge.session()
        assert await session.get(standing) == 200
        await next_event(standing)
        bridge.gateway.app.end_streams()
        assert await next_event(client) is None
        assert await next_event(standing) is None


async def test_observed_bad_answers_come_under_the_clients_id_where_they_can() -> None:
    async with Bridge(enforce=False) as bridge:
        status, message = await bridge.call("old_version", id="mine")
        assert (status, message) == (200, {"jsonrpc": "1.0", "id": "mine", "result": {}})
        assert error_of(await bridge.call("trailing", id="mine"))[0] == 502


@pytest.mark.slow
async def test_the_reaper_that_dies_takes_all_children_with_it_and_they_come_back() -> None:
    async with Bridge() as bridge:
        session = await bridge.session()
        await bridge.call("echo")
        (child, other) = bridge.children
        (helper,) = bridge.reapers
        os.kill(helper, signal.SIGKILL)
        await until(lambda: not bridge.children & {child, other})
        async with asyncio.timeout(PATIENCE):
            while (status := (await session.call("echo"))[0]) != 404:
                assert status == 502  # it is gone, and the gateway is about to notice
            while (status := (await bridge.call("echo"))[0]) != 200:
                assert status == 502
