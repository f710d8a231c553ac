"""One session and its streams with several servers behind the merged endpoint: each message goes where it belongs."""

import asyncio
import json
from typing import Any

import pytest
from tests.world.calls import Posted
from tests.world.merged import HTTP, STDIO, Merged
from tests.world.raw_client import RawClient
from tests.world.running import RunningGateway
from tests.world.stdio_bridge import SessionClient, events_of, next_event, open_stream, text_of

from accredit.gateway import GatewaySettings, create_app
from accredit.gateway.settings import MergedUpstream, RoundsSettings

pytestmark = pytest.mark.holds("gateway/upstream/merged/sessions")

TWO = {"mail": HTTP, "files": STDIO}
UNAVAILABLE = "dev.accredit/unavailable"


def request(method: str, params: Any = None, id: Any = 5) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, **({} if params is None else {"params": params})}


def note(method: str, params: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": f"notifications/{method}", **({} if params is None else {"params": params})}


async def asked(client: RawClient) -> Any:
    """The next message of a stream that is not a priming event."""
    while (event := await next_event(client)) is not None:
        if event.message is not None:
            return event
    return None


async def lines_of(session: SessionClient, name: str) -> list[Any]:
    """What a server's child has read in this session."""
    _, message = await session.call(f"{name}__read", id="lines")
    return [json.loads(line) for line in text_of(message)]


# --- initialize, and what goes to all -----------------------------------------------------------------


@pytest.mark.holds("gateway/upstream/merged/sessions", "initialize")
async def test_one_session_is_with_all_servers_and_ends_with_all() -> None:
    async with Merged({**TWO, "old": STDIO}) as merged:
        session = await merged.session()
        for name in ("mail", "files", "old"):
            assert (await session.call(f"{name}__echo", x=name))[0] == 200
        assert await session.delete() == 204
        for name in ("mail", "files", "old"):
            status, message = await session.call(f"{name}__echo")
            assert (status, message["error"]["message"]) == (404, "Session not found")
        assert await session.delete() == 404


@pytest.mark.holds("gateway/upstream/merged/answers", "starting")
async def test_a_server_that_does_not_answer_initialize_is_left_out_and_named() -> None:
    commands = {"files": ("false",)}
    async with Merged(TWO, commands=commands) as merged:
        answer = await merged.send(Posted(*_initialize()))
        assert json.loads(answer.body)["result"]["_meta"] == {UNAVAILABLE: ["files"]}
        session = SessionClient(merged, answer.header("mcp-session-id") or "", "2025-11-25")  # type: ignore[arg-type]
        assert (await session.call("mail__echo"))[0] == 200
        status, message = await session.call("files__echo")
        assert (status, message["error"]["message"]) == (502, "Upstream unavailable")
        listed = json.loads((await session.send(request("tools/list"))).body)
        assert listed["result"]["_meta"] == {UNAVAILABLE: ["files"]}


async def test_without_any_server_there_is_no_session() -> None:
    async with Merged(TWO, commands=dict.fromkeys(TWO, ("false",))) as merged:
        answer = await merged.send(Posted(*_initialize()))
        assert (answer.status, answer.header("mcp-session-id")) == (502, None)


def _initialize() -> tuple[list[tuple[str, str]], bytes]:
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    headers = [("Accept", "application/json, text/event-stream"), ("Content-Type", "application/json")]
    return headers, json.dumps(request("initialize", params, 1)).encode()


@pytest.mark.holds("gateway/upstream/merged/sessions", "to-all")
async def test_what_is_for_all_reaches_all_once() -> None:
    async with Merged(TWO) as merged:
        session = await merged.session()
        for message in (note("initialized"), note("roots/list_changed")):
            assert (await session.send(message)).status == 202
        assert json.loads((await session.send(request("ping"))).body) == {"jsonrpc": "2.0", "id": 5, "result": {}}
        for name in TWO:
            methods = [line["method"] for line in await lines_of(session, name)]
            assert methods[1:-1] == ["notifications/initialized", "notifications/roots/list_changed", "ping"]


@pytest.mark.holds("gateway/upstream/merged/sessions", "responses")
async def test_a_cancellation_reaches_the_server_that_has_the_request_and_no_other() -> None:
    async with Merged(TWO) as merged, RawClient(merged.port) as client:
        session = await merged.session()
        posted = session.posted("files__mute", id=9)
        await client.ask("POST", "/mcp", posted.headers, posted.body)
        while not any(line.get("id") == 9 for line in await lines_of(session, "files")):
            await asyncio.sleep(0.01)
        await session.send(note("cancelled", {"requestId": 9}))
        answer = await client.answer()
        assert json.loads(answer.body)["error"]["code"] == -32800
        assert any(line["method"] == "notifications/cancelled" for line in await lines_of(session, "files"))
        assert not any(line["method"] == "notifications/cancelled" for line in await lines_of(session, "mail"))
        await session.send(note("cancelled", {"requestId": "unknown here"}))
        for name in TWO:
            assert any(
                line.get("params", {}).get("requestId") == "unknown here" for line in await lines_of(session, name)
            )


# --- what servers ask and tell -------------------------------------------------------------------------


@pytest.mark.holds("gateway/upstream/merged/sessions", "responses")
async def test_two_servers_that_ask_with_the_same_ids_get_each_its_own_answers() -> None:
    async with Merged(TWO) as merged, RawClient(merged.port) as one, RawClient(merged.port) as two:
        session = await merged.session()
        await open_stream(one, session.posted("mail__ask", id=1, ids=[7]))
        await open_stream(two, session.posted("files__ask", id=2, ids=[7]))
        first, second = await asked(one), await asked(two)
        assert (first.message["id"], second.message["id"]) == ("mail:7", "files:7")
        for id, said in ((second.message["id"], "to files"), (first.message["id"], "to mail")):
            assert (await session.send({"jsonrpc": "2.0", "id": id, "result": {"said": said}})).status == 202
        for stream, said in ((one, "to mail"), (two, "to files")):
            got = text_of((await asked(stream)).message)
            assert got == {"jsonrpc": "2.0", "id": 7, "result": {"said": said}}


@pytest.mark.holds("gateway/upstream/merged/sessions", "no-server")
async def test_an_answer_to_a_forged_id_reaches_nobody() -> None:
    async with Merged(TWO) as merged, RawClient(merged.port) as client:
        session = await merged.session()
        await open_stream(client, session.posted("files__ask", id=1, ids=[7, "7"]))
        assert [(await asked(client)).message["id"] for _ in range(2)] == ["files:7", 'files:"7"']
        forged: list[Any] = [7, "7", "mail:7", "files:07", "files:8", "files", "nobody:7", "x" * 1_000, 10**40]
        for id in forged:
            assert (await session.send({"jsonrpc": "2.0", "id": id, "result": {"forged": True}})).status == 202
        await session.send({"jsonrpc": "2.0", "id": 'files:"7"', "result": {}})
        assert text_of((await asked(client)).message) == {"jsonrpc": "2.0", "id": "7", "result": {}}
        assert not any(line.get("result") == {"forged": True} for line in await lines_of(session, "files"))


@pytest.mark.holds("gateway/upstream/merged/members", "streams")
async def test_no_server_tells_of_the_progress_of_a_call_that_another_has_got() -> None:
    async with Merged(TWO) as merged, RawClient(merged.port) as client:
        session = await merged.session()
        lie = note("progress", {"progressToken": "t", "progress": 99})
        posted = session.posted("mail__tell", message=lie, meta={"progressToken": "mine"})
        await open_stream(client, posted)
        told = [event.message async for event in events_of(client) if event.message is not None]
        assert [message.get("id") for message in told] == [7]


@pytest.mark.parametrize("token", ["t", 7, "7", 10**30, "x" * 5_000])
async def test_progress_comes_with_the_clients_own_token(token: Any) -> None:
    async with Merged(TWO) as merged:
        session = await merged.session()
        for name in TWO:
            async with RawClient(merged.port) as client:
                await open_stream(client, session.posted(f"{name}__notes", count=2, meta={"progressToken": token}))
                told = [event.message async for event in events_of(client) if event.message is not None]
                assert [message["params"]["progressToken"] for message in told[:2]] == [token, token]
                assert all(type(message["params"]["progressToken"]) is type(token) for message in told[:2])


# --- the standing stream --------------------------------------------------------------------------------


async def poke(session: SessionClient, name: str, message: Any) -> None:
    """Makes a server say something when none of its answers is open; again, if it came with the answer after all."""
    said = {"message": {"jsonrpc": "2.0", "id": "ID", "result": {"content": []}}, "answer": False}
    params = {"name": f"{name}__tell", "arguments": {**said, "after": {"jsonrpc": "2.0", **message}}}
    request = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    while (await session.send(request)).header("content-type") != "application/json":
        pass


@pytest.mark.holds("gateway/upstream/merged/streams", "separate")
async def test_what_all_servers_tell_comes_on_one_stream_under_their_names() -> None:
    async with Merged(TWO) as merged, RawClient(merged.port) as client:
        session = await merged.session()
        assert await session.get(client) == 200
        seen = set[str]()
        for name in TWO:
            updated = {"method": "notifications/resources/updated", "params": {"uri": "a:b"}}
            await poke(session, name, updated)
            event = await asked(client)
            assert event.message["params"] == {"uri": f"accredit+{name}:a:b"}
            seen.add(event.id)
            await poke(session, name, {"method": "ping", "id": 7})
            event = await asked(client)
            assert event.message == {"jsonrpc": "2.0", "method": "ping", "id": f"{name}:7"}
            seen.add(event.id)
            assert (await session.send({"jsonrpc": "2.0", "id": f"{name}:7", "result": {}})).status == 202
            assert any(line.get("id") == 7 and "result" in line for line in await lines_of(session, name))
        assert len(seen) == 4


@pytest.mark.holds("gateway/upstream/merged/ids", "event-ids")
async def test_a_client_resumes_the_stream_of_all_and_gets_each_message_once() -> None:
    async with Merged(TWO) as merged:
        session = await merged.session()

        def told(number: int) -> dict[str, Any]:
            return {"method": "notifications/message", "params": {"level": "info", "data": number}}

        async with RawClient(merged.port) as client:
            assert await session.get(client) == 200
            last = ""
            for number, name in enumerate(["mail", "files", "mail"]):
                await poke(session, name, told(number))
                event = await asked(client)
                assert event.message["params"] == {"level": "info", "data": number, "logger": name}
                last = event.id
        for number, name in enumerate(["files", "mail", "files"], 3):
            await poke(session, name, told(number))
        async with RawClient(merged.port) as client:
            await until_free(session, client, last)
            got = [(await asked(client)).message["params"]["data"] for _ in range(3)]
            assert sorted(got) == [3, 4, 5]
            await poke(session, "mail", told(6))
            assert (await asked(client)).message["params"]["data"] == 6


async def until_free(session: SessionClient, client: RawClient, last: str) -> None:
    assert await session.get(client, last) == 200


async def test_an_event_id_of_another_session_or_none_at_all_is_refused() -> None:
    async with Merged(TWO) as merged:
        mine, other = await merged.session(), await merged.session()
        async with RawClient(merged.port) as client:
            await open_stream(client, other.posted("mail__notes", count=1))
            event = await next_event(client)
            assert event is not None
            theirs = event.id or ""
        for id in (theirs, "0-0", "m1.", "m1.AAAA", "x" * 5_000):
            async with RawClient(merged.port) as client:
                assert await mine.get(client, id) == 400


@pytest.mark.holds("gateway/upstream/merged/replies", "answers")
async def test_a_client_that_lost_its_answer_resumes_it_at_the_server_that_owes_it() -> None:
    async with Merged(TWO) as merged:
        for name in TWO:
            session = await merged.session()
            async with RawClient(merged.port) as client:
                await open_stream(client, session.posted(f"{name}__ask"))
                event = await asked(client)
                last = event.id
            await session.send({"jsonrpc": "2.0", "id": f'{name}:"q1"', "result": {}})
            async with RawClient(merged.port) as client:
                assert await session.get(client, last) == 200
                event = await asked(client)
                assert (event.message["id"], text_of(event.message)["id"]) == (7, "q1")
                assert await asked(client) is None


# --- nothing of one at another ----------------------------------------------------------------------------


async def test_an_id_of_one_endpoint_is_none_at_another() -> None:
    async with Merged(TWO) as merged:
        whole = await merged.session()
        answer = await merged.send(Posted(*_initialize()), path="/mcp/mail")
        own = answer.header("mcp-session-id") or ""
        assert await merged.send(Posted(*_initialize()), path="/mcp/files")
        posted = Posted([*whole.headers[:-1], ("Mcp-Session-Id", own)], json.dumps(request("ping")).encode())
        assert (await merged.send(posted)).status == 404
        for path in ("/mcp/mail", "/mcp/files"):
            assert (await merged.send(whole.message(request("ping")), path=path)).status == 404


@pytest.mark.slow
async def test_another_gateway_with_the_same_keys_goes_on_with_a_session_of_servers_over_http() -> None:
    async with Merged({"mail": HTTP, "files": HTTP}) as merged:
        session = await merged.session()
        rounds = merged.rounds
        members = dict(merged.members)
        whole = GatewaySettings(MergedUpstream(members), rounds=rounds)
        async with RunningGateway(create_app([*members.values(), whole])) as other:
            first, merged.port = merged.port, other.port
            assert (await session.call("mail__echo"))[0] == 200
            async with RawClient(other.port) as client:
                assert await session.get(client) == 200
                await poke(session, "files", {"method": "notifications/message", "params": {"data": 1}})
                assert (await asked(client)).message["params"]["logger"] == "files"
            strange = GatewaySettings(MergedUpstream(members), rounds=RoundsSettings())
            async with RunningGateway(create_app([*members.values(), strange])) as foreign:
                merged.port = foreign.port
                assert (await session.call("mail__echo"))[0] == 404
            merged.port = first


# --- a server that dies, hangs or floods -----------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.holds("gateway/upstream/merged/sessions", "restart")
async def test_a_server_that_dies_ends_only_its_part() -> None:
    async with Merged(TWO) as merged, RawClient(merged.port) as client:
        session = await merged.session()
        assert await session.get(client) == 200
        status, message = await session.call("files__die")
        assert (status, message["error"]["message"]) == (502, "Upstream unavailable")
        assert (await session.call("files__echo"))[0] == 404
        told = {(await asked(client)).message["method"] for _ in range(3)}
        assert told == {f"notifications/{each}/list_changed" for each in ("tools", "prompts", "resources")}
        await poke(session, "mail", {"method": "notifications/message", "params": {"data": 1}})
        assert (await asked(client)).message["params"]["logger"] == "mail"
        answer = json.loads((await session.send(request("ping"))).body)
        assert answer["result"] == {"_meta": {UNAVAILABLE: ["files"]}}


@pytest.mark.slow
async def test_a_server_that_hangs_does_not_hold_up_the_stream_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Merged(TWO) as merged, RawClient(merged.port) as stuck, RawClient(merged.port) as client:
        session = await merged.session()
        assert await session.get(client) == 200
        posted = session.posted("files__hang", id=1)
        await stuck.ask("POST", "/mcp", posted.headers, posted.body)
        for number in range(3):
            await poke(session, "mail", {"method": "notifications/message", "params": {"data": number}})
            assert (await asked(client)).message["params"]["data"] == number


@pytest.mark.slow
async def test_a_server_that_floods_one_client_does_not_keep_the_others_messages_back() -> None:
    async with Merged({"loud": HTTP, "mail": HTTP}) as merged:
        session = await merged.session()
        async with RawClient(merged.port) as client, RawClient(merged.port) as flooded:
            assert await session.get(client) == 200
            posted = session.posted("loud__notes", count=20_000, bytes=1_000)
            await flooded.ask("POST", "/mcp", posted.headers, posted.body)
            await flooded.head()  # and nobody reads on
            await poke(session, "mail", {"method": "notifications/message", "params": {"data": 1}})
            assert (await asked(client)).message["params"]["logger"] == "mail"
