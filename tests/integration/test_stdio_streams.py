"""Streams of legacy sessions in front of a child: where its messages go, and how a client resumes."""

import json

import pytest
from tests.world.raw_client import RawClient
from tests.world.stdio_bridge import (
    Bridge,
    events_of,
    has_read,
    next_event,
    open_stream,
    text_of,
)


async def test_news_before_the_answer_make_it_a_stream() -> None:
    async with Bridge() as bridge, RawClient(bridge.port) as client:
        session = await bridge.session()
        posted = session.posted("notes", count=2, meta={"progressToken": "t"})
        await client.ask("POST", "/mcp", posted.headers, posted.body)
        assert (await client.head())[0] == 200
        events = [event async for event in events_of(client)]
        assert [event.id for event in events] == ["1-0", "1-1", "1-2", "1-3"]
        assert events[0].message is None
        assert [event.message["params"]["progress"] for event in events[1:3]] == [0, 1]
        assert events[3].message["id"] == 7


async def test_clients_of_older_revisions_get_no_event_without_data() -> None:
    async with Bridge() as bridge, RawClient(bridge.port) as client:
        session = await bridge.session("2025-06-18")
        posted = session.posted("notes", count=1)
        await client.ask("POST", "/mcp", posted.headers, posted.body)
        await client.head()
        assert [event.id async for event in events_of(client)] == ["1-1", "1-2"]


@pytest.mark.holds("gateway/upstream/stdio/session", "responses")
async def test_the_servers_request_goes_out_on_the_open_answer_and_the_clients_response_comes_back() -> None:
    async with Bridge() as bridge, RawClient(bridge.port) as client:
        session = await bridge.session()
        await open_stream(client, session.posted("ask"))
        priming, asked = await next_event(client), await next_event(client)
        assert priming is not None
        assert asked is not None
        assert (asked.message["id"], asked.message["method"]) == ("q1", "elicitation/create")
        for id in ("other", 1, "q1", "q1"):
            answer = await session.send({"jsonrpc": "2.0", "id": id, "result": {"action": "accept"}})
            assert answer.status == 202
        told = await next_event(client)
        assert told is not None
        assert text_of(told.message)["id"] == "q1"
        answers = [line for line in await session.lines() if "result" in line]
        assert answers == [{"jsonrpc": "2.0", "id": "q1", "result": {"action": "accept"}}]


@pytest.mark.holds("gateway/upstream/stdio/session", "other")
async def test_what_belongs_to_no_request_goes_to_the_newest_open_answer() -> None:
    async with Bridge() as bridge, RawClient(bridge.port) as first, RawClient(bridge.port) as second:
        session = await bridge.session()
        for client, id in ((first, 1), (second, 2)):
            posted = session.posted("mute", id=id)
            await client.ask("POST", "/mcp", posted.headers, posted.body)
            await has_read(session, id=id)
        note = {"method": "notifications/message", "params": {"level": "info", "data": 1}}
        await session.send({"jsonrpc": "2.0", "method": "notifications/poke", "params": {"message": note}})
        assert (await second.head())[0] == 200
        _, told = await next_event(second), await next_event(second)
        assert told is not None
        assert told.message == {"jsonrpc": "2.0", **note}


@pytest.mark.holds("gateway/upstream/stdio/session", "other")
async def test_without_an_open_answer_it_waits_for_the_standing_stream() -> None:
    async with Bridge() as bridge, RawClient(bridge.port) as client:
        session = await bridge.session()
        note = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        # a notification after the answer: no POST is open any more
        answered = {"jsonrpc": "2.0", "id": "ID", "result": {}}
        await bridge.send(session.posted("tell", message=answered, after=note, answer=False))
        assert await session.get(client) == 200
        priming, told = await next_event(client), await next_event(client)
        assert priming is not None
        assert priming.id == "0-0"
        assert told is not None
        assert (told.id, told.message) == ("0-1", note)
        async with RawClient(bridge.port) as second:
            assert await session.get(second) == 409


async def test_a_client_that_lost_its_stream_resumes_it() -> None:
    async with Bridge() as bridge:
        session = await bridge.session()
        async with RawClient(bridge.port) as client:
            await open_stream(client, session.posted("ask"))
            await next_event(client)
            asked = await next_event(client)
            assert asked is not None
            assert asked.id == "1-1"
        await session.send({"jsonrpc": "2.0", "id": "q1", "result": {}})
        async with RawClient(bridge.port) as client:
            assert await session.get(client, "1-1") == 200
            told = await next_event(client)
            assert told is not None
            assert (told.id, told.message["id"]) == ("1-2", 7)
            assert await next_event(client) is None
        async with RawClient(bridge.port) as client:
            assert await session.get(client, "1-0") == 200
            assert [event.id async for event in events_of(client)] == ["1-1", "1-2"]
        for unknown in ("1-3", "2-0", "1", "x-y", "0-5"):
            async with RawClient(bridge.port) as client:
                assert await session.get(client, unknown) == 400
        assert not any(line.get("method") == "notifications/cancelled" for line in await session.lines())


async def test_a_batch_is_taken_apart_and_answered_with_an_array() -> None:
    async with Bridge() as bridge:
        session = await bridge.session("2025-03-26")
        calls = [json.loads(session.posted("echo", id=id, n=id).body) for id in (1, "2")]
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        answer = await session.send([calls[0], note, calls[1]])
        assert answer.status == 200
        messages = json.loads(answer.body)
        assert [(message["id"], text_of(message)) for message in messages] == [(1, {"n": 1}), ("2", {"n": "2"})]
        assert (await session.send([note, note])).status == 202
        lines = await session.lines()
        assert lines[1:4] == [calls[0], note, calls[1]]
        answer = await session.send([calls[0], json.loads(session.posted("trailing", id=9).body)])
        good, bad = json.loads(answer.body)
        assert (good["id"], bad["id"], bad["error"]["code"]) == (1, 9, -32000)


async def test_a_batch_becomes_a_stream_when_news_come_first() -> None:
    async with Bridge() as bridge, RawClient(bridge.port) as client:
        session = await bridge.session("2025-03-26")
        calls = [json.loads(session.posted(name, id=name, count=1).body) for name in ("echo", "notes")]
        await open_stream(client, session.message(calls))
        events = [event async for event in events_of(client)]
        assert [event.message.get("id") for event in events] == ["echo", None, "notes"]
