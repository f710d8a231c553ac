"""Connections that don't finish their TLS handshake, before the listener that accepts them. Sockets on 127.0.0.0/8."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import cast

import pytest
from tests.world.certificates import write_certificate

from accredit.app import handshakes
from accredit.app.handshakes import TlsListener
from accredit.app.listener import open_listener

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Greeting(asyncio.Protocol):
    """Says hello to who has finished the handshake."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).write(b"hello")  # uvloop's is none of asyncio's classes


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("tls")
    write_certificate(found)
    return found


class Here:
    """A listener, and those who connect to it."""

    def __init__(self, folder: Path, stack: contextlib.AsyncExitStack) -> None:
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        self.trusting = ssl.create_default_context(cafile=str(folder / "cert.pem"))
        self._socket = open_listener("127.0.0.1", 0)
        self._stack = stack
        self.listener = TlsListener(self._socket, server, Greeting)

    async def connect(self, address: str = "127.0.0.1", *, tls: bool = False) -> Stream:
        """One more, who says nothing by itself."""
        found = await asyncio.open_connection(
            *self._socket.getsockname(), local_addr=(address, 0), ssl=self.trusting if tls else None
        )
        self._stack.callback(found[1].close)
        return found

    async def close(self) -> None:
        self.listener.close()
        await self.listener.wait_closed()
        self._socket.close()


@contextlib.asynccontextmanager
async def here(folder: Path) -> AsyncGenerator[Here]:
    async with contextlib.AsyncExitStack() as stack, asyncio.timeout(30):
        found = Here(folder, stack)
        stack.push_async_callback(found.close)
        yield found


async def test_a_handshake_that_is_never_finished_ends_in_its_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshakes, "TLS_HANDSHAKE_SECONDS", 0.05)

    async with here(folder) as world:
        for said in (b"", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n"):
            reader, writer = await world.connect()
            writer.write(said)
            with contextlib.suppress(ConnectionError):
                assert b"hello" not in await reader.read()


async def test_who_begins_many_handshakes_makes_room_himself__and_nobody_of_another_address_is_cut_off(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshakes, "client_handshakes", lambda: 3)

    async with here(folder) as world:
        slow = await world.connect("127.0.0.2")
        crowd = [await world.connect() for _ in range(9)]
        for reader, _ in crowd[:-2]:
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        await slow[1].start_tls(world.trusting, server_hostname="127.0.0.1")
        assert await slow[0].readexactly(5) == b"hello"
        reader, _ = await world.connect(tls=True)
        assert await reader.readexactly(5) == b"hello"


async def test_what_is_no_connection_yet_does_not_hold_up_the_end(folder: Path) -> None:
    async with here(folder) as world:
        silent = await world.connect()
        greeted = await world.connect(tls=True)
        assert await greeted[0].readexactly(5) == b"hello"
        world.listener.close()
        await world.listener.wait_closed()
        with contextlib.suppress(ConnectionError):
            assert await silent[0].read() == b""
