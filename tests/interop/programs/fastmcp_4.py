"""FastMCP 4 as a client."""

from typing import Any

import mcp_types as types
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport
from player import SAID, Heard, Player, form_answer, plain, play, read_plan, run


class FastMcp(Player):
    """Its `Client`. A tool's error is an exception there."""

    deaf_to = frozenset({"updated"})
    client: Client[Any]

    async def do_server(self) -> Any:
        info = plain(self.client.server_info)
        capabilities, revision = self.client.server_capabilities, self.client.protocol_version
        said = self.client.instructions
        return {"revision": revision, "info": info, "capabilities": plain(capabilities), "instructions": said}

    async def do_tools(self) -> Any:
        return await self.client.list_tools()

    async def do_resources(self) -> Any:
        return await self.client.list_resources()

    async def do_templates(self) -> Any:
        return await self.client.list_resource_templates()

    async def do_prompts(self) -> Any:
        return await self.client.list_prompts()

    async def do_call(self, tool: str, arguments: dict[str, Any]) -> Any:
        result = await self.client.call_tool(tool, arguments, progress_handler=self.progressed)
        return {"content": plain(result.content), "structured": plain(result.structured_content)}

    async def do_read(self, uri: str) -> Any:
        return await self.client.read_resource(uri)

    async def do_prompt(self, prompt: str, arguments: dict[str, str]) -> Any:
        return await self.client.get_prompt(prompt, arguments)

    async def do_complete(self, ref: dict[str, str], name: str, value: str) -> Any:
        reference = types.PromptReference if ref["type"] == "ref/prompt" else types.ResourceTemplateReference
        return await self.client.complete(reference.model_validate(ref), {"name": name, "value": value})

    async def do_log_level(self, level: Any) -> Any:
        return await self.client.set_logging_level(level)

    async def do_ping(self) -> Any:
        return await self.client.ping()

    async def elicited(self, message: str, _: Any, params: Any, __: Any) -> Any:
        self.heard.note("elicitation", {"message": message, "mode": getattr(params, "mode", None)})
        schema = getattr(params, "requested_schema", None)
        return ElicitResult(action="accept", content=None if schema is None else form_answer(schema))

    async def sampled(self, messages: Any, _: Any, __: Any) -> str:
        self.heard.note("sampling", plain(messages))
        return SAID

    async def rooted(self, _: Any) -> list[types.Root]:
        self.heard.note("roots", {})
        return [types.Root(uri=self.root, name="here")]

    root = "file:///tmp"


async def main() -> None:
    endpoint, steps = read_plan()
    player = FastMcp(Heard())
    player.root = endpoint["root"]
    command = endpoint.get("command")
    server = endpoint["url"] if command is None else StdioTransport(command=command[0], args=command[1:])
    async with Client(
        server,
        elicitation_handler=player.elicited,
        sampling_handler=player.sampled,
        roots=player.rooted,
        log_handler=player.logged,
    ) as player.client:
        await play(player, steps)


if __name__ == "__main__":
    run(main())
