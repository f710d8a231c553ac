"""The story that `accredit demo` tells, with real processes on this machine.

    python examples/story.py [--once]

A sample MCP server and a hostile one, gateways in front of them, keys and delegations, the official SDK's client, and
plain HTTP where the raw answer is the point. What it prints is what was seen.
"""

# ruff: noqa: E402 - what comes first is how the rest is interrupted

import signal
import sys

INTERRUPTED = 130  # as shells have it
signal.signal(signal.SIGINT, lambda _number, _frame: sys.exit(INTERRUPTED))

import argparse
import asyncio
import logging
import tempfile
from collections.abc import Coroutine
from pathlib import Path

from mcp import Client

from stage import YES, Failed, accredit, gateway, say, server
from story_frames import nothing_malformed_passes
from story_proofs import only_who_may, sign
from story_rounds import a_tool_asks_first


async def sound_calls(url: str) -> None:
    """Lists and calls tools in both eras."""
    for mode, era in (("legacy", "sessions"), ("2026-07-28", "stateless")):
        async with Client(url, mode=mode) as client:
            steps: list[str] = []

            async def on_progress(
                progress: float, total: float | None, message: str | None, seen: list[str] = steps
            ) -> None:
                seen.append(f"{progress:g}/{total or 0:g}")

            say(f"  revision {client.protocol_version} ({era})")
            tools = (await client.list_tools()).tools
            say(f"    {YES} tools/list   {', '.join(tool.name for tool in tools)}")
            sent = await client.call_tool("send_email", {"to": "ada@example.org", "subject": "Hello"})
            say(f"    {YES} send_email   {sent.structured_content}")
            found = await client.call_tool("search", {"word": "case"}, progress_callback=on_progress)
            say(f"    {YES} search       {found.structured_content}, progress {' '.join(steps)}")


async def tell(folder: Path, once: bool) -> int:
    """Tells the story; without `once` the gateway then serves until Ctrl-C."""
    async with server("mail_server.py") as mail:
        say("1. A sample MCP server (official SDK), and the gateway in front of it: a client notices nothing")
        async with gateway(mail) as open_gateway:
            say(f"  server   {mail}")
            say(f"  gateway  {open_gateway}")
            await sound_calls(open_gateway)
        say("\n2. A hostile server: what it answers, and what a client gets through the gateway")
        stopped = await nothing_malformed_passes()
        say("\n3. A human signs what an agent may do, and the agent passes on a part of it")
        await sign(folder, mail)
        async with gateway("--config", str(folder / "accredit.toml")) as guarded:
            say(f"  $ accredit serve --config accredit.toml     ({guarded})")
            say("\n4. No proof, no call")
            authorized = await only_who_may(guarded, folder)
            say("\n5. A tool that asks a person before it acts; the state of its rounds is sealed by the gateway")
            asked = await a_tool_asks_first()
            say("\n6. Every call has left a record, which anyone can verify offline")
            shown = await accredit(folder, "log", "list", "--config", "accredit.toml")
            say("".join(f"    {line}\n" for line in shown.splitlines()[:12]).rstrip())
            verified = await accredit(folder, "log", "verify", "--config", "accredit.toml")
            say("".join(f"    {line}\n" for line in verified.splitlines()).rstrip())
            say()
            if not (stopped and authorized and asked):
                say("Something went through that should not have, or the other way round.")
                return 1
            say("Nothing malformed got through, and nobody did what no human has allowed.")
            if not once:
                say(f"\nThe gateway goes on serving {guarded} until Ctrl-C; the keys are in {folder}.")
                stop = asyncio.Event()
                for name in (signal.SIGINT, signal.SIGTERM):
                    asyncio.get_running_loop().add_signal_handler(name, stop.set)
                await stop.wait()
    return 0


async def until_interrupted(story: Coroutine[None, None, int]) -> int:
    """Runs the story to its end, or to Ctrl-C: then what it has started is stopped, and nothing more is said."""
    task = asyncio.ensure_future(story)
    interrupted = asyncio.Event()

    def interrupt() -> None:
        logging.getLogger("asyncio").disabled = True  # it warns of children that this Ctrl-C has ended, too
        interrupted.set()
        task.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupt)
    await asyncio.wait([task])
    if interrupted.is_set():
        return INTERRUPTED if task.cancelled() or task.exception() else task.result()
    return task.result()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--once", action="store_true", help="stop at the end of the story")
    with tempfile.TemporaryDirectory(prefix="accredit-demo-") as place:
        try:
            code = asyncio.run(until_interrupted(tell(Path(place), parser.parse_args().once)))
        except Failed as error:
            sys.exit(str(error))
    sys.exit(code)
