"""The answer to a legacy host's call that waits for a person: a stream that begins while nobody has answered yet.

A host that hears nothing for a minute gives up, and so does a proxy in between. But what it hears gives it nothing: a
yes is what the person's key has signed.
"""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.world.authorization import Trust
from tests.world.calls import Posted, compact, post
from tests.world.guests import CHATGPT, CLAUDE, PUBLIC_URL, Desk, FrontDoor, Visit
from tests.world.raw_client import RawClient
from tests.world.raw_server import until
from tests.world.recorded import records_at, records_of
from tests.world.routes import Route, messages_of
from tests.world.running import RunningGateway

from accredit.gateway import create_app, holding
from accredit.gateway.admission import guest_asks
from accredit.jsonrpc.methods import Era
from accredit.stores import MemoryStore, RevocationLists
from accredit.stores.asks import Asks

pytestmark = pytest.mark.holds("gateway/admission/held_answer")

PAY: dict[str, Any] = {"name": "pay", "arguments": {"amount": 10, "currency": "EUR"}}
TOLD = {"_meta": {"progressToken": "mine"}}
PAGES = {"elicitation": {"url": {}}}
NAMES = ["http-legacy", "sse-legacy", "stdio-legacy"]


class World:
    """One gateway whose host has logged in, and the person's desk."""

    def __init__(self, way: Route, visit: Visit, desk: Desk) -> None:
        self.way, self.visit, self.desk = way, visit, desk

    async def begins(self, capabilities: dict[str, Any], token: str = "") -> None:
        """Opens another session, whose host declares this."""
        params = {"protocolVersion": "2025-11-25", "capabilities": capabilities}
        asked = post(Era.LEGACY, "initialize", {**params, "clientInfo": {"name": "test", "version": "1"}})
        self.way.session = ""
        answer = await self.way.send(asked, token=token or self.visit.token)
        self.way.session = answer.header("mcp-session-id") or ""
        assert self.way.session

    @asynccontextmanager
    async def calling(self, params: dict[str, Any], *, id: int | str = 7) -> AsyncGenerator["Stream"]:
        """A call, whose answer is read event by event."""
        posted = post(Era.LEGACY, "tools/call", params, id=id)
        headers = [pair for pair in posted.headers if pair[0] != "Mcp-Session-Id"]
        headers += [("Mcp-Session-Id", self.way.session), ("Authorization", f"Bearer {self.visit.token}")]
        async with RawClient(self.way.port) as client:
            await client.ask("POST", "/mcp", headers, posted.body)
            yield Stream(client)

    async def says(self, message: dict[str, Any], *, session: str = "", token: str = "") -> int:
        """Posts a message that is owed no answer; gives the status."""
        posted = Posted(post(Era.LEGACY, "ping").headers, compact({"jsonrpc": "2.0", **message}))
        mine, self.way.session = self.way.session, session or self.way.session
        answer = await self.way.send(posted, token=token or self.visit.token)
        self.way.session = mine
        return answer.status


class Stream:
    """An answer while it comes."""

    def __init__(self, client: RawClient) -> None:
        self.client = client
        self.began = False

    async def next(self) -> dict[str, Any]:
        """The next message."""
        if not self.began:
            status, headers = await self.client.head()
            assert (status, dict(headers)["content-type"]) == (200, "text/event-stream"), headers
            assert dict(headers)["x-accel-buffering"] == "no", "else a proxy keeps it until it is whole"
            self.began = True
        while (event := await self.client.event()) is not None:
            if event.data:
                assert event.id is None, "the gateway's own events can't be sent again"
                return json.loads(event.data)
        raise AssertionError("the stream has ended")

    async def rest(self) -> list[dict[str, Any]]:
        """All messages that are left."""
        found: list[dict[str, Any]] = []
        while (event := await self.client.event()) is not None:
            found += [json.loads(event.data)] if event.data else []
        return found


@pytest.fixture
def front(trust: Trust) -> FrontDoor:
    return FrontDoor(trust, hold_seconds=60)


@asynccontextmanager
async def world(name: str, front: FrontDoor, folder: Path, **more: Any) -> AsyncGenerator[World]:
    visit, asks = await front.visit(CLAUDE, "email:read", tools=["list_inbox"]), Asks()
    settings: dict[str, Any] = {"oauth": front.settings, "door": front.door, "token": visit.token, "asks": asks}
    async with Route(name, front.trust, folder, **settings, **more) as way:
        yield World(way, visit, Desk(front, asks, way.app))


@pytest.mark.parametrize("name", NAMES)
async def test_a_host_hears_why_its_call_waits__and_gets_the_server_s_answer_in_the_same_stream(
    name: str, front: FrontDoor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest_asks, "ASK_PROGRESS_SECONDS", 0.05)
    async with world(name, front, tmp_path) as here, here.calling({**PAY, **TOLD}) as stream:
        told = [await stream.next() for _ in range(3)]
        held = await here.desk.waiting()
        assert {each["method"] for each in told} == {"notifications/progress"}
        assert {each["params"]["progressToken"] for each in told} == {"mine"}
        counted = [each["params"]["progress"] for each in told]
        assert counted == sorted(set(counted))
        assert counted[-1] < 1, "else the server's own progress would seem to go back"
        assert f"pay, code {held.ask.code}, " in told[0]["params"]["message"]
        assert here.way.received("tools/call") == [], "nobody has allowed it yet"
        await here.desk.answer(held)
        *_, last = await stream.rest()
        assert (last["id"], last["result"]["content"][0]["text"]) == (7, "called pay")
        assert len(here.way.received("tools/call")) == 1


async def test_a_no_ends_the_stream_with_the_refusal(front: FrontDoor, tmp_path: Path) -> None:
    async with world("http-legacy", front, tmp_path) as here, here.calling({**PAY, **TOLD}) as stream:
        await stream.next()
        await here.desk.answer(await here.desk.waiting(), "deny")
        *_, last = await stream.rest()
        assert (last["id"], last["error"]["code"]) == (7, -31003)
        assert "the answer was no" in last["error"]["message"]
        assert here.way.received("tools/call") == []


async def test_nobody_answers__and_the_stream_ends_with_the_code(front: FrontDoor, tmp_path: Path) -> None:
    front.settings = replace(front.settings, hold_seconds=1)
    async with world("http-legacy", front, tmp_path) as here, here.calling(PAY) as stream:
        last = await stream.next()
        assert last["error"]["data"]["ask"] == (await here.desk.waiting()).ask.code, "a comment is no message"
        assert await stream.rest() == []


@pytest.mark.parametrize("accept", ["application/json", "*/*", "application/json, text/event-stream;q=0", None])
async def test_a_client_that_reads_no_streams_gets_one_answer_as_ever(
    accept: str | None, front: FrontDoor, tmp_path: Path
) -> None:
    front.settings = replace(front.settings, hold_seconds=1)
    async with world("http-legacy", front, tmp_path) as here:
        posted = post(Era.LEGACY, "tools/call", {**PAY, **TOLD}).without_header("accept")
        answer = await here.way.send(posted.and_header("Accept", accept) if accept else posted, token=here.visit.token)
        assert answer.header("content-type") == "application/json"
        assert json.loads(answer.body)["error"]["code"] == -31003


@pytest.mark.holds("gateway/admission/held_answer", "begins")
@pytest.mark.parametrize("token", ["", "forged"])
async def test_a_stranger_gets_no_stream(token: str, front: FrontDoor, tmp_path: Path) -> None:
    async with world("http-legacy", front, tmp_path) as here:
        here.way.session = here.way.session if token else ""
        answer = await here.way.send(post(Era.LEGACY, "tools/call", {**PAY, **TOLD}), token=token or None)
        assert (answer.status, answer.header("content-type")) == (401, "application/json")
        assert not await here.desk.has_one()


@pytest.mark.holds("gateway/admission/held_answer", "page")
@pytest.mark.parametrize("name", NAMES)
async def test_a_host_that_shows_pages_is_asked_to_show_the_ask_s__and_its_accept_allows_nothing(
    name: str, front: FrontDoor, tmp_path: Path
) -> None:
    async with world(name, front, tmp_path) as here:
        await here.begins(PAGES)
        async with here.calling(PAY) as stream:
            asked = await stream.next()
            held = await here.desk.waiting()
            assert (asked["method"], asked["params"]["mode"]) == ("elicitation/create", "url")
            assert asked["params"]["url"] == f"{PUBLIC_URL}/oauth/asked/{held.ask.code}"
            results: list[Any] = [{"action": "accept"}, {"action": "cancel"}, {"action": ["decline"]}, {}, "decline"]
            for said in ({"error": {"code": 1, "message": "decline"}}, *({"result": each} for each in results)):
                assert await here.says({"id": asked["id"], **said}) == 202
            assert (await here.desk.waiting()).answer is None
            assert here.way.received("tools/call") == []
            await here.desk.answer(held)
            ended, complete, last = await stream.rest()
            assert ended["params"]["requestId"] == asked["id"], "the host may close the question"
            assert complete["method"] == "notifications/elicitation/complete"
            assert complete["params"]["elicitationId"] == asked["params"]["elicitationId"]
            assert last["result"]["content"]
        answers = [message for message in here.way.received() if "method" not in message]
        assert answers == [], "the server hears nothing of what it has not asked"


@pytest.mark.holds("gateway/admission/guest_asks", "decline")
async def test_a_host_that_declines_has_said_no__at_whichever_gateway(front: FrontDoor, tmp_path: Path) -> None:
    async with world("http-legacy", front, tmp_path) as here:
        await here.begins(PAGES)
        ports: dict[str, Any] = {"door": front.door, "asks": here.desk.holding.store, "store": MemoryStore()}
        other = create_app(here.way.app.routes.settings, revocations=RevocationLists((), {}), **ports)
        async with here.calling(PAY) as stream, RunningGateway(other) as beside:
            asked = await stream.next()
            here.way.port = beside.port
            assert await here.says({"id": asked["id"], "result": {"action": "decline"}}) == 202
            *_, last = await stream.rest()
            assert "the answer was no" in last["error"]["message"]
            assert not await here.desk.has_one(), "nobody is bothered any more"


@pytest.mark.holds("gateway/holding", "questions")
@pytest.mark.parametrize("whose", ["session", "agent", "made up", "changed"])
async def test_an_answer_in_another_session__of_another_host__or_to_an_id_made_up__says_nothing(
    whose: str, front: FrontDoor, tmp_path: Path
) -> None:
    async with world("http-legacy", front, tmp_path) as here:
        await here.begins(PAGES)
        first, other, session = here.way.session, await front.visit(CHATGPT), ""
        await here.begins(PAGES, other.token if whose == "agent" else "")
        session, here.way.session = here.way.session, first
        async with here.calling(PAY) as stream:
            id = (await stream.next())["id"]
            id = {"made up": "accredit.q1." + "A" * 127, "changed": id[:-2] + id[-1] + id[-2] + "A"}.get(whose, id)
            token = other.token if whose == "agent" else ""
            elsewhere = session if whose in ("session", "agent") else ""
            said = {"id": id, "result": {"action": "decline"}}
            assert await here.says(said, session=elsewhere, token=token) == 202
            assert [each["id"] for each in here.way.received() if "method" not in each] == [id], "as any other message"
            held = await here.desk.waiting()
            assert held.answer is None
            await here.desk.answer(held)
            *_, last = await stream.rest()
            assert last["result"]["content"]


async def test_a_host_that_declares_forms_alone_is_asked_nothing(front: FrontDoor, tmp_path: Path) -> None:
    async with world("http-legacy", front, tmp_path) as here:
        await here.begins({"elicitation": {}})
        async with here.calling({**PAY, **TOLD}) as stream:
            assert (await stream.next())["method"] == "notifications/progress"
            await here.desk.answer(await here.desk.waiting())
            told = [each.get("method") for each in await stream.rest()]
            assert told[-1] is None
            assert set(told[:-1]) <= {"notifications/progress"}


@pytest.mark.holds("gateway/admission/held_answer", "cancelled")
async def test_a_call_that_its_host_has_cancelled_is_not_made__and_nobody_is_asked_any_more(
    front: FrontDoor, tmp_path: Path
) -> None:
    async with world("http-legacy", front, tmp_path) as here, here.calling({**PAY, **TOLD}, id="c") as stream:
        await stream.next()
        cancelled = {"method": "notifications/cancelled", "params": {"requestId": "c"}}
        assert await here.says({**cancelled, "params": {"requestId": "d"}}) == 202
        assert await here.desk.has_one(), "another call was meant"
        assert await here.says(cancelled) == 202
        assert not await here.desk.has_one()
        *_, last = await stream.rest()
        assert "error" in last
        assert here.way.received("tools/call") == []


@pytest.mark.holds("gateway/admission/guest_asks", "no")
async def test_a_host_can_t_cancel_a_no__and_ask_the_person_again(
    front: FrontDoor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between a person's answer and the moment in which the waiting call sees it."""
    monkeypatch.setattr(holding, "ASK_POLL_SECONDS", 2.0)
    async with world("http-legacy", front, tmp_path) as here:
        async with here.calling({**PAY, **TOLD}, id="c") as stream:
            await stream.next()
            await here.desk.answer(await here.desk.waiting(), "deny")
            assert await here.says({"method": "notifications/cancelled", "params": {"requestId": "c"}}) == 202
            assert "error" in (await stream.rest())[-1]
        again = await here.way.send(post(Era.LEGACY, "tools/call", PAY), token=here.visit.token)
        assert "the answer was no" in messages_of(again)[-1]["error"]["message"]
        assert not await here.desk.has_one()


@pytest.mark.holds("gateway/admission/held_answer", "cancelled")
async def test_a_host_that_asks_and_cancels_without_end_does_not_make_the_desk_ring_each_time(
    front: FrontDoor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest_asks, "WITHDRAWALS", 2 * guest_asks.WITHDRAWAL_SHARES)
    monkeypatch.setattr(holding, "ASK_POLL_SECONDS", 0.05)
    codes = set[str]()
    async with world("http-legacy", front, tmp_path) as here:
        for number in range(6):
            async with here.calling({**PAY, **TOLD}, id=number) as stream:
                await stream.next()
                codes.add((await here.desk.waiting()).ask.code)
                assert await here.says({"method": "notifications/cancelled", "params": {"requestId": number}}) == 202
                assert "error" in (await stream.rest())[-1]
        assert here.way.received("tools/call") == []
    assert len(codes) == 3, "two were withdrawn; the third stays, and is that of all later calls"


@pytest.mark.holds("gateway/admission/held_answer", "cancelled")
async def test_the_same_call_twice__of_which_one_is_cancelled__is_made_once(front: FrontDoor, tmp_path: Path) -> None:
    async with (
        world("http-legacy", front, tmp_path) as here,
        here.calling({**PAY, **TOLD}, id=1) as one,
        here.calling({**PAY, **TOLD}, id=2) as other,
    ):
        await one.next()
        await other.next()
        assert await here.says({"method": "notifications/cancelled", "params": {"requestId": 1}}) == 202
        await here.desk.answer(await here.desk.waiting())
        assert "error" in (await one.rest())[-1]
        assert "result" in (await other.rest())[-1]
        assert len(here.way.received("tools/call")) == 1


@pytest.mark.holds("gateway/admission/held_answer", "disconnect")
async def test_a_host_that_has_gone_gets_no_call_made_behind_its_back__and_the_next_try_passes(
    front: FrontDoor, tmp_path: Path
) -> None:
    log = tmp_path / "log.db"
    async with world("http-legacy", front, tmp_path, records=records_at(log)) as here:
        async with here.calling({**PAY, **TOLD}) as stream:
            await stream.next()
            held = await here.desk.waiting()
        await until(lambda: bool(records_of(log)))
        await here.desk.answer(held)
        assert len(records_of(log)) == 1, "no call was made"
        answer = await here.way.send(post(Era.LEGACY, "tools/call", PAY), token=here.visit.token)
        assert messages_of(answer)[-1]["result"]["content"]
    (refused, allowed, _) = records_of(log)
    assert refused.decision is not None
    assert refused.decision.verdict == "deny", "who goes away leaves a record as ever"
    assert allowed.decision is not None
    assert allowed.decision.verdict == "allow"
