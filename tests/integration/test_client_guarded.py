"""A server that judges by itself (`ProofGuard`), and an agent in the same process: no gateway is needed."""

from pathlib import Path

import mcp_types as types
import pytest
from mcp.server.mcpserver import MCPServer
from tests.world.agents import AgentFiles, agent_files
from tests.world.authorization import Trust

from accredit.client import AccreditedClient, ProofPresenter
from accredit.errors import ProofRefused
from accredit.server import ProofGuard, require


@pytest.fixture
def files(tmp_path: Path) -> AgentFiles:
    return agent_files(tmp_path, Trust(), "email:send")


def server(files: AgentFiles) -> MCPServer:
    guard = ProofGuard(roots=[str(files.folder / "owner.key.pub")], gateway_id="mail")
    mail = MCPServer("mail", extensions=[guard])

    @mail.tool()
    @require("email:send", sensitive=True)
    async def send_email(to: str) -> str:
        """Sends."""
        return f"sent to {to}"

    @mail.tool()
    @require("email:read")
    async def list_inbox() -> str:
        """Lists."""
        return "nothing"

    return mail


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_an_agent_proves_itself_to_a_server_without_a_gateway(mode: str, files: AgentFiles) -> None:
    presenter = ProofPresenter(files.key, [files.delegation], gateway_id="mail")
    async with AccreditedClient(server(files), presenter=presenter, mode=mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["send_email"]
        (block,) = (await client.call_tool("send_email", {"to": "ada"})).content
        assert isinstance(block, types.TextContent)
        assert block.text == "sent to ada"
        with pytest.raises(ProofRefused, match="list_inbox needs email:read"):
            await client.call_tool("list_inbox")
