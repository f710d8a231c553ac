"""Requests that the gateway refuses itself: nothing of them reaches the upstream, and the answer is clean."""

import json

import pytest
from tests.world.calls import ERAS, Posted, http, initialize, initialized, notification, post, response
from tests.world.hostile import World, sends
from tests.world.raw_server import until
from tests.world.refusals import INVALID, PARSE, is_refused, passes, told

from accredit.app import connection
from accredit.gateway.front import exchange as gateway_http
from accredit.jsonrpc.methods import Era

# --- Host and Origin --------------------------------------------------------------------------------


def from_host(host: str, *origin: str) -> Posted:
    asked = post(Era.LEGACY)
    return Posted([("Host", host), *[("Origin", name) for name in origin], *asked.headers], asked.body)


NO_HOST, NO_ORIGIN = "Forbidden: this Host is not allowed", "Forbidden: this Origin is not allowed"


def add_host(name: str) -> bytes:
    return told(INVALID, f'{NO_HOST}: if that is a name of this gateway, add "{name}" to gateway.allowed_hosts')


def add_origin(name: str) -> bytes:
    return told(INVALID, f'{NO_ORIGIN}: if the page is yours, add "{name}" to gateway.allowed_origins')


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("evil.example", "evil.example"),
        ("Evil.example:80", "evil.example"),
        ("[::2]:80", "[::2]"),
    ],
)
async def test_a_host_that_is_not_ours_is_refused__a_rebound_name_would_reach_a_private_server(
    host: str, name: str
) -> None:
    await is_refused(from_host(host), 403, add_host(name))


@pytest.mark.parametrize("host", ["", "a b", 'a"b', "a/b", "-", "a:b", "[::2", "a" * 101, "\xe4", "a@b"])
async def test_what_is_no_host_is_not_quoted__it_would_be_copied_into_a_configuration(host: str) -> None:
    await is_refused(from_host(host), 403, told(INVALID, NO_HOST))


async def test_a_configured_host_may_ask() -> None:
    assert (await passes(from_host("mcp.example:443"), allowed_hosts=("mcp.example",))).status == 200
    allowed = ("mcp.example", "127.0.0.1")
    await is_refused(from_host("localhost"), 403, add_host("localhost"), allowed_hosts=allowed)


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "http://localhost:1",
        "vscode-webview://1a2b3c",
    ],
)
async def test_an_origin_that_is_not_ours_is_refused__any_page_could_use_a_local_server(origin: str) -> None:
    await is_refused(from_host("127.0.0.1:2", origin), 403, add_origin(origin))
    assert (await passes(from_host("127.0.0.1:2", origin), allowed_origins=(origin,))).status == 200


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "x",
        f"http://{'a' * 100}",
    ],
)
async def test_what_is_no_origin_is_not_quoted(origin: str) -> None:
    await is_refused(from_host("127.0.0.1:2", origin), 403, told(INVALID, NO_ORIGIN))


async def test_a_configured_origin_may_ask() -> None:
    allowed = ("https://app.example/",)
    assert (await passes(from_host("127.0.0.1", "https://app.example"), allowed_origins=allowed)).status == 200
    await is_refused(
        from_host("127.0.0.1", "http://app.example"), 403, add_origin("http://app.example"), allowed_origins=allowed
    )


async def test_the_log_says_it_too__who_runs_the_gateway_sees_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("WARNING", "accredit.gateway")
    await is_refused(from_host("127.0.0.1:2", "http://localhost:6274"), 403, add_origin("http://localhost:6274"))
    assert (
        'add "http://localhost:6274" to gateway.allowed_origins' in vars(caplog.records[0])["accredit_fields"]["detail"]
    )


@pytest.mark.parametrize("method", ["GET", "DELETE", "OPTIONS", "PUT"])
async def test_every_method_is_asked_where_it_comes_from(method: str) -> None:
    async with World(sends(http(response()))) as world, world.client() as client:
        await client.ask(method, "/mcp", [("Host", "evil.example")])
        assert (await client.answer()).status == 403
        assert world.upstream.requests == []


# --- method, path, type, size -----------------------------------------------------------------------


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "HEAD", "TRACE", "PROPFIND"])
async def test_a_method_that_mcp_does_not_use_is_refused(method: str) -> None:
    async with World(sends(http(response()))) as world, world.client() as client:
        await client.ask(method, "/mcp")
        status, headers = await client.head()
        assert status == 405
        assert ("allow", "GET, POST, DELETE") in headers
        if method != "HEAD":
            assert await client.rest() == told(INVALID, "Method not allowed")
        assert world.upstream.requests == []


NEAR = ["/mcp//", "//mcp/", "/mcp%2f", "/mcp/%2f", "/mcp/x/", "/mcp/x", "/MCP", "//mcp", "/%2fmcp", "/mcp%00"]


@pytest.mark.parametrize("path", ["/", "/admin", "/.well-known/x", *NEAR])
async def test_another_path_is_nobody_s(path: str) -> None:
    async with World(sends(http(response()))) as world, world.client() as client:
        for method in ("GET", "POST"):
            await client.ask(method, path, [("Content-Type", "application/json")], b"{}")
            answer = await client.answer()
            assert answer.status == 404
            assert json.loads(answer.body)["error"]["code"] == INVALID
        assert world.upstream.requests == []


async def test_the_endpoint_s_path_may_be_spelled_with_escapes() -> None:
    async with World(sends(http(response()))) as world, world.client() as client:
        asked = post(Era.LEGACY, id=1)
        await client.ask("POST", "/%6dcp", asked.headers, asked.body)
        assert (await client.answer()).body == response(1)
        assert world.upstream.requests[-1].target == "/mcp"


_TYPE = told(INVALID, "Content-Type must be application/json")


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/jsonx", "application/x-www-form-urlencoded", "", "application/json, text/plain", None],
)
async def test_a_post_that_is_not_json_is_refused__a_form_could_be_sent_by_any_page(
    era: Era, content_type: str | None
) -> None:
    asked = post(era).without_header("Content-Type")
    await is_refused(asked if content_type is None else asked.and_header("Content-Type", content_type), 415, _TYPE)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("declared", [True, False])
async def test_a_request_over_the_bound_is_refused(era: Era, declared: bool) -> None:
    asked = post(era)
    limit = len(asked.body) - 1
    body = told(INVALID, f"Invalid Request: the body is larger than {limit} bytes")

    async with World(sends(http(response())), max_request_bytes=limit) as world, world.client() as client:
        if declared:
            await client.ask("POST", "/mcp", asked.headers, asked.body)
        else:
            chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(asked.body), asked.body)
            await client.ask("POST", "/mcp", [*asked.headers, ("Transfer-Encoding", "chunked")], chunks)
        answer = await client.answer()
        assert (answer.status, answer.body) == (413, body)
        assert world.upstream.requests == []
    assert (await passes(asked, max_request_bytes=limit + 1)).status == 200


async def test_a_declared_length_over_the_bound_is_refused_before_the_body_comes() -> None:
    async with World(sends(http(response()))) as world, world.client() as client:
        await client.ask("POST", "/mcp", [*post(Era.LEGACY).headers, ("Content-Length", "4194305")])
        assert (await client.answer()).status == 413


async def test_a_request_whose_body_stops_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_http, "BODY_GRACE_SECONDS", 0.2)

    async with World(sends(http(response()))) as world, world.client() as client:
        asked = post(Era.LEGACY)
        await client.ask("POST", "/mcp", [*asked.headers, ("Content-Length", "1000")], asked.body)
        answer = await client.answer()
        assert (answer.status, answer.body) == (408, told(INVALID, "The request did not come in time"))
        assert world.upstream.requests == []


async def test_a_request_whose_body_never_begins_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "REQUEST_HEAD_SECONDS", 0.2)

    async with World(sends(http(response()))) as world, world.client() as client:
        await client.ask("POST", "/mcp", [*post(Era.LEGACY).headers, ("Content-Length", "1000")])
        assert await client.peer_closed()
        await until(lambda: not world.gateway.state.tasks)
        assert world.upstream.requests == []


# --- the message ------------------------------------------------------------------------------------


def raw(text: str | bytes) -> Posted:
    return Posted(post(Era.LEGACY).headers, text.encode() if isinstance(text, str) else text)


def call(text: str) -> Posted:
    return raw('{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{' + text + "}}")


_P, _I = "Parse error: ", "Invalid Request: "
_CASE = _I + "a member differs only by case from a defined one: "
BAD_MESSAGES = {
    "nothing": (raw(""), PARSE, _P + "not valid JSON", None),
    "an_overflow": (call('"a":1e999'), PARSE, _P + "a number is too large", None),
    "another_version": (raw('{"jsonrpc":"1.0","id":7,"method":"x"}'), INVALID, _I + '"jsonrpc" is not "2.0"', 7),
    "two_names": (call('"name":"safe","name":"evil"'), INVALID, _I + "a duplicate member", 7),
    "a_name_in_capitals": (call('"name":"safe","Name":"evil"'), INVALID, _CASE + "Name", 7),
    "a_batch": (
        raw(b"[" + post(Era.LEGACY).body + b"]"),
        INVALID,
        _I + "a batch is valid in revision 2025-03-26 only",
        None,
    ),
}


@pytest.mark.parametrize("name", BAD_MESSAGES)
async def test_a_message_that_two_readers_could_read_differently_is_refused(name: str) -> None:
    posted, code, message, id = BAD_MESSAGES[name]
    await is_refused(posted, 400, told(code, message, id))


# --- batches ----------------------------------------------------------------------------------------


def batched(*headers: tuple[str, str], body: bytes | None = None) -> Posted:
    asked = post(Era.LEGACY).without_header("MCP-Protocol-Version")
    return Posted([*asked.headers, *headers], b"[" + asked.body + b"]" if body is None else body)


def version(text: str) -> tuple[str, str]:
    return ("MCP-Protocol-Version", text)


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28", "2099-01-01"])
async def test_a_batch_is_refused_where_the_revision_does_not_know_it(revision: str) -> None:
    body = told(INVALID, "Invalid Request: a batch is valid in revision 2025-03-26 only")
    await is_refused(batched(version(revision)), 400, body)


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18"])
async def test_whether_a_session_may_send_batches_is_known_from_its_initialize(revision: str) -> None:
    """Revisions before 2025-06-18 have no `MCP-Protocol-Version` header: the session decides."""

    began = http(initialized(revision=revision), headers=(("Mcp-Session-Id", "s-1"),))
    async with World(sends(began)) as world:
        await world.ask(initialize(revision))
        single = post(Era.LEGACY).without_header("MCP-Protocol-Version").without_header("Mcp-Session-Id")
        asked = Posted([*single.headers, ("Mcp-Session-Id", "s-1")], b"[" + notification(Era.LEGACY).body + b"]")
        answer = await world.ask(asked)
        assert answer.status == (202 if revision == "2025-03-26" else 400)
