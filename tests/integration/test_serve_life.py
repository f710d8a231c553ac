"""How `accredit serve` begins and ends: signals, workers, and what is left of it (nothing)."""

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from subprocess import TimeoutExpired

import pytest
from tests.world.command import Serving, accepts, accredit, wait_until
from tests.world.raw_client import CutOff, RawAnswer, RawClient
from tests.world.raw_server import PATIENCE, Connection, RawServer
from tests.world.running import run

pytestmark = [pytest.mark.slow, pytest.mark.holds("app/server")]

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
PONG = b'{"jsonrpc":"2.0","id":1,"result":{}}'
HEADERS = [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")]


class Upstream:
    """Answers a ping when it is let."""

    def __init__(self) -> None:
        self.arrived = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def __call__(self, connection: Connection) -> None:
        """One connection of the gateway's."""
        while request := await connection.request():
            if request.method == "GET":
                await connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n:hello\n\n")
                await connection.peer_closed()
                return
            self.arrived.set()
            await self.may_answer.wait()
            head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(PONG)}\r\n\r\n"
            await connection.send(head.encode("ascii") + PONG)


async def ping(port: int) -> RawAnswer:
    async with RawClient(port) as client:
        await client.ask("POST", "/mcp", HEADERS, PING)
        return await client.answer()


def ending(folder: Path, lines: str) -> Path:
    """A configuration with something about the end; the server is named on the command line."""
    file = folder / "ending.toml"
    file.write_text(f'[upstream]\nurl = "http://127.0.0.1:9/mcp"\n[gateway]\n{lines}\n', "utf-8")
    return file


def ready(port: int) -> tuple[int, str]:
    """What `/readyz` says."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as client:
        client.request("GET", "/readyz")
        answer = client.getresponse()
        return answer.status, json.loads(answer.read())["status"]


async def settled(condition: Callable[[], bool]) -> None:
    await asyncio.to_thread(wait_until, condition)


Act = Callable[[Serving, Upstream], Awaitable[None]]


def scene(folder: Path, *arguments: str) -> Callable[[Act], None]:
    """Runs a test's coroutine with a gateway (a process) in front of an upstream (in this one)."""

    async def main(act: Act) -> None:
        upstream = Upstream()
        async with RawServer(upstream) as server:
            gateway = Serving(server.url, *arguments, folder=folder)
            try:
                await asyncio.to_thread(gateway.__enter__)
                await act(gateway, upstream)
            finally:
                gateway.__exit__(None, None, None)
                upstream.may_answer.set()
            await server.until(lambda server: server.open == 0)

    return lambda act: run(main(act))


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_lets_an_open_call_finish(number: signal.Signals, workers: str, tmp_path: Path) -> None:
    async def act(gateway: Serving, upstream: Upstream) -> None:
        call = asyncio.create_task(ping(gateway.port))
        await upstream.arrived.wait()
        gateway.stop(number)
        await settled(lambda: not accepts(gateway.port))
        assert gateway.process.poll() is None
        upstream.may_answer.set()
        answer = await call
        assert (answer.status, answer.body) == (200, PONG)
        assert await asyncio.to_thread(gateway.wait) == 0

    scene(tmp_path, "--workers", workers)(act)


@pytest.mark.holds("app/server", "draining")
@pytest.mark.parametrize("workers", ["1", "2"])
def test_while_it_drains_a_balancer_is_told_and_no_call_is_lost(workers: str, tmp_path: Path) -> None:
    async def act(gateway: Serving, upstream: Upstream) -> None:
        async with RawClient(gateway.port) as kept, RawClient(gateway.port) as asks:
            upstream.may_answer.set()
            for _ in range(2):  # from then on its head is known
                await kept.ask("POST", "/mcp", HEADERS, PING)
                assert (await kept.answer()).header("connection") is None
            upstream.may_answer.clear()
            upstream.arrived.clear()
            await asks.ask("POST", "/mcp", HEADERS, PING)
            await upstream.arrived.wait()
            gateway.stop()
            await settled(lambda: ready(gateway.port) == (503, "draining"))
            upstream.may_answer.set()
            for client in (asks, kept):
                if client is kept:
                    await kept.ask("POST", "/mcp", HEADERS, PING)
                answer = await client.answer()
                async with asyncio.timeout(PATIENCE):
                    # `/readyz` speaks for one worker; the other one may be told a moment later
                    while workers == "2" and answer.header("connection") is None:
                        assert (answer.status, answer.body) == (200, PONG)
                        await client.ask("POST", "/mcp", HEADERS, PING)
                        answer = await client.answer()
                assert (answer.status, answer.body, answer.header("connection")) == (200, PONG, "close")
                assert await client.peer_closed()
            assert (await ping(gateway.port)).body == PONG  # on a connection that is accepted now
        gateway.stop()  # the second signal waits for no drain
        await asyncio.to_thread(gateway.wait)

    scene(tmp_path, "--workers", workers, "--config", str(ending(tmp_path, "drain_seconds = 3600")))(act)


@pytest.mark.holds("app/server", "grace")
@pytest.mark.parametrize("workers", ["1", "2"])
def test_after_the_drain_nothing_is_accepted__and_the_grace_is_as_long_as_it_is_configured(
    workers: str, tmp_path: Path
) -> None:
    async def act(gateway: Serving, upstream: Upstream) -> None:
        call = asyncio.create_task(ping(gateway.port))
        await upstream.arrived.wait()
        gateway.stop()
        await settled(lambda: not accepts(gateway.port))
        assert await asyncio.to_thread(gateway.wait) == 0
        answer = await call
        assert (answer.status, json.loads(answer.body)["error"]["message"]) == (502, "Upstream unavailable")

    scene(tmp_path, "--workers", workers, "--config", str(ending(tmp_path, "drain_seconds = 1\ngrace_seconds = 1")))(
        act
    )


@pytest.mark.parametrize("line", ["drain_seconds = -1", "drain_seconds = 3601", "grace_seconds = 0.5"])
def test_a_time_for_the_end_that_is_none_stops_the_start(line: str, tmp_path: Path) -> None:
    done = accredit("config", "check", "--config", str(ending(tmp_path, line)), folder=tmp_path)
    assert done.returncode == 2
    assert f"gateway.{line.split()[0]}" in done.stderr


@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_second_signal_ends_it_at_once(workers: str, tmp_path: Path) -> None:
    async def act(gateway: Serving, upstream: Upstream) -> None:
        call = asyncio.create_task(ping(gateway.port))
        await upstream.arrived.wait()
        children = gateway.workers
        gateway.stop()
        await settled(lambda: not accepts(gateway.port))
        gateway.stop()
        await asyncio.to_thread(gateway.wait)
        await settled(lambda: not any(alive(child) for child in children))
        with pytest.raises((CutOff, ConnectionError)):
            await call

    scene(tmp_path, "--workers", workers)(act)


def test_an_idle_connection_does_not_hold_up_the_end(tmp_path: Path) -> None:
    async def act(gateway: Serving, upstream: Upstream) -> None:
        upstream.may_answer.set()
        async with RawClient(gateway.port) as idle, RawClient(gateway.port) as silent:
            await idle.ask("GET", "/healthz")
            assert (await idle.answer()).status == 200
            gateway.stop()
            assert await asyncio.to_thread(gateway.wait) == 0
            assert await silent.peer_closed()
            assert "graceful shutdown exceeded" not in gateway.stderr  # the HTTP server's words after the grace

    scene(tmp_path)(act)


def test_a_standing_stream_does_not_hold_up_the_end(tmp_path: Path) -> None:
    async def act(gateway: Serving, _: Upstream) -> None:
        async with RawClient(gateway.port) as client:
            await client.ask("GET", "/mcp", [("Accept", "text/event-stream"), ("Mcp-Session-Id", "a")])
            status, _headers = await client.head()
            assert status == 200
            assert await client.event() is not None
            gateway.stop()
            assert await client.event() is None
            assert await asyncio.to_thread(gateway.wait) == 0

    scene(tmp_path)(act)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_call_that_does_not_end_is_cut_off_after_the_grace(workers: str, tmp_path: Path) -> None:
    async def act(gateway: Serving, upstream: Upstream) -> None:
        call = asyncio.create_task(ping(gateway.port))
        await upstream.arrived.wait()
        gateway.stop()
        with pytest.raises(TimeoutExpired):
            await asyncio.to_thread(gateway.process.wait, 1)
        assert await asyncio.to_thread(gateway.wait) == 0
        answer = await call
        assert (answer.status, json.loads(answer.body)["id"]) == (502, None)
        assert json.loads(answer.body)["error"]["message"] == "Upstream unavailable"
        assert "Traceback" not in gateway.stderr

    scene(tmp_path, "--workers", workers, "--config", str(ending(tmp_path, "grace_seconds = 4")))(act)


def alive(pid: int) -> bool:
    """Whether a process runs (one that ended and is not yet collected does not)."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_worker_that_dies_is_replaced(tmp_path: Path) -> None:
    async def act(gateway: Serving, upstream: Upstream) -> None:
        upstream.may_answer.set()
        await settled(lambda: len(gateway.workers) == 2)
        victim = min(gateway.workers)
        os.kill(victim, signal.SIGKILL)
        await settled(lambda: len(gateway.workers - {victim}) == 2)
        for _ in range(8):
            assert (await ping(gateway.port)).body == PONG
        gateway.stop()
        assert await asyncio.to_thread(gateway.wait) == 0
        assert "a worker ended" in gateway.stderr

    scene(tmp_path, "--workers", "2")(act)


def test_workers_do_not_outlive_a_parent_that_is_killed(tmp_path: Path) -> None:
    async def act(gateway: Serving, upstream: Upstream) -> None:
        upstream.may_answer.set()
        await settled(lambda: len(gateway.workers) == 2)
        children = gateway.workers
        gateway.stop(signal.SIGKILL)
        await settled(lambda: not any(alive(child) for child in children))
        await settled(lambda: not accepts(gateway.port))  # the last thread of each takes the socket with it

    scene(tmp_path, "--workers", "2")(act)


def test_a_signal_to_the_whole_group_is_one_signal_to_each_worker(tmp_path: Path) -> None:
    """As Ctrl-C in a terminal does, and a service manager that signals every process of a service."""

    async def act(gateway: Serving, upstream: Upstream) -> None:
        call = asyncio.create_task(ping(gateway.port))
        await upstream.arrived.wait()
        os.killpg(gateway.process.pid, signal.SIGTERM)
        await settled(lambda: not accepts(gateway.port))
        upstream.may_answer.set()
        assert (await call).body == PONG
        assert await asyncio.to_thread(gateway.wait) == 0

    scene(tmp_path, "--workers", "2")(act)


def test_every_line_of_a_json_log_is_json(tmp_path: Path) -> None:
    async def act(gateway: Serving, _: Upstream) -> None:
        async with RawClient(gateway.port) as client:
            await client.send(b"not\x1b[2J HTTP\r\n\r\n")
            assert (await client.answer()).status == 400
        gateway.stop()
        assert await asyncio.to_thread(gateway.wait) == 0
        lines = [json.loads(line) for line in gateway.stderr.splitlines()]
        assert [line["event"] for line in lines if line["logger"] == "accredit.notice"] == [
            "tokens, proofs and records are off (no accredit.toml; `accredit init URL` writes one)",
            f"listening on {gateway.url} (1 worker)",
        ]
        assert any(line["logger"] == "accredit.app" for line in lines)

    scene(tmp_path)(act)
