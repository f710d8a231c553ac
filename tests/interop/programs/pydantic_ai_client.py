"""pydantic-ai as a client."""

from typing import Any

from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport
from player import SAID, Heard, Player, form_answer, plain, play, read_plan, run
from pydantic_ai.mcp import MCPToolset


class PydanticAi(Player):
    """Its `MCPToolset`."""

    deaf_to = frozenset({"updated"})
    toolset: MCPToolset[Any]

    async def do_server(self) -> Any:
        return {"info": plain(self.toolset.server_info), "instructions": self.toolset.instructions}

    async def do_tools(self) -> Any:
        return await self.toolset.list_tools()

    async def do_call(self, tool: str, arguments: dict[str, Any]) -> Any:
        return plain(await self.toolset.direct_call_tool(tool, arguments))

    async def do_resources(self) -> Any:
        return [vars(each) for each in await self.toolset.list_resources()]

    async def do_templates(self) -> Any:
        return [vars(each) for each in await self.toolset.list_resource_templates()]

    async def do_read(self, uri: str) -> Any:
        return await self.toolset.read_resource(uri)

    async def do_prompts(self) -> Any:
        return [vars(each) for each in await self.toolset.list_prompts()]

    async def do_prompt(self, prompt: str, arguments: dict[str, str]) -> Any:
        return vars(await self.toolset.get_prompt(prompt, arguments))

    async def elicited(self, message: str, _: Any, params: Any, __: Any) -> Any:
        self.heard.note("elicitation", {"message": message, "mode": getattr(params, "mode", None)})
        schema = getattr(params, "requested_schema", None)
        return ElicitResult(action="accept", content=None if schema is None else form_answer(schema))

    async def sampled(self, messages: Any, _: Any, __: Any) -> str:
        self.heard.note("sampling", plain(messages))
        return SAID


async def main() -> None:
    endpoint, steps = read_plan()
    player = PydanticAi(Heard())
    command = endpoint.get("command")
    player.toolset = MCPToolset(
        endpoint["url"] if command is None else StdioTransport(command=command[0], args=command[1:]),
        tool_error_behavior="error",
        elicitation_handler=player.elicited,
        sampling_handler=player.sampled,
        log_handler=player.logged,
        progress_handler=player.progressed,
        roots=[endpoint["root"]],
        init_timeout=60,
        read_timeout=60,
    )
    async with player.toolset:
        await play(player, steps)


if __name__ == "__main__":
    run(main())
