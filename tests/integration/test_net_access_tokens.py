"""The gateway's own tokens over real sockets: when they are asked for, when not, and who waits for whom."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from tests.world.issuer import IssuerKey, answer, claims
from tests.world.ports import reserved_port
from tests.world.raw_server import Connection, Handler, RawServer, until
from tests.world.token_server import CLIENT, MAIL, SECRET, TokenServer
from tests.world.virtual_time import Clock

from accredit.errors import AccreditError, ConfigurationError, UpstreamUnavailable
from accredit.net import AccessTokens
from accredit.net.access_tokens import (
    ACCESS_TOKEN_DROP_SECONDS,
    ACCESS_TOKEN_MARGIN_SECONDS,
    ACCESS_TOKEN_RENEW_SECONDS,
    ACCESS_TOKEN_RETRY_SECONDS,
    MAX_ACCESS_TOKEN_SECONDS,
)
from accredit.net.token_endpoint import MAX_TOKEN_ANSWER_BYTES
from accredit.tokens.access import AccessGrant, SubjectToken, subject_key

pytestmark = [pytest.mark.holds("net/access_tokens"), pytest.mark.holds("net/token_endpoint")]

GOOD = b'{"access_token":"abc","token_type":"Bearer","expires_in":600}'
JSON = "Content-Type: application/json"


class World:
    """An authorization server, the tokens that a gateway has of it, and the gateway's clock."""

    def __init__(self, idp: TokenServer, **changes: Any) -> None:
        self.idp = idp
        self.clock = Clock()
        self.tokens = AccessTokens(idp.grant(**changes), self.clock)

    async def text(self, subject: SubjectToken | None = None) -> str:
        """The text of the token that a caller gets."""
        return (await self.tokens.token(subject)).text

    def text_now(self) -> str | None:
        """The text of the gateway's own token, if there is one that is good now."""
        token = self.tokens.known(None)
        return token.text if token is not None else None

    async def refused(self, subject: SubjectToken | None = None) -> str:
        """What a caller is told who gets none."""
        with pytest.raises(UpstreamUnavailable) as refused:
            await self.tokens.token(subject)
        return str(refused.value)


@contextlib.asynccontextmanager
async def world(key: IssuerKey | None = None, **changes: Any) -> AsyncGenerator[World]:
    async with TokenServer(key) as idp:
        found = World(idp, **changes)
        try:
            yield found
        finally:
            await found.tokens.aclose()


def subject(key: IssuerKey, **changes: object) -> SubjectToken:
    text = key.sign(claims("https://issuer.example", 4_000_000_000, **{"iat": None, **changes}))
    return SubjectToken(text, subject_key(text))


@pytest.mark.holds("net/access_tokens", "cache", "request")
async def test_a_token_is_asked_for_once_and_used_until_shortly_before_its_end() -> None:
    async with world() as this:
        first = await this.text()
        assert this.idp.subject_of(first) == CLIENT
        this.clock.now += 600 - ACCESS_TOKEN_RENEW_SECONDS - 1
        assert [await this.text() for _ in range(5)] == [first] * 5
        assert len(this.idp.asked) == 1
        this.clock.now += 2
        assert await this.text() == first  # nobody waits for the next one
        await until(lambda: this.text_now() not in (None, first))
        assert len(this.idp.asked) == 2


@pytest.mark.holds("net/access_tokens", "cache", "failure")
async def test_a_token_at_its_end_is_used_by_nobody__whatever_has_become_of_its_server() -> None:
    async with world() as this:
        first = await this.text()
        this.idp.instead = answer(b"", "503 Service Unavailable")
        this.clock.now += 600 - ACCESS_TOKEN_MARGIN_SECONDS - 1
        assert await this.text() == first
        await until(lambda: len(this.idp.requests) == 2)
        this.clock.now += 1
        await this.refused()


@pytest.mark.parametrize(
    ("told", "good_for"), [(1, 0.9), (100, 90), (None, 54), (10**9, MAX_ACCESS_TOKEN_SECONDS - 10)]
)
async def test_a_token_is_good_for_as_long_as_is_told__within_bounds(told: int | None, good_for: float) -> None:
    async with world() as this:
        this.idp.lifetime = told
        first = await this.text()
        this.idp.held = asyncio.Event()
        this.clock.now += good_for - 0.05
        assert this.text_now() == first
        this.clock.now += 0.1
        assert this.text_now() is None
        this.idp.held.set()
        assert await this.text() != first


@pytest.mark.holds("net/access_tokens", "request")
async def test_all_wait_for_one_request__and_one_who_leaves_takes_it_from_nobody() -> None:
    async with world() as this:
        this.idp.held = asyncio.Event()
        callers = [asyncio.create_task(this.text()) for _ in range(20)]
        await until(lambda: len(this.idp.asked) == 1)
        callers[0].cancel()
        await asyncio.wait([callers[0]])
        this.idp.held.set()
        assert len(set(await asyncio.gather(*callers[1:]))) == 1
        assert len(this.idp.asked) == 1


@pytest.mark.holds("net/access_tokens", "request", "pause")
async def test_a_server_that_is_down_is_not_flooded__and_is_asked_again_soon(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    clock, key = Clock(), IssuerKey()
    with reserved_port() as port:
        down = AccessTokens(AccessGrant("token_exchange", f"http://127.0.0.1:{port}/token", "gw", "s"), clock)
        for number in range(10):
            with pytest.raises(UpstreamUnavailable):
                await down.token(subject(key, sub=str(number)))
    assert sum(record.getMessage() == "no_upstream_token" for record in caplog.records) == 1
    async with world() as this:
        this.idp.instead = answer(b"", "500 Oops")
        for _ in range(10):
            await this.refused()
        assert len(this.idp.requests) == 1
        this.idp.instead = None
        this.clock.now += ACCESS_TOKEN_RETRY_SECONDS
        assert await this.text() == this.idp.given[0]


@pytest.mark.holds("net/access_tokens", "pause")
async def test_a_caller_whose_token_is_refused_takes_nothing_from_others() -> None:
    key, stranger = IssuerKey(), IssuerKey()
    async with world(key, type="token_exchange") as this:
        await this.refused(subject(stranger, sub="mallory"))
        await this.refused(subject(stranger, sub="mallory"))
        assert len(this.idp.asked) == 1
        assert this.idp.subject_of(await this.text(subject(key, sub="alice"))) == "alice"


async def test_each_caller_has_a_token_of_its_own__and_a_renewed_token_of_the_caller_s_the_same() -> None:
    key = IssuerKey()
    async with world(key, type="token_exchange") as this:
        alice, bob = subject(key, sub="alice"), subject(key, sub="bob")
        texts = [await this.text(each) for each in (alice, bob, alice, subject(key, sub="alice", jti="later"))]
        assert [this.idp.subject_of(text) for text in texts] == ["alice", "bob", "alice", "alice"]
        assert len(this.idp.asked) == 2
        assert this.idp.asked[0]["subject_token"] == alice.text
        narrower = await this.text(subject(key, sub="alice", scope="read"))
        assert narrower not in texts


@pytest.mark.holds("net/access_tokens", "rejection")
async def test_a_token_that_the_server_refuses_is_dropped__and_not_again_and_again() -> None:
    async with world() as this:
        first = await this.tokens.token(None)
        this.tokens.refused(None, first)
        second = await this.tokens.token(None)
        assert second.text != first.text
        this.tokens.refused(None, second)
        assert await this.tokens.token(None) is second
        this.clock.now += ACCESS_TOKEN_DROP_SECONDS
        this.tokens.refused(None, first)  # who was slow to say so means the old one
        assert await this.tokens.token(None) is second
        this.tokens.refused(None, second)
        assert (await this.tokens.token(None)).text not in (first.text, second.text)
        assert len(this.idp.asked) == 3


def redirect(connection_to: str) -> Handler:
    return answer(b"", "307 Temporary Redirect", f"Location: {connection_to}")


async def cut_off(connection: Connection) -> None:
    await connection.request()
    await connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n" + GOOD)


async def garbage(connection: Connection) -> None:
    await connection.request()
    await connection.send(f"{SECRET} is what you sent\r\n\r\n".encode())


@pytest.mark.holds("net/token_endpoint", "response", "secrecy")
@pytest.mark.parametrize(
    "handler",
    [
        answer(GOOD, "200 OK", "Content-Type: text/html"),
        answer(GOOD, "200 OK"),
        answer(GOOD, "200 OK", JSON, "Content-Encoding: gzip"),
        answer(GOOD, "201 Created", JSON),
        answer(GOOD, "400 Bad Request", JSON),
        answer(SECRET.encode(), "401 Unauthorized", JSON),
        answer(b'{"error":"' + SECRET.encode() + b'"}', "400 Bad Request", JSON),
        answer(GOOD + b" " * MAX_TOKEN_ANSWER_BYTES, "200 OK", JSON),
        answer(GOOD.replace(b"abc", b"abc\\r\\nX: y"), "200 OK", JSON),
        cut_off,
        garbage,
    ],
)
async def test_no_other_answer_is_a_token__and_none_is_quoted(
    handler: Handler, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    async with world() as this:
        this.idp.instead = handler
        said = await this.refused()
        assert "abc" not in said
        assert SECRET not in said
    logged = repr([vars(record) for record in caplog.records if record.name.startswith("accredit")])
    assert "no_upstream_token" in logged
    for hidden in (SECRET, "abc", "X: y"):
        assert hidden not in logged


@pytest.mark.holds("net/token_endpoint", "redirects")
async def test_a_redirect_is_not_followed__the_secret_would_go_there() -> None:
    async with RawServer(answer(GOOD, "200 OK", JSON)) as elsewhere, world() as this:
        this.idp.instead = redirect(elsewhere.url)
        await this.refused()
        assert elsewhere.requests == []


@pytest.mark.holds("net/token_endpoint", "https")
@pytest.mark.parametrize(
    "url", ["http://idp.example/token", "http://10.0.0.1/t", "https://gw:pw@idp.example/t", "ftp://x"]
)
def test_the_secret_goes_nowhere_in_the_clear(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"auth\.token_url"):
        AccessTokens(AccessGrant("client_credentials", url, "gw", "s"))


@pytest.mark.holds("net/token_endpoint", "environment")
async def test_neither_a_proxy_nor_a_password_of_the_environment_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1\nlogin eve\npassword eve\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))

    async with RawServer(answer(GOOD, "200 OK", JSON)) as proxy, world() as this:
        for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert await this.text() == this.idp.given[0]
        assert proxy.requests == []


async def test_a_gateway_that_stops_waits_for_no_token() -> None:
    async with TokenServer() as idp:
        idp.held = asyncio.Event()
        tokens = AccessTokens(idp.grant())
        waiting = asyncio.create_task(tokens.token(None))
        await until(lambda: len(idp.asked) == 1)
        await tokens.aclose()
        with pytest.raises(AccreditError):
            await waiting


async def test_what_is_asked_for_reaches_the_server_as_it_is_configured() -> None:
    async with world(resource="https://r.example/mcp") as this:
        await this.text()
        assert this.idp.asked == [
            {
                "grant_type": "client_credentials",
                "audience": MAIL,
                "resource": "https://r.example/mcp",
                "scope": "mail:send mail:read",
            }
        ]
