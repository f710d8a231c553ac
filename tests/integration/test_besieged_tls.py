"""A gateway with TLS, and strangers who connect and don't go on: authorized calls come through all the same."""

import asyncio
import socket
import ssl
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.world.authorization import Trust
from tests.world.besieged import Besieged, Reading
from tests.world.certificates import write_certificate
from tests.world.raw_client import RawClient
from tests.world.raw_server import RawServer

pytestmark = pytest.mark.slow

LIMIT = 64
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
