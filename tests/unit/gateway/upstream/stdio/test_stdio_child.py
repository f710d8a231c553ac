"""One child process: its lines, its bounds, its end. Under both event loops."""

import asyncio
import contextlib
import gc
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop
from tests.world.raw_server import PATIENCE, until
from tests.world.stdio_processes import alive, descendants, open_files, raw_command

from accredit.errors import FrameError, UpstreamTimeout, UpstreamUnavailable
from accredit.gateway.settings import StdioUpstream
from accredit.gateway.upstream.stdio.child import Child, OrphanGuard, child_environment, find_program
from accredit.limits import PIPE_BUFFER_BYTES

pytestmark = [pytest.mark.slow, pytest.mark.holds("gateway/upstream/stdio/process")]

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
MAX_LINE = 1 << 20
Lines = list[bytes | FrameError]


@pytest.fixture(params=LOOPS.values(), ids=list(LOOPS))
def loop_factory(request: pytest.FixtureRequest) -> Callable[[], asyncio.AbstractEventLoop]:
    return request.param


LoopFactory = Callable[[], asyncio.AbstractEventLoop]


@pytest.fixture(autouse=True)
def exits_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a gateway's clients would go without the exit code, as the machine is busy."""
    monkeypatch.setattr("accredit.gateway.upstream.stdio.child.EXIT_SECONDS", PATIENCE)


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a child that will not end by itself, however long it is waited for."""
    monkeypatch.setattr("accredit.gateway.upstream.stdio.child.STOP_GRACE_SECONDS", 0.2)


@contextlib.asynccontextmanager
async def running(*command: str, max_line: int = MAX_LINE, **env: str) -> AsyncGenerator[Child]:
    """A child; nothing of it is left afterwards: no process, no file descriptor."""
    guard = OrphanGuard()
    before = open_files()
    child = await Child.start(StdioUpstream(command or raw_command(), env), guard, max_line)
    try:
        yield child
    finally:
        await child.aclose()
        await guard.aclose()
        await until(lambda: not descendants(os.getpid()))
        await until(lambda: open_files() <= before + 1)  # uvloop keeps /dev/null open from its first pipe on


async def next_line(child: Child) -> bytes:
    lines: Lines = []
    while not lines:  # a long line may come in parts
        more = await child.lines()
        assert more is not None
        lines += more
    (line,) = lines
    assert isinstance(line, bytes)
    return line


async def flood(child: Child, *, patience: float) -> None:
    for _ in range(100):
        await child.send(b"x" * 65_536, patience)


def tool(name: str, id: int = 1, **arguments: Any) -> bytes:
    params = {"name": name, "arguments": arguments}
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).encode()


def text_of(line: bytes) -> Any:
    return json.loads(json.loads(line)["result"]["content"][0]["text"])


async def test_lines_go_in_and_come_out(loop_factory: LoopFactory) -> None:
    async with running("cat") as child:
        for text in (b"one", b'{\n"two":\r2}'):
            await child.send(text, 5)
        lines: Lines = []
        while len(lines) < 2:
            lines += await child.lines() or []
        assert lines == [b"one", b'{ "two": 2}']


async def test_the_end_of_its_stdin_is_a_childs_end(loop_factory: LoopFactory) -> None:
    async with running("sh", "-c", "cat; echo last; exit 3") as child:
        await child.send(b"one", 5)
        child.close_input()
        lines: Lines = []
        while (more := await child.lines()) is not None:
            lines += more
        assert lines == [b"one", b"last"]
        assert (await child.died()).detail == "the upstream ended with code 3"
        with pytest.raises(UpstreamUnavailable):
            await child.send(b"two", 5)
        child.send_now(b"three")


@pytest.mark.holds("gateway/upstream/stdio/child", "end")
@pytest.mark.usefixtures("short_grace")
async def test_a_child_that_ignores_the_end_and_sigterm_is_killed(loop_factory: LoopFactory) -> None:
    async with running() as child:
        await child.send(tool("stubborn"), 5)
        pid = text_of(await next_line(child))
        assert pid == child.pid
    await until(lambda: not alive(pid))


@pytest.mark.usefixtures("short_grace")
async def test_grandchildren_end_with_a_child(loop_factory: LoopFactory) -> None:
    async with running() as child:
        await child.send(tool("forks"), 5)
        pids = text_of(await next_line(child))
        assert all(map(alive, pids))
    await until(lambda: not any(map(alive, pids)))


@pytest.mark.holds("gateway/upstream/stdio/child", "end")
@pytest.mark.usefixtures("short_grace")
async def test_grandchildren_end_with_a_child_that_ends_by_itself__they_hold_its_pipes(
    loop_factory: LoopFactory,
) -> None:
    async with running() as child:
        await child.send(tool("forks", leave=True), 5)
        pids = text_of(await next_line(child))
        assert await child.lines() is None
        assert (await child.died()).detail == "the upstream ended with code 0"
        await until(lambda: not any(map(alive, pids)))


async def test_output_that_ends_while_the_child_lives_is_its_end_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accredit.gateway.upstream.stdio.child.EXIT_SECONDS", 0.01)

    async with running() as child:
        await child.send(tool("closes_stdout"), 5)
        assert await child.lines() is None
        assert (await child.died()).detail == "the upstream closed its input or output"


@pytest.mark.holds("gateway/upstream/stdio/child", "end")
@pytest.mark.usefixtures("short_grace")
async def test_a_child_that_closes_its_input_and_lives_ends_with_the_next_line__no_line_would_ever_reach_it(
    loop_factory: LoopFactory,
) -> None:
    closes = "import os, time; os.close(0); print('closed', flush=True); time.sleep(300)"
    async with running(sys.executable, "-I", "-S", "-c", closes) as child:
        assert await next_line(child) == b"closed"
        with contextlib.suppress(UpstreamUnavailable):
            while True:  # until it is known that nobody reads
                await child.send(b"one", 5)
                await asyncio.sleep(0)
        assert await asyncio.wait_for(child.lines(), PATIENCE) is None
        await until(lambda: not alive(child.pid))


# It ends once its child has left the group: it would be ended with it before.
LEAVES = """
import os, time
left, tells = os.pipe()
if os.fork():
    os.read(left, 1)
else:
    os.setsid()
    print(os.getpid(), flush=True)
    os.write(tells, b"1")
    time.sleep(300)
"""


async def test_a_process_that_left_the_group_and_holds_the_output_is_not_waited_for() -> None:
    async with running(sys.executable, "-I", "-S", "-c", LEAVES) as child:
        escaped = int(await next_line(child))
        assert await child.lines() is None
        assert alive(escaped)
        os.kill(escaped, signal.SIGKILL)


async def test_a_line_over_the_bound_is_refused_and_the_next_is_read() -> None:
    async with running(max_line=100_000) as child:
        await child.send(tool("endless", mib=3), 5)
        lines: Lines = []
        while len(lines) < 2:
            lines += await child.lines() or []
        assert isinstance(lines[0], FrameError)
        assert lines[0].bound
        assert json.loads(lines[1] if isinstance(lines[1], bytes) else b"")["id"] == 1


@pytest.mark.holds("gateway/upstream/stdio/child", "bounds")
async def test_a_child_that_is_not_read_waits__our_memory_does_not_grow(loop_factory: LoopFactory) -> None:
    async with running("yes", "y" * 99) as child:
        await asyncio.sleep(0.2)  # time enough for hundreds of megabytes
        lines = await child.lines()
        assert lines is not None
        assert len(lines) * 100 <= 3 * PIPE_BUFFER_BYTES
        total = 0
        while total < 50_000_000:
            total += sum(len(line) + 1 for line in await child.lines() or [] if isinstance(line, bytes))


@pytest.mark.holds("gateway/upstream/stdio/child", "bounds")
async def test_a_child_that_does_not_read_is_not_written_to_for_ever(loop_factory: LoopFactory) -> None:
    async with running("sleep", "300") as child:
        with pytest.raises(UpstreamTimeout) as late:
            await flood(child, patience=0.05)
        assert late.value.detail == "the upstream does not read its input"
        with pytest.raises(UpstreamTimeout):
            await asyncio.gather(child.send(b"a", 0.05), child.send(b"b", 0.05))
        child.send_now(b"dropped")


async def test_writers_wait_for_a_slow_child_in_their_order(loop_factory: LoopFactory) -> None:
    async with running("sh", "-c", "read first; sleep 0.2; echo $first; exec cat") as child:
        texts = [bytes([65 + number]) * 200_000 for number in range(10)]
        sending = asyncio.gather(*(child.send(text, PATIENCE) for text in texts))
        lines: Lines = []
        while len(lines) < len(texts):
            lines += await child.lines() or []
        await sending
        assert lines == texts


async def test_a_child_that_dies_lets_go_of_who_waits_to_write() -> None:
    async with running("sh", "-c", "sleep 0.1; exit 4") as child:
        with pytest.raises(UpstreamUnavailable):
            await flood(child, patience=PATIENCE)


async def test_the_child_sees_nothing_of_the_gateways_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCREDIT_TOKEN", "secret")
    monkeypatch.setenv("OTHER", "kept")

    async with running(MORE="yes", OTHER="changed") as child:
        await child.send(tool("environment"), 5)
        seen = text_of(await next_line(child))
        assert not [name for name in seen if name.startswith("ACCREDIT") or name == "accredit_go"]
        assert (seen["MORE"], seen["OTHER"]) == ("yes", "changed")


async def test_the_command_runs_with_its_arguments_as_they_are() -> None:
    arguments = ["a b", "$HOME", "'", "*", "", "-n"]
    code = "import sys,json;print(json.dumps(sys.argv[1:]))"
    async with running(sys.executable, "-I", "-S", "-c", code, *arguments) as child:
        assert json.loads(await next_line(child)) == arguments


def test_the_childs_path_finds_the_command(tmp_path: Path) -> None:
    server = tmp_path / "my-server"
    server.write_text("#!/bin/sh\n")
    server.chmod(0o755)
    assert find_program(StdioUpstream(("my-server",), {"PATH": str(tmp_path)})) == str(server)
    assert find_program(StdioUpstream(("my-server",))) is None
    assert child_environment(StdioUpstream(("x",), {"ACCREDIT_X": "meant"}))["ACCREDIT_X"] == "meant"


async def test_a_command_that_is_not_there_is_an_error_of_ours() -> None:
    guard = OrphanGuard()
    with pytest.raises(UpstreamUnavailable) as missing:
        await Child.start(StdioUpstream(("no-such-command",)), guard, MAX_LINE)
    assert missing.value.detail == "the upstream's command was not found"
    await guard.aclose()


@pytest.mark.parametrize("steps", range(4))
async def test_a_child_whose_start_is_taken_back_leaves_nothing_behind(steps: int) -> None:
    async with running():
        pass  # what the loop keeps from its first pipe on is there
    guard, before = OrphanGuard(), open_files()
    for _ in range(4):
        starting = asyncio.create_task(Child.start(StdioUpstream(raw_command(), {}), guard, MAX_LINE))
        for _ in range(steps):
            await asyncio.sleep(0)
        starting.cancel()
        for child in await asyncio.gather(starting, return_exceptions=True):
            if isinstance(child, Child):  # it was quicker
                await child.aclose()
    await guard.aclose()
    await until(lambda: not descendants(os.getpid()))
    gc.collect()
    await until(lambda: open_files() <= before)


async def test_a_command_that_can_not_be_run_ends_with_a_code(tmp_path: Path) -> None:
    server = tmp_path / "server"
    server.write_text("#!/nonexistent/interpreter\n")
    server.chmod(0o755)
    async with running(str(server)) as child:
        assert await child.lines() is None
        assert (await child.died()).detail in (
            "the upstream ended with code 126",
            "the upstream ended with code 127",
        )


async def test_a_child_that_was_killed_says_so() -> None:
    async with running() as child:
        await child.send(tool("die", signal=int(signal.SIGKILL)), 5)
        assert await child.lines() is None
        assert (await child.died()).detail == "the upstream ended with signal 9"


async def test_a_flood_on_stderr_does_not_stop_the_child() -> None:
    async with running() as child:
        await child.send(tool("floods_stderr", lines=20_000), 5)
        assert json.loads(await next_line(child))["id"] == 1


@pytest.mark.usefixtures("short_grace")
async def test_ending_twice_is_ending_once__and_whoever_stops_waiting_does_not_stop_it() -> None:
    async with running() as child:
        await child.send(tool("stubborn"), 5)
        pid = text_of(await next_line(child))
        impatient = asyncio.create_task(child.aclose())
        await asyncio.sleep(0)
        impatient.cancel()
        await asyncio.gather(child.aclose(), child.aclose())
        assert impatient.cancelled()
        await until(lambda: not alive(pid))


async def test_a_reaper_that_dies_takes_the_children_with_it() -> None:
    async with running() as child:
        (helper,) = descendants(os.getpid()) - {child.pid}
        os.kill(helper, signal.SIGKILL)
        assert await child.lines() is None
        assert (await child.died()).detail == "the upstream ended with signal 9"
