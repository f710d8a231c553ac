"""Merged sessions of several people: nothing of one reaches another, records say what has become of a call, and a
reload that changes no server ends none.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.world.authorization import SCOPES, Signed, Trust
from tests.world.calls import STREAM_HEAD, Posted, chunk, initialize, post
from tests.world.many_servers import Several
from tests.world.merged import HTTP, STDIO, Merged
from tests.world.raw_client import RawClient
from tests.world.raw_server import Connection, until
from tests.world.recorded import outcomes, records_at
from tests.world.routes import messages_of
from tests.world.running import ASGI, by_road
from tests.world.stdio_bridge import next_event
from tests.world.tokened import Tokened

from accredit.jsonrpc.methods import Era

pytestmark = pytest.mark.holds("gateway/upstream/merged/sessions")


def in_session(posted: Posted, session: str, *more: tuple[str, str]) -> list[tuple[str, str]]:
    bare = [pair for pair in posted.headers if pair[0] != "Mcp-Session-Id"]
    return [*bare, ("Mcp-Session-Id", session), *more]


async def test_a_merged_session_is_its_subjects_and_to_all_others_as_if_it_were_not_there(trust: Trust) -> None:
    world = Tokened()

    settings = world.settings()
    async with Several(trust, required=False, merge=True, key_sets=world.key_sets, tokens=settings) as several:
        alice, bob = world.token(sub="alice"), world.token(sub="bob")
        answer = await several.send_merged(initialize(), token=alice)
        session = answer.header("mcp-session-id") or ""
        call = post(Era.LEGACY, "tools/call", {"name": "mail__list_inbox", "arguments": {}})
        assert (await several.send_merged(call, session=session, token=alice)).status == 200
        assert (await several.send_merged(call, session=session, token=bob)).status == 404
        for method in ("GET", "DELETE"):
            headers = in_session(Posted(call.headers, b""), session, ("Authorization", f"Bearer {bob}"))
            assert (await several.get("/mcp", method, *headers)).status == 404
        assert len(several.calls("mail")) == 1


@pytest.mark.parametrize("again", ["reload", "none"])
async def test_a_reload_that_changes_no_server_ends_no_session_and_no_stream(again: str) -> None:
    async with Merged({"mail": HTTP, "files": STDIO}) as merged, RawClient(merged.port) as client:
        session = await merged.session()
        assert await session.get(client) == 200
        if again == "reload":
            merged.reload()
        after = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": 1}}
        for name in ("mail", "files"):
            answered = {"jsonrpc": "2.0", "id": "ID", "result": {"content": []}}
            await session.call(f"{name}__tell", message=answered, after=after, answer=False)
            event = await next_event(client)
            while event is not None and event.message is None:
                event = await next_event(client)
            assert event is not None
            assert event.message["params"]["logger"] == name
        merged.gateway.app.end_streams()
        while (event := await next_event(client)) is not None:
            assert event.message is None


@pytest.mark.parametrize("name", [HTTP, STDIO])
async def test_it_is_the_same_on_the_other_road(name: str) -> None:
    with by_road(ASGI):
        async with Merged({"mail": name}) as merged, RawClient(merged.port) as client:
            session = await merged.session()
            assert await session.get(client) == 200
            assert (await session.call("mail__echo", x=1))[0] == 200
            assert await session.delete() == 204


def answering(result: Any) -> bytes:
    """A whole answer, which begins the session `s`."""
    body = json.dumps(result)
    head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: s\r\nConnection: close\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()


HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "c", "version": "1"}}


@pytest.mark.slow
async def test_of_tasks_only_their_maker_hears_on_the_stream_of_all(trust: Trust) -> None:
    streams: list[Connection] = []

    async def tells(connection: Connection) -> None:
        got = await connection.request()
        if got is None:
            return
        if got.method == "GET":
            await connection.send(STREAM_HEAD)
            streams.append(connection)
            await connection.peer_closed()
            return
        message = json.loads(got.body)
        task = {"taskId": "1", "status": "working", "ttl": 60_000}
        result = {"task": task} if message["method"] == "tools/call" else HELLO
        await connection.send(answering({"jsonrpc": "2.0", "id": message["id"], "result": result}))

    def status(id: str) -> bytes:
        params = {"taskId": id, "status": "working"}
        told = {"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": params}
        return chunk(b"data: " + json.dumps(told).encode() + b"\n\n")

    async with Several(trust, merge=True, handlers=dict.fromkeys(("mail", "files"), tells)) as several:
        mine, other = [(await several.send_merged(initialize())).header("mcp-session-id") or "" for _ in range(2)]
        params: dict[str, Any] = {"name": "mail__list_inbox", "arguments": {}, "task": {"ttl": 60_000}}
        proof = trust.proof(trust.chain(), "tools/call", params, Signed(session=mine, scope=SCOPES["list_inbox"]))
        call = post(Era.LEGACY, "tools/call", {**params, "_meta": {"ratify_proof": proof}})
        made = messages_of(await several.send_merged(call, session=mine))[-1]
        assert made["result"]["task"]["taskId"] == "mail__1"
        heard: dict[str, list[str]] = {}
        for session in (mine, other):
            streams.clear()
            async with RawClient(several.port) as client:
                headers = in_session(Posted(call.headers, b""), session)
                await client.ask("GET", "/mcp", [pair for pair in headers if pair[0] != "Content-Type"])
                assert (await client.head())[0] == 200
                await until(lambda: len(streams) == 2)
                last = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
                for stream in streams:
                    for id in ("1", "2"):
                        await stream.send(status(id))
                    await stream.send(chunk(b"data: " + json.dumps(last).encode() + b"\n\n"))
                told = heard[session] = []
                ends = 0
                while ends < 2:
                    event = await next_event(client)
                    assert event is not None
                    ends += event.message["method"] == last["method"]
                    told += [event.message["params"]["taskId"]] if "params" in event.message else []
        assert heard == {mine: ["mail__1"], other: []}


async def test_a_call_that_is_answered_on_a_resumed_stream_is_recorded_as_that(trust: Trust, tmp_path: Path) -> None:
    async def cut(connection: Connection) -> None:
        got = await connection.request()
        assert got is not None
        if got.method == "GET":
            answer = {"jsonrpc": "2.0", "id": 7, "result": {"content": [], "isError": False}}
            event = b"id: 2\ndata: " + json.dumps(answer).encode() + b"\n\n"
            await connection.send(STREAM_HEAD + chunk(event) + b"0\r\n\r\n")
            return
        message = json.loads(got.body)
        if message["method"] == "tools/call":
            await connection.send(STREAM_HEAD + chunk(b"id: 1\ndata: \n\n") + b"0\r\n\r\n")
            return
        await connection.send(answering({"jsonrpc": "2.0", "id": message["id"], "result": HELLO}))

    path = tmp_path / "log.db"
    async with Several(trust, merge=True, handlers={"mail": cut}, records=records_at(path)) as several:
        answer = await several.send_merged(initialize())
        session = answer.header("mcp-session-id") or ""
        params: dict[str, Any] = {"name": "mail__list_inbox", "arguments": {}}
        signed = Signed(session=session, scope=SCOPES["list_inbox"])
        proof = trust.proof(trust.chain(), "tools/call", params, signed)
        call = post(Era.LEGACY, "tools/call", {**params, "_meta": {"ratify_proof": proof}})
        async with RawClient(several.port) as client:
            await client.ask("POST", "/mcp", in_session(call, session), call.body)
            assert (await client.head())[0] == 200
            event = await next_event(client)
            assert event is not None
            assert await next_event(client) is None
        async with RawClient(several.port) as client:
            headers = in_session(Posted(call.headers, b""), session, ("Last-Event-ID", event.id or ""))
            await client.ask("GET", "/mcp", [pair for pair in headers if pair[0] != "Content-Type"])
            assert (await client.head())[0] == 200
            resumed = await next_event(client)
            assert resumed is not None
            assert resumed.message["result"] == {"content": [], "isError": False}
        await until(lambda: bool(outcomes(path)))
    assert outcomes(tmp_path / "log.db") == [("mail__list_inbox", "ok")]
