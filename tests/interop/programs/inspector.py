"""`inspector.py NODE LAUNCHER PLAN`: MCP Inspector's command line as a client; each step is a run of it.

A server's command stands on its command line, and it drops the `--` of what it starts. I/O: processes.
"""

import asyncio
import json
import os
import signal
import sys
import tempfile
from typing import Any

from player import STEP_SECONDS, Heard, Player, play, read_plan, run

PATIENT = ("--connect-timeout", str(round(STEP_SECONDS * 1000)))
"""Its own 15 seconds are too few for a server that starts on a busy machine."""
COMPILED = f"{tempfile.gettempdir()}/accredit-interop-compiled"


class Inspected(Exception):
    """The Inspector ended with an error; what it said of it."""


class Inspector(Player):
    """Its `--cli`."""

    deaf_to = frozenset({"elicitation", "log", "progress", "sampling", "updated"})
    try_seconds = STEP_SECONDS * 0.75
    start: list[str]

    async def ask(self, method: str, *options: str) -> Any:
        process = await asyncio.create_subprocess_exec(
            *self.start, *PATIENT, "--method", method, *options,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "NODE_COMPILE_CACHE": COMPILED}, start_new_session=True,
        )  # fmt: skip
        try:
            printed, said = await process.communicate()
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)  # what it has started, too
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
    player = Inspector(Heard())
    player.start = [node, launcher, "--cli", *(endpoint.get("command") or [endpoint["url"]])]
    await play(player, steps)


if __name__ == "__main__":
    run(main())
