"""The official Python SDK 1.x as a client."""

from contextlib import AsyncExitStack
from typing import Any

import mcp.types as types
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from player import SAID, Heard, Player, form_answer, plain, play, read_plan, run
from pydantic import AnyUrl


class PythonSdk1(Player):
    """Its `ClientSession`."""

    session: ClientSession
    started: Any

    async def do_server(self) -> Any:
        return self.started

    async def do_tools(self) -> Any:
        return (await self.session.list_tools()).tools

    async def do_resources(self) -> Any:
        return (await self.session.list_resources()).resources

    async def do_templates(self) -> Any:
        return (await self.session.list_resource_templates()).resourceTemplates

    async def do_prompts(self) -> Any:
        return (await self.session.list_prompts()).prompts

    async def do_call(self, tool: str, arguments: dict[str, Any]) -> Any:
        return await self.session.call_tool(tool, arguments, progress_callback=self.progressed)

    async def do_read(self, uri: str) -> Any:
        return await self.session.read_resource(AnyUrl(uri))

    async def do_prompt(self, prompt: str, arguments: dict[str, str]) -> Any:
        return await self.session.get_prompt(prompt, arguments)

    async def do_complete(self, ref: dict[str, str], name: str, value: str) -> Any:
        reference = types.PromptReference if ref["type"] == "ref/prompt" else types.ResourceTemplateReference
        return await self.session.complete(reference.model_validate(ref), {"name": name, "value": value})

    async def do_log_level(self, level: Any) -> Any:
        return await self.session.set_logging_level(level)

    async def do_subscribe(self, uri: str) -> Any:
        return await self.session.subscribe_resource(AnyUrl(uri))

    async def do_unsubscribe(self, uri: str) -> Any:
        return await self.session.unsubscribe_resource(AnyUrl(uri))

    async def do_ping(self) -> Any:
        return await self.session.send_ping()

    async def do_task(self, tool: str, arguments: dict[str, Any]) -> Any:
        made = await self.session.experimental.call_tool_as_task(tool, arguments, ttl=60_000)
        seen = [status.status async for status in self.session.experimental.poll_task(made.task.taskId)]
        result = await self.session.experimental.get_task_result(made.task.taskId, types.CallToolResult)
        return {"seen": sorted(set(seen)), "result": plain(result)}

    async def elicited(self, _: Any, params: Any) -> types.ElicitResult:
        self.heard.note("elicitation", plain({"message": params.message, "mode": getattr(params, "mode", None)}))
        schema = getattr(params, "requestedSchema", None)
        return types.ElicitResult(action="accept", content=None if schema is None else form_answer(schema))

    async def sampled(self, _: Any, params: Any) -> types.CreateMessageResult:
        self.heard.note("sampling", plain(params.messages))
        content = types.TextContent(type="text", text=SAID)
        return types.CreateMessageResult(role="assistant", content=content, model="a-model", stopReason="endTurn")

    async def rooted(self, _: Any) -> types.ListRootsResult:
        self.heard.note("roots", {})
        return types.ListRootsResult(roots=[types.Root(uri=self.root, name="here")])

    async def message(self, message: Any) -> None:
        notification = getattr(message, "root", None)
        if isinstance(notification, types.ResourceUpdatedNotification):
            self.heard.note("updated", str(notification.params.uri))

    root: Any = "file:///tmp"


async def main() -> None:
    endpoint, steps = read_plan()
    player = PythonSdk1(Heard())
    player.root = endpoint["root"]
    command = endpoint.get("command")
    async with AsyncExitStack() as stack:
        transport = (
            streamable_http_client(endpoint["url"])
            if command is None
            else stdio_client(StdioServerParameters(command=command[0], args=command[1:]))
        )
        reading, writing = (await stack.enter_async_context(transport))[:2]
        session = ClientSession(
            reading,
            writing,
            elicitation_callback=player.elicited,
            sampling_callback=player.sampled,
            list_roots_callback=player.rooted,
            logging_callback=player.logged,
            message_handler=player.message,
        )
        player.session = await stack.enter_async_context(session)
        player.started = await player.session.initialize()
        await play(player, steps)


if __name__ == "__main__":
    run(main())
