"""A gateway whose file descriptors run out: strangers' connections make room, and what can't be done is refused."""

import asyncio
import os
import resource
import socket
import ssl
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.world.authorization import Trust
from tests.world.besieged import Besieged, Reading, posting
from tests.world.certificates import write_certificate
from tests.world.raw_client import RawClient
from tests.world.raw_server import RawServer

pytestmark = pytest.mark.slow

LIMIT = 64


@pytest.fixture
def crowd() -> Generator[ExitStack]:
    """Connections that are there until the test's end."""
    with ExitStack() as stack:
        yield stack


async def test_strangers_who_connect_and_say_nothing_or_half_of_it_leave_descriptors_for_calls(
    trust: Trust, tmp_path: Path, crowd: ExitStack
) -> None:
    reading = Reading()
    async with RawServer(reading) as server:
        besieged = Besieged(tmp_path, trust, f'url = "{server.url}"')
        beginning = posting(besieged.call("mail://never"))
        limited = ("prlimit", f"--nofile={LIMIT}:{LIMIT}")
        with await asyncio.to_thread(besieged.serving(within=limited).__enter__) as gateway:
            for said in (b"", b"POST /mcp HTT", beginning):
                for _ in range(2 * LIMIT):
                    stranger = crowd.enter_context(socket.create_connection(("127.0.0.1", gateway.port)))
                    stranger.sendall(said)
                async with RawClient(gateway.port) as client:
                    assert "result" in await besieged.ask(client, f"mail://{len(said)}")
            crowd.close()
            gateway.stop()
            assert await asyncio.to_thread(gateway.wait) == 0
        assert "Traceback" not in gateway.stderr
    assert set(besieged.answered) == set(besieged.check(reading.called))


@pytest.mark.parametrize("room", [1, 4, 8])
async def test_where_no_file_can_be_opened_for_a_call_it_is_refused_cleanly__and_the_gateway_lives(
    room: int, trust: Trust, tmp_path: Path
) -> None:
    """`room` is how many more files it may open than it has when it is idle: one is the client's connection."""

    reading = Reading()
    async with RawServer(reading) as server:
        besieged = Besieged(tmp_path, trust, f'url = "{server.url}"')
        with await asyncio.to_thread(besieged.serving().__enter__) as gateway:
            limited(gateway.process.pid, len(os.listdir(f"/proc/{gateway.process.pid}/fd")) + room)
            async with RawClient(gateway.port) as client:
                for number in range(3):
                    said = await besieged.ask(client, f"mail://{number}")
                    assert "result" in said or said["error"]["code"] in (-31003, -31006, -32000), said
                limited(gateway.process.pid, LIMIT)
                async with asyncio.timeout(30):
                    while "result" not in await besieged.ask(client, f"mail://after-{len(reading.called)}"):
                        pass
            gateway.stop()
            assert await asyncio.to_thread(gateway.wait) == 0
        assert "Traceback" not in gateway.stderr
    besieged.check(reading.called)


def limited(pid: int, limit: int) -> None:
    """So many files may it have open from now on."""
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, LIMIT))


FILES = 'tls_cert_file = "cert.pem"\ntls_key_file = "key.pem"'


HALF_A_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"


async def test_strangers_who_begin_handshakes_and_finish_none_leave_descriptors_for_calls(tmp_path: Path) -> None:
    reading = Reading()
    write_certificate(tmp_path)
    trusting = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
    async with RawServer(reading) as server:
        besieged = Besieged(tmp_path, Trust(), f'url = "{server.url}"', gateway=FILES)
        limited = ("prlimit", f"--nofile={LIMIT}:{LIMIT}")
        with ExitStack() as crowd, await asyncio.to_thread(besieged.serving(within=limited).__enter__) as gateway:
            for said in (b"", HALF_A_HELLO):
                for _ in range(2 * LIMIT):
                    stranger = crowd.enter_context(socket.create_connection(("127.0.0.1", gateway.port)))
                    stranger.sendall(said)
                async with RawClient(gateway.port, tls=trusting) as client:
                    assert "result" in await besieged.ask(client, f"mail://{len(said)}")
            gateway.stop()
            assert await asyncio.to_thread(gateway.wait) == 0
        assert "Traceback" not in gateway.stderr
    assert set(besieged.answered) == set(besieged.check(reading.called))
