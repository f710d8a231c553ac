"""Lists of the merged endpoint: how long against the slowest server alone, and what 1,000 tools cost.

`python -m bench.merged [--quick]` puts one gateway in front of eight servers (in this process), which answer after
20 to 50 ms. It asks for `tools/list` in 2026-07-28, at the slowest server's own endpoint and at the merged one in turn:
medians. Then it counts the gateway's CPU time per merged list, with 8 and with 1,000 tools in all.
"""

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from urllib.parse import urlsplit

import uvloop

from bench.errors import BenchError
from bench.payloads import JSON_TYPE, SSE_TYPE, compact
from bench.processes import configured
from bench.procfs import cpu_seconds

SERVERS = 8
FEW, MANY = 1, 1_000 // SERVERS
"""Tools of each server."""
MAX_TIMES_SLOWEST = 1.2
MAX_CPU_SECONDS = 0.050
ROUNDS, QUICK_ROUNDS = 100, 20
_DELAYS = [0.020 + 0.030 * each / (SERVERS - 1) for each in range(SERVERS)]
_REVISION = "2026-07-28"
_META = "io.modelcontextprotocol"
_PROPERTY = {"type": "string", "description": "What it is, in so many words."}
_SCHEMA = {"type": "object", "properties": {f"p{each}": _PROPERTY for each in range(6)}, "required": ["p0"]}


def listed(count: int) -> bytes:
    """As many tools, of some 650 bytes each."""
    return compact(
        [{"name": f"tool_{each}", "description": "Does so. " * 15, "inputSchema": _SCHEMA} for each in range(count)]
    )


LISTS = {count: listed(count) for count in (FEW, MANY)}


async def message(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    """The first line and the body of one HTTP message. Raises `EOFError` at the end."""
    head = await reader.readuntil(b"\r\n\r\n")
    _, _, length = head.lower().partition(b"\r\ncontent-length:")
    return head.decode().partition("\r\n")[0], await reader.readexactly(int(length.partition(b"\r\n")[0]))


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection to any of the servers: the target is `/NUMBER/TOOLS`."""
    with contextlib.suppress(ConnectionError, EOFError):
        while True:
            line, body = await message(reader)
            number, count = map(int, line.split()[1].strip("/").split("/"))
            if count == FEW:
                await asyncio.sleep(_DELAYS[number])
            id = compact(json.loads(body)["id"])
            text = b'{"jsonrpc":"2.0","id":%b,"result":{"tools":%b,"resultType":"complete"}}' % (id, LISTS[count])
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\n" % JSON_TYPE.encode())
            writer.write(b"Content-Length: %d\r\n\r\n" % len(text) + text)
            await writer.drain()
    writer.close()


class Client:
    """A connection to the gateway."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def tools(self, path: str) -> int:
        """Ask for a list. Return how many tools are in it. Raises `BenchError`."""
        meta: dict[str, object] = {f"{_META}/protocolVersion": _REVISION, f"{_META}/clientCapabilities": {}}
        body = compact({"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {"_meta": meta}})
        head = {
            "Host": "127.0.0.1",
            "Content-Type": JSON_TYPE,
            "Accept": f"{JSON_TYPE}, {SSE_TYPE}",
            "MCP-Protocol-Version": _REVISION,
            "Mcp-Method": "tools/list",
            "Content-Length": str(len(body)),
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        self._writer.write(f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + body)
        _, text = await message(self._reader)
        answer = json.loads(text)
        if "_meta" in answer["result"]:
            raise BenchError(f"a server was left out: {answer['result']['_meta']}")
        return len(answer["result"]["tools"])

    async def seconds(self, path: str, tools: int) -> float:
        """The time of one list, which has so many tools."""
        began = time.perf_counter()
        if await self.tools(path) != tools:
            raise BenchError(f"{path} has another number of tools")
        return time.perf_counter() - began


@contextlib.asynccontextmanager
async def gateway(count: int, folder: Path) -> AsyncGenerator[tuple[Client, int]]:
    """A gateway before servers of so many tools each: a client of it, and its process."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 20)
    port = server.sockets[0].getsockname()[1]
    tables = [f'[servers.s{each}]\nurl = "http://127.0.0.1:{port}/{each}/{count}"\n' for each in range(SERVERS)]
    toml = "[gateway]\nport = 0\nmerge = true\n" + "".join(tables)
    started = contextlib.ExitStack()
    # It starts in a thread: the servers are in this one.
    running = await asyncio.to_thread(started.enter_context, configured(toml, folder, f"merged{'x' * count}"[:40]))
    try:
        reader, writer = await asyncio.open_connection(*urlsplit(running.url).netloc.split(":"), limit=1 << 24)
        yield Client(reader, writer), running.pid
        writer.close()
    finally:
        await asyncio.to_thread(started.close)
        server.close()


async def latency(rounds: int, folder: Path) -> tuple[float, float]:
    """Median seconds of a list: the slowest server's own, and that of all."""
    async with gateway(FEW, folder) as (client, _):
        slowest, merged = f"/mcp/s{SERVERS - 1}", "/mcp"
        for path in (slowest, merged) * 3:
            await client.tools(path)
        pairs = [
            (await client.seconds(slowest, FEW), await client.seconds(merged, SERVERS * FEW)) for _ in range(rounds)
        ]
        own, all_of_them = zip(*pairs, strict=True)
        return statistics.median(own), statistics.median(all_of_them)


async def cpu(count: int, rounds: int, folder: Path) -> float:
    """CPU seconds of the gateway for a merged list of servers with so many tools each."""
    async with gateway(count, folder) as (client, pid):
        for _ in range(3):
            await client.tools("/mcp")
        before = cpu_seconds(pid)
        for _ in range(rounds):
            await client.seconds("/mcp", SERVERS * count)
        return (cpu_seconds(pid) - before) / rounds


async def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.merged", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds")
    rounds = QUICK_ROUNDS if parser.parse_args(arguments).quick else ROUNDS
    with tempfile.TemporaryDirectory(prefix="accredit-bench-") as folder:
        own, merged = await latency(rounds, Path(folder))
        few = await cpu(FEW, rounds, Path(folder))
        many = await cpu(MANY, rounds, Path(folder))
    times = merged / own
    print(f"tools/list of {SERVERS}: {merged * 1e3:.1f} ms; the slowest alone: {own * 1e3:.1f} ms ({times:.2f} x)")
    print(
        f"CPU a merged list: {few * 1e3:.1f} ms with {SERVERS * FEW} tools, {many * 1e3:.1f} ms with {SERVERS * MANY}"
    )
    return 0 if times <= MAX_TIMES_SLOWEST and many <= MAX_CPU_SECONDS else 1


if __name__ == "__main__":
    sys.exit(uvloop.run(main(sys.argv[1:])))
