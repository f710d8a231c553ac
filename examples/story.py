"""The story that `accredit demo` tells, with real processes on this machine.

    python examples/story.py [--once]

A sample MCP server and a hostile one, a gateway in front of each, the official SDK's client, and plain HTTP where
the raw answer is the point. What it prints is what was seen.
"""

import argparse
import asyncio
import contextlib
import json
import re
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator
from pathlib import Path

from mcp import Client

from hostile_server import ANSWERS

HERE = Path(__file__).parent
START_SECONDS = 30
YES, NO = "\N{CHECK MARK}", "\N{MULTIPLICATION SIGN}"


def say(text: str = "") -> None:
    """Prints at once: the reader follows a story."""
    print(text, flush=True)


@contextlib.asynccontextmanager
async def running(*command: str) -> AsyncGenerator[str]:
    """Runs a command until the end of the context; gives the URL that it says it serves, with `/mcp`."""
    quiet, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(*command, stdout=quiet, stderr=pipe)
    assert child.stderr is not None
    seen = ""
    try:
        async with asyncio.timeout(START_SECONDS):
            while (found := re.search(r"http://127\.0\.0\.1:[1-9][0-9]*", seen)) is None:
                line = await child.stderr.readline()
                if not line:
                    raise SystemExit(f"{' '.join(command)} did not start:\n{seen}")
                seen += line.decode("utf-8", "replace")
        drain = asyncio.create_task(child.stderr.read())
        yield f"{found[0]}/mcp"
        drain.cancel()
    finally:
        if child.returncode is None:
            child.terminate()
        await child.wait()


def server(script: str) -> contextlib.AbstractAsyncContextManager[str]:
    """One of the servers beside this file, on a free port."""
    return running(sys.executable, str(HERE / script), "--port", "0")


def gateway(url: str) -> contextlib.AbstractAsyncContextManager[str]:
    """`accredit serve URL`, on a free port."""
    return running(sys.executable, "-m", "accredit", "serve", url, "--port", "0")


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


def raw_call(url: str, tool: str) -> tuple[int, str]:
    """A `tools/call` by plain HTTP: the status, and the last message of the answer."""
    call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": tool}}
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    request = urllib.request.Request(url, json.dumps(call).encode(), headers)  # noqa: S310 - a URL of ours
    try:
        with urllib.request.urlopen(request, timeout=START_SECONDS) as answer:  # noqa: S310
            status, text = answer.status, answer.read().decode("utf-8", "replace")
    except urllib.error.HTTPError as error:
        with error:
            status, text = error.code, error.read().decode("utf-8", "replace")
    return status, text.rsplit("data: ", 1)[-1].strip()


async def hostile_calls(direct: str, guarded: str) -> bool:
    """Each bad answer as a client gets it without and with the gateway; says whether all were stopped."""
    all_stopped = True
    for tool in ANSWERS:
        _, before = await asyncio.to_thread(raw_call, direct, tool)
        status, after = await asyncio.to_thread(raw_call, guarded, tool)
        error = json.loads(after).get("error")
        shown = f"HTTP {status}  {error['code']} {error['message']}: {error['data']}" if error else "passes unchanged"
        say(f"    {NO if error else YES} {tool:<12} {before[:38]!r:<42} -> {shown}")
        all_stopped = all_stopped and (error is None) == (tool == "sound")
    return all_stopped


async def tell(once: bool) -> int:
    """Tells the story; without `once` the gateway then serves until Ctrl-C."""
    async with server("mail_server.py") as mail, gateway(mail) as guarded:
        say("1. A sample MCP server (official SDK), and the gateway in front of it")
        say(f"  server   {mail}")
        say(f"  gateway  {guarded}")
        say()
        say("2. The official client, through the gateway, in both eras of the protocol")
        await sound_calls(guarded)
        say()
        say("3. A hostile server: what it answers, and what a client gets through the gateway")
        async with server("hostile_server.py") as hostile, gateway(hostile) as shield:
            stopped = await hostile_calls(hostile, shield)
        say()
        if not stopped:
            say("Something malformed got through: this should not happen.")
            return 1
        say("Nothing malformed got through; what is sound passed byte for byte.")
        if not once:
            say(f"\nThe gateway goes on serving {guarded} until Ctrl-C.")
            stop = asyncio.Event()
            for name in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(name, stop.set)
            await stop.wait()
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--once", action="store_true", help="stop at the end of the story")
    sys.exit(asyncio.run(tell(parser.parse_args().once)))
