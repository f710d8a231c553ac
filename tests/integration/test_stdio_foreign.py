"""Questions, requests and streams of one client, and another one who would like to answer, to end or to hear them."""

import pytest
from tests.world.raw_client import RawClient
from tests.world.stdio_bridge import Bridge, SessionClient, next_event, open_stream, text_of


async def test_nobody_answers_another_sessions_question__nor_takes_its_request_back__nor_resumes_its_stream() -> None:
    async with Bridge() as bridge, RawClient(bridge.port) as client:
        victim, eve = await bridge.session(), await bridge.session()
        await open_stream(client, victim.posted("ask"))
        await next_event(client)
        asked = await next_event(client)
        assert asked is not None
        assert (asked.id, asked.message["id"]) == ("1-1", "q1")
        forged: list[object] = [{"jsonrpc": "2.0", "id": id, "result": {"by": "eve"}} for id in ("q1", "q2", 1, 7)]
        forged.append({"jsonrpc": "2.0", "id": "q1", "error": {"code": -1, "message": "by eve"}})
        for method, params in (
            ("notifications/cancelled", {"requestId": 7}),
            ("notifications/progress", {"progressToken": 7, "progress": 1}),
        ):
            forged.append({"jsonrpc": "2.0", "method": method, "params": params})
        for message in forged:
            assert (await eve.send(message)).status == 202
        for event_id in ("1-0", "1-1", "1-2"):
            async with RawClient(bridge.port) as other:
                assert await eve.get(other, event_id) == 400
        assert (await victim.send({"jsonrpc": "2.0", "id": "q1", "result": {"by": "victim"}})).status == 202
        told = await next_event(client)
        assert told is not None
        assert text_of(told.message) == {"jsonrpc": "2.0", "id": "q1", "result": {"by": "victim"}}
        heard = await eve.lines()
        assert not any("result" in line or "error" in line for line in heard)
        assert not any(line.get("method") == "notifications/cancelled" for line in await victim.lines())


async def test_an_id_that_is_almost_a_sessions_finds_none() -> None:
    async with Bridge() as bridge:
        id = (await bridge.session()).id
        near = (id[:-1], id + "0", id.upper() + "F", id[::-1], id[:-1] + chr(ord(id[-1]) ^ 1), f"{id}.", f'"{id}"')
        for guessed in near:
            guess = SessionClient(bridge, guessed, "2025-11-25")
            assert (await guess.send({"jsonrpc": "2.0", "id": 1, "method": "ping"})).status == 404, guessed
            assert await guess.delete() == 404
        assert len(bridge.children) == 1


@pytest.mark.parametrize("event_id", ["1-0", "0-0", "-1-0", "999999999-0", "1-0-0", "1-0 ", "1_0", ""])
async def test_a_made_up_event_id_resumes_nothing(event_id: str) -> None:
    async with Bridge() as bridge, RawClient(bridge.port) as client:
        session = await bridge.session()
        assert await session.get(client, event_id) == (200 if event_id == "0-0" else 400)
