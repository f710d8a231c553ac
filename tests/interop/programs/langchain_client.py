"""LangChain's adapter as a client: tools, resources and prompts as LangChain has them."""

from typing import Any

import mcp.types as types
from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.prompts import load_mcp_prompt
from langchain_mcp_adapters.resources import load_mcp_resources
from langchain_mcp_adapters.tools import load_mcp_tools
from player import Heard, Player, form_answer, plain, play, read_plan, run


class LangChain(Player):
    """A session of its `MultiServerMCPClient`."""

    deaf_to = frozenset({"sampling", "updated"})
    session: Any
    loaded: dict[str, Any]

    async def do_tools(self) -> Any:
        tools = await load_mcp_tools(self.session)
        return [
            {"name": tool.name, "description": tool.description, "schema": plain(tool.args_schema)} for tool in tools
        ]

    async def do_call(self, tool: str, arguments: dict[str, Any]) -> Any:
        if not hasattr(self, "loaded"):
            tools = await load_mcp_tools(self.session, callbacks=self.callbacks)
            self.loaded = {each.name: each for each in tools}
        message = await self.loaded[tool].ainvoke({"type": "tool_call", "id": "1", "name": tool, "args": arguments})
        # its ids of blocks are its own
        blocks = message.content if isinstance(message.content, list) else [message.content]
        content = [{key: value for key, value in block.items() if key != "id"} if isinstance(block, dict) else block
                   for block in blocks]  # fmt: skip
        return {"status": message.status, "content": plain(content), "artifact": plain(message.artifact)}

    async def do_read(self, uri: str) -> Any:
        blobs = await load_mcp_resources(self.session, uris=[uri])
        return [{"type": blob.mimetype, "data": plain(blob.data)} for blob in blobs]

    async def do_prompt(self, prompt: str, arguments: dict[str, str]) -> Any:
        messages = await load_mcp_prompt(self.session, prompt, arguments=arguments)
        return [{"type": message.type, "content": plain(message.content)} for message in messages]

    async def elicited(self, _: Any, params: Any, __: Any) -> types.ElicitResult:
        self.heard.note("elicitation", plain({"message": params.message, "mode": getattr(params, "mode", None)}))
        schema = getattr(params, "requestedSchema", None)
        return types.ElicitResult(action="accept", content=None if schema is None else form_answer(schema))

    @property
    def callbacks(self) -> Callbacks:
        return Callbacks(on_progress=self.progressed, on_logging_message=self.logged, on_elicitation=self.elicited)


async def main() -> None:
    endpoint, steps = read_plan()
    player = LangChain(Heard())
    command = endpoint.get("command")
    connection: Any = (
        {"transport": "streamable_http", "url": endpoint["url"]}
        if command is None
        else {"transport": "stdio", "command": command[0], "args": command[1:]}
    )
    client = MultiServerMCPClient({"it": connection}, callbacks=player.callbacks)
    async with client.session("it") as player.session:
        await play(player, steps)


if __name__ == "__main__":
    run(main())
