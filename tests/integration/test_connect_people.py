"""What a person is told who starts `accredit connect` by hand, or whose gateway's certificate is not trusted."""

import asyncio
import json
import os
import pty
import ssl
import subprocess
from pathlib import Path

import pytest
from tests.world.calls import compact, http, meta
from tests.world.certificates import write_certificate
from tests.world.command import COMMAND, environment, wait_until
from tests.world.connected import Connected
from tests.world.raw_server import PATIENCE, Connection, RawServer

pytestmark = pytest.mark.slow


def test_on_a_terminal_it_says_what_it_waits_for__and_nothing_on_stdout(tmp_path: Path) -> None:
    ours, its = pty.openpty()
    said, written = tmp_path / "stderr", tmp_path / "stdout"
    command = [*COMMAND, "connect", "http://user:s3cr3t@127.0.0.1:1/mcp?key=s3cr3t"]
    with said.open("wb") as stderr, written.open("wb") as stdout:
        process = subprocess.Popen(command, stdin=its, stdout=stdout, stderr=stderr, env=environment(), cwd=tmp_path)
    try:
        wait_until(lambda: "waiting on stdin for a host" in said.read_text("utf-8"))
        assert "http://127.0.0.1:1/mcp" in said.read_text("utf-8")
        assert "s3cr3t" not in said.read_text("utf-8")
        assert written.read_bytes() == b""
    finally:
        process.kill()
        process.wait(PATIENCE)
        os.close(ours)
        os.close(its)


async def test_a_certificate_that_is_not_trusted_is_named__and_what_is_advised_helps(tmp_path: Path) -> None:
    write_certificate(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")

    async def serve(connection: Connection) -> None:
        if (request := await connection.request()) is not None:
            id = json.loads(request.body)["id"]
            await connection.send(http(compact({"jsonrpc": "2.0", "id": id, "result": {"tools": []}})))

    async with RawServer(serve, tls=tls) as raw:
        with Connected(tmp_path, raw.url) as host:
            told = await asyncio.to_thread(host.ask, "tools/list", {"_meta": meta()})
            assert "certificate that is not trusted here" in told["error"]["data"]
            assert "SSL_CERT_FILE" in told["error"]["data"]
        with Connected(tmp_path, raw.url, SSL_CERT_FILE=str(tmp_path / "cert.pem")) as host:
            told = await asyncio.to_thread(host.ask, "tools/list", {"_meta": meta()})
            assert told["result"] == {"tools": []}
