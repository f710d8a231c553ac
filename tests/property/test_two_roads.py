"""Whatever a client sends, the fast and the ASGI road answer it with the same bytes, ask the server for the same, write
the same records and count the same refusals."""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.world.delegations import DAY
from tests.world.two_roads import ASGI, CHAIN, FAST, TOKENED, TRUST, seen

from accredit.base.clock import unix_seconds

pytestmark = pytest.mark.slow

CALL = {"name": "list_inbox", "arguments": {"folder": "in"}}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
PROOF = TRUST.proof(CHAIN, "tools/call", CALL)
TOKEN = TOKENED.token(exp=unix_seconds() + DAY)


def message(method: str, params: dict[str, Any] | None, id: int | None = 7) -> bytes:
    """A request, or a notification."""
    made = {"jsonrpc": "2.0", "method": method, **({"params": params} if params is not None else {})}
    return json.dumps(made if id is None else made | {"id": id}).encode()


def called(**arguments: str) -> bytes:
    """A call whose arguments tell the server how to answer."""
    return message("tools/call", {"name": "list_inbox", "arguments": {"folder": "in", **arguments}})


BODIES = [
    called(),
    called(how="later"),
    called(how="events"),
    called(how="events later"),
    called(how="wrong"),
    called(how="broken"),
    called(how="large"),
    called(how="fails"),
    message("tools/call", {**CALL, "_meta": META}),
    message("tools/call", {**CALL, "_meta": {"ratify_proof": PROOF}}),
    message("tools/call", {**CALL, "_meta": {"ratify_proof": {"v": 1}}}),
    message("ping", None),
    message("tools/list", {}),
    message("notifications/initialized", None, None),
    message("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}}),
    b"[" + called() + b"," + message("ping", None, 8) + b"]",
    called()[:-1] + b',"method":"ping"}',
    b"{",
    b"",
    b"\xff",
]
TARGETS = [b"/mcp"] * 12 + [
    b"/mcp?a=b",
    b"/%6dcp",
    b"/mcp/",
    b"http://127.0.0.1:8484/mcp",
    b"http://b/mcp",
    b"/healthz",
]
FIELDS = [
    b"Accept: application/json, text/event-stream",
    b"Mcp-Session-Id: s1",
    b"MCP-Protocol-Version: 2025-11-25",
    b"MCP-Protocol-Version: 2025-03-26",
    b"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: list_inbox",
    b"Authorization: Bearer " + TOKEN.encode(),
    b"Authorization: Bearer no.such.token",
    b"X-Own: a",
    b"x-own:b",
    b"Connection: close",
    b"Connection: keep-alive, x-own",
    b"Connection: upgrade\r\nUpgrade: h2c",
    b"Expect: 100-continue",
    b"Origin: https://page.example",
    b"Origin: https://evil.example",
    b"Content-Encoding: gzip",
    b"Accept-Encoding: gzip",
    b"Transfer-Encoding: chunked",
    b"Host: b",
    b"X-HTTP-Method-Override: PUT",
    b"Mcp_Session_Id: s2",
    b"A: " + b"a" * 5_000,
]


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """One request, mostly a good one."""
    body = draw(st.sampled_from(BODIES))
    method = draw(st.sampled_from([b"POST"] * 12 + [b"GET", b"DELETE", b"OPTIONS", b"PUT", b"HEAD"]))
    version = draw(st.sampled_from([b"HTTP/1.1"] * 12 + [b"HTTP/1.0"]))
    fields = draw(st.lists(st.sampled_from(FIELDS), max_size=3, unique=True))
    host = draw(st.sampled_from([b"Host: 127.0.0.1:8484"] * 12 + [b"Host: evil.example", b"A: b"]))
    length = len(body) + draw(st.sampled_from([0] * 20 + [-1, 1]))
    kind = draw(st.sampled_from([b"application/json"] * 12 + [b"text/plain"]))
    chunked = draw(st.sampled_from([False] * 8 + [True])) and body != b""
    framing = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % max(length, 0)
    if chunked:
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    target = draw(st.sampled_from(TARGETS))
    lines = [b"%b %b %b" % (method, target, version), host, b"Content-Type: " + kind, framing, *fields]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


@st.composite
def connections(draw: st.DrawFn) -> list[bytes]:
    """What comes on one connection: requests, some of them twice, cut anywhere or not at all."""
    made = draw(st.lists(requests(), min_size=1, max_size=3))
    sent = [request for request in made for _ in range(draw(st.integers(1, 3)))]
    how = draw(st.sampled_from(["each", "each", "together", "cut"]))
    if how == "each":
        return sent
    whole = b"".join(sent)
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=4))) if how == "cut" else []
    return [part for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True) if (part := whole[a:b])]


def post(body: bytes, *fields: bytes) -> bytes:
    """A good request."""
    lines = [b"POST /mcp HTTP/1.1", b"Host: 127.0.0.1:8484", b"Content-Type: application/json", *fields]
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"", b""]) + body


LENGTHS = [
    *(
        b"%d",
        b"0%d",
        b"+%d",
        b"-%d",
        b" %d",
        b"%d ",
        b"%d\t",
        b"%d,%d",
        b"%d, %d",
        b"0x%d",
        b"%d\n",
        b"\r\n %d",
        b"%d\0",
    ),
    *(b"%d\r\nContent-Length: %d", b"%d\r\nTransfer-Encoding: chunked", b"%d000000000", b"%d\xd9\xa5", b""),
]
LENGTHY = [called(), called(how="later"), called(how="large" * 20), message("ping", None), b""]


@st.composite
def lengths(draw: st.DrawFn) -> bytes:
    """A good request but for how it tells its length, or which it tells."""
    made = post(
        draw(st.sampled_from([called(), called(how="later"), called(how="large" * 20), message("ping", None), b""]))
    )
    head, _, body = made.partition(b"\r\n\r\n")
    size = max(len(body) + draw(st.sampled_from([0, 0, 0, -1, 1, 40])), 0)
    form = draw(st.sampled_from(LENGTHS))
    told = form.replace(b"%d", b"%d" % size)
    return head.replace(b"Content-Length: %d" % len(body), b"Content-Length: " + told) + b"\r\n\r\n" + body


GET = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:8484\r\n\r\n"


@pytest.mark.parametrize("kind", ["plain", "proofs", "tokens"])
@settings(max_examples=40)
@example(parts=[post(called()) * 3])
@example(parts=[post(called()) + GET + post(called(how="events"))])
@example(parts=[GET + post(called())])
@example(parts=[post(called()), post(called()), GET, post(called()), post(called(), b"Connection: close")])
@example(parts=[bytes([byte]) for byte in post(called())])
@example(parts=[post(called()), post(called())[:-5], post(called())[-5:], post(called())])
@example(parts=[post(called()), post(called()) + b"\r\n\r\n", post(called())])
@example(parts=[post(called()), post(called())[:-1] + b"\r", b"\n" + post(called())])
@given(parts=connections())
def test_both_roads_tell_the_same(kind: str, parts: list[bytes]) -> None:
    assert seen(FAST, kind, parts) == seen(ASGI, kind, parts)


@pytest.mark.holds("app/http11", "same-head")
@settings(max_examples=60)
@example(hostile=[post(called(how="large" * 20)), post(b""), post(called())])
@given(hostile=st.lists(lengths(), min_size=1, max_size=3))
def test_behind_a_known_head_every_length_is_read_as_by_the_parser__or_a_request_could_be_smuggled(
    hostile: list[bytes],
) -> None:
    parts = [post(called()), *hostile, post(called())]
    assert seen(FAST, "plain", parts) == seen(ASGI, "plain", parts)
