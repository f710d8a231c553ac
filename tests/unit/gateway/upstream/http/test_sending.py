"""What goes up for a client's head: made once for all calls that bring it, and kept for few and short ones."""

import asyncio

import pytest
from tests.world.asgi import Told
from tests.world.raw_server import Connection, RawServer, until

from accredit.errors import UpstreamLeftOut, UpstreamUnavailable
from accredit.gateway.headers import RequestHead
from accredit.gateway.room import EqualShares
from accredit.gateway.settings import GatewaySettings, HttpUpstream
from accredit.gateway.upstream.http.client import ANYWHERE
from accredit.gateway.upstream.http.sending import MAX_PREPARED_HEADS, MIN_CHORES_AT_ONCE, Sender
from accredit.limits import MAX_REMEMBERED_HEAD_BYTES

UPSTREAM = HttpUpstream("http://127.0.0.1:9/mcp")


def sender() -> Sender:
    return Sender(GatewaySettings(UPSTREAM), UPSTREAM)


def head(value: bytes, length: bytes = b"2") -> RequestHead:
    return RequestHead("POST", "/mcp", [(b"user-agent", value), (b"content-length", length)])


def test_the_same_head_goes_up_as_before__whatever_the_length_of_its_body() -> None:
    up = sender()
    first, same, other = up.for_post(head(b"a")), up.for_post(head(b"a", b"9")), up.for_post(head(b"b"))
    assert first is same
    assert first.head != other.head
    assert b"9" not in same.head.partition(b"user-agent")[2]


def test_a_client_can_not_fill_the_memory_with_heads() -> None:
    up = sender()
    for number in range(MAX_PREPARED_HEADS + 10):
        up.for_post(head(b"%d" % number))
    assert len(up._prepared) == MAX_PREPARED_HEADS


def test_what_goes_up_is_not_kept_for_a_head_that_is_long_where_it_does_not() -> None:
    up = sender()
    for number in range(3):
        up.for_post(RequestHead("POST", "/mcp", [(b"x-forwarded-for", b"%d" % number * 5_000)]))
        up.for_post(RequestHead("POST", "/mcp", [], query=b"%d" % number * MAX_REMEMBERED_HEAD_BYTES + b"x"))
    assert len(up._prepared) == 0
    up.for_post(RequestHead("POST", "/mcp", [(b"user-agent", b"one")]))
    assert len(up._prepared) == 1


async def hangs(connection: Connection) -> None:
    await connection.request()
    await connection.peer_closed()


async def test_what_nobody_waits_for_takes_few_connections_and_little_memory__a_server_that_hangs_on_it_hurts_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("accredit.gateway.upstream.http.sending.MAX_CHORES", 10)

    async with RawServer(hangs) as server:
        upstream = HttpUpstream(server.url)
        up = Sender(GatewaySettings(upstream), upstream, parts=EqualShares(100))
        try:
            for number in range(50):
                up._start(up._tell(Told().exchange, "DELETE", [], b"%d" % number, ANYWHERE))
            await until(lambda: len(server.requests) == MIN_CHORES_AT_ONCE)
            assert len(up._chores) == 10
        finally:
            await up.aclose()
        assert server.accepted == MIN_CHORES_AT_ONCE


async def test_a_courtesy_that_waited_is_done_all_the_same() -> None:
    async def takes(connection: Connection) -> None:
        while await connection.request() is not None:
            await connection.send(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")

    async with RawServer(takes) as server:
        upstream = HttpUpstream(server.url)
        up = Sender(GatewaySettings(upstream), upstream, parts=EqualShares(100))
        for number in range(30):
            up._start(up._tell(Told().exchange, "POST", [], b"%d" % number, ANYWHERE))
        await until(lambda: not up._chores)
        assert sorted(int(each.body) for each in server.requests) == list(range(30))
        await up.aclose()


@pytest.mark.parametrize("replicas", [0, 3])
async def test_one_of_many_servers_gets_its_part_of_the_connections_and_no_more__at_all_its_replicas_together(
    replicas: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accredit.gateway.upstream.http.pool.MAX_CONNECTIONS", 20)

    async with RawServer(hangs) as one, RawServer(hangs) as two, RawServer(hangs) as three:
        servers = (one, two, three)
        more = tuple(each.url for each in servers[1:]) if replicas else ()
        upstream = HttpUpstream(one.url, {}, more)
        up = Sender(GatewaySettings(upstream), upstream, parts=EqualShares(5))
        calls = [asyncio.create_task(up.exchange(Told().exchange, up.for_post(head(b"a")), b"{}")) for _ in range(30)]
        await until(lambda: sum(len(each.requests) for each in servers) == 4)
        await until(lambda: sum(call.done() for call in calls) == 26)
        refused = {type(call.exception()) for call in calls if call.done()}
        assert sum(each.accepted for each in servers) == 4
        assert refused <= {UpstreamUnavailable, UpstreamLeftOut}
        for call in calls:
            call.cancel()
        assert len(await asyncio.gather(*calls, return_exceptions=True)) == 30
        await up.aclose()
