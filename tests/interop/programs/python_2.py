"""The official Python SDK 2.x as a client of the newest revision that both sides know."""

from typing import Any

import mcp_types as types
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from player import SAID, Heard, Player, form_answer, plain, play, read_plan, run


class PythonSdk2(Player):
    """Its `Client`."""

    client: Client

    async def do_server(self) -> Any:
        info = plain(self.client.server_info)
        capabilities, revision = self.client.server_capabilities, self.client.protocol_version
        said = self.client.instructions
        return {"revision": revision, "info": info, "capabilities": plain(capabilities), "instructions": said}

    async def do_tools(self) -> Any:
        return (await self.client.list_tools(cache_mode="refresh")).tools

    async def do_resources(self) -> Any:
        return (await self.client.list_resources()).resources

    async def do_templates(self) -> Any:
        return (await self.client.list_resource_templates()).resource_templates

    async def do_prompts(self) -> Any:
        return (await self.client.list_prompts()).prompts

    async def do_call(self, tool: str, arguments: dict[str, Any]) -> Any:
        return await self.client.call_tool(tool, arguments, progress_callback=self.progressed)

    async def do_read(self, uri: str) -> Any:
        return await self.client.read_resource(uri, cache_mode="refresh")

    async def do_prompt(self, prompt: str, arguments: dict[str, str]) -> Any:
        return await self.client.get_prompt(prompt, arguments)

    async def do_complete(self, ref: dict[str, str], name: str, value: str) -> Any:
        reference = types.PromptReference if ref["type"] == "ref/prompt" else types.ResourceTemplateReference
        return await self.client.complete(reference.model_validate(ref), {"name": name, "value": value})

    async def do_log_level(self, level: Any) -> Any:
        return await self.client.set_logging_level(level)

    async def do_subscribe(self, uri: str) -> Any:
        return await self.client.subscribe_resource(uri)

    async def do_unsubscribe(self, uri: str) -> Any:
        return await self.client.unsubscribe_resource(uri)

    async def do_ping(self) -> Any:
        return await self.client.send_ping()

    async def elicited(self, _: Any, params: Any) -> types.ElicitResult:
        self.heard.note("elicitation", plain({"message": params.message, "mode": getattr(params, "mode", None)}))
        schema = getattr(params, "requested_schema", None)
        return types.ElicitResult(action="accept", content=None if schema is None else form_answer(schema))

    async def sampled(self, _: Any, params: Any) -> types.CreateMessageResult:
        self.heard.note("sampling", plain(params.messages))
        content = types.TextContent(type="text", text=SAID)
        return types.CreateMessageResult(role="assistant", content=content, model="a-model", stop_reason="endTurn")

    async def rooted(self, _: Any) -> types.ListRootsResult:
        self.heard.note("roots", {})
        return types.ListRootsResult(roots=[types.Root(uri=self.root, name="here")])

    async def message(self, message: Any) -> None:
        method = getattr(message, "method", "")
        if method == "notifications/resources/updated":
            self.heard.note("updated", str(message.params.uri))
        elif method.endswith("/list_changed"):
            self.heard.note("list_changed", method)

    root = "file:///tmp"


async def main(mode: str = "auto") -> None:
    endpoint, steps = read_plan()
    player = PythonSdk2(Heard())
    player.root = endpoint["root"]
    command = endpoint.get("command")
    server = endpoint["url"] if command is None else StdioServerParameters(command=command[0], args=command[1:])
    async with Client(
        server,
        mode=mode,
        log_level="info",
        elicitation_callback=player.elicited,
        sampling_callback=player.sampled,
        list_roots_callback=player.rooted,
        logging_callback=player.logged,
        message_handler=player.message,
    ) as player.client:
        await play(player, steps)


if __name__ == "__main__":
    run(main())
