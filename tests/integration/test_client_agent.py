"""An agent's program: `AccreditedClient` against a gateway that wants proofs, over every transport that it takes."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError, StdioServerParameters
from mcp.server.mcpserver import Context, MCPServer
from tests.world.agents import MAIL_SERVER, AgentFiles, agent_files
from tests.world.authorization import GATEWAY, Trust
from tests.world.calls import http
from tests.world.command import environment
from tests.world.raw_server import Connection, RawServer
from tests.world.running import RunningGateway
from tests.world.sdk import text_of
from tests.world.warm import python

from accredit.client import AccreditedClient, ProofPresenter
from accredit.errors import ProofRefused
from accredit.gateway import create_app
from accredit.gateway.settings import StdioUpstream
from accredit.policy.catalog import Catalog, Entry
from accredit.stores import MemoryStore, RevocationLists

pytestmark = pytest.mark.holds("client/session")

MODES = ["legacy", "auto"]
CATALOG = Catalog(
    tools={
        "list_inbox": Entry(scope="email:read"),
        "send_email": Entry(scope="email:send", accepts=("comms:email:send",), marked_sensitive=True),
        "search": Entry(scope="payments:send"),
    },
    resource_prefixes={"mail://": Entry(scope="email:read")},
)


@pytest.fixture
def files(trust: Trust, tmp_path: Path) -> AgentFiles:
    return agent_files(tmp_path, trust, "email:read", "email:send", "mcp:prompt")


def presenter(files: AgentFiles, **options: Any) -> ProofPresenter:
    return ProofPresenter(files.key, [files.delegation], **options)


@asynccontextmanager
async def gateway(trust: Trust, **policy: Any) -> AsyncGenerator[str]:
    """The URL of a gateway in front of the mail server."""
    upstream = StdioUpstream((python(), str(MAIL_SERVER)))
    settings = trust.settings(upstream, policy={"catalog": CATALOG, "binding_required": True} | policy)
    app = create_app(settings, store=MemoryStore(), revocations=RevocationLists((), {}))
    async with RunningGateway(app) as running:
        yield running.url


@pytest.mark.parametrize("mode", MODES)
async def test_an_agent_sees_and_calls_what_it_may(mode: str, trust: Trust, files: AgentFiles) -> None:
    async with gateway(trust) as url, AccreditedClient(url, presenter=presenter(files), mode=mode) as client:
        assert client.protocol_version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
        for _ in range(2):  # the second list comes with a proof
            assert [tool.name for tool in (await client.list_tools()).tools] == ["list_inbox", "send_email"]
        assert "ada@example.org" in text_of(await client.call_tool("list_inbox"))
        assert text_of(await client.call_tool("send_email", {"to": "a", "subject": "b"})) == "sent to a: b"
        assert (await client.list_resources()).resources[0].uri == "mail://inbox/first"
        assert (await client.read_resource("mail://inbox/first")).contents
        assert (await client.list_resource_templates()).resource_templates == []
        assert (await client.list_prompts()).prompts == []


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
async def test_a_refusal_has_a_type(mode: str, trust: Trust, files: AgentFiles) -> None:
    async with gateway(trust) as url, AccreditedClient(url, presenter=presenter(files), mode=mode) as client:
        with pytest.raises(ProofRefused, match="search needs payments:send") as caught:
            await client.call_tool("search", {"word": "bug"})
        assert (caught.value.code, caught.value.error) == (-31003, "ratify_scope_denied")
        assert caught.value.data["granted_scope"] == ["email:read", "email:send", "mcp:prompt"]
        with pytest.raises(ProofRefused) as caught:
            await client.call_tool("nobody")
        assert caught.value.error == "unknown_tool"
        with pytest.raises(MCPError) as other:  # allowed, but there is no such prompt
            await client.get_prompt("nobody")
        assert not isinstance(other.value, ProofRefused)


@pytest.mark.parametrize("mode", MODES)
async def test_calls_at_the_same_time_have_proofs_of_their_own(mode: str, trust: Trust, files: AgentFiles) -> None:
    async with gateway(trust) as url, AccreditedClient(url, presenter=presenter(files), mode=mode) as client:
        calls = [client.call_tool("send_email", {"to": str(n), "subject": "x"}) for n in range(12)]
        assert [text_of(done) for done in await asyncio.gather(*calls)] == [f"sent to {n}: x" for n in range(12)]


async def test_the_gateways_id_is_remembered_between_two_programs__and_another_is_refused(
    trust: Trust, files: AgentFiles
) -> None:
    async with gateway(trust) as url:
        async with AccreditedClient(url, presenter=presenter(files)) as client:
            await client.call_tool("list_inbox")
        assert GATEWAY in files.known_gateways.read_text("utf-8")
        text = files.known_gateways.read_text("utf-8").replace(GATEWAY, "another")
        files.known_gateways.write_text(text, "utf-8")
        async with AccreditedClient(url, presenter=presenter(files)) as client:
            with pytest.raises(ProofRefused, match=f"was another, and now says that it is {GATEWAY}"):
                await client.call_tool("send_email", {"to": "a", "subject": "b"})
        named = presenter(files, gateway_id=GATEWAY)
        async with AccreditedClient(url, presenter=named) as client:
            assert not (await client.call_tool("list_inbox")).is_error


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
async def test_a_stdio_server_behind_the_gate_is_called_with_proofs(mode: str, files: AgentFiles) -> None:
    command = StdioServerParameters(
        command=python(),
        args=["-m", "accredit", "wrap", "--log-level", "error"],
        env=environment(),
        cwd=files.folder,
    )
    async with AccreditedClient(command, presenter=presenter(files), mode=mode, known_as="mail") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["list_inbox", "send_email"]
        assert text_of(await client.call_tool("send_email", {"to": "a", "subject": "b"})) == "sent to a: b"
        with pytest.raises(ProofRefused):
            await client.call_tool("search", {"word": "bug"})


# --- servers that ask for nothing -------------------------------------------------------------------


def plain_server() -> MCPServer:
    server = MCPServer("plain")

    @server.tool()
    def saw(context: Context) -> list[str]:
        """The members of the call's metadata."""
        meta = context.request_context.meta or {}
        return sorted(str(name) for name in meta)

    @server.tool()
    async def work(context: Context) -> str:
        """Tells its progress."""
        await context.report_progress(1, 2)
        return "done"

    @server.prompt()
    def hello() -> str:
        return "Say hello."

    return server


@pytest.mark.parametrize("mode", MODES)
async def test_a_server_in_this_process_that_wants_no_proof_gets_none(mode: str, files: AgentFiles) -> None:
    seen: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async with AccreditedClient(plain_server(), presenter=presenter(files), mode=mode) as client:
        assert len((await client.list_tools()).tools) == 2
        assert "ratify_proof" not in text_of(await client.call_tool("saw"))
        assert text_of(await client.call_tool("work", progress=on_progress)) == "done"
        assert seen == [1]
        assert (await client.get_prompt("hello")).messages


async def test_a_token_travels_in_the_header_over_http_and_in_messages_otherwise() -> None:
    async with AccreditedClient(plain_server(), token="marked-secret") as client:
        assert "token" in text_of(await client.call_tool("saw"))

    async def serve(connection: Connection) -> None:
        request = await connection.request()
        assert request is not None
        assert request.header("authorization") == "Bearer marked-secret"
        assert b"marked-secret" not in request.body
        await connection.send(http(b"", None, status="500 No", headers=(("Connection", "close"),)))

    async with RawServer(serve) as server:
        with pytest.raises(MCPError) as caught:
            async with AccreditedClient(server.url, token="marked-secret", mode="legacy"):
                pass
        assert "marked-secret" not in str(caught.value)
        assert server.accepted


async def test_a_gateway_that_asks_for_a_token_says_so_at_once() -> None:
    async def serve(connection: Connection) -> None:
        await connection.request()
        headers = (("Connection", "close"), ("WWW-Authenticate", 'Bearer resource_metadata="http://x/"'))
        await connection.send(http(b"", None, status="401 Unauthorized", headers=headers))

    async with RawServer(serve) as server:
        with pytest.raises(ProofRefused, match="missing_token"):
            async with AccreditedClient(server.url):
                pass


@pytest.mark.parametrize("mode", MODES)
async def test_what_a_program_raises_comes_out_as_it_is(mode: str, trust: Trust, files: AgentFiles) -> None:
    async def program(url: str) -> None:
        async with AccreditedClient(url, presenter=presenter(files), mode=mode) as client:
            await client.list_tools()
            raise ZeroDivisionError

    async with gateway(trust) as url:
        with pytest.raises(ZeroDivisionError):
            await program(url)
