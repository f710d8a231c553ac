"""A server that is slow to start belongs to the merged session once it is there, and keeps nothing from the others."""

import asyncio
import json
import os
import shlex
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from tests.world.calls import initialize
from tests.world.merged import HTTP, STDIO, Merged
from tests.world.raw_client import RawClient
from tests.world.raw_server import PATIENCE, Connection, RawServer, until
from tests.world.running import run
from tests.world.sdk import EVERYTHING
from tests.world.stdio_bridge import SessionClient, next_event, text_of
from tests.world.stdio_processes import descendants, raw_command

pytestmark = [
    pytest.mark.slow,
    pytest.mark.holds("gateway/upstream/merged/sessions"),
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

TWO = {"mail": STDIO, "files": STDIO}
SECONDS = "accredit.gateway.upstream.merged.sessions.MERGED_ASK_SECONDS"
UNAVAILABLE = "dev.accredit/unavailable"


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has not answered when the first has is slow; lists and streams are patient."""
    monkeypatch.setattr(SECONDS, 0.001)
    for module in ("members", "answers"):
        monkeypatch.setattr(f"accredit.gateway.upstream.merged.{module}.MERGED_ASK_SECONDS", PATIENCE)


def once_there(gate: Path, command: tuple[str, ...]) -> tuple[str, ...]:
    """A command that begins when a file is there, such as a package that is downloaded first."""
    waits = f"while [ ! -e {shlex.quote(str(gate))} ]; do sleep 0.02; done"
    return ("/bin/sh", "-c", f'{waits}; exec "$@"', "late", *command)


async def begun(merged: Merged) -> tuple[SessionClient, dict[str, Any]]:
    answer = await merged.send(initialize("2025-11-25"))
    assert answer.status == 200, answer
    return SessionClient(merged, answer.header("mcp-session-id") or "", "2025-11-25"), json.loads(answer.body)["result"]


def listing(id: int = 5) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": "tools/list"}


def children() -> int:
    return len([pid for pid in descendants(os.getpid()) if "reaper.py" not in _line(pid)])


def _line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


@pytest.mark.holds("gateway/upstream/merged/sessions", "wait", "late-command")
async def test_a_slow_server_is_there_for_the_sdks_client_once_it_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = "accredit.gateway.upstream.merged.answers.MERGED_ASK_SECONDS"
    changed = asyncio.Event()

    async def on_message(message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changed.set()

    commands = {"mail": EVERYTHING, "files": once_there(tmp_path / "there", EVERYTHING)}
    async with Merged(TWO, commands=commands) as merged:
        made = Client(merged.gateway.url, mode="legacy", read_timeout_seconds=PATIENCE, message_handler=on_message)
        async with made as client:
            monkeypatch.setattr(lists, 0.5)
            names = {tool.name.partition("__")[0] for tool in (await client.list_tools()).tools}
            assert names == {"mail"}
            monkeypatch.setattr(lists, PATIENCE)
            call = asyncio.create_task(client.call_tool("files__test_simple_text"))  # it waits
            assert not (await client.call_tool("mail__test_simple_text")).is_error
            assert not call.done()
            (tmp_path / "there").touch()
            async with asyncio.timeout(PATIENCE):
                await changed.wait()
            assert not (await call).is_error
            names = {tool.name.partition("__")[0] for tool in (await client.list_tools()).tools}
            assert names == set(TWO)


@pytest.mark.holds("gateway/upstream/merged/answers", "starting")
@pytest.mark.holds("gateway/upstream/merged/streams")
async def test_a_slow_server_is_named__initialized_first__and_announced(tmp_path: Path) -> None:
    commands = {"files": once_there(tmp_path / "there", raw_command())}
    async with Merged(TWO, commands=commands) as merged:
        session, result = await begun(merged)
        assert result["_meta"] == {UNAVAILABLE: ["files"]}
        assert all(result["capabilities"][each]["listChanged"] for each in ("tools", "prompts", "resources"))
        assert (await session.send({"jsonrpc": "2.0", "method": "notifications/initialized"})).status == 202
        call = asyncio.create_task(session.call("files__read", id="lines"))
        async with RawClient(merged.port) as client:
            opening = asyncio.create_task(session.get(client))
            (tmp_path / "there").touch()
            assert await opening == 200
            told: set[str] = set()
            while len(told) < 3:
                event = await next_event(client)
                assert event is not None
                if event.message is not None:
                    told.add(event.message["method"])
            assert told == {f"notifications/{each}/list_changed" for each in ("tools", "prompts", "resources")}
        _, message = await call
        methods = [json.loads(line)["method"] for line in text_of(message)]
        assert methods[:2] == ["initialize", "notifications/initialized"]
        assert methods.count("notifications/initialized") == 1
        listed = json.loads((await session.send(listing())).body)["result"]
        assert "_meta" not in listed
        assert await session.delete() == 204


@pytest.mark.holds("gateway/upstream/merged/sessions", "wait")
async def test_where_all_are_slow_the_client_waits_for_the_first(tmp_path: Path) -> None:
    commands = {name: once_there(tmp_path / name, raw_command()) for name in TWO}
    async with Merged(TWO, commands=commands) as merged:
        beginning = asyncio.create_task(begun(merged))
        await until(lambda: children() >= 2)
        assert not beginning.done()
        (tmp_path / "mail").touch()
        session, result = await beginning
        assert result["_meta"] == {UNAVAILABLE: ["files"]}
        assert (await session.call("mail__echo"))[0] == 200


@pytest.mark.holds("gateway/upstream/merged/sessions", "late-command")
@pytest.mark.parametrize("ends", ["it dies", "the client ends the session", "it answers no revision"])
def test_a_slow_server_that_does_not_come_leaves_nothing__and_the_session_is_the_others(
    tmp_path: Path, ends: str
) -> None:
    odd = 'read -r line; echo \'{"jsonrpc":"2.0","id":7,"result":{"protocolVersion":"1999-01-01"}}\'; cat > /dev/null'
    command = ("/bin/sh", "-c", odd) if ends == "it answers no revision" else ("false",)

    async def main() -> None:
        async with Merged(TWO, commands={"files": once_there(tmp_path / "there", command)}) as merged:
            session, _ = await begun(merged)
            waiting = asyncio.create_task(session.call("files__echo"))
            assert (await session.call("mail__echo"))[0] == 200
            if ends == "the client ends the session":
                assert await session.delete() == 204
                assert (await waiting)[0] in (404, 502)
                await until(lambda: children() == 0)
                return
            (tmp_path / "there").touch()
            assert "error" in (await waiting)[1]
            await until(lambda: children() == 1)
            assert (await session.call("mail__echo"))[0] == 200
            listed = json.loads((await session.send(listing())).body)["result"]
            assert listed["_meta"] == {UNAVAILABLE: ["files"]}

    run(main())


@pytest.mark.holds("gateway/upstream/stdio/backend", "fairness")
async def test_starts_that_nobody_waits_for_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accredit.gateway.upstream.stdio.backend.MAX_SESSIONS", 2)
    monkeypatch.setattr("accredit.gateway.upstream.stdio.backend.MIN_SESSIONS", 2)

    commands = {"files": once_there(tmp_path / "there", raw_command())}
    async with Merged({"mail": HTTP, "files": STDIO}, commands=commands) as merged:
        for _ in range(4):
            await begun(merged)
        await until(lambda: len([pid for pid in descendants(os.getpid()) if "late" in _line(pid)]) == 2)
        monkeypatch.setattr(SECONDS, PATIENCE)
        (tmp_path / "there").touch()
        session, result = await begun(merged)
        assert "_meta" not in result
        assert (await session.call("files__echo"))[0] == 200


@pytest.mark.holds("gateway/upstream/merged/sessions", "others")
async def test_a_server_behind_a_url_that_does_not_answer_is_not_in_the_session__and_keeps_no_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def silent(connection: Connection) -> None:
        while await connection.request() is not None:
            pass

    async with RawServer(silent) as server, Merged({"mail": STDIO, "files": server.url}) as merged:
        session, result = await begun(merged)
        assert result["_meta"] == {UNAVAILABLE: ["files"]}
        status, message = await session.call("files__echo")
        assert (status, message["error"]["message"]) == (502, "Upstream unavailable")
        await until(lambda: server.open == 0)
        failed = [vars(each)["accredit_fields"] for each in caplog.records if each.message == "upstream_failed"]
        assert {each["server"] for each in failed} == {"files"}
        listed = json.loads((await session.send(listing())).body)["result"]
        assert listed["_meta"] == {UNAVAILABLE: ["files"]}
        (left_out,) = [vars(each)["accredit_fields"] for each in caplog.records if each.message == "left_out"]
        assert left_out["server"] == "files"
