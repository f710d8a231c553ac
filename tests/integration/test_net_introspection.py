"""What an issuer says about tokens, over real sockets: when it is asked, when not, and what counts meanwhile."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator

import pytest
from tests.world.issuer import AUDIENCE, SECRET, RunningIssuer, answer_now
from tests.world.raw_server import Connection, Handler, until

from accredit.errors import ConfigurationError, InvalidToken, KeysUnavailable
from accredit.net import IssuerKeys
from accredit.net.introspection import (
    INTROSPECTION_RETRY_SECONDS,
    MAX_INTROSPECTIONS,
    RESERVED_INTROSPECTIONS,
    UNKNOWN_TOKENS,
    UNKNOWN_TOKENS_PER_SECOND,
)
from accredit.tokens.claims import Claims
from accredit.tokens.introspection import INTROSPECTED_SECONDS, Introspection
from accredit.tokens.verify import Issuer

pytestmark = pytest.mark.holds("net/introspection")


class World:
    """An issuer, what the gateway asks it, and the gateway's clock."""

    def __init__(self, issuer: RunningIssuer) -> None:
        self.issuer = issuer
        self.now = 1_000.0
        self.keys = IssuerKeys({issuer.url: None}, lambda: self.now)
        self.asked = Issuer(issuer.url, AUDIENCE, introspection=issuer.introspection)

    @property
    def questions(self) -> int:
        return len(self.issuer.introspected)

    async def claims(self, text: str) -> Claims:
        return await self.keys.introspect(self.asked, text)

    async def refused(self, text: str) -> InvalidToken:
        with pytest.raises(InvalidToken) as refused:
            await self.claims(text)
        return refused.value

    async def unanswered(self, text: str) -> KeysUnavailable:
        with pytest.raises(KeysUnavailable) as refused:
            await self.claims(text)
        return refused.value


@contextlib.asynccontextmanager
async def world() -> AsyncGenerator[World]:
    async with RunningIssuer() as issuer:
        found = World(issuer)
        yield found
        if issuer.held is not None:
            issuer.held.set()
        await found.keys.aclose()


@pytest.mark.holds("net/introspection", "remembered")
async def test_an_answer_counts_for_half_a_minute__and_then_a_token_that_was_revoked_is_refused() -> None:
    async with world() as at:
        token = at.issuer.opaque()
        for _ in range(3):
            assert (await at.claims(token)).sub == "agent-7"
        assert at.issuer.introspected == [{"token": token, "token_type_hint": "access_token"}]
        at.issuer.active.clear()
        at.now += INTROSPECTED_SECONDS - 1
        assert (await at.claims(token)).sub == "agent-7"
        at.now += 1
        assert "not active" in (await at.refused(token)).reason
        assert at.questions == 2


@pytest.mark.holds("net/introspection", "remembered")
async def test_an_answer_never_counts_beyond_the_token_s_own_end() -> None:
    async with world() as at:
        token = at.issuer.opaque(exp=int(time.time()) + 5)
        await at.claims(token)
        at.now += 3
        await at.claims(token)
        assert at.questions == 1
        at.now += 3
        await at.claims(token)
        assert at.questions == 2


@pytest.mark.holds("net/introspection", "remembered")
async def test_a_refusal_is_remembered_too() -> None:
    async with world() as at:
        for _ in range(5):
            await at.refused("invented")
        assert at.questions == 1
        at.now += INTROSPECTED_SECONDS
        await at.refused("invented")
        assert at.questions == 2


@pytest.mark.holds("net/introspection", "one-question")
async def test_a_crowd_with_one_token_is_one_question__and_one_who_leaves_takes_it_from_nobody() -> None:
    async with world() as at:
        at.issuer.held = asyncio.Event()
        token = at.issuer.opaque()
        crowd = [asyncio.create_task(at.claims(token)) for _ in range(20)]
        await until(lambda: at.questions == 1)
        crowd[0].cancel()
        at.issuer.held.set()
        found = await asyncio.gather(*crowd, return_exceptions=True)
        assert [getattr(each, "sub", "") for each in found] == [""] + ["agent-7"] * 19
        assert at.questions == 1


@pytest.mark.holds("net/introspection", "strangers", "bound")
async def test_who_invents_tokens_floods_no_issuer_and_keeps_nobody_out() -> None:
    async with world() as at:
        token = at.issuer.opaque()
        await at.claims(token)
        refused = 0
        for number in range(UNKNOWN_TOKENS + 50):
            try:
                await at.claims(f"invented-{number}")
            except InvalidToken:
                pass
            except KeysUnavailable:
                refused += 1
        assert at.questions == UNKNOWN_TOKENS
        assert refused == 51  # the good token was unknown once
        at.now += INTROSPECTED_SECONDS  # the budget is full again, and used up at once
        for number in range(UNKNOWN_TOKENS):
            await at.refused(f"more-{number}")
        assert (await at.unanswered("one-more")).retry_after >= 1
        assert (await at.claims(token)).sub == "agent-7"
        at.now += 1.1 / UNKNOWN_TOKENS_PER_SECOND
        await at.refused("one-more")


@pytest.mark.holds("net/introspection", "strangers", "bound")
async def test_a_slow_issuer_has_room_for_tokens_that_were_good_before() -> None:
    async with world() as at:
        known = [at.issuer.opaque() for _ in range(RESERVED_INTROSPECTIONS + 1)]
        for token in known:
            await at.claims(token)
        at.now += INTROSPECTED_SECONDS
        asked, at.issuer.held = at.questions, asyncio.Event()
        room = MAX_INTROSPECTIONS - RESERVED_INTROSPECTIONS
        strangers = [asyncio.create_task(at.refused(f"invented-{number}")) for number in range(room)]
        await until(lambda: at.questions == asked + room)
        await at.unanswered("one-more")
        known_ones = [asyncio.create_task(at.claims(token)) for token in known[1:]]
        await until(lambda: at.questions == asked + MAX_INTROSPECTIONS)
        await at.unanswered(known[0])  # more than that are never asked at once
        at.issuer.held.set()
        assert {claims.sub for claims in await asyncio.gather(*known_ones)} == {"agent-7"}
        await asyncio.gather(*strangers)


async def reset(connection: Connection) -> None:
    connection.reset()


JSON = "Content-Type: application/json"


@pytest.mark.holds("net/introspection", "no-answer")
@pytest.mark.parametrize(
    "answers",
    [
        reset,
        answer_now(b"", "500 Down"),
        answer_now(b'{"active": true}'),
        answer_now(b"<html>", "200 OK", JSON),
        answer_now(b"{}", "200 OK", JSON),
        answer_now(b'{"error": "invalid_client"}', "401 Unauthorized", JSON),
        answer_now(b"", "302 Found", "Location: /introspect"),
        answer_now(b" " * 70_000, "200 OK", JSON),
    ],
)
async def test_without_an_answer_no_token_is_good__not_even_one_that_was(
    answers: Handler, caplog: pytest.LogCaptureFixture
) -> None:
    async with world() as at:
        token = at.issuer.opaque()
        await at.claims(token)
        at.now += INTROSPECTED_SECONDS
        at.issuer.introspects = answers
        with caplog.at_level(logging.DEBUG, "accredit"):
            refused = await at.unanswered(token)
        assert refused.retry_after >= 1
        assert "no answer within" not in str(refused), "it was answered"
        assert at.keys.problem() is not None
        shown = f"{refused} {at.keys.problem()} {caplog.text}"
        assert not [secret for secret in (token, SECRET, at.asked.introspection.authorization) if secret in shown]  # type: ignore[union-attr]
        at.issuer.introspects = None
        at.now += INTROSPECTION_RETRY_SECONDS
        assert (await at.claims(token)).sub == "agent-7"
        assert at.keys.problem() is None


@pytest.mark.holds("net/introspection", "no-answer")
async def test_an_issuer_that_does_not_answer_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accredit.net.introspection.INTROSPECTION_SECONDS", 0.1)
    async with world() as at:
        at.issuer.held = asyncio.Event()
        assert "no answer within" in str(await at.unanswered(at.issuer.opaque()))


@pytest.mark.holds("net/introspection", "pause")
async def test_an_issuer_that_is_away_is_left_alone_for_a_moment() -> None:
    async with world() as at:
        gone = Issuer(at.issuer.url, AUDIENCE, introspection=Introspection("http://127.0.0.1:9/", "gw", "secret"))
        with pytest.raises(KeysUnavailable):
            await at.keys.introspect(gone, "one")
        with pytest.raises(KeysUnavailable) as refused:
            await at.keys.introspect(gone, "two")
        assert refused.value.retry_after == INTROSPECTION_RETRY_SECONDS
        token = at.issuer.opaque()
        assert (await at.claims(token)).sub == "agent-7"  # another place is asked at once


async def test_a_reload_keeps_what_is_known__and_another_secret_asks_anew() -> None:
    async with world() as at:
        token = at.issuer.opaque()
        await at.claims(token)
        after = IssuerKeys({at.issuer.url: None}, lambda: at.now, before=at.keys)
        await after.introspect(at.asked, token)
        assert at.questions == 1
        other = Issuer(at.issuer.url, AUDIENCE, introspection=Introspection(at.issuer.introspection.url, "gw", "wrong"))
        with pytest.raises(KeysUnavailable, match="status 401: invalid_client"):
            await after.introspect(other, token)
        await after.aclose()


async def test_closing_ends_the_questions() -> None:
    async with world() as at:
        at.issuer.held = asyncio.Event()
        caller = asyncio.create_task(at.claims(at.issuer.opaque()))
        await until(lambda: at.questions == 1)
        await at.keys.aclose()
        with pytest.raises(KeysUnavailable):
            await caller


async def test_the_secret_does_not_go_out_in_the_clear() -> None:
    keys = IssuerKeys({})
    asked = Issuer("a", "b", introspection=Introspection("http://issuer.example/introspect", "gw", "secret"))
    with pytest.raises(ConfigurationError, match="in the clear"):
        await keys.introspect(asked, "token")
    with pytest.raises(KeysUnavailable):
        await keys.introspect(Issuer("a", "b"), "token")
