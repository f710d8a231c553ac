"""The upstream client over TLS, under both event loops."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop
from tests.world.certificates import write_certificate
from tests.world.raw_server import Connection, RawServer
from tests.world.upstream_client import client_of, gone

from accredit.errors import UpstreamTimeout, UpstreamUnavailable
from accredit.gateway.upstream.http.client import UpstreamClient

pytestmark = pytest.mark.usefixtures("loop_factory")

HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


@pytest.fixture(params=[ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def tls(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """A server's side for 127.0.0.1, which this process trusts."""
    write_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = context.maximum_version = request.param
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    return context


async def ask(client: UpstreamClient, body: bytes = b"{}") -> bytes:
    answer = await client.send("POST", [], body)
    return await answer.read(10_000_000, timeout=10)


async def hello(connection: Connection) -> None:
    while await connection.request():
        await connection.send(HELLO)


async def test_requests_share_a_connection_whose_certificate_was_checked(tls: ssl.SSLContext) -> None:
    async with client_of(hello, tls=tls) as (client, server):
        assert await client.reachable()
        for _ in range(3):
            assert await ask(client) == b"hello"
        assert (server.accepted, len(server.requests)) == (1, 3)


async def test_a_certificate_that_nobody_vouches_for_is_not_trusted(
    tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")

    async with RawServer(hello, tls=tls) as server:
        client = UpstreamClient(server.url, timeout=10)
        with pytest.raises(UpstreamUnavailable, match="certificate is not trusted"):
            await ask(client)
        assert not await client.reachable()
        await gone(server, client)
        assert not server.requests


async def test_a_certificate_for_another_name_is_not_trusted(tls: ssl.SSLContext) -> None:
    async with RawServer(hello, tls=tls) as server:
        client = UpstreamClient(f"https://localhost:{server.port}/", timeout=10)
        with pytest.raises(UpstreamUnavailable, match="certificate is not trusted"):
            await ask(client)
        await gone(server, client)
        assert not server.requests


async def says_hello_to_anything(connection: Connection) -> None:
    await connection.reader.read(1)
    await connection.send(HELLO)


async def hangs_up(connection: Connection) -> None:
    await connection.reader.read(1)


async def resets(connection: Connection) -> None:
    await connection.reader.read(1)
    connection.reset()


@pytest.mark.parametrize("handler", [says_hello_to_anything, hangs_up, resets])
@pytest.mark.usefixtures("tls")
async def test_a_server_without_tls_is_unavailable(handler: Callable[[Connection], Awaitable[None]]) -> None:
    async with RawServer(handler) as server:
        client = UpstreamClient(f"https://127.0.0.1:{server.port}/", timeout=10)
        with pytest.raises(UpstreamUnavailable, match="TLS handshake"):
            await ask(client)
        await gone(server, client)


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_handshake_that_does_not_end_is_given_up(cancelled: bool) -> None:
    async def silent(connection: Connection) -> None:
        await connection.peer_closed()

    async with RawServer(silent) as server:
        client = UpstreamClient(f"https://127.0.0.1:{server.port}/", timeout=10 if cancelled else 0.1)
        asked = asyncio.create_task(ask(client))
        if cancelled:
            await server.until(lambda server: server.open == 1)
            await asyncio.sleep(0.01)
            asked.cancel()
        with pytest.raises(asyncio.CancelledError if cancelled else UpstreamTimeout):
            await asked
        await gone(server, client)


async def until_close(connection: Connection, read: asyncio.Event, *, truncated: bool) -> None:
    """Sends a body without a length; its end is TCP's alone, which anybody can send, or that of TLS too."""
    await connection.request()
    await connection.send(b"HTTP/1.1 200 OK\r\n\r\nhello")
    await read.wait()
    if truncated:
        connection.writer.transport.abort()


@pytest.mark.parametrize("loop_factory", [uvloop.new_event_loop], ids=["uvloop"])
async def test_an_end_that_tls_does_not_vouch_for_ends_nothing(tls: ssl.SSLContext) -> None:
    # asyncio's own loop does not tell the two ends apart; uvloop, which is what the gateway runs on, does.
    read = asyncio.Event()
    async with client_of(lambda connection: until_close(connection, read, truncated=True), tls=tls) as (client, _):
        answer = await client.send("GET", [])
        assert await answer.chunk(timeout=10) == b"hello"
        read.set()
        with pytest.raises(UpstreamUnavailable, match="cut off"):
            await answer.chunk(timeout=10)


@pytest.mark.parametrize("abrupt", [False, True])
async def test_a_kept_connection_that_the_upstream_closed_is_not_used(tls: ssl.SSLContext, abrupt: bool) -> None:
    async def once(connection: Connection) -> None:
        await connection.request()
        await connection.send(HELLO)
        if abrupt:
            connection.writer.transport.abort()

    async with client_of(once, tls=tls) as (client, server):
        for accepted in (1, 2, 3):
            assert await ask(client) == b"hello"
            await server.until(lambda server: not server.open)
            assert server.accepted == accepted
