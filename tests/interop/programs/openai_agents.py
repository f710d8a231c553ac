"""The OpenAI Agents SDK as a client."""

from typing import Any

from agents.mcp import MCPServerStdio, MCPServerStreamableHttp
from player import Heard, Player, play, read_plan, run


class OpenAiAgents(Player):
    """Its `MCPServer`."""

    deaf_to = frozenset({"elicitation", "log", "progress", "sampling", "updated"})
    server: MCPServerStdio | MCPServerStreamableHttp

    async def do_tools(self) -> Any:
        return await self.server.list_tools()

    async def do_call(self, tool: str, arguments: dict[str, Any]) -> Any:
        return await self.server.call_tool(tool, arguments)

    async def do_resources(self) -> Any:
        return await self.server.list_resources()

    async def do_templates(self) -> Any:
        return await self.server.list_resource_templates()

    async def do_read(self, uri: str) -> Any:
        return await self.server.read_resource(uri)

    async def do_prompts(self) -> Any:
        return await self.server.list_prompts()

    async def do_prompt(self, prompt: str, arguments: dict[str, str]) -> Any:
        return await self.server.get_prompt(prompt, arguments)


async def main() -> None:
    endpoint, steps = read_plan()
    player = OpenAiAgents(Heard())
    command, patience = endpoint.get("command"), 30
    if command is None:
        server = MCPServerStreamableHttp({"url": endpoint["url"]}, client_session_timeout_seconds=patience)
    else:
        given: Any = {"command": command[0], "args": command[1:]}
        server = MCPServerStdio(given, client_session_timeout_seconds=patience)
    async with server as player.server:
        await play(player, steps)


if __name__ == "__main__":
    run(main())
