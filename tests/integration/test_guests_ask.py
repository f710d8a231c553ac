"""Calls of OAuth clients that nobody has signed for: a person is asked, and what they allow is used once."""

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.world.asgi import Told
from tests.world.authorization import Trust
from tests.world.calls import post
from tests.world.front_door import CHALLENGE
from tests.world.guests import CLAUDE, CONNECT, PUBLIC_URL, Desk, FrontDoor, Visit
from tests.world.routes import Route, messages_of

from accredit.consent.asks import Ask
from accredit.gateway.front.door.server import LOOKS
from accredit.oauth.answers import ASKED_PATH, AUTHORIZE_PATH, REGISTER_PATH
from accredit.ratify import HybridPrivateKey
from accredit.ratify.constraints import MaxAmount
from accredit.stores.asks import Asks

pytestmark = pytest.mark.holds("gateway/admission/guest_asks")

PAY: dict[str, Any] = {"name": "pay", "arguments": {"amount": 10, "currency": "EUR"}}
SEND: dict[str, Any] = {"name": "send_email", "arguments": {"to": "a@example.com"}}
PAGES = {"elicitation": {"url": {}}}


@pytest.fixture
def front(trust: Trust) -> FrontDoor:
    return FrontDoor(trust, hold_seconds=1)


def route(name: str, front: FrontDoor, folder: Path, visit: Visit, asks: Asks) -> Route:
    return Route(name, front.trust, folder, oauth=front.settings, door=front.door, token=visit.token, asks=asks)


async def ask(
    way: Route, token: str, params: dict[str, Any], method: str = "tools/call", *, pages: bool = False
) -> dict[str, Any]:
    """A request with a token; gives the response."""
    posted = post(way.era, method, params, capabilities=PAGES if pages else None)
    answer = await way.send(posted, token=token)
    assert answer.status == 200, answer
    return messages_of(answer)[-1]


@pytest.mark.parametrize("name", ["http-legacy", "http-modern"])
@pytest.mark.parametrize("params", [PAY, SEND])
async def test_a_call_is_held_until_a_person_allows_it__and_what_they_allow_is_good_once(
    name: str, params: dict[str, Any], front: FrontDoor, tmp_path: Path
) -> None:
    front.settings = replace_settings(front, hold_seconds=60)
    visit, asks = await front.visit(CLAUDE, "email:read", tools=["list_inbox"]), Asks()
    async with route(name, front, tmp_path, visit, asks) as way:
        desk = Desk(front, asks, way.app)
        calling = asyncio.ensure_future(ask(way, visit.token, params))
        await _until(desk.has_one)
        held = await desk.waiting()
        assert isinstance(held.ask, Ask)
        assert (held.ask.target, held.ask.params, held.ask.agent.name) == (params["name"], params, CLAUDE)
        assert held.ask.principals == (front.trust.owner.id,)
        await desk.answer(held)
        assert (await calling)["result"], "the call that waited has passed"
        assert len(way.received("tools/call")) == 1
        again = asyncio.ensure_future(ask(way, visit.token, params))
        await _until(desk.has_one)
        await desk.answer(await desk.waiting(), "deny")
        assert "the answer was no" in (await again)["error"]["message"]
        assert len(way.received("tools/call")) == 1


@pytest.mark.holds("gateway/front/door/server", "asked")
async def test_the_page_of_a_call_is_there_while_it_waits__and_for_nobody_who_guesses_codes(
    front: FrontDoor, tmp_path: Path
) -> None:
    visit, asks = await front.visit(CLAUDE, "email:read", tools=["list_inbox"]), Asks()
    async with route("http-legacy", front, tmp_path, visit, asks) as way:
        desk = Desk(front, asks, way.app)

        async def look(code: str) -> int:
            told = Told("GET", [(b"host", b"127.0.0.1")], path=f"{ASKED_PATH}{code}")
            await way.app(told.scope, told.receive, told.send)
            return told.status

        await ask(way, visit.token, PAY)
        held = await desk.waiting()
        assert await look(held.ask.code) == 200
        await desk.answer(held, "deny")
        assert await look(held.ask.code) == 404
        await ask(way, visit.token, SEND)
        code = (await desk.waiting()).ask.code
        assert await look(code) == 200
        assert {await look("0000-00") for _ in range(LOOKS)} == {404}
        assert await look(code) == 404


@pytest.mark.holds("gateway/front/door/server", "own-form")
@pytest.mark.parametrize(
    ("url", "name", "end"),
    [("https://mcp.example", "__Host-accredit-consent", "; Secure"), (PUBLIC_URL, "accredit-consent", "")],
)
async def test_over_tls_a_page_s_cookie_is_this_host_s_alone__and_never_in_the_clear(
    url: str, name: str, end: str, trust: Trust, tmp_path: Path
) -> None:
    front = FrontDoor(trust, registration=True)
    front.settings = replace(front.settings, public_url=url)
    async with route("http-modern", front, tmp_path, await front.visit(), Asks()) as way:
        json_type, body = (b"content-type", b"application/json"), json.dumps({"redirect_uris": [CONNECT]}).encode()
        registered = Told("POST", [(b"host", b"127.0.0.1"), json_type], body, path=REGISTER_PATH)
        await way.app(registered.scope, registered.receive, registered.send)
        query = {
            "client_id": json.loads(registered.body)["client_id"],
            "redirect_uri": CONNECT,
            "response_type": "code",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            "resource": f"{url}/mcp",
            "scope": "email:read",
        }
        told = Told("GET", [(b"host", b"127.0.0.1")], path=AUTHORIZE_PATH, query=urlencode(query).encode())
        await way.app(told.scope, told.receive, told.send)
        assert told.status == 200
        cookie = dict(told.headers)[b"set-cookie"].decode()
        assert re.fullmatch(rf"{name}=[A-Za-z0-9_-]{{43}}; Path=/; HttpOnly; SameSite=Lax{end}", cookie)


@pytest.mark.holds("gateway/admission/guest_asks", "held")
async def test_a_host_that_shows_pages_is_told_where_to_go__and_waits_when_it_comes_back(
    front: FrontDoor, tmp_path: Path
) -> None:
    visit, asks = await front.visit(CLAUDE, "email:read"), Asks()
    async with route("http-modern", front, tmp_path, visit, asks) as way:
        desk = Desk(front, asks, way.app)
        first = (await ask(way, visit.token, PAY, pages=True))["result"]
        assert first["resultType"] == "input_required"
        (asked,) = first["inputRequests"].values()
        code = (await desk.waiting()).ask.code
        assert asked["params"]["url"] == f"{PUBLIC_URL}/oauth/asked/{code}"
        assert asked["params"]["mode"] == "url"
        answers = {"inputResponses": {"accredit_ask": {"action": "accept"}}, "requestState": first["requestState"]}
        second = (await ask(way, visit.token, {**PAY, **answers}, pages=True))["result"]
        assert (second["resultType"], second["requestState"]) == ("input_required", first["requestState"])
        assert "inputRequests" not in second
        await desk.answer(await desk.waiting())
        third = await ask(way, visit.token, {**PAY, **answers}, pages=True)
        assert third["result"]["content"], third
        (came,) = way.received("tools/call")
        assert not {"inputResponses", "requestState"} & came["params"].keys()
        other = await ask(way, visit.token, {**SEND, **answers}, pages=True)
        assert other["error"]["code"] == -32602, "the state of another call"


@pytest.mark.holds("gateway/admission/guest_asks", "held")
@pytest.mark.parametrize("name", ["http-legacy"])
async def test_nobody_answers__and_the_model_is_told_a_code_and_what_to_do(
    name: str, front: FrontDoor, tmp_path: Path
) -> None:
    visit, asks = await front.visit(CLAUDE, "email:read"), Asks()
    async with route(name, front, tmp_path, visit, asks) as way:
        refused = (await ask(way, visit.token, PAY))["error"]
        desk = Desk(front, asks, way.app)
        held = await desk.waiting()
        assert (refused["code"], refused["data"]["ask"]) == (-31003, held.ask.code)
        assert f"accredit approve {held.ask.code}" in refused["message"]
        assert f"{PUBLIC_URL}/oauth/asked/" in refused["message"]
        await desk.answer(held)
        assert (await ask(way, visit.token, PAY))["result"], "the same call passes once it is allowed"
        tools = (await ask(way, visit.token, {}, "tools/list"))["result"]["tools"]
        assert "send_email" in [tool["name"] for tool in tools], "who can ask sees what is not covered"


@pytest.mark.holds("gateway/admission/guest_asks", "yes")
@pytest.mark.parametrize("whose", ["issuer", "agent"])
async def test_a_yes_of_a_stranger__or_for_another_key__lets_nothing_pass(
    whose: str, front: FrontDoor, tmp_path: Path
) -> None:
    stranger: Any = front.trust.stranger if whose == "issuer" else HybridPrivateKey(b"1" * 32, b"2" * 32)
    visit, asks = await front.visit(CLAUDE, "email:read"), Asks()
    async with route("http-modern", front, tmp_path, visit, asks) as way:
        desk = Desk(front, asks, way.app)
        assert "error" in await ask(way, visit.token, PAY)
        await desk.answer(await desk.waiting(), **{whose: stranger})
        assert "error" in await ask(way, visit.token, PAY)
        assert way.received("tools/call") == []


@pytest.mark.holds("gateway/admission/guest_asks", "askable")
async def test_a_limit_that_is_reached_is_asked_about__and_a_yes_helps_though_the_standing_word_does_not(
    front: FrontDoor, tmp_path: Path
) -> None:
    visit, asks = await front.visit(constraints=[MaxAmount(max_amount=5, currency="EUR")]), Asks()
    async with route("http-modern", front, tmp_path, visit, asks) as way:
        assert "error" in await ask(way, visit.token, PAY)
        desk = Desk(front, asks, way.app)
        await desk.answer(await desk.waiting())
        assert (await ask(way, visit.token, PAY))["result"]


@pytest.mark.holds("gateway/admission/guest_asks", "askable")
async def test_people_who_log_in_elsewhere_are_not_asked__and_their_client_may_ask_for_the_scope(
    trust: Trust, tmp_path: Path
) -> None:
    front = FrontDoor(trust, consent="idp")
    visit, asks = await front.visit(CLAUDE, "email:read", tools=["list_inbox"]), Asks()
    async with route("http-modern", front, tmp_path, visit, asks) as way:
        answer = await way.send(post(way.era, "tools/call", PAY), token=visit.token)
        challenge = answer.header("www-authenticate") or ""
        assert (answer.status, 'error="insufficient_scope"' in challenge) == (403, True)
        assert 'scope="payments:send"' in challenge
        assert json.loads(answer.body)["error"]["data"]["error"] == "insufficient_scope"
        assert not await Desk(front, asks, way.app).has_one()
        tools = (await ask(way, visit.token, {}, "tools/list"))["result"]["tools"]
        assert [tool["name"] for tool in tools] == ["list_inbox"]


def replace_settings(front: FrontDoor, **changes: Any) -> Any:
    """The front door's settings, changed."""
    return replace(front.settings, **changes)


async def _until(has: Any) -> None:
    while not await has():
        await asyncio.sleep(0.01)
