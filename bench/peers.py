"""`python -m bench.peers [--quick] [--write]`: what other proxies for MCP cost a call, beside nginx and the gateway.

The newest of each is installed from its registry by `pip` or `npm`, in bench/results/.peers, and runs with its
defaults. One that cannot be installed, or fails, is named with the reason and left out. At each, 16 sessions are opened
once, and in each round they post `tools/call` one after the other, and check every answer. CPU time is that of the
proxy and its children, without the servers over stdio that it starts. Rounds go around the proxies in turn; ratios are
taken within a round, and medians are shown.
"""

import argparse
import asyncio
import contextlib
import datetime
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, cast
from urllib.parse import urlsplit

import httptools
import msgspec
import uvloop

from bench import report
from bench.__main__ import PAGE, README, RESULTS, say
from bench.errors import BenchError
from bench.payloads import JSON_TYPE, SSE_TYPE, compact
from bench.peer_server import RESULT, TOOL
from bench.processes import NGINX, Server, free_port, nginx, proxy, upstream
from bench.procfs import tree
from bench.side_by_side import cpu_ns

SESSIONS = 16
FULL, QUICK = (5, 240), (3, 160)
"""Rounds, and calls in a round."""
_ROUND_SECONDS = 120.0
_INSTALL_SECONDS = 400.0
_HTTP, _STDIO = "HTTP", "stdio"
_SERVER = (sys.executable, "-m", "bench.peer_server", _STDIO)
_FAILURES = (BenchError, OSError, ValueError, KeyError, subprocess.SubprocessError, httptools.HttpParserError)
_INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}
_CALL = {"name": TOOL, "arguments": {"query": "unpaid invoices", "limit": 20}}


@dataclass(frozen=True, slots=True)
class Peer:
    """A proxy: its name, what stands behind it, its package (`npm:` or `pip:`; none is here already) and command."""

    name: str
    behind: str
    package: str
    command: tuple[str, ...]


PEERS = (
    Peer("nginx", _HTTP, "", ()),
    Peer("accredit", _HTTP, "", ("{bin}/accredit", "serve", "--port", "{port}", "{url}")),
    Peer("accredit", _STDIO, "", ("{bin}/accredit", "serve", "--port", "{port}", "--", *_SERVER)),
    Peer("supergateway", _STDIO, "npm:supergateway",
         ("{bin}/supergateway", "--stdio", shlex.join(_SERVER), "--outputTransport", "streamableHttp", "--stateful",
          "--port", "{port}")),
    Peer("mcp-proxy (npm)", _STDIO, "npm:mcp-proxy",
         ("{bin}/mcp-proxy", "--host", "127.0.0.1", "--port", "{port}", "--server", "stream", "--", *_SERVER)),
    Peer("mcp-proxy (PyPI)", _STDIO, "pip:mcp-proxy", ("{bin}/mcp-proxy", "--port", "{port}", "--", *_SERVER)),
    Peer("FastMCP proxy", _HTTP, "pip:fastmcp",
         ("{bin}/fastmcp", "run", "{url}", "--transport", "http", "--port", "{port}")),
)  # fmt: skip


class Session(asyncio.Protocol):
    """One client, whose connection is a new one in each round: some servers close what rests."""

    def __init__(self, url: str) -> None:
        self._where = urlsplit(url)
        self._head = f"POST {self._where.path} HTTP/1.1\r\nHost: {self._where.netloc}\r\nContent-Type: {JSON_TYPE}\r\n"
        self._head += f"Accept: {JSON_TYPE}, {SSE_TYPE}\r\n"
        self._numbers = count(1)

    async def start(self) -> None:
        async with self._connected():
            await self._ask("initialize", _INITIALIZE)
            self._head += f"MCP-Protocol-Version: {_INITIALIZE['protocolVersion']}\r\n"
            if self._session:
                self._head += f"Mcp-Session-Id: {self._session}\r\n"
            await self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def call(self, times: int) -> None:
        async with self._connected():
            for _ in range(times):
                result = await self._ask("tools/call", _CALL)
                if result["content"] != RESULT["content"]:
                    raise BenchError(f"a wrong answer: {result!r:.300}")

    @contextlib.asynccontextmanager
    async def _connected(self) -> AsyncGenerator[None]:
        where = self._where.hostname or "", self._where.port or 80
        transport, _ = await asyncio.get_running_loop().create_connection(lambda: self, *where)
        try:
            yield
        finally:
            transport.abort()

    async def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        number = next(self._numbers)
        body = await self._post({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        if not body.startswith(b"{"):  # an event stream; all events but the last are not the answer
            body = [line[5:] for line in body.splitlines() if line.startswith(b"data:") and line[5:].strip()][-1]
        message = msgspec.json.decode(body)
        if message["id"] != number:
            raise BenchError(f"an answer to another request: {body[:300]!r}")
        return message["result"]

    async def _post(self, message: dict[str, Any]) -> bytes:
        body = compact(message)
        self._body, self._session = b"", ""
        self._parser = httptools.HttpResponseParser(self)
        self._done = asyncio.get_running_loop().create_future()
        self._transport.write(f"{self._head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        return await self._done

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._done: asyncio.Future[bytes] | None = None

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(BenchError(f"a connection was closed: {exc}"))

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"mcp-session-id":
            self._session = value.decode()

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        if self._done is None or self._done.done():
            return
        status = self._parser.get_status_code()
        if status in (200, 202):
            self._done.set_result(self._body)
        else:
            self._done.set_exception(BenchError(f"status {status}: {self._body[:300]!r}"))


@dataclass(slots=True)
class Way:
    """A running proxy, its clients, and what was found: CPU µs a call and calls a second, by round."""

    peer: Peer
    version: str
    server: Server
    sessions: Sequence[Session]
    costs: list[float] = field(default_factory=list[float])
    paces: list[float] = field(default_factory=list[float])

    async def take_round(self, calls: int) -> tuple[float, float]:
        before, began = self._cpu_ns(), time.perf_counter()
        async with asyncio.timeout(_ROUND_SECONDS):
            await asyncio.gather(*(session.call(calls // len(self.sessions)) for session in self.sessions))
        return (self._cpu_ns() - before) / 1000 / calls, calls / (time.perf_counter() - began)

    def _cpu_ns(self) -> int:
        root = self.server.pid
        servers = [pid for pid in tree(root) if _arguments(pid) == _SERVER]
        return cpu_ns(root) - sum(map(cpu_ns, servers))


def _arguments(pid: int) -> tuple[str, ...]:
    return tuple(Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1])


def install(package: str) -> tuple[Path, str]:
    """The folder of a package's programs, and its version."""
    kind, _, name = package.partition(":")
    folder = RESULTS / ".peers" / f"{kind}-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    if kind == "npm":
        _run("npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", f"{name}@latest")
        about = msgspec.json.decode((folder / "node_modules" / name / "package.json").read_bytes())
        return folder / "node_modules" / ".bin", about["version"]
    python = str(folder / "bin" / "python")
    _run(sys.executable, "-m", "venv", str(folder))
    _run(python, "-m", "pip", "install", "--quiet", "--upgrade", name)
    says = _run(python, "-c", f"import importlib.metadata; print(importlib.metadata.version({name!r}))")
    return folder / "bin", says.strip()


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_INSTALL_SECONDS)
    if done.returncode:
        raise BenchError(f"`{shlex.join(command[:4])} ...` failed: {done.stderr.strip()[-300:]}")
    return done.stdout


async def start(peer: Peer, url: str, folder: Path, stack: contextlib.ExitStack) -> Way:
    """Install and start a proxy, and open its sessions."""
    if peer.name == "nginx":
        found, server = report.program_version(NGINX or "nginx"), stack.enter_context(nginx(url, folder))
    else:
        programs, found = install(peer.package) if peer.package else (Path(sys.executable).parent, version(peer.name))
        port = free_port()
        command = [word.format(bin=programs, port=port, url=url) for word in peer.command]
        server = stack.enter_context(proxy(command, port, folder / f"{peer.name}-{peer.behind}.log"))
    sessions = [Session(server.url) for _ in range(SESSIONS)]
    async with asyncio.timeout(_ROUND_SECONDS):
        for session in sessions:
            await session.start()
    return Way(peer, found, server, sessions)


async def measure(rounds: int, calls: int, folder: Path) -> tuple[list[Way], list[str]]:
    """The proxies that answered every call, and why the others are left out."""
    ways, failures = list[Way](), list[str]()
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(upstream("peer_server", folder)).url
        for peer in PEERS:
            say(f"{peer.name} ({peer.behind})")
            try:
                ways.append(await start(peer, url, folder, stack))
            except _FAILURES as error:
                failures.append(_failure(peer, error))
        for number in range(rounds + 1):
            say(f"round {number} of {rounds}")
            for way in tuple(ways):
                try:
                    cost, pace = await way.take_round(calls)
                except _FAILURES as error:
                    ways.remove(way)
                    failures.append(_failure(way.peer, error))
                    continue
                if number:  # the first round fills caches
                    way.costs.append(cost)
                    way.paces.append(pace)
    return ways, failures


def _failure(peer: Peer, error: Exception) -> str:
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    return f"Left out: {peer.name} ({peer.behind}): {reason[:400]}."


def rows(ways: Sequence[Way], date: str) -> Iterator[tuple[str, ...]]:
    base = next((way.costs for way in ways if way.peer.name == "nginx"), None)
    if base is None:
        raise BenchError("nginx did not run, and it is what the others are compared with")
    for way in ways:
        times = median(one / other for one, other in zip(way.costs, base, strict=True))
        yield (way.peer.name, way.version, way.peer.behind, f"{median(way.costs):.0f}", f"{times:.1f} x",
               f"{median(way.paces):,.0f}", date)  # fmt: skip


def main(arguments: list[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds")
    parser.add_argument("--write", action="store_true", help="put the table into the page, and its ratios into README")
    options = parser.parse_args(arguments)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # as installed: compiled once
    date = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"
    try:
        with tempfile.TemporaryDirectory(prefix="accredit-bench-") as folder:
            Path(folder).chmod(0o711)
            ways, failures = uvloop.run(measure(*(QUICK if options.quick else FULL), Path(folder)))
        head = ("proxy", "version", "behind it", "CPU a call, us", "times nginx", "calls/s", "measured")
        about = f"{report.machine()}; {report.versions()}; `{' '.join(['python -m bench.peers', *arguments])}`."
        text = "\n\n".join([about, *failures, report.table(head, rows(ways, date))]) + "\n"
        print(text)
        if options.write:
            page = report.into_page(PAGE.read_text("utf-8"), text, report.PEERS_BEGIN, report.PEERS_END)
            readme = report.into_readme(README.read_text("utf-8"), page)
            PAGE.write_text(page, "utf-8")
            README.write_text(readme, "utf-8")
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
