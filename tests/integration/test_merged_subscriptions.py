"""`subscriptions/listen` of several servers at the merged endpoint: one stream, on which each tells of its own."""

import json
from typing import Any

import pytest
from tests.world.calls import Posted, post
from tests.world.merged import HTTP, STDIO, Merged
from tests.world.raw_client import RawClient
from tests.world.raw_server import Connection, RawServer
from tests.world.stdio_bridge import next_event

from accredit.jsonrpc.methods import META_SUBSCRIPTION, Era
from accredit.limits import MAX_STREAMS

pytestmark = pytest.mark.holds("gateway/upstream/merged/subscription")

TWO = {"mail": HTTP, "files": STDIO}
UNAVAILABLE = "dev.accredit/unavailable"


def listen(id: Any = 5, **notifications: Any) -> Posted:
    return post(Era.MODERN, "subscriptions/listen", {"notifications": notifications}, id=id)


def call(name: str, **arguments: Any) -> Posted:
    return post(Era.MODERN, "tools/call", {"name": name, "arguments": arguments})


async def opened(client: RawClient, posted: Posted) -> Any:
    """Opens a subscription; gives what its acknowledgement says."""
    await client.ask("POST", "/mcp", posted.headers, posted.body)
    assert (await client.head())[0] == 200
    return await told(client)


async def told(client: RawClient) -> Any:
    event = await next_event(client)
    return event.message if event is not None else None


def acknowledged(id: Any, notifications: dict[str, Any], **meta: Any) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "method": "notifications/subscriptions/acknowledged",
        "params": {"_meta": {META_SUBSCRIPTION: id, **meta}, "notifications": notifications},
    }


def changed(id: Any, of: str = "tools", **params: Any) -> dict[str, Any]:
    method = f"notifications/{of}/list_changed" if not params else "notifications/resources/updated"
    return {"jsonrpc": "2.0", "method": method, "params": {"_meta": {META_SUBSCRIPTION: id}, **params}}


class Listening:
    """A server of 2026-07-28 over HTTP: it acknowledges all that it is asked, and says what `say` is given.

    `refuses` answers with an error; `hangs` never answers.
    """

    def __init__(self, *, refuses: bool = False, hangs: bool = False) -> None:
        self.asked: list[Any] = []
        self.streams: list[Connection] = []
        self.refuses = refuses
        self._hangs = hangs

    async def __call__(self, connection: Connection) -> None:
        got = await connection.request()
        if got is None:
            return
        message = json.loads(got.body)
        self.asked.append(message)
        if self.refuses:
            body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}})
            head = f"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            await connection.send((head + body).encode())
            return
        if self._hangs:
            await connection.peer_closed()
            return
        head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        await connection.send(head.encode())
        self.streams.append(connection)
        await self.say(acknowledged(message["id"], message["params"]["notifications"]))
        await connection.peer_closed()

    async def say(self, message: Any) -> None:
        """Tells what it is given on the newest stream."""
        await self.streams[-1].send(f"event: message\ndata: {json.dumps(message)}\n\n".encode())


@pytest.mark.holds("gateway/upstream/merged/subscription", "acknowledgement")
@pytest.mark.parametrize("id", [5, "5", 10**20])
async def test_all_servers_tell_on_one_stream_under_the_clients_own_subscription(id: Any) -> None:
    async with Merged(TWO) as merged, RawClient(merged.port) as client:
        assert await opened(client, listen(id, toolsListChanged=True)) == acknowledged(id, {})
        for name in TWO:
            assert (await merged.send(call(f"{name}__change"))).status == 200
            assert await told(client) == changed(id)


@pytest.mark.holds("gateway/upstream/merged/subscription", "shares")
async def test_each_server_is_asked_for_its_own_and_tells_of_no_others() -> None:
    mail, files, third = Listening(), Listening(), Listening()
    async with (
        RawServer(mail) as one,
        RawServer(files) as two,
        RawServer(third) as three,
        Merged({"mail": one.url, "files": two.url, "third": three.url}) as merged,
        RawClient(merged.port) as client,
    ):
        uris = ["accredit+mail:a:1", "accredit+files:a:1", "accredit+nobody:a:1", "a:1"]
        posted = listen(5, resourceSubscriptions=uris, taskIds=["mail__1"], promptsListChanged=False)
        ack = await opened(client, posted)
        assert set(ack["params"]["notifications"].pop("resourceSubscriptions")) == set(uris[:2])
        assert ack == acknowledged(5, {"taskIds": ["mail__1"]})
        asked = [each.asked[0]["params"]["notifications"] for each in (mail, files)]
        assert asked == [
            {"resourceSubscriptions": ["a:1"], "taskIds": ["1"]},
            {"resourceSubscriptions": ["a:1"]},
        ]
        assert third.asked == []
        await files.say(changed(5, uri="a:1"))
        assert await told(client) == changed(5, uri="accredit+files:a:1")
        # of another subscription of the client's, and of none: neither is this stream's to tell
        await files.say(changed(6, uri="a:1"))
        await files.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}})
        await mail.say(changed(5, uri="a:1"))
        assert await told(client) == changed(5, uri="accredit+mail:a:1")


@pytest.mark.holds("gateway/upstream/merged/subscription", "acknowledgement")
async def test_a_server_that_does_not_answer_is_named_in_the_acknowledgement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accredit.gateway.upstream.merged.streams.MERGED_ASK_SECONDS", 0.2)

    mail, files = Listening(), Listening(hangs=True)
    async with (
        RawServer(mail) as one,
        RawServer(files) as two,
        Merged({"mail": one.url, "files": two.url}) as merged,
        RawClient(merged.port) as client,
    ):
        wanted = {"toolsListChanged": True}
        assert await opened(client, listen(5, **wanted)) == acknowledged(5, wanted, **{UNAVAILABLE: ["files"]})
        await mail.say(changed(5))
        assert await told(client) == changed(5)


@pytest.mark.holds("gateway/upstream/merged/subscription", "changed")
async def test_what_a_server_tells_about_counts_as_changed_after_its_stream_was_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("accredit.gateway.upstream.merged.streams.REOPEN_FIRST_SECONDS", 0.01)

    mail, files = Listening(), Listening()
    async with (
        RawServer(mail) as one,
        RawServer(files) as two,
        Merged({"mail": one.url, "files": two.url}) as merged,
        RawClient(merged.port) as client,
    ):
        uri = "accredit+mail:a:1"
        await opened(client, listen(5, toolsListChanged=True, resourceSubscriptions=[uri]))
        mail.streams[-1].reset()
        assert [await told(client), await told(client)] == [changed(5), changed(5, uri=uri)]
        await mail.say(changed(5))
        assert await told(client) == changed(5)
        assert (len(mail.asked), len(files.asked)) == (2, 1)


@pytest.mark.holds("gateway/upstream/merged/subscription", "changed")
async def test_a_server_that_refuses_is_left_and_none_is_an_error() -> None:
    mail, files = Listening(), Listening(refuses=True)
    async with RawServer(mail) as one, RawServer(files) as two:
        async with Merged({"mail": one.url, "files": two.url}) as merged, RawClient(merged.port) as client:
            await opened(client, listen(5, toolsListChanged=True))
            assert len(files.asked) == 1
        async with Merged({"files": two.url}) as merged:
            answer = await merged.send(listen(5, toolsListChanged=True))
            assert (answer.status, json.loads(answer.body)["error"]) == (404, {"code": -32601, "message": "no"})


async def test_a_filter_that_can_not_be_read_is_the_clients_error() -> None:
    async with Merged(TWO) as merged:
        answer = await merged.send(listen(5, resourceSubscriptions={"a": 1}))
        assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, -32602)


async def test_the_stream_ends_with_the_gateway() -> None:
    async with Merged(TWO) as merged, RawClient(merged.port) as client:
        await opened(client, listen(5, toolsListChanged=True))
        merged.gateway.app.end_streams()
        answer = await told(client)
        assert (answer["id"], answer["error"]["message"]) == (5, "Upstream unavailable")
        assert await told(client) is None


@pytest.mark.holds("gateway/upstream/merged/subscription", "end")
async def test_the_answer_comes_when_no_server_is_left_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accredit.gateway.upstream.merged.streams.REOPEN_FIRST_SECONDS", 0.01)

    mail = Listening()
    async with RawServer(mail) as one, Merged({"mail": one.url}) as merged, RawClient(merged.port) as client:
        await opened(client, listen(5, toolsListChanged=True))
        mail.refuses = True
        mail.streams[-1].reset()
        answer = await told(client)
        assert (answer["id"], answer["result"]["resultType"]) == (5, "complete")
        assert answer["result"]["_meta"] == {META_SUBSCRIPTION: 5}
        assert await told(client) is None


class Greedy:
    """Who holds places in a room."""

    peer, proved = "", False


async def test_who_fills_one_servers_room_for_streams_keeps_nobody_from_the_others() -> None:
    mail, files = Listening(), Listening()
    async with (
        RawServer(mail) as one,
        RawServer(files) as two,
        Merged({"mail": one.url, "files": two.url}) as merged,
        RawClient(merged.port) as client,
    ):
        rooms = next(each for each in merged.gateway.app.routes.servers if each.name == "files").rooms
        monopoly = [rooms.streams.take(Greedy()) for _ in range(MAX_STREAMS // 2)]
        assert len(monopoly) == MAX_STREAMS // 2
        wanted = {"toolsListChanged": True}
        assert await opened(client, listen(5, **wanted)) == acknowledged(5, wanted, **{UNAVAILABLE: ["files"]})
        assert files.asked == []
