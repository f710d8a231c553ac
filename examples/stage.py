"""What the story stands on: processes that are started and stopped, and calls by plain HTTP where the bytes matter."""

import asyncio
import contextlib
import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
START_SECONDS = 30
YES, NO = "\N{CHECK MARK}", "\N{MULTIPLICATION SIGN}"
ACCREDIT = (sys.executable, "-m", "accredit")
MODERN = "2026-07-28"


class Failed(Exception):
    """What the story needs has not worked: there is nothing more to tell."""


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
                    raise Failed(f"{' '.join(command)} did not start:\n{seen}")
                seen += "" if b'"upstream"' in line else line.decode("utf-8", "replace")
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


def gateway(*options: str) -> contextlib.AbstractAsyncContextManager[str]:
    """`accredit serve`, on a free port."""
    return running(*ACCREDIT, "serve", *options, "--port", "0")


async def accredit(folder: Path, *words: str) -> str:
    """Runs a command of `accredit` in a folder, and shows it; gives what it printed."""
    say(f"  $ accredit {' '.join(words)}")
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(*ACCREDIT, *words, cwd=folder, stdout=pipe, stderr=pipe)
    printed, errors = await child.communicate()
    if child.returncode:
        raise Failed(errors.decode("utf-8", "replace"))
    return printed.decode("utf-8", "replace")


def raw_call(url: str, tool: str, arguments: dict[str, Any] | None = None, proof: object = None) -> tuple[int, str]:
    """A `tools/call` by plain HTTP: the status, and the last message of the answer. With a proof it is stateless."""
    params: dict[str, Any] = {"name": tool, "arguments": arguments or {}}
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    if proof is not None:
        names = "io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientCapabilities"
        params["_meta"] = {names[0]: MODERN, names[1]: {}, "ratify_proof": proof}
        headers |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": tool}
    call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    request = urllib.request.Request(url, json.dumps(call).encode(), headers)  # noqa: S310 - a URL of ours
    try:
        with urllib.request.urlopen(request, timeout=START_SECONDS) as answer:  # noqa: S310
            status, text = answer.status, answer.read().decode("utf-8", "replace")
    except urllib.error.HTTPError as error:
        with error:
            status, text = error.code, error.read().decode("utf-8", "replace")
    return status, text.rsplit("data: ", 1)[-1].strip()
