"""A FastMCP server as a process that is killed and started again, at one port. I/O: a process, a file."""

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from tests.world.command import accepts, environment, wait_until
from tests.world.ports import reserved_port
from tests.world.raw_server import PATIENCE
from tests.world.warm import Warm

_SERVER = """
import asyncio, sys
from fastmcp import FastMCP

server = FastMCP("restarted")

@server.tool
def add(a: int, b: int) -> int:
    return a + b

@server.tool
async def wait() -> str:
    print("waiting", file=sys.stderr, flush=True)
    await asyncio.Event().wait()
    return ""

server.run(transport=sys.argv[2], port=int(sys.argv[1]), show_banner=False)
"""


class Restarted:
    """`with Restarted(folder) as server`. `transport` is FastMCP's: "http" or "sse"."""

    def __init__(self, folder: Path, transport: str = "http") -> None:
        self._script = folder / "restarted.py"
        self._script.write_text(_SERVER, "utf-8")
        self._log = folder / "restarted.log"
        self._transport = transport
        self._process: subprocess.Popen[bytes] | None = None
        self._reserved = ExitStack()
        self._port = port = self._reserved.enter_context(reserved_port())
        self.url = f"http://127.0.0.1:{port}/{'mcp' if transport == 'http' else transport}"

    def start(self) -> None:
        """Runs it until it accepts connections."""
        command = [sys.executable, str(self._script), str(self._port), self._transport]
        with self._log.open("wb") as log:
            self._process = Warm(command, stderr=log, stdout=log, env=environment())
        wait_until(lambda: accepts(self._port))

    def kill(self) -> None:
        """Ends it without a word."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(PATIENCE)

    def hears(self, text: str) -> None:
        """Waits until it has said this."""
        wait_until(lambda: text in self._log.read_text("utf-8"))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._reserved.close()
