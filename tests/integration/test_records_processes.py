"""Records of the real commands: workers, kills, a full disk, `wrap`; and over HTTP+SSE of 2024."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.test_records_workers import writers_of
from tests.world.calls import STREAM_HEAD, chunk, compact, event, http, response
from tests.world.children import children
from tests.world.command import environment, wait_until
from tests.world.outcome_server import noted
from tests.world.patient_stores import COMMAND, IMPORTS
from tests.world.raw_client import RawClient
from tests.world.raw_server import Connection, RawServer, until
from tests.world.recorded import open_targets, outcomes, records_at, records_of
from tests.world.recorded_load import Upstream, ask, configure, serving, verify
from tests.world.running import RunningGateway
from tests.world.warm import Warm, python

from accredit.gateway import GatewaySettings, HttpUpstream, create_app
from accredit.gateway.settings import RecordSettings

pytestmark = pytest.mark.slow


async def test_each_worker_has_a_chain_and_one_verification_covers_all(tmp_path: Path) -> None:
    upstream = Upstream()
    async with RawServer(upstream) as server:
        db = configure(tmp_path, f'url = "{server.url}"')
        with await asyncio.to_thread(serving(tmp_path, "--workers", "4").__enter__) as gateway:
            await until(lambda: len(writers_of(gateway.workers)) == 4)
            writers = writers_of(gateway.workers)
            served: list[str] = []
            for number in range(4):
                async with RawClient(gateway.port) as client:
                    assert "result" in await ask(client, f"call-{number}")
                served.append(records_of(db)[-1].log.writer)
                os.kill(writers[served[-1]], signal.SIGSTOP)  # the next call is another worker's
            for process in writers.values():
                os.kill(process, signal.SIGCONT)
            gateway.stop()
            await asyncio.to_thread(gateway.wait)
    assert sorted(served) == sorted(writers)
    assert {status for _, status in outcomes(db)} == {"ok"}
    assert {each["writer"] for each in verify(tmp_path)["writers"]} == set(writers)


async def test_a_log_process_that_is_killed_is_replaced__and_no_answer_lacks_its_record(tmp_path: Path) -> None:
    upstream = Upstream()
    async with RawServer(upstream) as server:
        db = configure(tmp_path, f'url = "{server.url}"')
        with await asyncio.to_thread(serving(tmp_path).__enter__) as gateway:
            answered, refused, killed = list[str](), list[str](), list[int]()
            async with RawClient(gateway.port) as client:
                for each in range(3):
                    killed += children(gateway.process.pid)
                    os.kill(killed[-1], signal.SIGKILL)
                    while len(answered) < 5 * (each + 1):
                        call = f"call-{len(answered) + len(refused)}"
                        answer = await ask(client, call)
                        (answered if "result" in answer else refused).append(call)
            assert len(set(killed)) == 3
            gateway.stop()
            await asyncio.to_thread(gateway.wait)
            assert gateway.stderr.count("the process that writes the log had ended") == 3
            assert not [each for each in killed if Path(f"/proc/{each}").exists()]
    # Whether a call came while nobody was there to record it, so that it was refused, is the machine's to say: the
    # next process may be there before the call.
    found = dict(outcomes(db))
    assert {found[call] for call in answered} == {"ok"}
    assert set(answered) <= set(upstream.called) <= set(found)
    assert len(verify(tmp_path)["writers"]) == 1  # the life is the gateway's: the chain goes on


async def test_a_gateway_that_is_killed_takes_its_log_process_with_it(tmp_path: Path) -> None:
    async with RawServer(Upstream()) as server:
        configure(tmp_path, f'url = "{server.url}"')
        with await asyncio.to_thread(serving(tmp_path).__enter__) as gateway:
            async with RawClient(gateway.port) as client:
                await ask(client, "before")
            (writer,) = children(gateway.process.pid)
            gateway.process.kill()
            await until(lambda: not Path(f"/proc/{writer}").exists())


# --- wrap -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def wrapped(folder: Path) -> Generator["subprocess.Popen[bytes]"]:
    command = [python(), "-m", "tests.world.outcome_server", "accredit.db", "notes.jsonl"]
    configure(folder, f"command = {json.dumps(command)}")
    with Warm(
        [*COMMAND, "wrap"],
        cwd=folder,
        env=environment(IMPORTS),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        yield process


def say(process: "subprocess.Popen[bytes]", message: object) -> None:
    assert process.stdin is not None
    process.stdin.write(compact(message) + b"\n")
    process.stdin.flush()


def line_of(process: "subprocess.Popen[bytes]") -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def tool_call(tool: str, id: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": {}}}


@pytest.mark.holds("gateway/upstream/stdio/dedicated", "recorded")
def test_wrap_records_before_it_passes_a_line_on(tmp_path: Path) -> None:
    db = tmp_path / "accredit.db"
    with wrapped(tmp_path) as process:
        for id, (tool, status) in enumerate((("ok", "ok"), ("fail", "tool_error"), ("bad", "upstream_invalid"))):
            say(process, tool_call(tool, id))
            assert line_of(process)["id"] == id
            assert outcomes(db)[id] == (tool, status)
        say(process, tool_call("hang", 8))
        wait_until(lambda: len(noted(tmp_path / "notes.jsonl")) == 4)  # else it may look into the log only later
        say(process, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 8}})
        say(process, tool_call("die", 9))
        assert line_of(process)["error"]["message"] == "Upstream unavailable"
        assert process.wait(30) == 1
    assert outcomes(db)[3:] == [("hang", "cancelled"), ("die", "unknown")]
    seen = [note["open"][-1:] for note in noted(tmp_path / "notes.jsonl")]
    assert seen == [[tool] for tool in ("ok", "fail", "bad", "hang", "die")]
    assert verify(tmp_path)["valid"]


def test_wrap_leaves_no_call_open_when_its_host_is_gone(tmp_path: Path) -> None:
    with wrapped(tmp_path) as process:
        say(process, tool_call("ok", 1))
        line_of(process)
        say(process, tool_call("hang", 2))
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    assert outcomes(tmp_path / "accredit.db")[0] == ("ok", "ok")
    assert open_targets(tmp_path / "accredit.db") == []


# --- HTTP+SSE of 2024 -------------------------------------------------------------------------------


async def test_in_a_session_of_2024_the_event_waits_for_the_record(tmp_path: Path) -> None:
    log = tmp_path / "log.db"
    streams: list[Connection] = []
    seen: list[list[str]] = []

    async def upstream(connection: Connection) -> None:
        while (request := await connection.request()) is not None:
            if request.method == "GET":
                streams.append(connection)
                await connection.send(STREAM_HEAD, chunk(b"event: endpoint\ndata: /messages?sid=abc\n\n"))
                await connection.peer_closed()
                return
            message = json.loads(request.body)
            seen.append(open_targets(log))
            if message["params"]["name"] == "refuse":
                await connection.send(http(b"", None, status="500 Internal Server Error"))
                continue
            if message["params"]["name"] != "hang":
                await streams[0].send(chunk(event(response(message["id"]))))
            await connection.send(http(b"Accepted", "text/plain", status="202 Accepted"))

    async with RawServer(upstream) as server:
        settings = GatewaySettings(HttpUpstream(server.url.replace("/mcp", "/sse")), records=RecordSettings("gate"))
        async with RunningGateway(create_app(settings, records=records_at(log))) as gateway:
            async with RawClient(gateway.port) as stream:
                await stream.ask("GET", "/sse", [("Accept", "text/event-stream")])
                await stream.head()
                named = await stream.event()
                assert named is not None
                target = (named.data or b"").decode()
                for id, tool in enumerate(("ok", "refuse", "hang")):
                    async with RawClient(gateway.port) as client:
                        json_type = [("Content-Type", "application/json")]
                        await client.ask("POST", target, json_type, compact(tool_call(tool, id)))
                        await client.answer()
                    if tool == "ok":
                        got = await stream.event()
                        assert got is not None
                        assert outcomes(log) == [("ok", "ok")]
                assert outcomes(log) == [("ok", "ok"), ("refuse", "error"), ("hang", None)]
            await until(lambda: outcomes(log)[-1] == ("hang", "cancelled"))
        assert seen == [["ok"], ["refuse"], ["hang"]]
