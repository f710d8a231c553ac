"""A real client of the official SDK, and a balancer that sends each of its requests to another gateway: real processes,
which are killed and get other keys while the session goes on."""

import asyncio
import base64
import contextlib
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from tests.integration.conftest import SdkServer
from tests.world.calls import Posted, initialize, post
from tests.world.command import Serving, accredit
from tests.world.honest_server import HonestServer
from tests.world.raw_client import RawAnswer, RawClient
from tests.world.raw_server import PATIENCE, RawServer
from tests.world.sdk import EVERYTHING, on_elicit

from accredit.client import AccreditedClient
from accredit.jsonrpc.methods import Era

pytestmark = [pytest.mark.slow, pytest.mark.holds("config/store")]

OLD, NEW = b"o" * 32, b"n" * 32
LIST = post(Era.LEGACY, "tools/list", {})
TOKENS = """
[tokens]
mode = "required"
[[tokens.issuers]]
issuer = "accredit"
audience = "mail-gateway"
public_key_file = "tokens.key.pub"
"""


class Balancer:
    """Sends each connection to the next of `ports` that takes it; `served` are those that took one."""

    def __init__(self, ports: list[int]) -> None:
        self.ports = ports
        self.served: list[int] = []

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[str]:
        """The URL of the endpoint."""
        async with await asyncio.start_server(self._serve, "127.0.0.1", 0) as server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(len(self.ports)):
            self.ports.append(port := self.ports.pop(0))
            with contextlib.suppress(OSError):
                answers, requests = await asyncio.open_connection("127.0.0.1", port)
                self.served.append(port)
                await asyncio.gather(_pass(reader, requests), _pass(answers, writer))
                return


async def _pass(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(65_536):
            to.write(data)
            await to.drain()
    to.close()


def configure(folder: Path, upstream: str, *keys: bytes, more: str = "") -> None:
    if keys:
        path = folder / "cluster.keys"
        path.write_bytes(b"".join(base64.b64encode(key) + b"\n" for key in keys))
        path.chmod(0o600)
        more = f'[cluster]\nkeys_file = "cluster.keys"\n{more}'
    (folder / "accredit.toml").write_text(f"[upstream]\n{upstream}\n{more}")


def issued(folder: Path) -> str:
    """A token of a new issuer."""
    assert accredit("token", "keygen", "tokens.key", folder=folder).returncode == 0
    done = accredit(
        "token", "issue", "--key", "tokens.key", "--audience", "mail-gateway", "--agent", "a" * 32, folder=folder
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@asynccontextmanager
async def client_of(url: str, token: str = "", **callbacks: Any) -> AsyncGenerator[Client]:
    """A client that takes another connection for each request."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    limits = httpx2.Limits(max_keepalive_connections=0)
    async with httpx2.AsyncClient(limits=limits, headers=headers, timeout=PATIENCE) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode="legacy", read_timeout_seconds=PATIENCE, **callbacks) as client:
            yield client


@pytest.mark.parametrize("tokens", [False, True], ids=["nobody", "tokens"])
async def test_a_session_outlives_any_of_its_gateways_and_a_change_of_keys(
    tokens: bool, sdk_server: SdkServer, tmp_path: Path
) -> None:
    token = issued(tmp_path) if tokens else ""

    def serving(*keys: bytes) -> Serving:
        configure(tmp_path, f'url = "{sdk_server.url}"', *keys, more=TOKENS if tokens else "")
        return Serving("--workers", "2", folder=tmp_path)

    before = sdk_server.methods().count("initialize")
    with serving(OLD) as first, serving(OLD) as second, serving(OLD, NEW) as third:
        balancer = Balancer([first.port, second.port, third.port])
        async with balancer.running() as url, client_of(url, token, elicitation_callback=on_elicit) as client:
            for _ in range(3):
                assert (await client.call_tool("test_simple_text")).content
                asked = await client.call_tool("test_elicitation", {"message": "who?"})
                assert "action=accept" in str(asked.content)
            assert {*balancer.served} == {first.port, second.port, third.port}
            first.stop(signal.SIGKILL)
            second.stop(signal.SIGKILL)
            with serving(NEW, OLD) as fourth:
                balancer.ports[:] = [third.port, fourth.port]
                for _ in range(4):
                    assert (await client.call_tool("test_simple_text")).content
                assert fourth.port in balancer.served
    assert sdk_server.methods().count("initialize") == before + 1


async def test_a_child_s_session_is_404_at_another_process_of_its_cluster__where_a_client_begins_anew(
    tmp_path: Path,
) -> None:
    command = ", ".join(f'"{part}"' for part in EVERYTHING)
    configure(tmp_path, f"command = [{command}]", OLD)

    with Serving(folder=tmp_path) as first, Serving(folder=tmp_path) as second:
        balancer = Balancer([first.port])
        async with balancer.running() as url:
            async with client_of(url) as official:
                assert (await official.call_tool("test_simple_text")).content
                balancer.ports[:] = [second.port]
                with pytest.raises(MCPError, match="Session not found"):
                    await official.call_tool("test_simple_text")
            balancer.ports[:] = [first.port]
            async with AccreditedClient(url, mode="legacy") as ours:
                assert (await ours.call_tool("test_simple_text")).content
                first.stop(signal.SIGKILL)
                first.wait()
                balancer.ports[:] = [second.port]
                assert (await ours.call_tool("test_simple_text")).content


async def ask(port: int, posted: Posted, *headers: tuple[str, str]) -> RawAnswer:
    async with RawClient(port) as client:
        await client.ask("POST", "/mcp", [*posted.without_header("Mcp-Session-Id").headers, *headers], posted.body)
        return await client.answer()


async def test_workers_without_a_file_share_their_sessions__which_end_with_them(tmp_path: Path) -> None:
    bearer = ("Authorization", f"Bearer {issued(tmp_path)}")

    async with RawServer(HonestServer()) as upstream:
        configure(tmp_path, f'url = "{upstream.url}"', more=TOKENS)
        with Serving("--workers", "2", folder=tmp_path) as gateway:
            begun = await ask(gateway.port, initialize(), bearer)
            named = ("Mcp-Session-Id", begun.header("mcp-session-id") or "")
            assert named[1].startswith("a1.")
            for _ in range(20):
                assert (await ask(gateway.port, LIST, bearer, named)).status == 200
        with Serving("--workers", "2", folder=tmp_path) as restarted:
            assert (await ask(restarted.port, LIST, bearer, named)).status == 404
