"""Status lines and headers of an upstream that say the wrong thing: content types, empty answers, redirects, errors."""

import pytest
from tests.world.calls import (
    ERAS,
    compact,
    error,
    event,
    http,
    initialize,
    initialized,
    notification,
    post,
    response,
    stream,
)
from tests.world.hostile import (
    HOSTILE,
    LEAKS,
    World,
    check_refused,
    refused,
    sends,
    sends_and_closes,
    sends_and_hangs,
    sound_answer,
)
from tests.world.raw_server import Connection, RawRequest, RawServer, until

from accredit.jsonrpc.methods import Era
from accredit.limits import MAX_SESSION_ID_BYTES


def moved(status: str, location: str, told: str) -> tuple[bytes, str]:
    """A redirect, and what is told of it."""
    return http(b"", None, status=status, headers=(("Location", location),)), f"status {status[:3]}{told}"


NAME_IT = "(upstream.url has to name it): a redirect to"
AWAY = ", a redirect to another server: upstream.url has to name it, if it is meant"
NO_TYPE = "neither JSON nor an event stream"


def typed(content_type: str | None, *more: tuple[str, str]) -> bytes:
    return http(response(), content_type, headers=(*LEAKS, *more))


ANSWERS = {
    "html": (http(b"<html>", "text/html", headers=LEAKS), NO_TYPE),
    "plain_text": (typed("text/plain"), NO_TYPE),
    "a_type_that_merely_begins_as_json": (typed("application/jsonsomething"), NO_TYPE),
    "two_types": (typed("application/json", ("Content-Type", "text/html")), NO_TYPE),
    "no_type": (typed(None), NO_TYPE),
    "an_empty_body": (http(b"", headers=LEAKS), "not valid JSON"),
    "no_type_and_no_body": (http(b"", None, headers=LEAKS), NO_TYPE),
    "202_and_nothing": (http(b"", None, status="202 Accepted", headers=LEAKS), "status 202 in answer to a request"),
    "202_and_an_answer": (http(response(), status="202 Accepted"), "status 202 in answer to a request"),
    "204": (b"HTTP/1.1 204 No Content\r\nSet-Cookie: a=b\r\n\r\n", NO_TYPE),
    "205": (http(b"", None, status="205 Reset Content"), NO_TYPE),
    **{
        f"{status}_and_an_answer": (http(response(), status=f"{status} x"), f"status {status} in answer to a request")
        for status in (205, 206, 207, 226, 299)
    },
    **{
        f"{status}_and_a_stream": (
            http(event(response()), "text/event-stream", status=f"{status} x"),
            f"status {status} in answer to a request",
        )
        for status in (202, 205, 206, 299)
    },
    "300": (http(response(), status="300 Multiple Choices"), "status 300"),
    "302": moved("302 Found", "/mcp", f" to /mcp {NAME_IT} the same path"),
    "302_with_an_answer": (http(response(), status="302 Found"), "status 302, a redirect that leads nowhere"),
    "304": (b'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\n\r\n', "status 304"),
    "308": moved("308 Permanent Redirect", "/mcp/", f" to /mcp/ {NAME_IT} the same path with a slash at its end"),
    "a_redirect_in_the_dress_of_a_stream": (
        http(response(), "text/event-stream", status="302 Found"),
        "status 302, a redirect that leads nowhere",
    ),
}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", ANSWERS)
async def test_an_answer_of_the_wrong_kind_is_replaced(era: Era, name: str) -> None:
    sent, detail = ANSWERS[name]

    async with World(sends(sent)) as world:
        check_refused(await world.ask(post(era)), 502, refused(detail))
        await world.recovered(era)


@pytest.mark.parametrize("content_type", ["application/json;charset=UTF-8;x=y", "application/json-rpc"])
async def test_an_answer_s_type_is_said_in_the_gateway_s_own_words(content_type: str) -> None:
    async with World(sends(http(response(), content_type, status="203 Non-Authoritative Information"))) as world:
        answer = await world.ask(post(Era.MODERN))
        assert (answer.status, answer.body) == (203, response())
        assert answer.header("content-type") == "application/json"


@pytest.mark.holds("gateway/upstream/http/answer_relay", "redirects")
async def test_a_redirect_is_not_followed__the_upstream_would_choose_where_the_gateway_goes() -> None:
    async def elsewhere(connection: Connection, request: RawRequest) -> None:
        await connection.send(sound_answer(request))

    async def serve(connection: Connection) -> None:
        while request := await connection.request():
            await elsewhere(connection, request)

    async with RawServer(serve) as other:
        away, told = moved("307 Temporary Redirect", other.url, AWAY)
        async with World(sends(away)) as world:
            check_refused(await world.ask(post(Era.LEGACY)), 502, refused(told))
            await world.recovered(Era.LEGACY)
        assert other.accepted == 0


# --- which session -----------------------------------------------------------------------------------

TWICE = "more than one Mcp-Session-Id or MCP-Protocol-Version, or one that is none"
NAMED_TWICE: dict[str, tuple[tuple[str, str], ...]] = {
    "two": (("Mcp-Session-Id", "aaa"), ("Mcp-Session-Id", "bbb")),
    "the_same_twice": (("Mcp-Session-Id", "aaa"), ("mcp-session-id", "aaa")),
    "two_in_one": (("Mcp-Session-Id", "aaa, bbb"),),
    "two_in_one_without_a_blank": (("Mcp-Session-Id", "aaa,bbb"),),
    "none": (("Mcp-Session-Id", ""),),
    "what_no_client_can_say": (("Mcp-Session-Id", "caf\u00e9"),),
    "two_revisions": (("MCP-Protocol-Version", "2025-11-25"), ("MCP-Protocol-Version", "2025-06-18")),
}


@pytest.mark.holds("gateway/upstream/http/answer_relay", "headers")
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("name", NAMED_TWICE)
async def test_an_answer_that_names_two_sessions_is_none__clients_would_go_on_in_different_ones(
    name: str, kind: str
) -> None:
    body = initialized() if kind == "application/json" else event(initialized())

    async with World(sends(http(body, kind, headers=NAMED_TWICE[name]))) as world:
        check_refused(await world.ask(initialize()), 502, refused(TWICE))
        await world.recovered(Era.LEGACY)
        # Which of the two would it be?
        assert {request.method for request in world.upstream.requests} == {"POST"} or name == "two_revisions"


@pytest.mark.holds("gateway/upstream/http/answer_relay", "headers")
@pytest.mark.parametrize("name", NAMED_TWICE)
async def test_nor_does_an_error__a_receipt_or_a_standing_stream_name_two(name: str) -> None:
    twice = NAMED_TWICE[name]

    async with World(sends(http(error(), status="400 Bad Request", headers=twice))) as world:
        check_refused(await world.ask(post(Era.LEGACY)), 400, refused(TWICE))
    async with World(sends(http(b"", None, status="202 Accepted", headers=twice))) as world:
        answer = await world.ask(notification(Era.LEGACY))
        assert (answer.status, answer.headers) == (202, [("content-length", "0")])
    opens = sends_and_closes(http(b": x\n\n", "text/event-stream", headers=twice))
    async with World(opens) as world, world.client() as client:
        await client.ask("GET", "/mcp", [HOSTILE, *post(Era.LEGACY).headers])
        check_refused(await client.answer(), 502, refused(TWICE))


LONG = (("Mcp-Session-Id", "x" * (MAX_SESSION_ID_BYTES + 1)),)
TOO_LONG = f"a session's id of more than {MAX_SESSION_ID_BYTES} bytes"


@pytest.mark.holds("gateway/upstream/http/answer_relay", "headers")
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("enforce", [True, False])
async def test_a_session_whose_id_its_client_could_not_bring_back_is_ended__the_client_never_hears_of_it(
    enforce: bool, kind: str
) -> None:
    body = initialized() if kind == "application/json" else event(initialized())

    async with World(sends(http(body, kind, headers=LONG)), enforce=enforce) as world:
        check_refused(await world.ask(initialize()), 502, refused(TOO_LONG))
        await until(lambda: world.ended_sessions() == [LONG[0][1]])
        await world.recovered(Era.LEGACY)
    fits = (("Mcp-Session-Id", "x" * MAX_SESSION_ID_BYTES),)
    async with World(sends(http(body, kind, headers=fits)), enforce=enforce) as world:
        answer = await world.ask(initialize())
        assert (answer.status, answer.header("mcp-session-id")) == (200, fits[0][1])
    async with World(sends(http(b"", None, status="202 Accepted", headers=LONG)), enforce=enforce) as world:
        answer = await world.ask(notification(Era.LEGACY))
        assert (answer.status, answer.header("mcp-session-id")) == (202, None)
    async with World(sends(http(error(), status="400 Bad Request", headers=LONG)), enforce=enforce) as world:
        check_refused(await world.ask(post(Era.LEGACY)), 400, refused(TOO_LONG))


# --- errors of the upstream -------------------------------------------------------------------------

JSON = "application/json"
KEPT_ERRORS = {
    "404_for_a_session_in_text": http(b"Session not found", "text/plain", status="404 Not Found"),
    "404_for_a_session_in_json": http(error(None, -32001, "Session not found"), JSON, status="404 Not Found"),
    "404_of_json_without_a_body": http(b"", JSON, status="404 Not Found"),
    "400_for_a_modern_version": http(
        compact(
            {
                "jsonrpc": "2.0",
                "id": 7,
                "error": {"code": -32022, "message": "v", "data": {"supported": ["2026-07-28"]}},
            }
        ),
        JSON,
        status="400 Bad Request",
    ),
    "401_with_a_challenge": http(
        b"no token", "text/plain", status="401 Unauthorized", headers=(("WWW-Authenticate", 'Bearer realm="r"'),)
    ),
    "500_in_html": http(b"<h1>oops</h1>", "text/html", status="500 Internal Server Error"),
}


@pytest.mark.holds("gateway/upstream/http/answer_relay", "errors")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", KEPT_ERRORS)
async def test_an_error_of_the_upstream_passes_as_it_is__its_status_has_meaning(era: Era, name: str) -> None:
    sent = KEPT_ERRORS[name]
    head, _, body = sent.partition(b"\r\n\r\n")

    async with World(sends(sent)) as world:
        answer = await world.ask(post(era))
        assert answer.status == int(head.split(b" ")[1])
        assert answer.body == body
        lines = head.decode().split("\r\n")[1:]
        assert sorted(f"{name}: {value}" for name, value in answer.headers) == sorted(
            f"{name.lower()}: {value}" for name, _, value in (line.partition(": ") for line in lines)
        )
        await world.recovered(era)


_STATUS = "an error status without an error"
_OTHER = "an error for an id that was not asked for"
REPLACED_ERRORS = {
    "401_of_oauth": (b'{"error":"invalid_token"}', "401 Unauthorized", '"jsonrpc" is not "2.0"'),
    "404_with_a_result": (response(), "404 Not Found", _STATUS),
    "404_for_another_request": (error(8), "404 Not Found", _OTHER),
    "400_with_two_codes": (
        error().replace(b'"code":', b'"code":1,"code":'),
        "400 Bad Request",
        "a duplicate member: code",
    ),
    "500_with_text": (b"Internal Server Error", "500 Internal Server Error", "not valid JSON"),
}


@pytest.mark.holds("gateway/upstream/http/answer_relay", "errors")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", REPLACED_ERRORS)
async def test_an_error_that_claims_to_be_json_and_is_no_error_keeps_only_its_status(era: Era, name: str) -> None:
    body, status, detail = REPLACED_ERRORS[name]
    challenge = ("WWW-Authenticate", 'Bearer resource_metadata="https://r.example/x"')

    async with World(sends(http(body, status=status, headers=(*LEAKS, challenge)))) as world:
        answer = await world.ask(post(era))
        check_refused(answer, int(status[:3]), refused(detail), (challenge[0].lower(), challenge[1]))
        await world.recovered(era)


# --- answers to what is owed none -------------------------------------------------------------------

RECEIPTS = {
    "202": http(b"", None, status="202 Accepted"),
    "202_and_text": http(b"Accepted", "text/plain", status="202 Accepted"),
    "an_empty_object": http(b"{}", headers=LEAKS),
    "an_error_without_an_id": http(error(None), headers=LEAKS),
    "204": b"HTTP/1.1 204 No Content\r\n\r\n",
    "an_answer": http(response()),
    "a_stream_with_an_answer": stream(b"data: " + response() + b"\n\n"),
    "an_unknown_coding": http(b"?", headers=(*LEAKS, ("Content-Encoding", "zstd"))),
}


@pytest.mark.holds("gateway/upstream/http/answer_relay", "accepted")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", RECEIPTS)
async def test_a_notification_is_answered_with_202_and_nothing__whatever_a_server_says_to_it(
    era: Era, name: str
) -> None:
    async with World(sends(RECEIPTS[name])) as world:
        answer = await world.ask(notification(era))
        assert (answer.status, answer.body) == (202, b"")
        assert {key for key, _ in answer.headers} <= {"content-length"}
        assert "answer_refused" not in world.refused
        await world.recovered(era)


@pytest.mark.parametrize("era", ERAS)
async def test_a_notification_that_is_redirected_has_reached_nobody(era: Era) -> None:
    async with World(sends(http(b"", None, status="302 Found", headers=LEAKS))) as world:
        check_refused(await world.ask(notification(era)), 502, refused("status 302, a redirect that leads nowhere"))
        await world.recovered(era)


# --- sessions that a malformed initialize announces -------------------------------------------------

BAD_INITIALIZE = {
    "garbage": (sends(http(b"{}", headers=LEAKS)), 502),
    "another_id": (sends(http(response(8), headers=LEAKS)), 502),
    "202": (sends(http(b"", None, status="202 Accepted", headers=LEAKS)), 502),
    "too_large": (sends_and_hangs(http(b"", length=1 << 40, headers=LEAKS)), 502),
    "cut_off": (sends_and_closes(http(b"{", length=100, headers=LEAKS)), 502),
    "an_error_status_with_garbage": (sends(http(b"{}", status="500 No", headers=LEAKS)), 500),
}


@pytest.mark.parametrize("name", BAD_INITIALIZE)
async def test_a_session_that_a_bad_initialize_answer_announced_is_ended_and_never_given_away(name: str) -> None:
    script, status = BAD_INITIALIZE[name]

    async with World(script) as world:
        answer = await world.ask(initialize())
        assert answer.status == status
        check_refused(answer, status, answer.body)
        await world.upstream.until(lambda _: world.ended_sessions() == ["leaked-session"])
        await world.recovered(Era.LEGACY)
        assert world.ended_sessions() == ["leaked-session"]
