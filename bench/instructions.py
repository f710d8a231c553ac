"""`python -m bench.instructions [NAME...] [--watched]`: how many instructions one call takes of the gateway, counted by
valgrind.

A steady measure where CPU time is not: load from elsewhere does not move it. What the kernel does is not in it. A
gateway runs under callgrind; after some calls that fill its caches its counts are set to zero, so many calls follow one
by one on each of a few connections, and what was counted is divided by them.
"""

import argparse
import asyncio
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

from accredit.keys import make_key, write_key
from bench import authorization, main_job
from bench.errors import BenchError
from bench.payloads import CALLS, Call
from bench.processes import configured, upstream

WATCHED = "[admin]\nport = 0\n"
WARMING_CALLS, CALLS_EACH, CONNECTIONS = 20, 50, 4
START_SECONDS = 240.0
_TOTAL = re.compile(r"^(?:summary|totals): (\d+)", re.MULTILINE)


def main(arguments: list[str]) -> int:
    """Prints one line for each call that is named."""
    parser = argparse.ArgumentParser(prog="python -m bench.instructions", description=__doc__)
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"of {', '.join([*CALLS, main_job.NAME])}")
    parser.add_argument("--keep", metavar="FOLDER", type=Path, help="leave what callgrind wrote there, for kcachegrind")
    parser.add_argument("--watched", action="store_true", help="count also with metrics on")
    options = parser.parse_args(arguments)
    names = options.names or ["200b-json", "200b-varied", "200b-modern", "200b-sse", "32k-json"]
    try:
        with tempfile.TemporaryDirectory(prefix="accredit-bench-") as folder:
            for name in names:
                if name == main_job.NAME:
                    found = asyncio.run(counted_main_job(Path(folder), options.keep))
                    print(f"{name}: {found:,} instructions, without those of the log's writer", flush=True)
                    continue
                found = asyncio.run(counted(CALLS[name], Path(folder), options.keep))
                print(f"{name}: {found:,} instructions", flush=True)
                if options.watched:
                    watched = asyncio.run(counted(CALLS[name], Path(folder), options.keep, WATCHED)) - found
                    print(f"{name}: {watched:+,} with metrics on ({watched / found:+.1%})", flush=True)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0


async def counted(call: Call, folder: Path, keep: Path | None, more: str = "") -> int:
    """The instructions of one call, in user space; with `more` in the configuration."""
    with upstream("upstream", folder) as server:
        toml = f'[upstream]\nurl = "{server.url}"\n[gateway]\nport = 0\n{more}'
        return await _counted(toml, folder, keep, call.name, lambda url, times: _post_all(url, call, times))


async def counted_main_job(folder: Path, keep: Path | None) -> int:
    """The instructions of one call with a fresh proof and durable records, but for those of the process that writes
    the log."""
    listener = await asyncio.get_running_loop().create_server(authorization.Upstream, "127.0.0.1", 0)
    agent = authorization.Agent(folder)
    write_key(folder / "gateway.key", make_key("gateway", "gateway", 0))
    toml = main_job.toml(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/mcp", "sqlite:///main.db")

    async def post(url: str, times: int) -> None:
        bodies = [authorization.body_of(agent.bundle(bound=True)) for _ in range(times * CONNECTIONS)]
        await authorization.post_all(url, bodies, CONNECTIONS)

    try:
        return await _counted(toml, folder, keep, main_job.NAME, post)
    finally:
        listener.close()


async def _counted(
    toml: str, folder: Path, keep: Path | None, name: str, post: Callable[[str, int], Awaitable[None]]
) -> int:
    if shutil.which("valgrind") is None:
        raise BenchError("valgrind is not installed (Debian: apt-get install valgrind)")
    output = (keep or folder) / f"{name}.callgrind"
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={output}", "--instr-atstart=no", sys.executable,
               "-c", "import sys; from accredit.cli import main; sys.exit(main())"]  # fmt: skip
    with configured(toml, folder, "instructions", command=command, patience=START_SECONDS) as gateway:
        await post(gateway.url, WARMING_CALLS)
        _control(gateway.pid, "--instr=on")
        await post(gateway.url, 2)
        _control(gateway.pid, "--zero")
        await post(gateway.url, CALLS_EACH)
        _control(gateway.pid, "--dump")
    found = _TOTAL.findall(Path(f"{output}.1").read_text("latin-1"))
    if not found:
        raise BenchError("callgrind has written no total")
    return int(found[-1]) // (CALLS_EACH * CONNECTIONS)


def _control(pid: int, what: str) -> None:
    done = subprocess.run(["callgrind_control", what, str(pid)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"callgrind_control {what} failed: {done.stdout}{done.stderr}")


async def _post_all(url: str, call: Call, times: int) -> None:
    where = urlsplit(url)
    requests: list[bytes] = []
    for each in call.all:
        head = [f"POST {where.path} HTTP/1.1", f"Host: {where.netloc}", f"Content-Length: {len(each.request)}"]
        head += [f"{name}: {value}" for name, value in each.headers.items()]
        requests.append("\r\n".join([*head, "", ""]).encode() + each.request)
    await asyncio.gather(*(_post(where.hostname or "", where.port or 80, requests, times) for _ in range(CONNECTIONS)))


async def _post(host: str, port: int, requests: list[bytes], times: int) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    for number in range(times):
        writer.write(requests[number % len(requests)])
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise BenchError(f"a wrong answer: {head[:300]!r}")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        await (reader.readexactly(int(length[1])) if length is not None else reader.readuntil(b"0\r\n\r\n"))
    writer.close()
    await writer.wait_closed()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
