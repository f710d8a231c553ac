"""Bytes that two programs read differently: none of them leads around the gate, in either direction. Real sockets."""

import gzip
import json
import subprocess
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import brotli
import pytest
from tests.integration.test_transparent_legacy_sse import Session
from tests.integration.test_transparent_legacy_sse import Upstream as Sse
from tests.world.authorization import GATEWAY, Signed, Trust
from tests.world.calls import ERAS, STREAM_HEAD, Posted, chunk, compact, error, event, http, post, response, stream
from tests.world.command import COMMAND, environment
from tests.world.hostile import LEAKS, World, check_refused, refused, sends, sound_answer
from tests.world.raw_client import RawClient
from tests.world.raw_server import PATIENCE, Connection, RawRequest, RawServer
from tests.world.routes import ROUTES, Route
from tests.world.running import RunningGateway
from tests.world.warm import python

from accredit.errors import ConfigurationError
from accredit.gateway import GatewaySettings, HttpUpstream, create_app
from accredit.jsonrpc.methods import Era
from accredit.keys import write_key
from accredit.stores import MemoryStore, RevocationLists

HIDDEN = b'"},"method":"tools/call","params":{"name":"send_email","arguments":{}},"x":{"y":"'
PING = b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":"%b"}}'
CALL = compact({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "send_email", "arguments": {}}})
CHARSET = "a charset other than utf-8"


def as_utf_7() -> bytes:
    """A ping to who reads UTF-8, a tools/call to who reads UTF-7."""
    text = HIDDEN.decode().replace('"', "+ACI-").replace("{", "+AHs-").replace("}", "+AH0-")
    return PING % text.encode()


def with_type(posted: Posted, *headers: tuple[str, str], body: bytes | None = None) -> Posted:
    kept = [pair for pair in posted.headers if pair[0].lower() != "content-type"]
    return Posted([*kept, *headers], posted.body if body is None else body)


# --- requests ---------------------------------------------------------------------------------------

OTHERWISE: dict[str, tuple[tuple[tuple[str, str], ...], bytes]] = {
    "utf_7": ((("Content-Type", "application/json; charset=utf-7"),), as_utf_7()),
    "two_fields": ((("Content-Type", "application/json"), ("Content-Type", "text/plain; charset=utf-7")), as_utf_7()),
    "a_semicolon": ((("Content-Type", "application/json;"),), CALL),
    "json_rpc": ((("Content-Type", "application/json-rpc"),), CALL),
    "brotli": ((("Content-Type", "application/json"), ("Content-Encoding", "br")), brotli.compress(CALL)),
    "two_codings": (
        (("Content-Type", "application/json"), ("Content-Encoding", "identity"), ("Content-Encoding", "br")),
        CALL,
    ),
}


def test_the_ping_in_utf_7_is_a_call_to_who_honours_its_charset() -> None:
    assert json.loads(as_utf_7())["method"] == "ping"
    assert json.loads(as_utf_7().decode("utf-7"))["method"] == "tools/call"


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", OTHERWISE)
async def test_a_call_in_another_charset_or_coding_reaches_no_server(era: Era, name: str) -> None:
    headers, body = OTHERWISE[name]

    async with World(sends(http(response()))) as world:
        answer = await world.ask(with_type(post(era, "ping"), *headers, body=body))
        assert (answer.status, json.loads(answer.body)["error"]["code"]) == (415, -32600)
        assert world.upstream.requests == []
        await world.recovered(era)


@pytest.mark.parametrize("name", OTHERWISE)
async def test_nor_over_http_sse_of_2024(name: str) -> None:
    headers, body = OTHERWISE[name]

    async def handler(connection: Connection) -> None:
        while (request := await connection.request()) is not None:
            assert request.method == "GET", request
            await connection.send(STREAM_HEAD, chunk(b"event: endpoint\ndata: /messages?sid=1\n\n"))
            await connection.peer_closed()
            return

    async with RawServer(handler) as server:
        settings = GatewaySettings(HttpUpstream(server.url.replace("/mcp", "/sse")))
        async with RunningGateway(settings) as gateway, RawClient(gateway.port) as client:
            await client.ask("GET", "/sse", [("Accept", "text/event-stream")])
            assert (await client.head())[0] == 200
            opened = await client.event()
            assert opened is not None
            assert opened.data is not None
            async with RawClient(gateway.port) as sender:
                await sender.ask("POST", opened.data.decode(), headers, body)
                answer = await sender.answer()
                assert (answer.status, json.loads(answer.body)["error"]["code"]) == (415, -32600)
        assert len(server.requests) == 1


ELSEWHERE = (
    ("X-HTTP-Method-Override", "DELETE"),
    ("X_HTTP_Method_Override", "DELETE"),
    ("X-Original-URL", "/admin"),
    ("X-Rewrite-URL", "/admin"),
    ("X-Forwarded-Host", "evil.example"),
    ("Content_Type", "application/json; charset=utf-7"),
    ("Content.Type", "application/json; charset=utf-7"),
    ("Content_Encoding", "br"),
    ("Content-Transfer-Encoding", "base64"),
    ("Transfer_Encoding", "chunked"),
    ("Content-Digest", "sha-256=:AA==:"),
    ("Accept-Charset", "utf-16"),
    ("Range", "bytes=0-9"),
    ("If-Match", "x"),
    ("Mcp_Session_Id", "somebody-else"),
    ("Proxy", "http://evil.example/"),
    ("Accredit-Identity", "me"),
)


@pytest.mark.parametrize("era", ERAS)
async def test_what_reaches_the_server_is_in_the_gateways_own_words(era: Era) -> None:
    async with World(sends(http(response()))) as world:
        asked = post(era)
        said = ("Content-Type", 'Application/JSON ;Charset="UTF-8"'), ("Content-Encoding", "Identity")
        kept = [pair for pair in asked.headers if pair[0] != "Accept"]
        accept = ("Accept", "application/json;charset=utf-7, text/event-stream;q=0.9;x=y")
        sent = with_type(Posted([*kept, accept], asked.body), *said, *ELSEWHERE, ("X-Custom", "v"))
        assert (await world.ask(sent)).body == response()
        seen = world.upstream.requests[-1]
        assert [value for name, value in seen.headers if name == "content-type"] == ["application/json"]
        assert seen.header("accept") == "application/json, text/event-stream;q=0.9"
        assert seen.header("x-custom") == "v"
        assert [name for name, _ in ELSEWHERE if seen.header(name.lower()) is not None] == []
        assert seen.header("content-encoding") is None
        assert seen.body == asked.body


async def test_where_calls_are_guarded_only_listed_headers_go_on_in_either_direction(trust: Trust) -> None:
    passed = [("mcp-session-id", "s"), ("retry-after", "3"), ("x-tenant", "a"), ("x-accel-buffering", "no")]
    dropped = [("set-cookie", "a=b"), ("etag", "x"), ("x-accel-redirect", "/secret"), ("alt-svc", "h3=evil:1")]

    async def serve(connection: Connection) -> None:
        while await connection.request() is not None:
            await connection.send(http(response(), headers=(*passed, *dropped)))

    async with RawServer(serve) as server:
        upstream = HttpUpstream(server.url, {"X-Api-Key": "k"})
        settings = trust.settings(upstream, forward_headers=("X-Tenant",))
        app = create_app(settings, store=MemoryStore(), revocations=RevocationLists((), {}))
        async with RunningGateway(app) as gateway, RawClient(gateway.port) as client:
            asked = post(Era.LEGACY, "ping")
            more = [("X-Tenant", "a"), ("User-Agent", "u"), ("Authorization", "Bearer x"), ("X-Api-Key", "guess")]
            never = [("Cookie", "a=b"), ("X-Custom", "v"), ("Origin", f"http://127.0.0.1:{gateway.port}")]
            never += [("x_api_key", "guess"), ("Baggage", "a=b"), *ELSEWHERE]
            await client.ask("POST", "/mcp?_method=DELETE", [*asked.headers, *more, *never], asked.body)
            answer = await client.answer()
            assert (answer.status, answer.body) == (200, response())
            own = [("content-type", "application/json"), ("content-length", str(len(response())))]
            assert sorted(answer.headers) == sorted([*passed, *own])
            seen = server.requests[-1]
            assert seen.target == "/mcp"
            expected = [(name.lower(), value) for name, value in (*asked.headers, *more[:3], ("X-Api-Key", "k"))]
            expected += [("host", f"127.0.0.1:{server.port}"), ("accept-encoding", "identity")]
            assert sorted(seen.headers) == sorted([*expected, ("content-length", str(len(asked.body)))])


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
@pytest.mark.parametrize("name", ["Mcp-Session-Id", "MCP-Protocol-Version", "Last-Event-ID"])
async def test_a_session_is_not_named_twice__a_server_could_take_the_other_one(method: str, name: str) -> None:
    async with World(sends(http(response()))) as world, world.client() as client:
        asked = post(Era.LEGACY)
        kept = [pair for pair in asked.headers if pair[0] != name]
        body = asked.body if method == "POST" else b""
        await client.ask(method, "/mcp", [*kept, (name, "2025-06-18"), (name, "2025-11-25")], body)
        answer = await client.answer()
        assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, -32600)
        assert world.upstream.requests == []


ROUTING = [("Mcp-Method", "ping"), ("Mcp-Name", "harmless"), ("Mcp-Param-To", "eve")]


def routing(request: RawRequest) -> set[str]:
    return {name for name, _ in request.headers if name in ("mcp-method", "mcp-name", "mcp-param-to")}


DISCOVER = post(Era.MODERN, "server/discover", {})
UNMIRRORED: dict[str, tuple[Posted, set[str]]] = {
    "a_call_of_a_session": (post(Era.LEGACY), set()),
    "a_response": (Posted(post(Era.LEGACY).headers, response()), set()),
    "a_modern_request_without_a_target": (DISCOVER, {"mcp-method"}),
    "a_target_that_is_no_name": (post(Era.MODERN, "tools/call", {"name": 5}), {"mcp-method", "mcp-param-to"}),
}


@pytest.mark.parametrize("case_", UNMIRRORED)
async def test_no_router_behind_is_told_of_another_call_by_headers_that_mirror_nothing(case_: str) -> None:
    posted, kept = UNMIRRORED[case_]
    named = {name for name, _ in posted.headers}
    posted = Posted([*posted.headers, *(pair for pair in ROUTING if pair[0] not in named)], posted.body)

    async with World(sends(http(response()))) as world:
        await world.ask(posted)
        (request,) = world.upstream.requests
        assert routing(request) == kept


async def test_nor_by_those_of_a_stream_that_is_opened() -> None:
    async with World(sends(http(b"", status="405 Method Not Allowed"))) as world, world.client() as client:
        await client.ask("GET", "/mcp", [("Accept", "text/event-stream"), *ROUTING])
        await client.answer()
        (request,) = world.upstream.requests
        assert not routing(request)


async def test_nor_over_http_sse_of_2024_in_either_of_its_requests__where_two_sessions_are_refused_as_well() -> None:
    async def handler(connection: Connection) -> None:
        while (request := await connection.request()) is not None:
            if request.method == "POST":
                await connection.send(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
                continue
            await connection.send(STREAM_HEAD, chunk(b"event: endpoint\ndata: /messages?sid=1\n\n"))
            await connection.peer_closed()
            return

    async with RawServer(handler) as server:
        settings = GatewaySettings(HttpUpstream(server.url.replace("/mcp", "/sse")))
        async with RunningGateway(settings) as gateway, RawClient(gateway.port) as client:
            await client.ask("GET", "/sse", [("Accept", "text/event-stream"), *ROUTING])
            assert (await client.head())[0] == 200
            opened = await client.event()
            assert opened is not None
            assert opened.data is not None
            async with RawClient(gateway.port) as sender:
                headers = [("Content-Type", "application/json"), *ROUTING]
                await sender.ask("POST", opened.data.decode(), headers, CALL)
                assert (await sender.answer()).status == 202
                await sender.ask("POST", opened.data.decode(), [*headers, *[("Mcp-Session-Id", "s")] * 2], CALL)
                assert (await sender.answer()).status == 400
        assert [request.method for request in server.requests] == ["GET", "POST"]
        for request in server.requests:
            assert not routing(request)


def test_a_header_that_would_open_another_way_stops_the_start(trust: Trust) -> None:
    for name in ("Content-Type", "X-Original-URL", "content_encoding", "Host"):
        with pytest.raises(ConfigurationError, match="forward_headers"):
            GatewaySettings(HttpUpstream("http://127.0.0.1:1/mcp"), forward_headers=(name,))


# --- names that differ only by case -----------------------------------------------------------------

DOUBLES: list[dict[str, Any]] = [
    {"amount": 1, "AMOUNT": 1_000_000},
    {"payment": {"items": [{"amount": 1, "Amount": 2}]}},
    {"k": 1, "\u212a": 2},
    {"amount": 1, "amount\0": 2},
]


def refused_pay(answer: dict[str, Any]) -> None:
    assert answer["error"]["code"] == -32600
    assert "differ only by case" in answer["error"]["message"]


@pytest.mark.parametrize("name", ROUTES)
@pytest.mark.parametrize("arguments", DOUBLES)
async def test_a_binder_that_ignores_case_gets_no_amount_that_no_constraint_saw(
    name: str, arguments: dict[str, Any], trust: Trust, tmp_path: Path
) -> None:
    params = {"name": "pay", "arguments": arguments}

    async with Route(name, trust, tmp_path) as route:
        signed = Signed(session=route.session)
        params["_meta"] = {"ratify_proof": trust.proof(trust.chain(), "tools/call", params, signed)}
        answer = await route.send(post(route.era, "tools/call", params))
        assert answer.status == 400
        refused_pay(json.loads(answer.body))
        if route.era is Era.LEGACY:
            (told,) = await route.batch({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
            refused_pay(told)
        assert route.received("tools/call") == []


@pytest.mark.parametrize("arguments", DOUBLES)
async def test_nor_does_a_binder_behind_a_stream_of_2024_11_05(arguments: dict[str, Any], trust: Trust) -> None:
    upstream = Sse()

    def called(arguments: dict[str, Any]) -> bytes:
        params = {"name": "pay", "arguments": arguments}
        proved = {**params, "_meta": {"ratify_proof": trust.proof(trust.chain(), "tools/call", params)}}
        return compact({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": proved})

    async with upstream.server as server:
        settings = trust.settings(HttpUpstream(server.url.replace("/mcp", "/sse")))
        app = create_app(settings, store=MemoryStore(), revocations=RevocationLists((), {}))
        async with RunningGateway(app) as gateway:
            async with RawClient(gateway.port) as client:
                session = Session(gateway.port, client)
                await session.open()
                answer = await session.post(called(arguments))
                assert answer.status == 400
                refused_pay(json.loads(answer.body))
                assert [request.method for request in server.requests] == ["GET"]
                assert (await session.post(called({"amount": 1, "currency": "EUR"}))).status == 202
                assert [request.method for request in server.requests] == ["GET", "POST"]
            await server.until(lambda found: found.open <= 1)
        await server.until(lambda found: found.open == 0)


async def test_where_proofs_are_off_such_arguments_are_the_servers_to_read() -> None:
    async with World(sends(http(response()))) as world:
        asked = post(Era.LEGACY, "tools/call", {"name": "pay", "arguments": DOUBLES[0]})
        assert (await world.ask(asked)).body == response()
        assert world.upstream.requests[-1].body == asked.body


def test_wrap_refuses_them_too(trust: Trust, tmp_path: Path) -> None:
    write_key(tmp_path / "owner.key", trust.owner)
    (tmp_path / "accredit.toml").write_text(
        f"""
[gateway]
id = "{GATEWAY}"
[upstream]
command = ['{python()}', '-m', 'tests.world.honest_server', '{tmp_path / "received"}']
env = {{ PYTHONPATH = '{Path(__file__).parents[2]}' }}
[proofs]
mode = "required"
[[proofs.roots]]
name = "Owner"
public_key_file = "owner.key.pub"
[tools.pay]
scope = "payments:send"
""",
        "utf-8",
    )
    lines = [post(Era.MODERN, "tools/call", {"name": "pay", "arguments": arguments}).body for arguments in DOUBLES]
    done = subprocess.run(
        [python(), *COMMAND[1:], "wrap", "--config", str(tmp_path / "accredit.toml")],
        env=environment({}),
        input=b"\n".join([*lines, b""]),
        capture_output=True,
        timeout=PATIENCE * 3,
        check=False,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(DOUBLES), done.stderr
    for answer in answers:
        refused_pay(answer)
    received = tmp_path / "received"
    assert b"tools/call" not in (received.read_bytes() if received.exists() else b"")


# --- answers ----------------------------------------------------------------------------------------

CHARSETS = ["utf-7", "UTF-16", '"utf-16le"', "iso-8859-1", "us-ascii"]


@pytest.mark.holds("gateway/upstream/http/answer_relay", "headers")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("charset", CHARSETS)
async def test_an_answer_in_another_charset_is_none__its_client_could_read_another_id(era: Era, charset: str) -> None:
    kind = f"application/json; charset={charset}"
    for status, told in (("200 OK", 502), ("404 Not Found", 404)):
        async with World(sends(http(response(), kind, status=status, headers=LEAKS))) as world:
            check_refused(await world.ask(post(era)), told, refused(CHARSET))
            await world.recovered(era)
    events = stream(event(response())).replace(b"event-stream", b"event-stream; charset=" + charset.encode())
    async with World(sends(events)) as world:
        check_refused(await world.ask(post(era)), 502, refused(CHARSET))
        await world.recovered(era)


async def test_in_observe_mode_it_passes_as_it_came() -> None:
    kind = "application/json; charset=utf-7"
    async with World(sends(http(response(), kind)), enforce=False) as world:
        answer = await world.ask(post(Era.LEGACY))
        assert (answer.status, answer.body, answer.header("content-type")) == (200, response(), kind)
    kind = "text/event-stream; charset=utf-7"
    events = stream(event(response())).replace(b"text/event-stream", kind.encode())
    async with World(sends(events), enforce=False) as world:
        answer = await world.ask(post(Era.LEGACY))
        assert (answer.status, answer.body, answer.header("content-type")) == (200, event(response()), kind)


@pytest.mark.parametrize("era", ERAS)
async def test_a_stream_says_what_it_is_in_the_gateways_own_words(era: Era) -> None:
    events = stream(event(response())).replace(b"text/event-stream", b'Text/Event-Stream;Charset="utf-8";x=y')
    async with World(sends(events)) as world:
        answer = await world.ask(post(era))
        assert (answer.body, answer.header("content-type")) == (event(response()), "text/event-stream")


@pytest.mark.holds("gateway/upstream/http/answer_relay", "errors")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json;", response()),
        ("application/json;profile=x", response()),
        (None, response().decode().encode("utf-16")),
        ("application/x", response().decode().encode("utf-16-be")),
        ("application/x", response().decode().encode("utf-16")),
        ("application/cbor", b"\xa1\x67jsonrpc\x632.0"),
    ],
)
async def test_an_error_whose_type_hides_an_answer_keeps_only_its_status(
    era: Era, kind: str | None, body: bytes
) -> None:
    async with World(sends(http(body, kind, status="404 Not Found", headers=LEAKS))) as world:
        answer = await world.ask(post(era))
        check_refused(answer, 404, answer.body)
        told = json.loads(answer.body)["error"]
        assert (told["code"], told["message"]) == (-32000, "Invalid upstream JSON-RPC response")
        await world.recovered(era)


@pytest.mark.holds("gateway/upstream/http/answer_relay", "errors")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("text/event-stream", "text/plain"),
        ("application/json, text/plain", "text/plain"),
        ("", "text/plain"),
        ("text/html;Charset=UTF-8", "text/html"),
    ],
)
async def test_the_text_of_an_error_is_no_stream_and_nothing_to_be_guessed(
    era: Era, kind: str | None, said: str
) -> None:
    async with World(sends(http(b"data: no\n\n", kind, status="404 Not Found"))) as world:
        answer = await world.ask(post(era))
        assert (answer.status, answer.body, answer.header("content-type")) == (404, b"data: no\n\n", said)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br"])
async def test_a_coding_that_the_client_does_not_decode_is_decoded_here(coding: str) -> None:
    encode = {"gzip": partial(gzip.compress, mtime=0), "deflate": zlib.compress, "br": brotli.compress}[coding]

    for body, status in ((response(), "200 OK"), (error(), "400 Bad Request")):
        sent = http(encode(body), status=status, headers=(("Content-Encoding", coding),))
        for accepted, coded in (("identity", None), (f"{coding};q=0", None), (f"x, {coding}", coding)):
            async with World(sends(sent)) as world:
                answer = await world.ask(post(Era.LEGACY).and_header("Accept-Encoding", accepted))
                assert answer.header("content-encoding") == coded
                assert answer.body == (encode(body) if coded else body)


# --- paths that are not MCP's -----------------------------------------------------------------------


async def test_no_header_makes_a_path_that_passes_unread_into_mcps(trust: Trust) -> None:
    async def serve(connection: Connection) -> None:
        while request := await connection.request():
            await connection.send(sound_answer(request) if request.method == "POST" else http(b"x", "text/x; a=b"))

    async with RawServer(serve) as server:
        settings = trust.settings(HttpUpstream(server.url), passthrough=("/other/*",))
        app = create_app(settings, store=MemoryStore(), revocations=RevocationLists((), {}))
        async with RunningGateway(app) as gateway, RawClient(gateway.port) as client:
            sent = [("Content-Type", "text/x; charset=utf-16"), ("Content-Encoding", "x"), ("If-Match", "y")]
            routing = [("X-Original-URL", "/mcp"), ("X_Original_URL", "/mcp"), ("X-Rewrite-URL", "/mcp")]
            routing += [("X-Forwarded-Prefix", "/mcp"), ("Mcp-Session-Id", "s"), ("X-HTTP-Method-Override", "PUT")]
            await client.ask("POST", "/other/x", [*sent, *routing], CALL)
            assert (await client.answer()).status == 200
            seen = server.requests[-1]
            assert (seen.target, seen.body) == ("/other/x", CALL)
            own = {"host", "content-length"}
            assert [pair for pair in seen.headers if pair[0] not in own] == [
                (name.lower(), value) for name, value in sent
            ]
            await client.ask("GET", "/other/y")
            assert (await client.answer()).header("content-type") == "text/x; a=b"
            await client.ask("GET", "/other/%252e%252e/mcp")
            assert (await client.answer()).status == 404
