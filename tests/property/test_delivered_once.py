"""No request is delivered twice, whatever replicas do with it and with the connections that it could go over."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.world.calls import http, response
from tests.world.raw_server import Connection, RawServer
from tests.world.running import run

from accredit.errors import AccreditError
from accredit.gateway.settings import HttpUpstream
from accredit.gateway.upstream.http.client import Route
from accredit.gateway.upstream.http.replicas import ReplicatedClient

pytestmark = [pytest.mark.slow, pytest.mark.holds("gateway/upstream/http/replicas")]

TIMEOUT = 0.1
"""Seconds: what hangs is given up after them. If a machine stalls, more is given up, and nothing is delivered twice."""
WHOLE = http(response())
EARLY = ("refuses at once", "resets when the first byte comes")
READS: dict[str, tuple[bytes, str]] = {
    "answers": (WHOLE, "goes on"),
    "answers and closes": (WHOLE, "closes"),
    "answers and says so": (http(response(), headers=(("Connection", "close"),)), "closes"),
    "answers and half-closes": (WHOLE, "half-closes"),
    "answers and resets": (WHOLE, "resets"),
    "resets before a byte": (b"", "resets"),
    "closes before a byte": (b"", "closes"),
    "resets in its head": (WHOLE[:20], "resets"),
    "resets in its body": (WHOLE[:-3], "resets"),
    "says 503": (http(b"", None, status="503 Service Unavailable"), "goes on"),
    "hangs": (b"", "waits"),
    "hangs in its head": (WHOLE[:20], "waits"),
    "is no HTTP": (b"what?\r\n\r\n", "closes"),
}
"""What a replica says once it has read a request, and what becomes of the connection."""
BEHAVIOURS = (*EARLY, *READS)


async def behave(connection: Connection, behaviour: str, read: Callable[[bytes], None]) -> bool:
    """Serve one request; return whether the connection goes on. `read` is told what was read of a request."""
    if behaviour in EARLY:
        if behaviour != EARLY[0]:  # the other side has written into a connection that was as good as dead
            read(await connection.reader.read(65_536))
        connection.reset()
        return False
    request = await connection.request()
    if request is None:
        return False
    read(request.body)
    said, then = READS[behaviour]
    await connection.send(said)
    if then == "resets":
        connection.reset()
    elif then == "half-closes":
        connection.writer.write_eof()
    if then in ("half-closes", "waits"):
        await connection.peer_closed()
    return then == "goes on"


class Replica:
    """One that behaves as its script says, request by request, and well after that. `read` is what it has read."""

    def __init__(self, script: list[str]) -> None:
        self._script = iter(script)
        self.read = b""

    async def __call__(self, connection: Connection) -> None:
        while await behave(connection, next(self._script, "answers"), self._note):
            pass

    def _note(self, text: bytes) -> None:
        self.read += text


Scripts = list[list[str]]
SCRIPTS = st.lists(st.lists(st.sampled_from(BEHAVIOURS), max_size=5), min_size=1, max_size=3)
KINDS = st.lists(st.sampled_from(["call", "list", "session"]), min_size=1, max_size=6)


@given(SCRIPTS, KINDS, st.booleans())
@example([["answers", "resets when the first byte comes"], []], ["call"] * 4, False)
@example([["answers and half-closes", "hangs"], ["answers and closes", "hangs"]], ["call"] * 5, True)
@example([["refuses at once"] * 5, ["resets before a byte"] * 5], ["call", "list"] * 3, False)
@settings(max_examples=40, deadline=None)
def test_a_call_is_delivered_at_most_once__and_a_list_at_most_once_more(
    scripts: Scripts, kinds: list[str], together: bool
) -> None:
    replicas = [Replica(script) for script in scripts]
    run(sent(replicas, kinds, together=together))
    for number, kind in enumerate(kinds):
        delivered = sum(replica.read.count(b"<%d>" % number) for replica in replicas)
        assert delivered <= (2 if kind == "list" else 1), (kind, scripts)


async def sent(replicas: list[Replica], kinds: list[str], *, together: bool) -> None:
    """Send a request of each kind, whose body is its number."""
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(RawServer(replica)) for replica in replicas]
        upstream = HttpUpstream(servers[0].url, {}, tuple(server.url for server in servers[1:]))
        client = ReplicatedClient(upstream.replicas, headers={}, timeout=TIMEOUT)
        stack.push_async_callback(client.close)
        at = next(iter(upstream.replicas))

        async def send(number: int, kind: str) -> None:
            with suppress(AccreditError):
                route = Route(at if kind == "session" else None, kind == "list")
                answer = await client.send("POST", [], b"<%d>" % number, route=route)
                await answer.read(1_000, timeout=TIMEOUT)

        if together:
            await asyncio.gather(*(send(number, kind) for number, kind in enumerate(kinds)))
        else:
            for number, kind in enumerate(kinds):
                await send(number, kind)
