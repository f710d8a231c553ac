"""Key sets over real sockets: when they are fetched, when not, and what is used meanwhile."""

import asyncio
import contextlib
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.world.certificates import write_certificate
from tests.world.issuer import IssuerKey, RunningIssuer, answer, key_set_text
from tests.world.raw_server import PATIENCE, Connection, Handler, RawServer, until
from tests.world.running import run
from tests.world.virtual_time import Clock

from accredit.errors import ConfigurationError, KeySetError, KeysUnavailable
from accredit.limits import MAX_INTERIM_ANSWERS
from accredit.net import IssuerKeys
from accredit.net.fetch import (
    MAX_KEYS_REDIRECTS,
    MAX_LOOK_UPS,
    check_url,
    fetch,
    plain_client,
    public_address,
    read_body,
    strangers_address,
    trust,
)
from accredit.net.key_sets import KEYS_FRESH_SECONDS, KEYS_REFETCH_SECONDS, KEYS_RETRY_SECONDS, KEYS_STALE_SECONDS
from accredit.tokens.claims import VerifiedToken
from accredit.tokens.key_sets import read_key_set
from accredit.tokens.verify import Issuer, TokenVerifier

pytestmark = [pytest.mark.holds("net/fetch"), pytest.mark.holds("net/key_sets")]

NAME = "https://issuer.example"


class Running:
    """An issuer, its keys as the gateway sees them, and the gateway's clock."""

    def __init__(self, issuer: RunningIssuer) -> None:
        self.issuer = issuer
        self.clock = Clock()
        self.keys = IssuerKeys({NAME: issuer.jwks_url}, self.clock)

    async def kids(self, kid: str | None = "key-1") -> list[str | None]:
        """The ids of the keys that are given to whoever asks for this one."""
        return [key.kid for key in (await self.keys.keys(NAME, kid)).keys]

    async def refused(self) -> KeysUnavailable:
        """The refusal of whoever asks."""
        with pytest.raises(KeysUnavailable) as refused:
            await self.kids()
        return refused.value


@contextlib.asynccontextmanager
async def running():
    async with RunningIssuer() as issuer:
        found = Running(issuer)
        yield found
        await found.keys.aclose()


async def reset(connection: Connection) -> None:
    """An issuer that is down."""
    await connection.head()
    connection.reset()


def test_a_token_of_a_running_issuer_is_verified_end_to_end() -> None:
    async def main() -> VerifiedToken:
        async with RunningIssuer() as issuer:
            keys = IssuerKeys({issuer.url: issuer.jwks_url})
            verifier = TokenVerifier([Issuer(issuer.url, "gateway")])
            presented = verifier.read(issuer.token(aud="gateway"))
            found = await keys.keys(presented.issuer.issuer, presented.kid)
            token = verifier.verify(presented, found, int(time.time()))
            await keys.aclose()
            return token

    assert run(main()).subject == "agent-7"


@pytest.mark.holds("net/key_sets", "fresh")
async def test_keys_are_fetched_once_and_used_while_they_are_fresh() -> None:
    async with running() as world:
        for _ in range(3):
            assert await world.kids() == ["key-1"]
        world.clock.now += KEYS_FRESH_SECONDS - 1
        assert await world.kids() == ["key-1"]
        assert world.issuer.fetches == 1
        assert world.keys.problem() is None


@pytest.mark.holds("net/key_sets", "fetch")
async def test_no_more_than_one_fetch_at_a_time__a_crowd_must_not_fall_upon_the_issuer() -> None:
    async with running() as world:
        assert await asyncio.gather(*[world.kids() for _ in range(20)]) == [["key-1"]] * 20
        assert world.issuer.fetches == 1


@pytest.mark.holds("net/key_sets", "fetch", "missing-key")
async def test_a_new_key_is_known_at_once__and_invented_ones_ask_once_a_minute() -> None:
    async with running() as world:
        await world.kids()
        world.issuer.rotate()
        assert await world.kids("key-2") == ["key-1", "key-2"]  # the first fetch is no refetch
        world.issuer.rotate()
        assert await world.kids("key-3") == ["key-1", "key-2"]  # a refetch was just now
        assert world.issuer.fetches == 2
        world.clock.now += KEYS_REFETCH_SECONDS
        assert await world.kids("key-3") == ["key-1", "key-2", "key-3"]
        for number in range(20):
            assert await world.kids(f"invented-{number}") == ["key-1", "key-2", "key-3"]
        assert world.issuer.fetches == 3
        world.clock.now += KEYS_REFETCH_SECONDS
        await asyncio.gather(*[world.kids(f"invented-{number}") for number in range(20)])
        assert world.issuer.fetches == 4


async def test_an_invented_key_is_looked_for_in_the_first_set_alone() -> None:
    async with running() as world:
        assert await asyncio.gather(*[world.kids(f"invented-{number}") for number in range(5)]) == [["key-1"]] * 5
        assert world.issuer.fetches == 1


@pytest.mark.holds("net/key_sets", "stale")
async def test_a_key_that_was_taken_back_is_gone_when_the_set_is_no_longer_fresh() -> None:
    async with running() as world:
        await world.kids()
        world.issuer.published = [IssuerKey("key-9")]
        world.clock.now += KEYS_FRESH_SECONDS
        assert await world.kids() == ["key-1"]  # nobody waits for the new set
        await until(lambda: world.issuer.fetches == 2)
        async with asyncio.timeout(PATIENCE):
            while await world.kids("key-9") != ["key-9"]:
                await asyncio.sleep(0.002)


@pytest.mark.holds("net/key_sets", "no-set")
async def test_an_issuer_that_is_down_from_the_start_is_a_503_and_tried_again_soon() -> None:
    async with running() as world:
        world.issuer.jwks = reset
        refused = await world.refused()
        assert refused.retry_after == KEYS_RETRY_SECONDS
        assert world.issuer.jwks_url not in f"{refused} {world.keys.problem()}"
        world.clock.now += KEYS_RETRY_SECONDS - 1.5
        assert (await world.refused()).retry_after == 2
        assert world.issuer.fetches == 1
        assert NAME in (world.keys.problem() or "")
        world.issuer.jwks = None
        world.clock.now += 1.5
        assert await world.kids() == ["key-1"]
        assert world.keys.problem() is None


@pytest.mark.holds("net/key_sets", "stale", "missing-key", "no-set")
async def test_the_last_good_set_serves_for_a_day_while_its_issuer_is_down() -> None:
    async with running() as world:
        await world.kids()
        world.issuer.jwks = reset
        world.clock.now += KEYS_STALE_SECONDS - 1
        assert await world.kids() == ["key-1"]
        assert await world.kids("new") == ["key-1"]  # this one waits for the fetch that fails
        assert world.keys.problem() is not None
        assert world.issuer.fetches == 2
        world.clock.now += 1
        refused = await world.refused()
        assert refused.retry_after >= 1
        world.issuer.jwks = None
        world.clock.now += KEYS_RETRY_SECONDS
        assert await world.kids() == ["key-1"]


@pytest.mark.parametrize("jwks", [answer(b"<html>"), answer(b"{}"), answer(b"", "500 Internal Server Error")])
async def test_an_answer_that_is_no_set_leaves_the_last_good_one_in_force(jwks: Handler) -> None:
    async with running() as world:
        await world.kids()
        world.issuer.jwks = jwks
        world.clock.now += KEYS_FRESH_SECONDS
        assert await world.kids("new") == ["key-1"]
        assert world.keys.problem() is not None


async def test_a_caller_who_goes_away_does_not_end_the_fetch_of_others() -> None:
    async with running() as world:
        go_on = asyncio.Event()

        async def slow(connection: Connection) -> None:
            await connection.request()
            await go_on.wait()
            body = key_set_text(world.issuer.key)
            await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body), body)

        world.issuer.jwks = slow
        callers = [asyncio.create_task(world.kids()) for _ in range(2)]
        await until(lambda: len(world.issuer.requests) == 1)
        callers[0].cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await callers[0]
        go_on.set()
        assert await callers[1] == ["key-1"]
        assert world.issuer.fetches == 1


async def test_a_reload_fetches_what_is_known_anew__and_keeps_it_where_the_issuer_is_down() -> None:
    async with running() as found:
        assert await found.kids() == ["key-1"]
        after = IssuerKeys({NAME: found.issuer.jwks_url}, found.clock, before=found.keys)
        fetched = found.issuer.fetches
        await after.refresh()
        assert found.issuer.fetches == fetched + 1
        found.issuer.jwks = reset
        await after.refresh()
        assert [key.kid for key in (await after.keys(NAME, "key-1")).keys] == ["key-1"]
        assert after.problem() is not None
        other = IssuerKeys({NAME: found.issuer.jwks_url + "?other"}, found.clock, before=found.keys)
        await other.refresh()  # nothing is known from there: nobody waits for it
        await other.aclose()


async def test_closing_ends_a_fetch_under_way() -> None:
    async with running() as world:

        async def silent(connection: Connection) -> None:
            await connection.request()
            await connection.peer_closed()

        world.issuer.jwks = silent
        caller = asyncio.create_task(world.kids())
        await until(lambda: len(world.issuer.requests) == 1)
        await world.keys.aclose()
        with pytest.raises(KeysUnavailable):
            await caller


async def test_keys_from_a_file_are_given_as_they_are() -> None:
    found = read_key_set(key_set_text(IssuerKey("file")))

    keys = IssuerKeys({NAME: found})
    assert await keys.keys(NAME, "other") is found
    assert keys.problem() is None
    await keys.aclose()


@contextlib.asynccontextmanager
async def found():
    """An issuer whose key set nobody has named."""
    async with RunningIssuer() as issuer:
        keys = IssuerKeys({issuer.url: None}, Clock())
        yield issuer, keys
        await keys.aclose()


async def fault_of_found(issuer: RunningIssuer, keys: IssuerKeys) -> str:
    with pytest.raises(KeysUnavailable) as refused:
        await keys.keys(issuer.url, None)
    return str(refused.value)


@pytest.mark.holds("net/key_sets", "found")
@pytest.mark.parametrize("place", ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"])
async def test_keys_that_nobody_named_are_found_where_the_issuer_says(place: str) -> None:
    async with found() as (issuer, keys):
        issuer.places = [place]
        assert [key.kid for key in (await keys.keys(issuer.url, "key-1")).keys] == ["key-1"]
        assert issuer.requests[-1].target == "/jwks.json"
        again = IssuerKeys({issuer.url: None}, before=keys)
        asked = len(issuer.requests)
        assert [key.kid for key in (await again.keys(issuer.url, "key-1")).keys] == ["key-1"]
        assert len(issuer.requests) == asked  # a reload keeps what is known


@pytest.mark.holds("tokens/discovery", "same-issuer")
@pytest.mark.parametrize("name", ["https://issuer.example", "{url}/", "{url}/other", ""])
async def test_metadata_of_another_issuer_is_none__its_keys_would_sign_for_this_one(name: str) -> None:
    async with found() as (issuer, keys):
        issuer.says = {"issuer": name.format(url=issuer.url)}
        assert "another issuer" in await fault_of_found(issuer, keys)
        assert [request.target for request in issuer.requests if request.target == "/jwks.json"] == []


@pytest.mark.holds("net/key_sets", "found")
@pytest.mark.parametrize("target", ["/elsewhere", "https://127.0.0.1:9/keys"])
async def test_no_redirect_is_followed_on_the_way_to_keys_that_are_found(target: str) -> None:
    async with found() as (issuer, keys):
        issuer.jwks = answer(b"", "302 Found", f"Location: {target}")
        assert "redirect" in await fault_of_found(issuer, keys)
        assert {request.target for request in issuer.requests} == set(issuer.places)


@pytest.mark.holds("net/fetch", "public")
@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "10.1.2.3",
        "192.168.1.1",
        "127.0.0.1",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "::1",
        "fe80::1",
        "fd00::1",
        "::ffff:10.0.0.1",
        "2002:a00:1::",
        "64:ff9b::a00:1",
        "localhost",
    ],
)
async def test_metadata_does_not_lead_into_the_network_behind_the_gateway(address: str) -> None:
    with pytest.raises(KeySetError, match="not public"):
        await public_address(address, 443)
    for public in ("8.8.8.8", "2001:4860:4860::8888"):
        assert await public_address(public, 443) == public


@pytest.mark.holds("net/fetch", "public")
async def test_names_that_a_stranger_chose__whose_name_server_is_silent__delay_no_other_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor do they keep people from logging in at an identity provider, or keys from being found: many providers' token
    endpoint, or key set, is at another host than their issuer."""
    over, own = threading.Event(), set[str]()

    def silent(host: str, *_args: object, **_named: object) -> list[Any]:
        own.add(threading.current_thread().name.partition("_")[0])
        if host == "token.example":
            return [(0, 0, 0, "", ("8.8.8.8", 443))]
        over.wait(PATIENCE)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", silent)
    asked = [asyncio.create_task(strangers_address("slow.example", 443)) for _ in range(64)]
    try:
        await asyncio.sleep(0)
        assert await public_address("token.example", 443) == "8.8.8.8"
        assert await asyncio.wait_for(asyncio.to_thread(lambda: 1), PATIENCE / 2) == 1
    finally:
        over.set()
        found = await asyncio.gather(*asked, return_exceptions=True)
    assert own == {"accredit-look-up"}
    assert sum("too many" in str(each) for each in found) == 64 - MAX_LOOK_UPS


@pytest.mark.holds("net/fetch", "public")
async def test_where_no_thread_starts_nothing_is_looked_up__and_the_room_for_it_is_free_again() -> None:
    def no_thread(_self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        for _ in range(MAX_LOOK_UPS + 1):
            with pytest.raises(KeySetError, match="no thread"):
                await public_address("8.8.8.8", 443)
    assert await public_address("8.8.8.8", 443) == "8.8.8.8"


@pytest.mark.holds("net/fetch", "public")
@pytest.mark.parametrize("name", ["https://169.254.169.254/keys", "https://[fd00::1]/keys", "https://10.0.0.1/keys"])
async def test_a_key_set_elsewhere_is_at_a_public_address(name: str) -> None:
    async with found() as (issuer, keys):
        issuer.says = {"jwks_uri": name}
        assert "not public" in await fault_of_found(issuer, keys)


@pytest.mark.holds("net/fetch", "public")
async def test_the_address_that_was_checked_is_the_one_that_is_asked__a_name_may_lead_elsewhere_the_second_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_certificate(tmp_path, host="keys.example")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    trusting = ssl.create_default_context(cafile=tmp_path / "cert.pem")
    monkeypatch.setattr("accredit.net.fetch.trust", lambda: trusting)
    looked_up: list[tuple[str, int]] = []

    async def resolve(host: str, port: int) -> str:
        looked_up.append((host, port))
        return "127.0.0.1"

    async with RawServer(answer(b"{}"), tls=tls) as server:
        url = f"https://keys.example:{server.port}/keys"  # no resolver knows this name
        assert await fetch(url, max_bytes=10, timeout=PATIENCE, redirects=0, resolve=resolve) == b"{}"
        assert looked_up == [("keys.example", server.port)]
        assert server.requests[0].header("host") == f"keys.example:{server.port}"
        other = f"https://other.example:{server.port}/keys"
        with pytest.raises(KeySetError, match="certificate"):
            await fetch(other, max_bytes=10, timeout=PATIENCE, redirects=0, resolve=resolve)


@pytest.mark.holds("net/fetch", "https")
@pytest.mark.parametrize(
    "url",
    [
        "http://issuer.example/jwks.json",
        "http://127.0.0.1.example/jwks.json",
        "http://10.0.0.1/jwks.json",
        "ftp://127.0.0.1/jwks.json",
        "https://user:password@issuer.example/jwks.json",
        "https:///jwks.json",
        "/jwks.json",
        "https://[::1/jwks.json",
        "",
    ],
)
def test_keys_do_not_come_in_the_clear(url: str) -> None:
    with pytest.raises(ConfigurationError, match="jwks_url"):
        IssuerKeys({NAME: url})


@pytest.mark.parametrize(
    "url",
    ["https://issuer.example/jwks.json", "http://127.0.0.1:9/a", "http://localhost:9/a", "http://[::1]:9/a"],
)
def test_loopback_is_not_the_network(url: str) -> None:
    check_url("key", url)


def fetched(handler: Handler, *, timeout: float = PATIENCE, max_bytes: int = 1_000) -> bytes:
    async def main() -> bytes:
        async with RawServer(handler) as server:
            return await fetch(server.url, max_bytes=max_bytes, timeout=timeout)

    return run(main())


def fault_of(handler: Handler, *, timeout: float = PATIENCE) -> str:
    with pytest.raises(KeySetError) as refused:
        fetched(handler, timeout=timeout)
    return str(refused.value)


def test_a_document_is_asked_for_plainly() -> None:
    async def serve(connection: Connection) -> None:
        request = await connection.request()
        assert request is not None
        assert request.method == "GET"
        assert request.header("accept-encoding") == "identity"
        assert request.header("authorization") is None
        assert request.header("cookie") is None
        await connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")

    assert fetched(serve) == b"{}"


@pytest.mark.holds("net/fetch", "response")
@pytest.mark.parametrize("size", [1_000, 1_001])
def test_a_document_has_a_bound(size: int) -> None:
    handler = answer(b"x" * size)
    if size == 1_000:
        assert len(fetched(handler)) == size
    else:
        assert fault_of(handler) == "more than 1000 bytes"


def test_a_document_without_an_end_is_cut_off() -> None:
    async def serve(connection: Connection) -> None:
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            await connection.send(b"100\r\n" + b"x" * 256 + b"\r\n")

    assert fault_of(serve) == "more than 1000 bytes"


@pytest.mark.holds("net/fetch", "response")
def test_a_document_that_comes_too_slowly_is_given_up() -> None:
    async def serve(connection: Connection) -> None:
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while not connection.reader.at_eof():
                await connection.send(b" ")
                await asyncio.sleep(0.02)

    assert fault_of(serve, timeout=0.2) == "no answer within 0.2 s"


@pytest.mark.holds("net/fetch", "redirects", "response")
@pytest.mark.parametrize(
    ("status", "headers", "fault"),
    [
        ("404 Not Found", (), "status 404"),
        ("204 No Content", (), "status 204"),
        ("302 Found", (), "status 302"),
        ("200 OK", ("Content-Encoding: gzip",), "a Content-Encoding that was not asked for"),
        ("302 Found", ("Location: http://127.0.0.1:1/jwks.json",), "redirected to another origin"),
        ("302 Found", ("Location: https://evil.example/",), "redirected to another origin"),
        ("302 Found", ("Location: //evil.example/",), "redirected to another origin"),
        ("302 Found", ("Location: file:///etc/passwd",), "redirected to another origin"),
        ("302 Found", ("Location: /again",), "too many redirects"),
    ],
)
def test_what_is_no_plain_answer_is_refused(status: str, headers: tuple[str, ...], fault: str) -> None:
    assert fault_of(answer(b"", status, *headers)) == fault


def test_a_redirect_within_the_origin_is_followed() -> None:
    async def serve(connection: Connection) -> None:
        while (request := await connection.request()) is not None:
            step = int(request.target.rpartition("/")[2] or 0) if request.target != "/mcp" else 0
            if step < MAX_KEYS_REDIRECTS:
                await connection.send(f"HTTP/1.1 302 F\r\nLocation: /{step + 1}\r\nContent-Length: 0\r\n\r\n".encode())
            else:
                await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    assert fetched(serve) == b"{}"


async def test_a_certificate_that_nobody_trusts_is_refused(tmp_path: Path) -> None:
    write_certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")

    async with RawServer(answer(b"{}"), tls=tls) as server:
        with pytest.raises(KeySetError, match="ConnectError"):
            await fetch(server.url, max_bytes=1_000, timeout=PATIENCE)


@pytest.mark.holds("net/fetch", "environment")
def test_the_environment_does_not_lead_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert fetched(answer(b"{}")) == b"{}"


@pytest.mark.holds("net/fetch", "environment")
def test_the_environment_gives_nobody_a_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / ".netrc"
    netrc.write_text("default login owner password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HOME", str(tmp_path))
    heard: list[str | None] = []

    async def serve(connection: Connection) -> None:
        request = await connection.request()
        heard.append(request.header("authorization") if request is not None else "no request")
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    assert fetched(serve) == b"{}"
    assert heard == [None]


@pytest.mark.holds("net/fetch", "environment")
def test_the_environment_makes_no_certificate_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    trust.cache_clear()

    async def main() -> None:
        async with RawServer(answer(b"{}"), tls=tls) as server:
            with pytest.raises(KeySetError, match="ConnectError"):
                await fetch(server.url, max_bytes=1_000, timeout=PATIENCE)

    try:
        run(main())
    finally:
        trust.cache_clear()  # what was made with this environment is nobody else's


INTERIM = b"HTTP/1.1 100 \r\n\r\n"
EARLY_HINTS = b"HTTP/1.1 103 Early Hints\n\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.holds("net/fetch", "work")
@pytest.mark.parametrize(
    ("begins", "goes_on", "why"),
    [
        (b"", INTERIM, "too many interim responses"),
        (b"", EARLY_HINTS, "too many interim responses"),
        (b"HTTP/1.1 200 OK\r\n", b"a:b\r\n", "too large heads"),
        (b"HTTP/1.1 100 \r\n" + b"a:b\r\n" * 6_000 + b"\r\nHTTP/1.1 200 OK\r\n", b"a:b\r\n" * 6, "too large heads"),
        (CHUNKED, b"1\r\n \r\n", "too many short pieces"),
        (CHUNKED, b"40;" + b"x" * 9_000 + b"\r\n" + b" " * 64 + b"\r\n", "too long"),
    ],
)
async def test_a_host_that_sends_what_is_free_without_end_takes_no_work_of_the_gateway(
    tmp_path: Path, begins: bytes, goes_on: bytes, why: str
) -> None:
    """The URL may be a stranger's, such as the id of an OAuth client. Each of these responses and pieces takes as much
    work as a whole answer, and meanwhile no call is decided."""

    async def endless(connection: Connection) -> None:
        await connection.head()
        with contextlib.suppress(OSError):
            await connection.send(begins)
            while True:
                await connection.send(goes_on * 100)

    write_certificate(tmp_path)
    own = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    own.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    trusting = ssl.create_default_context(cafile=tmp_path / "cert.pem")
    for tls in (None, own):
        async with RawServer(endless, tls=tls) as server:
            with pytest.raises(KeySetError, match=why):
                await fetch(server.url, max_bytes=1_000_000, timeout=PATIENCE, context=trusting)


@pytest.mark.holds("net/fetch", "work")
@pytest.mark.parametrize("begins", [b"HTTP/1.1 200 OK\r\na:", CHUNKED + b"1;"])
async def test_an_answer_that_comes_byte_by_byte_takes_no_work_of_the_gateway_either(begins: bytes) -> None:
    async def dripping(connection: Connection) -> None:
        await connection.head()
        with contextlib.suppress(OSError):
            await connection.send(begins)
            while True:
                await connection.send(b"x")
                await asyncio.sleep(0)

    async with RawServer(dripping) as server:
        with pytest.raises(KeySetError, match="too many short pieces"):
            await fetch(server.url, max_bytes=1_000, timeout=PATIENCE)


@pytest.mark.holds("net/fetch", "work")
@pytest.mark.parametrize("size", [3, 7, 1_000])
async def test_each_answer_on_a_connection_may_have_interim_responses_before_it__and_text_like_them_in_it(
    size: int,
) -> None:
    """However the network cuts it."""
    whole = b"x\n\n" + INTERIM * 10

    async def answers(connection: Connection) -> None:
        while await connection.request():
            head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(whole)
            text = INTERIM * MAX_INTERIM_ANSWERS + head + whole
            for start in range(0, len(text), size):
                await connection.send(text[start : start + size])

    async with RawServer(answers) as server, plain_client(1_000) as client:
        for _ in range(3):
            async with client.stream("GET", server.url) as response:
                assert await read_body(response, 1_000) == whole
        assert server.accepted == 1


async def test_a_port_that_there_is_none_is_no_answer() -> None:
    with pytest.raises(KeySetError, match="a port that there is none"):
        await fetch("http://127.0.0.1:99999/keys", max_bytes=100, timeout=PATIENCE)
