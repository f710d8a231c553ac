"""What a few bytes of a server become, in memory and in the loop: as in `test_loop_steps_answers`.

Each of these took hundreds of megabytes, or held the loop for as long as a second, for 80 to 234 bytes on the wire.
"""

import asyncio
import contextlib
import gc
import json
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import brotli
import pytest
from tests.integration.test_loop_steps import FACTOR, PROMISED, headers, small_heap
from tests.world.asgi import Told
from tests.world.authorization import GATEWAY, Signed, Trust
from tests.world.measured_loop import MeasuredLoop
from tests.world.memory import MemoryWatch

from accredit.config.schema import MAX_RESPONSE_BYTES
from accredit.gateway.app import Gateway, create_app
from accredit.gateway.merging import merged_settings
from accredit.gateway.settings import GatewaySettings, HttpUpstream
from accredit.limits import MAX_SPLIT_BYTES
from accredit.pins.definitions import Pins
from accredit.stores import MemoryStore, RevocationLists

pytestmark = pytest.mark.slow

__all__ = ["small_heap"]

MIB = 1_048_576
TRUST = Trust()
META = "io.modelcontextprotocol/"
SAID = {
    f"{META}protocolVersion": "2026-07-28",
    f"{META}clientCapabilities": {},
    f"{META}clientInfo": {"name": "c", "version": "1"},
}
JSON = b"application/json"


class Sent(NamedTuple):
    """What a server answers everything with, compressed to nothing."""

    body: bytes
    status: bytes = b"200 OK"
    type: bytes = JSON


def result(text: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"result":{' + text + b"}}"


def many(piece: bytes, size: int = 16 * MIB - 200) -> bytes:
    return piece + (b"," + piece) * (size // (len(piece) + 1) - 1)


@contextmanager
def server(sent: Sent) -> Generator[HttpUpstream]:
    """A server in a thread of its own, which answers a request with its id by this."""
    packed: dict[bytes, bytes] = {}

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                asked = b""
                while b"\r\n\r\n" not in asked or not asked.rstrip().endswith(b"}"):
                    asked += connection.recv(65_536)
                id = json.dumps(json.loads(asked.partition(b"\r\n\r\n")[2])["id"]).encode()
                body = packed.get(id) or brotli.compress(sent.body.replace(b'"id":1', b'"id":' + id, 1), quality=5)
                plain = b"accept-encoding: identity" in asked.lower()
                body, coding = (sent.body.replace(b'"id":1', b'"id":' + id, 1), b"") if plain else (body, b"br")
                head = b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\nConnection: close\r\n" % (
                    sent.status, sent.type, len(body),
                )  # fmt: skip
                connection.sendall(head + (b"Content-Encoding: br\r\n" if coding else b"") + b"\r\n" + body)
                connection.recv(1)

    packed[b"1"] = brotli.compress(sent.body, quality=5)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        yield HttpUpstream(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp")
        listening.shutdown(socket.SHUT_RDWR)
    serving.join()


def gateway(upstream: HttpUpstream, *, merged: bool = False, proofs: bool = True, **more: Any) -> Gateway:
    name = "mail" if merged else ""
    path = "/mcp/mail" if merged else "/mcp"
    if proofs:
        policy = {"verifier_id": f"{GATEWAY}/{name}", "server": name} if merged else {}
        settings = TRUST.settings(upstream, policy=policy, server=name, path=path, **more)
    else:
        settings = GatewaySettings(upstream, name, path, **more)
    everything = [settings]
    if merged:
        everything.append(merged_settings([settings], path="/mcp", gateway_id=GATEWAY))
    return create_app(everything, store=MemoryStore(), revocations=RevocationLists((), {}))


def asking(method: str, *, modern: bool = False, merged: bool = False) -> Told:
    """A request; a call with a proof."""
    params: dict[str, Any] = {}
    fields = [(b"accept-encoding", b"br")]
    if method == "tools/call":
        name = "mail__list_inbox" if merged else "list_inbox"
        params = {"name": name, "arguments": {}}
        proof = TRUST.proof(TRUST.chain("email:read"), method, params, Signed(gateway=GATEWAY, scope="email:read"))
        params["_meta"] = {"ratify_proof": proof, **(SAID if modern else {})}
        fields += [(b"mcp-name", name.encode())] if modern else []
    elif modern:
        params["_meta"] = SAID
    fields += [(b"mcp-method", method.encode())] if modern else []
    version = b"2026-07-28" if modern else b"2025-11-25"
    said = [(name, version if name == b"mcp-protocol-version" else value) for name, value in headers(None)]
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    return Told("POST", [*said, *fields], request)


class Found(NamedTuple):
    step: float
    peak_mib: float
    kept_mib: float
    told: list[Told]


def answered(app: Gateway, *asked: Told, loop: type[MeasuredLoop] = MeasuredLoop) -> Found:
    """What requests cost that are sent at once; their longest step as the `loop` measures it."""

    async def main() -> Found:
        loop = cast(MeasuredLoop, asyncio.get_running_loop())
        with MemoryWatch() as watch:
            loop.longest = 0.0
            await asyncio.gather(*(app(told.scope, told.receive, told.send) for told in asked))
            step = loop.longest
        kept = watch.kept_mib
        await app.aclose()
        return Found(step, watch.peak_mib, kept, list(asked))

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(main())


def found(sent: Sent, *asked: Told, **of_gateway: Any) -> Found:
    with server(sent) as upstream:
        return answered(gateway(upstream, **of_gateway), *asked)


REFUSED = b"Invalid upstream JSON-RPC response"
LISTS = {
    "integers": ("tools", b"1"),
    "prompts with a name": ("prompts", b'{"name":"p"}'),
}
"""What is listed, and an item of it."""


def long_list(name: str) -> bytes:
    what, item = LISTS[name]
    return result(f'"{what}":['.encode() + many(item) + b"]")


MOST_MIB = 64
"""What one answer of 16 MiB may take: as it came, a copy that a server's thread here holds, and what goes on."""


@pytest.mark.holds("jsonrpc/arrays")
@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_millions_is_refused_before_it_is_split__each_item_would_take_eighty_bytes(
    name: str, modern: bool
) -> None:
    one = found(Sent(long_list(name)), asking(f"{LISTS[name][0]}/list", modern=modern))
    assert REFUSED in one.told[0].body
    assert b"more than" in one.told[0].body
    assert one.peak_mib < MOST_MIB
    assert one.step < FACTOR * PROMISED


@pytest.mark.holds("jsonrpc/arrays")
def test_it_is_so_in_an_event() -> None:
    one = found(Sent(b"data: " + long_list("integers") + b"\n\n", type=b"text/event-stream"), asking("tools/list"))
    assert b"more than" in one.told[0].body
    assert one.peak_mib < 2 * MOST_MIB
    assert one.step < FACTOR * PROMISED


@pytest.mark.holds("gateway/upstream/merged/answers", "shares")
def test_it_is_so_in_one_servers_part_of_a_merged_list() -> None:
    body = result(b'"tools":[' + many(b"1", 7 * MIB) + b"]")
    one = found(Sent(body), asking("tools/list", modern=True), merged=True)
    assert json.loads(one.told[0].body)["result"]["_meta"]["dev.accredit/unavailable"] == ["mail"]
    assert one.peak_mib < MOST_MIB


@pytest.mark.holds("gateway/upstream/merged/messages", "size")
def test_it_is_so_in_content_with_the_uri_of_a_resource() -> None:
    link = b'{"type":"resource_link","name":"a","uri":"a://b"},'
    body = result(b'"content":[' + link + many(b"1", 16 * MIB - 500) + b"]")
    one = found(Sent(body), asking("tools/call", modern=True, merged=True), merged=True)
    assert REFUSED in one.told[0].body
    assert one.peak_mib < MOST_MIB
    assert one.step < FACTOR * PROMISED


def test_a_list_of_as_many_as_may_be_still_passes__and_what_it_becomes_is_bounded_as_an_answer_is() -> None:
    body = result(b'"prompts":[' + many(b'{"name":"p"}', 13 * 60_000) + b"]")
    one = found(Sent(body), asking("prompts/list"))
    assert len(json.loads(one.told[0].body)["result"]["prompts"]) > 59_000
    assert one.step < FACTOR * PROMISED
    assert len(one.told[0].body) > 6 * len(body)
    tight = found(Sent(body), asking("prompts/list"), max_response_bytes=2 * MIB)
    assert b"becomes longer than" in tight.told[0].body


@pytest.mark.holds("gateway/upstream/http/answer_relay", "errors")
@pytest.mark.parametrize("size", [15, 99])
def test_an_error_is_bounded_before_it_is_decoded__and_judged_in_steps(size: int) -> None:
    data = many(b"[],{}", size * MIB)
    error = b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"","data":[' + data + b"]}}"
    one = found(Sent(error, b"500 No"), asking("tools/list"), max_response_bytes=MAX_RESPONSE_BYTES)
    assert one.told[0].status == 500
    assert (f"larger than {MAX_SPLIT_BYTES} bytes".encode() in one.told[0].body) == (size > 16)
    assert one.peak_mib < MOST_MIB
    assert one.step < FACTOR * PROMISED


GOOD: dict[str, Callable[[int], bytes]] = {
    "a text": lambda size: b'"content":[{"type":"text","text":"' + b"x" * size + b'"}]',
    "numbers": lambda size: b'"content":[],"structuredContent":{"a":[' + many(b"1", size) + b"]}",
}


@pytest.mark.holds("gateway/admission/request_state", "always-sealed")
@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("size", [15, 99])
def test_a_good_answer_of_any_size_is_not_copied__and_one_within_the_default_bound_blocks_nobody(
    size: int, name: str, merged: bool
) -> None:
    body = result(GOOD[name](size * MIB))
    asked = asking("tools/call", modern=True, merged=merged)
    one = found(Sent(body), asked, merged=merged, max_response_bytes=MAX_RESPONSE_BYTES)
    assert asked.body == brotli.compress(body, quality=5)
    assert one.peak_mib < 140
    assert size > 16 or one.step < FACTOR * PROMISED


@pytest.mark.holds("gateway/upstream/http/relay")
def test_what_the_gateway_asks_for_itself_takes_room_as_any_answer__and_is_no_longer_than_a_list_may_be() -> None:
    pins = Pins(tools={"list_inbox": "00" * 32})
    item = b'{"name":"t","description":"' + b"x" * 9_000 + b'"}'
    for body in (result(b'"tools":[' + many(item, 15 * MIB) + b"]"), result(b'"tools":["' + b"x" * 60 * MIB + b'"]')):
        calls = [asking("tools/call") for _ in range(8)]
        for number, call in enumerate(calls):
            call.scope["headers"].append((b"x-a", b"%d" % number))
        one = found(Sent(body), *calls, proofs=False, pins=pins, max_response_bytes=MAX_RESPONSE_BYTES)
        assert {b"definition_changed" in call.body for call in calls} == {True}
        assert one.step < FACTOR * PROMISED
        # What eight connections have read ahead, and what the server's thread has of the answers, is in this process.
        assert one.peak_mib < 400


def test_a_refused_list_leaves_nothing_for_the_collector_of_cycles() -> None:
    body = result(b'"tools":[' + many(b'{"name":"t"}', 13 * 60_000) + b',{"name":1}]')

    async def main(upstream: HttpUpstream) -> float:
        app = gateway(upstream)
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(app.aclose)
            with MemoryWatch() as watch:
                gc.disable()
                try:
                    for _ in range(20):
                        told = asking("tools/list")
                        await app(told.scope, told.receive, told.send)
                        assert b"without a name" in told.body
                    return watch.now_mib
                finally:
                    gc.enable()

    with server(Sent(body)) as upstream:
        assert asyncio.run(main(upstream)) < 40
