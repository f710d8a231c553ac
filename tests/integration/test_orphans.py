"""Nothing of an upstream outlives the gateway, however it ends: killed, stopped, or both at the wrong moment."""

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.world.calls import Posted, initialize, post
from tests.world.command import COMMAND, Serving, accepts, environment, wait_until
from tests.world.raw_server import PATIENCE
from tests.world.stdio_processes import alive, raw_command

from accredit.jsonrpc.methods import Era

pytestmark = pytest.mark.slow

STARTER = """
import asyncio, sys
from accredit.gateway.settings import StdioUpstream
from accredit.gateway.upstream.stdio.child import Child
from accredit.gateway.upstream.stdio.child import OrphanGuard

async def main():
    guard = OrphanGuard()
    print("ready", flush=True)
    for _ in range(100):
        await Child.start(StdioUpstream(tuple(sys.argv[1:])), guard, 1000)

asyncio.run(main())
"""


def marked(marker: str) -> set[int]:
    """The processes that have a word in their command line, the reaper and zombies left out."""
    found: set[int] = set()
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit() and marker.encode() in (folder / "cmdline").read_bytes():
                found.add(int(folder.name))
    return {pid for pid in found if alive(pid)}


@pytest.fixture
def pids(tmp_path: Path) -> Generator[Path]:
    """The file in which each child writes its own process id and that of a grandchild that ignores SIGTERM."""
    file = tmp_path / "pids"
    file.touch()
    yield file
    for pid in started(file):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def started(file: Path) -> list[int]:
    return [int(line) for line in file.read_text("ascii").split()]


def all_gone(file: Path) -> bool:
    return not any(map(alive, started(file)))


def ask(port: int, posted: Posted) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("POST", "/mcp", posted.body, dict(posted.headers))
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def send(port: int, posted: Posted) -> int:
    return ask(port, posted)[0]


def tool(name: str) -> Posted:
    return post(Era.MODERN, params={"name": name, "arguments": {}})


@contextlib.contextmanager
def serving(folder: Path, pids: Path) -> Generator[Serving]:
    """The gateway with a session's child, the shared child, and a grandchild of each."""
    with Serving("--", *raw_command(f"--pids={pids}"), folder=folder) as gateway:
        assert send(gateway.port, initialize()) == 200
        assert send(gateway.port, post(Era.MODERN)) == 200
        assert len(started(pids)) == 4
        assert all(map(alive, started(pids)))
        yield gateway


def test_children_and_grandchildren_end_with_a_gateway_that_is_killed(tmp_path: Path, pids: Path) -> None:
    with serving(tmp_path, pids) as gateway:
        gateway.stop(signal.SIGKILL)
        gateway.wait()
        wait_until(lambda: all_gone(pids))


def test_they_end_when_its_whole_process_group_is_killed(tmp_path: Path, pids: Path) -> None:
    with serving(tmp_path, pids) as gateway:
        os.killpg(gateway.process.pid, signal.SIGKILL)
        gateway.wait()
        wait_until(lambda: all_gone(pids))


def test_they_end_when_it_is_told_to_stop(tmp_path: Path, pids: Path) -> None:
    with serving(tmp_path, pids) as gateway:
        gateway.stop()
        assert gateway.wait() in (0, -signal.SIGTERM)
        assert all_gone(pids)


def test_they_end_when_it_is_told_twice_and_ends_at_once(tmp_path: Path, pids: Path) -> None:
    with serving(tmp_path, pids) as gateway, socket.create_connection(("127.0.0.1", gateway.port)) as client:
        posted = tool("mute")
        head = "".join(f"{name}: {value}\r\n" for name, value in posted.headers)
        client.sendall(
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}Content-Length: {len(posted.body)}\r\n\r\n".encode()
        )
        client.sendall(posted.body)
        wait_until(lambda: b"mute" in ask(gateway.port, tool("read"))[1])
        gateway.stop()
        wait_until(lambda: not accepts(gateway.port))
        assert not all_gone(pids)
        gateway.stop()
        assert gateway.wait() == -signal.SIGTERM
        wait_until(lambda: all_gone(pids))


def test_children_and_grandchildren_end_with_a_wrap_that_is_killed(tmp_path: Path, pids: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "wrap", "--", *raw_command(f"--pids={pids}")],
        cwd=tmp_path, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        process.stdin.flush()
        assert process.stdout.readline()
        assert len(started(pids)) == 2
        process.kill()
        process.wait()
        wait_until(lambda: all_gone(pids))


@pytest.mark.holds("gateway/upstream/stdio/child", "group")
@pytest.mark.parametrize("milliseconds", [0, 1, 2, 5, 10, 20, 40, 80])
def test_there_is_no_moment_at_which_a_killed_gateway_leaves_a_child(tmp_path: Path, milliseconds: int) -> None:
    marker = f"--marker={tmp_path}"
    command = [sys.executable, "-c", STARTER, *raw_command(marker, "--deaf")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(milliseconds / 1_000)  # the moment that is tried, not something that is waited for
        process.kill()
        process.wait()
    wait_until(lambda: not marked(marker))


FIRST_PROCESS = """
import asyncio, ctypes, json, os, sys
from pathlib import Path
from accredit.gateway.settings import StdioUpstream
from accredit.gateway.upstream.stdio.child import Child
from accredit.gateway.upstream.stdio.child import OrphanGuard

PR_SET_CHILD_SUBREAPER = 36
assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1) == 0

async def main():
    guard = OrphanGuard()
    child = await Child.start(StdioUpstream(tuple(sys.argv[1:])), guard, 1000)
    arguments = {"count": 1, "leave": True}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "forks", "arguments": arguments}}
    await child.send(json.dumps(call).encode(), 5)
    print((await child.lines())[0].decode(), flush=True)
    await child.aclose()
    await guard.aclose()
    print(Path("/proc/self/task", str(os.getpid()), "children").read_text())

asyncio.run(main())
"""


def test_a_gateway_that_is_a_containers_first_process_buries_the_grandchildren(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FIRST_PROCESS, *raw_command()]
    done = subprocess.run(command, capture_output=True, check=True, env=environment(), cwd=tmp_path, timeout=30)
    answer, children = done.stdout.decode().splitlines()
    assert '"id": 1' in answer
    assert not children.split()  # not even a zombie
