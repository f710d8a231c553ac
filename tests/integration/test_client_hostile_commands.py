"""A hostile server against the commands of a client, and against who waits for it: proofs, waits, and what is shown."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.integration.test_client_strangers import ANSWERS, SCOPE, files, gateways, proofs_in, taken_at
from tests.world.agents import AgentFiles
from tests.world.calls import chunk, compact, event, http
from tests.world.command import accredit
from tests.world.connected import Connected
from tests.world.impostor import Impostor
from tests.world.raw_server import PATIENCE, Connection, RawServer

from accredit.client import AccreditedClient
from accredit.client.legs import RoundsCall
from accredit.errors import RequestTimeout, RoundsTimeout

pytestmark = pytest.mark.slow

__all__ = ["files", "gateways"]

RAW = "\x1b]0;evil\x07\x1b[31m\x9b2J\u202ex"
SHOWN = set("\x1b\x07\x9b\u202e")


def by_connect(url: str, files: AgentFiles) -> None:
    options = ("--key", str(files.key), "--delegation", str(files.delegation))
    with Connected(files.folder, url, *options) as host:
        told = host.ask("tools/call", {"name": "weather", "_meta": MODERN})
        assert "error" in told or told["result"]["isError"]


def by_call(url: str, files: AgentFiles) -> None:
    options = ("--key", str(files.key), "--delegation", str(files.delegation))
    assert accredit("call", "weather", "--url", url, *options, folder=files.folder).returncode != 0


MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "host", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.mark.holds("client/pins", "first-use")
@pytest.mark.parametrize("made", [by_connect, by_call])
def test_what_a_hostile_server_at_a_url_gets_of_the_commands_is_good_at_no_real_gateway(
    made: Callable[[str, AgentFiles], None], files: AgentFiles, gateways: dict[str, str]
) -> None:
    with Connected(
        files.folder, gateways["required"], "--key", str(files.key), "--delegation", str(files.delegation)
    ) as host:
        host.initialize()  # so that this gateway is known
        assert "result" in host.ask("tools/call", {"name": "list_inbox"})
    for answer in ANSWERS:
        with Impostor(answer) as impostor:
            made(impostor.url, files)
            assert impostor.bodies
            for proof in proofs_in(impostor.bodies):
                assert taken_at(gateways, proof) == set()


class Endless:
    """A legacy server that never answers a call, and says something again and again meanwhile."""

    async def __call__(self, connection: Connection) -> None:
        while (request := await connection.request()) is not None:
            message = json.loads(request.body) if request.method == "POST" else {}
            if message.get("method") == "initialize":
                said = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {},
                    "serverInfo": {"name": "s", "version": "1"},
                }
                await connection.send(http(compact({"jsonrpc": "2.0", "id": message["id"], "result": said})))
            elif message.get("method") == "tools/call":
                head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                await connection.send(head)
                told = {
                    "jsonrpc": "2.0",
                    "method": "notifications/message",
                    "params": {"level": "info", "data": "x" * 9_000},
                }
                while True:
                    await connection.send(chunk(event(compact(told))))
            else:
                await connection.send(http(b"", status="202 Accepted" if message else "405 No"))


@pytest.mark.holds("client/rounds", "result")
@pytest.mark.parametrize("bound", [RoundsCall(timeout=0.5), RoundsCall(max_total_timeout=0.5)], ids=["leg", "whole"])
async def test_a_server_that_never_stops_talking_keeps_nobody_waiting_past_the_timeout(bound: RoundsCall) -> None:
    async with RawServer(Endless()) as server, AccreditedClient(server.url, mode="legacy") as client:
        with anyio.fail_after(PATIENCE), pytest.raises((RequestTimeout, RoundsTimeout)):
            await client.call_tool("t", **bound)


def says_raw(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a server says that would steer a terminal: in its name, its tools, its answers and its refusals."""
    match asked.get("method"):
        case "initialize":
            info = {"name": RAW, "version": RAW}
            return {"result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}}
        case "tools/list":
            tool = {"name": RAW, "description": RAW, "inputSchema": {"type": "object"}}
            return {"result": {"tools": [tool]}}
        case "tools/call" if asked["params"]["name"] == "answers":
            return {"result": {"content": [{"type": "text", "text": RAW}], "structuredContent": {RAW: RAW}}}
        case "tools/call":
            data = {
                "error": RAW,
                "required_scope": SCOPE,
                "target": RAW,
                "reason": RAW,
                "_meta": {"ratify_verifier": RAW},
            }
            return {"error": {"code": -31003, "message": RAW, "data": data}}
        case _:
            return {"error": {"code": -32601, "message": RAW}}


def test_nothing_raw_of_a_server_goes_to_a_pipe_that_is_escaped_on_a_terminal(tmp_path: Path) -> None:
    with Impostor(says_raw) as server:
        for command in (
            ("call", "answers", "--url", server.url),
            ("call", "refuses", "--url", server.url),
            ("check", server.url),
            ("init", server.url),
        ):
            done = accredit(*command, folder=tmp_path)
            assert not SHOWN & set(done.stdout + done.stderr), command
        with Connected(tmp_path, server.url) as host:
            host.initialize()
            host.ask("tools/call", {"name": "refuses"})
            host.ask("tools/list")
            host.close_input()
            host.rest()
            host.wait()
            assert not SHOWN & set(host.stderr)
            assert not {0x1B, 0x07} & set(host.read)  # JSON escapes them
