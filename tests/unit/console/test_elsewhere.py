"""A desk reaches a gateway elsewhere as it is, over a connection of no network: asks come, answers go back."""

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.world.asgi import Told
from tests.world.asked import NOW, URL, WORLD, a_client_ask, allowed, an_ask, let_in
from tests.world.virtual_time import run_virtually

from accredit.consent.asks import AskedGateway
from accredit.consent.desk_requests import ASKS_PATH
from accredit.console import apps
from accredit.console.book import PendingAsk
from accredit.console.desk import Choice, Desk
from accredit.console.elsewhere import (
    GATEWAY_REST_SECONDS,
    MAX_GATEWAY_ANSWER_BYTES,
    GatewayElsewhere,
    Watch,
    read_address,
    read_addresses,
)
from accredit.console.journal import Journal
from accredit.console.unlock import KeyHolder
from accredit.errors import ConfigurationError, DeskError
from accredit.gateway.front.desk_asks import DeskAsks
from accredit.gateway.holding import HeldAsks
from accredit.rounds import KeyRing
from accredit.stores import MemoryStore
from accredit.stores.asks import Asks
from accredit.stores.door.steps import Door

SIGNER = WORLD.owner.signer()


class Gateway(httpx2.AsyncBaseTransport):
    """A gateway's own answers; `said` stands in their place."""

    def __init__(self, said: httpx2.Response | Exception | None = None) -> None:
        self.holding = HeldAsks(Asks(), KeyRing([bytes(32)]), clock=lambda: NOW)
        self.said = said
        self.requests = 0
        self.door = Door(KeyRing([bytes(32)]))
        self._desks = DeskAsks([WORLD.owner.public_key], URL, self.holding, MemoryStore(), self.door)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        assert str(request.url) == f"{URL}{ASKS_PATH}"
        assert "cookie" not in request.headers
        self.requests += 1
        assert self.requests < 1_000
        if isinstance(self.said, Exception):
            raise self.said
        if self.said is not None:
            return httpx2.Response(
                self.said.status_code, headers=self.said.headers, stream=httpx2.ByteStream(self.said.content)
            )
        told = Told("POST", (), await request.aread())
        await self._desks.serve(told.exchange)
        return httpx2.Response(told.status, stream=httpx2.ByteStream(told.body))

    def reached(self, url: str = URL) -> GatewayElsewhere:
        return GatewayElsewhere(url, WORLD.owner.id, lambda: NOW, self)


async def test_a_call_s_ask_is_fetched_and_answered() -> None:
    gateway, ask = Gateway(), an_ask()
    held = await gateway.holding.hold(ask)
    desk = gateway.reached()
    assert await desk.ask("list", SIGNER, known=()) == {"codes": [ask.code]}
    assert await desk.fetch(ask.code, SIGNER) == ask
    yes = allowed(ask)
    assert await desk.ask("answer", SIGNER, code=ask.code, answer=yes) == {}
    found = await gateway.holding.find(held.row.key)
    assert found is not None
    assert found.answer == yes


async def test_a_client_is_let_in_by_its_code() -> None:
    gateway, ask = Gateway(), a_client_ask()
    held = await gateway.holding.hold(ask)
    desk = gateway.reached()
    assert await desk.fetch(ask.code, SIGNER) == ask
    told = await desk.ask("answer", SIGNER, code=ask.code, answer=let_in(ask))
    assert told == {"digits": held.digits}


async def test_a_code_that_no_gateway_has_is_told_so() -> None:
    with pytest.raises(DeskError, match="no ask"):
        await Gateway().reached().fetch("0000-00", SIGNER)


@pytest.mark.holds("console/elsewhere", "bounds")
@pytest.mark.holds("console/elsewhere", "environment")
@pytest.mark.parametrize(
    "said",
    [
        httpx2.ConnectError("no"),
        httpx2.Response(302, headers={"location": "https://evil.example"}),
        httpx2.Response(500),
        httpx2.Response(200, content=b"{"),
        httpx2.Response(200, content=b"[]"),
        httpx2.Response(200, content=b'{"codes":' + b"[" * 60_000 + b"]" * 60_000 + b"}"),
        httpx2.Response(200, content=b" " * (MAX_GATEWAY_ANSWER_BYTES + 1)),
    ],
)
async def test_whatever_answers_in_a_gateway_s_place_is_one_error(said: Any) -> None:
    with pytest.raises(DeskError, match="does not answer"):
        await Gateway(said).reached().ask("list", SIGNER)


@pytest.mark.holds("console/elsewhere", "as-local")
@pytest.mark.parametrize("shown", [{}, {"ask": None}, {"ask": {}}, {"ask": an_ask().to_dict()}])
async def test_a_gateway_that_shows_another_ask_than_it_was_asked_for_is_not_believed(shown: Mapping[str, Any]) -> None:
    with pytest.raises(DeskError, match="shows"):
        await Gateway(httpx2.Response(200, json=shown)).reached().fetch("0000-00", SIGNER)


@pytest.mark.holds("console/elsewhere", "as-local")
async def test_what_a_gateway_has_us_say_of_its_ask_is_in_quotation_marks_that_it_can_t_end() -> None:
    """On the desk's page a command in backticks is one of ours, but in these."""
    for told in ("`accredit keys show`", "” - see `accredit keys show` “"):
        said = httpx2.Response(200, json={"ask": {"accredit_client_ask": 1, told: 1}})
        with pytest.raises(DeskError) as refused:
            await Gateway(said).reached().fetch("0000-00", SIGNER)
        before, mark, quoted = refused.value.reason.partition("“")
        assert (mark, "`" in before, quoted.find("”"), "accredit keys show" in quoted) == (
            "“",
            False,
            len(quoted) - 1,
            True,
        )


@pytest.mark.holds("console/elsewhere", "as-local")
@pytest.mark.parametrize(
    "ask",
    [
        a_client_ask(gateway=AskedGateway("other", "https://other.example")),
        a_client_ask(endpoint="https://other.example/mcp"),
        a_client_ask(endpoint=f"{URL}.evil.example/mcp"),
    ],
)
async def test_a_gateway_can_t_have_a_person_sign_for_another_one_s_url(ask: Any) -> None:
    said = httpx2.Response(200, json={"ask": ask.to_dict()})
    with pytest.raises(DeskError, match="another gateway"):
        await Gateway(said).reached().fetch(ask.code, SIGNER)


@pytest.mark.holds("console/elsewhere", "address")
@pytest.mark.parametrize(
    "text",
    [
        "http://mcp.example.com",
        "https://",
        "https://a@b",
        "https://a/mcp",
        "https://a?x",
        "ftp://a",
        "https://a:x",
        "a",
    ],
)
def test_a_gateway_elsewhere_is_reached_by_https_at_its_public_url_alone(text: str) -> None:
    with pytest.raises(ConfigurationError):
        read_address(text)


@pytest.mark.holds("console/elsewhere", "address")
def test_a_gateway_is_asked_once_however_often_it_is_named__and_so_many_are() -> None:
    assert read_addresses([URL, f"{URL}/", "http://127.0.0.1:8484"]) == (URL, "http://127.0.0.1:8484")
    with pytest.raises(ConfigurationError):
        read_addresses(f"https://{number}.example" for number in range(17))


@pytest.mark.holds("console/elsewhere", "session")
@pytest.mark.holds("console/elsewhere", "as-local")
async def test_an_ask_that_waits_elsewhere_is_shown_here__and_its_answer_is_brought_back(tmp_path: Path) -> None:
    gateway, ask, client = Gateway(), an_ask(), a_client_ask()
    held = await gateway.holding.hold(ask)
    await gateway.holding.hold(client)
    keys = KeyHolder(WORLD.owner, unlock_seconds=900)
    desk = Desk(WORLD.owner.public(), keys, Journal(tmp_path), lambda: NOW)
    shown: list[PendingAsk] = []
    news = asyncio.Event()

    def show(asked: PendingAsk) -> None:
        shown.append(asked)
        news.set()

    watching = asyncio.create_task(Watch(gateway.reached(), desk, show).run())
    async with asyncio.timeout(60):
        await news.wait()
        assert [each.ask for each in shown] == [ask]  # and no client's: whoever has its code is asked
        await desk.allow(shown[0], shown[0].nonce, Choice("once"))
        found = await gateway.holding.wait(held.row.key, 60)
    assert found is not None
    assert found.chain(NOW)[-1].issuer_id == WORLD.owner.id
    watching.cancel()
    await asyncio.wait([watching])


@pytest.mark.holds("console/apps", "digits")
@pytest.mark.parametrize(
    "digits", ["12345", "1234567", "\u0661\u0662\u0663\u0664\u0665\u0666", "Call0800-555-0100", 123456]
)
async def test_what_is_not_six_digits_is_not_shown_in_their_place(digits: Any) -> None:
    gateway = Gateway(httpx2.Response(200, content=json.dumps({"digits": digits}).encode())).reached()
    ask = a_client_ask()
    (cert,) = let_in(ask).certificates
    with pytest.raises(DeskError, match="did not take the answer"):
        await apps.let_in(gateway, ask, cert, SIGNER)


@pytest.mark.holds("console/elsewhere", "bounds")
def test_a_gateway_that_answers_at_once_has_no_desk_ask_and_sign_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def at_once(work: Callable[..., Any], *given: Any) -> Any:
        return work(*given)  # made-up time does not wait for a thread

    monkeypatch.setattr(asyncio, "to_thread", at_once)
    gateway = Gateway(httpx2.Response(200, content=b'{"codes": []}'))
    desk = Desk(WORLD.owner.public(), KeyHolder(WORLD.owner, unlock_seconds=900), Journal(tmp_path), lambda: NOW)

    async def watch_for(seconds: float) -> None:
        watching = asyncio.create_task(Watch(gateway.reached(), desk, lambda _: None).run())
        await asyncio.wait([watching], timeout=seconds)
        watching.cancel()

    run_virtually(watch_for(60))
    assert 0 < gateway.requests <= 1 + 60 / GATEWAY_REST_SECONDS
