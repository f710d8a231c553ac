"""`inspector.py NODE LAUNCHER PLAN`: MCP Inspector's command line as a client; each step is a run of it.

The server is named in a file as hosts have it. I/O: processes.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from player import Heard, Player, play, read_plan, run


class Inspected(Exception):
    """The Inspector ended with an error; what it said of it."""


class Inspector(Player):
    """Its `--cli`."""

    start: list[str]

    async def ask(self, method: str, *options: str) -> Any:
        process = await asyncio.create_subprocess_exec(
            *self.start, "--method", method, *options,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            printed, said = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if printed.strip():
            return json.loads(printed)
        raise Inspected(f"{process.returncode}: {said.decode().strip().splitlines()[-1:]}")

    async def do_tools(self) -> Any:
        return await self.ask("tools/list")

    async def do_resources(self) -> Any:
        return await self.ask("resources/list")

    async def do_templates(self) -> Any:
        return await self.ask("resources/templates/list")

    async def do_prompts(self) -> Any:
        return await self.ask("prompts/list")

    async def do_call(self, tool: str, arguments: dict[str, Any]) -> Any:
        pairs = [part for name, value in arguments.items() for part in ("--tool-arg", f"{name}={json.dumps(value)}")]
        return await self.ask("tools/call", "--tool-name", tool, *pairs)

    async def do_read(self, uri: str) -> Any:
        return await self.ask("resources/read", "--uri", uri)

    async def do_prompt(self, prompt: str, arguments: dict[str, str]) -> Any:
        pairs = [part for name, value in arguments.items() for part in ("--prompt-args", f"{name}={value}")]
        return await self.ask("prompts/get", "--prompt-name", prompt, *pairs)


async def main() -> None:
    node, launcher = sys.argv.pop(1), sys.argv.pop(1)
    endpoint, steps = read_plan()
    command = endpoint.get("command")
    server = {"type": "streamable-http", "url": endpoint["url"]} if command is None else {
        "type": "stdio", "command": command[0], "args": command[1:]}  # fmt: skip
    hosts = Path("inspector.json").absolute()
    hosts.write_text(json.dumps({"mcpServers": {"it": server}}), "utf-8")
    player = Inspector(Heard())
    player.start = [node, launcher, "--cli", "--config", str(hosts), "--server", "it"]
    await play(player, steps)


if __name__ == "__main__":
    run(main())
