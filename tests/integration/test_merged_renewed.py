"""A server among several that has lost its session: the client has one with all of them, so the gateway begins that of
one anew. Calls that were under way fail, and none is sent twice."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.world.calls import http
from tests.world.forgetful import Forgetful
from tests.world.merged import HTTP, Merged
from tests.world.raw_client import CutOff, RawClient
from tests.world.raw_server import Connection, Handler, RawServer, until
from tests.world.running import RunningGateway
from tests.world.stdio_bridge import SessionClient, next_event

from accredit.gateway import GatewaySettings, create_app
from accredit.gateway.settings import MergedUpstream, RoundsSettings
from accredit.gateway.upstream.merged.ids import MAX_RENEWABLE_BYTES, SessionHistories
from accredit.jsonrpc.requests import decode_request

pytestmark = pytest.mark.holds("gateway/upstream/merged/members")

RENEWED = "mail had lost its session, and has a new one now: this was not done"


def request(method: str, params: Any = None, id: Any = 5) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, **({} if params is None else {"params": params})}


def note(method: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": f"notifications/{method}"}


def body_of(answer: Any) -> Any:
    return json.loads(answer.body)


@asynccontextmanager
async def both(mail: Handler) -> AsyncGenerator[Merged]:
    """A server beside one that forgets nothing, as one."""
    async with (
        RawServer(mail) as raw,
        RawServer(Forgetful(404)) as other,
        Merged({"mail": raw.url, "files": other.url}) as merged,
    ):
        yield merged


async def begun(merged: Merged) -> SessionClient:
    session = await merged.session()
    assert (await session.send(note("initialized"))).status == 202
    return session


@pytest.mark.holds("gateway/upstream/merged/members", "renewal", "failed-call")
async def test_a_server_that_restarted_has_a_new_session__told_what_the_last_one_knew() -> None:
    server = Forgetful(404)
    async with both(server) as merged:
        session = await begun(merged)
        assert (await session.send(request("logging/setLevel", {"level": "error"}))).status == 200
        for uri in ("mail://1", "mail://2"):
            merged_uri = f"accredit+mail:{uri}"
            answer = await session.send(request("resources/subscribe", {"uri": merged_uri}))
            assert answer.status == 200, answer
        await session.send(request("resources/unsubscribe", {"uri": "accredit+mail:mail://1"}))
        server.forget()
        calls = server.methods.count("tools/call")
        status, message = await session.call("mail__send")
        assert (status, message["error"]["data"]) == (502, RENEWED)
        told = server.of_session()
        assert [each["method"] for each in told] == [
            "initialize", "notifications/initialized", "logging/setLevel", "resources/subscribe",
        ]  # fmt: skip
        assert told[0]["params"]["clientInfo"] == server.messages[0]["params"]["clientInfo"]
        assert told[2]["params"] == {"level": "error"}
        assert told[3]["params"] == {"uri": "mail://2"}
        assert server.methods.count("tools/call") == calls, "a call is never sent again"
        assert (await session.call("mail__send"))[0] == 200
        assert (await session.call("files__echo"))[0] == 200
        assert await session.delete() == 204
        assert (await session.call("mail__send"))[0] == 404
        assert server.methods.count("initialize") == 2


@pytest.mark.holds("gateway/upstream/merged/members", "failed-call")
@pytest.mark.parametrize("method", ["tools/list", "ping", "logging/setLevel"])
async def test_what_is_no_call_is_asked_once_more(method: str) -> None:
    server = Forgetful(404)
    async with both(server) as merged:
        session = await begun(merged)
        server.forget()
        params = {"level": "info"} if method == "logging/setLevel" else {}
        answer = await session.send(request(method, params))
        assert answer.status == 200
        assert "_meta" not in body_of(answer)["result"], "nobody is missing"
        assert method in [each["method"] for each in server.of_session()]
        assert (await session.call("mail__send"))[0] == 200


@pytest.mark.parametrize("message", [note("roots/list_changed"), note("initialized")])
async def test_a_notification_finds_it_out_too(message: dict[str, Any]) -> None:
    server = Forgetful(404)
    async with both(server) as merged:
        session = await begun(merged)
        server.forget()
        assert (await session.send(message)).status == 202
        assert (await session.call("mail__send"))[0] == 200


@pytest.mark.slow
async def test_the_standing_stream_goes_on__and_says_that_lists_have_changed() -> None:
    server = Forgetful(404)
    async with both(server) as merged:
        session = await begun(merged)
        async with RawClient(merged.port) as client:
            assert await session.get(client) == 200
            await until(lambda: server.standing is not None)
            server.forget()
            await server.cut_off()
            await until(lambda: server.standing is not None)
            await server.says({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info"}})
            heard: list[str] = []
            while "notifications/message" not in heard:
                event = await next_event(client)
                assert event is not None
                if event.message is not None:
                    heard.append(event.message["method"])
            assert "notifications/tools/list_changed" in heard
        assert (await session.call("mail__send"))[0] == 200
        assert server.methods.count("initialize") == 2


@pytest.mark.holds("gateway/upstream/merged/members", "once")
async def test_a_server_that_knows_no_session_which_it_gives_costs_one_initialize__not_one_for_each_call() -> None:
    server = Forgetful(404)
    async with both(server) as merged:
        session = await begun(merged)
        server.deaf_to = "tools/call"
        statuses = [(await session.call("mail__send"))[0] for _ in range(4)]
        assert statuses == [502, 404, 404, 404]
        assert server.methods.count("initialize") == 2
        assert (await session.call("files__echo"))[0] == 200


@pytest.mark.holds("gateway/upstream/merged/members", "renewal")
async def test_one_of_another_revision_is_none__the_client_was_told_the_first() -> None:
    server = Forgetful(404)
    async with both(server) as merged:
        session = await begun(merged)
        server.forget("2025-06-18")
        assert (await session.call("mail__send"))[0] == 404
        assert (await session.call("files__echo"))[0] == 200


@pytest.mark.holds("gateway/upstream/merged/members", "ended-elsewhere")
@pytest.mark.parametrize("asked", ["tools/call", "tools/list", "ping", "notifications/roots/list_changed", "GET"])
async def test_what_no_server_knows_any_more_is_over__its_client_may_have_ended_it_at_another_gateway(
    asked: str,
) -> None:
    mail, files = Forgetful(404), Forgetful(404)
    shared = RoundsSettings(shared=True)
    async with (
        RawServer(mail) as one,
        RawServer(files) as two,
        Merged({"mail": one.url, "files": two.url}, rounds=shared) as merged,
    ):
        session = await begun(merged)
        mail.forget()
        files.forget()
        async with RawClient(merged.port) as client:
            if asked == "GET":
                assert await session.get(client) == 404
            elif asked.startswith("notifications"):
                await session.send(note("roots/list_changed"))
            else:
                params = {"name": "mail__send", "arguments": {}} if asked == "tools/call" else {}
                assert (await session.send(request(asked, params))).status == 404
        for name in ("mail__send", "files__echo"):
            assert (await session.call(name))[0] == 404
        assert [each.methods.count("initialize") for each in (mail, files)] == [1, 1]


@pytest.mark.holds("gateway/upstream/merged/members", "ended-elsewhere")
@pytest.mark.parametrize("others", [{}, {"workers": 2}, {"rounds": RoundsSettings(shared=True)}])
async def test_a_gateway_that_is_one_process_begins_anew_what_no_server_knows(others: dict[str, Any]) -> None:
    mail, files = Forgetful(404), Forgetful(404)
    async with RawServer(mail) as one, RawServer(files) as two:
        urls = {"mail": one.url, "files": two.url}
        async with Merged(urls, **others) as merged:
            session = await begun(merged)
            mail.forget()
            files.forget()
            assert (await session.call("mail__send"))[0] == (404 if others else 502)
            assert mail.methods.count("initialize") == (1 if others else 2)


@pytest.mark.slow
@pytest.mark.holds("gateway/upstream/merged/members", "ended-elsewhere")
async def test_a_session_that_its_client_ends_at_another_gateway_is_over_at_the_first__whose_stream_was_open() -> None:
    rounds = RoundsSettings(shared=True)
    async with Merged({"mail": HTTP, "files": HTTP}, rounds=rounds) as merged:
        session = await merged.session()
        whole = GatewaySettings(MergedUpstream(merged.members), rounds=rounds)
        async with (
            RunningGateway(create_app([*merged.members.values(), whole])) as other,
            RawClient(merged.port) as client,
        ):
            assert await session.get(client) == 200
            first, merged.port = merged.port, other.port
            assert await session.delete() == 204
            merged.port = first
            with contextlib.suppress(CutOff):
                while await client.event() is not None:
                    pass
            for message in (request("tools/list"), request("ping")):
                assert (await session.send(message)).status == 404


async def test_many_calls_that_find_it_out_at_once_begin_one_session() -> None:
    server = Forgetful(404)
    async with both(server) as merged:
        session = await begun(merged)
        server.forget()
        await asyncio.gather(*(session.call("mail__send", id=id) for id in range(8)))
        assert server.methods.count("initialize") == 2
        assert (await session.call("mail__send"))[0] == 200


async def test_a_method_that_a_server_does_not_know_is_no_session_that_it_lost() -> None:
    async def serve(connection: Connection) -> None:
        inner = Forgetful(404)
        while asked := await connection.request():
            message = json.loads(asked.body or b"{}")
            seen.append(message.get("method", ""))
            if message.get("method") == "tools/call":
                error = {"code": -32601, "message": "Method not found"}
                body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode()
                await connection.send(http(body, status="404 Not Found"))
            else:
                await connection.send(inner._answer(message))  # pyright: ignore[reportPrivateUsage]

    seen: list[str] = []

    async with both(serve) as merged:
        session = await begun(merged)
        status, message = await session.call("mail__send")
        assert (status, message["error"]["code"]) == (404, -32601)
        assert seen.count("initialize") == 1


@pytest.mark.holds("gateway/upstream/merged/members", "history")
def test_what_is_kept_of_a_session_is_bounded__the_oldest_subscriptions_give_way() -> None:
    renewals = SessionHistories()
    hello = decode_request(json.dumps(request("initialize", {"protocolVersion": "2025-11-25"})).encode())
    renewals.begun(b"own", hello)  # type: ignore[arg-type]
    uris = [f"mail://{number}/{'x' * 1_000}" for number in range(100)]
    for uri in uris:
        renewals.subscribed(b"own", "mail", uri, ends=False)
    told = renewals.of(b"own")
    assert told is not None
    assert told.size <= MAX_RENEWABLE_BYTES
    assert ("mail", uris[-1]) in told.subscribed
    assert ("mail", uris[0]) not in told.subscribed
    long = decode_request(json.dumps(request("initialize", {"x": "x" * MAX_RENEWABLE_BYTES})).encode())
    renewals.begun(b"long", long)  # type: ignore[arg-type]
    assert renewals.of(b"long") is None
    renewals.ended(b"own")
    assert renewals.of(b"own") is None
