"""Status lines and headers of an upstream that say the wrong thing: content types, empty answers, redirects, errors."""

import pytest

from accredit.jsonrpc.methods import Era
from tests.world.calls import ERAS, chunk, compact, error, http, initialize, notification, post, response, stream
from tests.world.hostile import (
    LEAKS,
    World,
    check_refused,
    refused,
    sends,
    sends_and_closes,
    sends_and_hangs,
    sound_answer,
)
from tests.world.raw_server import Connection, RawRequest, RawServer
from tests.world.running import run

NO_TYPE = "neither JSON nor an event stream"


def typed(content_type: str | None, *more: tuple[str, str]) -> bytes:
    return http(response(), content_type, headers=(*LEAKS, *more))


ANSWERS = {
    "html": (http(b"<html>", "text/html", headers=LEAKS), NO_TYPE),
    "plain_text": (typed("text/plain"), NO_TYPE),
    "a_type_that_merely_begins_as_json": (typed("application/jsonsomething"), NO_TYPE),
    "json_lines": (typed("application/jsonl"), NO_TYPE),
    "a_problem_document": (typed("application/problem+json"), NO_TYPE),
    "json_by_another_name": (typed("text/json"), NO_TYPE),
    "an_event_stream_that_is_none": (typed("text/event-streams"), NO_TYPE),
    "two_types_in_one": (typed("application/json, application/json"), NO_TYPE),
    "the_type_twice": (typed("application/json", ("Content-Type", "application/json")), NO_TYPE),
    "two_types": (typed("application/json", ("Content-Type", "text/html")), NO_TYPE),
    "no_type": (typed(None), NO_TYPE),
    "an_empty_type": (typed(""), NO_TYPE),
    "only_a_parameter": (typed("; charset=utf-8"), NO_TYPE),
    "an_empty_body": (http(b"", headers=LEAKS), "not valid JSON"),
    "an_empty_chunked_body": (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "not valid JSON",
    ),
    "only_blanks": (http(b" \r\n\t ", headers=LEAKS), "not valid JSON"),
    "no_type_and_no_body": (http(b"", None, headers=LEAKS), NO_TYPE),
    "202_and_nothing": (http(b"", None, status="202 Accepted", headers=LEAKS), "status 202 in answer to a request"),
    "202_and_an_answer": (http(response(), status="202 Accepted"), "status 202 in answer to a request"),
    "204": (b"HTTP/1.1 204 No Content\r\nSet-Cookie: a=b\r\n\r\n", NO_TYPE),
    "205": (http(b"", None, status="205 Reset Content"), NO_TYPE),
    "300": (http(response(), status="300 Multiple Choices"), "status 300"),
    "301": (http(b"", None, status="301 Moved", headers=(("Location", "http://127.0.0.1:1/"),)), "status 301"),
    "302_with_an_answer": (http(response(), status="302 Found", headers=(("Location", "/mcp"),)), "status 302"),
    "303": (http(b"", None, status="303 See Other", headers=(("Location", "/other"),)), "status 303"),
    "304": (b"HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n", "status 304"),
    "307": (http(b"", None, status="307 Temporary Redirect", headers=(("Location", "//evil/"),)), "status 307"),
    "308": (http(b"", None, status="308 Permanent Redirect", headers=(("Location", "/mcp/"),)), "status 308"),
    "a_redirect_in_the_dress_of_a_stream": (
        http(response(), "text/event-stream", status="302 Found"),
        "status 302",
    ),
}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_of_the_wrong_kind_is_replaced(era: Era, name: str) -> None:
    sent, detail = ANSWERS[name]

    async def case() -> None:
        async with World(sends(sent)) as world:
            check_refused(await world.ask(post(era)), 502, refused(detail))
            await world.recovered(era)

    run(case())


def test_a_redirect_is_not_followed__the_upstream_would_choose_where_the_gateway_goes() -> None:
    async def elsewhere(connection: Connection, request: RawRequest) -> None:
        await connection.send(sound_answer(request))

    async def serve(connection: Connection) -> None:
        while request := await connection.request():
            await elsewhere(connection, request)

    async def case() -> None:
        async with RawServer(serve) as other:
            moved = http(b"", None, status="307 Temporary Redirect", headers=(("Location", other.url),))
            async with World(sends(moved)) as world:
                check_refused(await world.ask(post(Era.LEGACY)), 502, refused("status 307"))
                await world.recovered(Era.LEGACY)
            assert other.accepted == 0

    run(case())


SOUND_TYPES = [
    "application/json",
    "Application/JSON",
    "application/json; charset=utf-8",
    "application/json;charset=UTF-8;x=y",
    " application/json ",
    "application/json-rpc",
]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("content_type", SOUND_TYPES)
def test_the_types_of_json_pass(era: Era, content_type: str) -> None:
    async def case() -> None:
        async with World(sends(http(response(), content_type))) as world:
            answer = await world.ask(post(era))
            assert (answer.status, answer.body) == (200, response())
            assert answer.header("content-type") == content_type.strip()
            await world.recovered(era)

    run(case())


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("status", ["201 Created", "203 Non-Authoritative Information", "299 x", "200 "])
def test_another_good_status_passes_with_a_good_body(era: Era, status: str) -> None:
    async def case() -> None:
        async with World(sends(http(response(), status=status))) as world:
            answer = await world.ask(post(era))
            assert (answer.status, answer.body) == (int(status[:3]), response())
            await world.recovered(era)

    run(case())


# --- errors of the upstream -------------------------------------------------------------------------

JSON = "application/json"
KEPT_ERRORS = {
    "404_for_a_session_in_text": http(b"Session not found", "text/plain", status="404 Not Found"),
    "404_for_a_session_in_json": http(error(None, -32001, "Session not found"), JSON, status="404 Not Found"),
    "404_without_a_body": http(b"", None, status="404 Not Found"),
    "404_of_json_without_a_body": http(b"", JSON, status="404 Not Found"),
    "400_for_a_version": http(error(7, -32602, "Unsupported version"), JSON, status="400 Bad Request"),
    "400_for_a_modern_version": http(
        compact({"jsonrpc": "2.0", "id": 7, "error": {"code": -32022, "message": "v", "data": {"supported": ["2026-07-28"]}}}),
        JSON,
        status="400 Bad Request",
    ),
    "401_with_a_challenge": http(
        b"no token", "text/plain", status="401 Unauthorized", headers=(("WWW-Authenticate", 'Bearer realm="r"'),)
    ),
    "403_in_html": http(b"<h1>no</h1>", "text/html", status="403 Forbidden"),
    "405": http(b"", None, status="405 Method Not Allowed", headers=(("Allow", "POST"),)),
    "429": http(error(None), JSON, status="429 Too Many Requests", headers=(("Retry-After", "30"),)),
    "500_in_html": http(b"<h1>oops</h1>", "text/html", status="500 Internal Server Error"),
    "503_without_a_reason": http(b"", None, status="503 "),
    "599": http(b"", None, status="599 Odd"),
    "404_of_a_type_that_merely_begins_as_json": http(b"no json", "application/jsonx", status="404 Not Found"),
}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", KEPT_ERRORS)
def test_an_error_of_the_upstream_passes_as_it_is__its_status_has_meaning(era: Era, name: str) -> None:
    sent = KEPT_ERRORS[name]
    head, _, body = sent.partition(b"\r\n\r\n")

    async def case() -> None:
        async with World(sends(sent)) as world:
            answer = await world.ask(post(era))
            assert answer.status == int(head.split(b" ")[1])
            assert answer.body == body
            lines = head.decode().split("\r\n")[1:]
            assert sorted(f"{name}: {value}" for name, value in answer.headers) == sorted(
                f"{name.lower()}: {value}" for name, _, value in (line.partition(": ") for line in lines)
            )
            await world.recovered(era)

    run(case())


_STATUS = "an error status without an error"
_OTHER = "an error for an id that was not asked for"
REPLACED_ERRORS = {
    "401_of_oauth": (b'{"error":"invalid_token"}', "401 Unauthorized", '"jsonrpc" is not "2.0"'),
    "404_with_a_result": (response(), "404 Not Found", _STATUS),
    "404_for_another_request": (error(8), "404 Not Found", _OTHER),
    "404_for_the_id_as_a_string": (error("7"), "404 Not Found", _OTHER),
    "400_cut_off": (error()[:-3], "400 Bad Request", "not valid JSON"),
    "400_with_two_codes": (error().replace(b'"code":', b'"code":1,"code":'), "400 Bad Request", "a duplicate member: code"),
    "500_with_text": (b"Internal Server Error", "500 Internal Server Error", "not valid JSON"),
    "500_with_a_string": (b'"Internal Server Error"', "500 Internal Server Error", "not a JSON object"),
    "500_of_a_framework": (b'{"detail":"oops"}', "500 Internal Server Error", '"jsonrpc" is not "2.0"'),
    "500_with_a_batch": (b"[" + error() + b"]", "500 Internal Server Error", "not a JSON object"),
    "500_100000_deep": (b"[" * 100_000, "500 Internal Server Error", "nested more than 128 deep"),
    "503_that_is_not_utf8": (error(message="x").replace(b'"x"', b'"\xff"'), "503 Busy", "the body is not UTF-8"),
}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", REPLACED_ERRORS)
def test_an_error_that_claims_to_be_json_and_is_no_error_keeps_only_its_status(era: Era, name: str) -> None:
    body, status, detail = REPLACED_ERRORS[name]
    challenge = ("WWW-Authenticate", 'Bearer resource_metadata="https://r.example/x"')

    async def case() -> None:
        async with World(sends(http(body, status=status, headers=(*LEAKS, challenge)))) as world:
            answer = await world.ask(post(era))
            check_refused(answer, int(status[:3]), refused(detail), (challenge[0].lower(), challenge[1]))
            await world.recovered(era)

    run(case())


# --- answers to what is owed none -------------------------------------------------------------------

GOOD_RECEIPTS = {
    "202": http(b"", None, status="202 Accepted"),
    "200": http(b"", None),
    "200_of_json": http(b"", JSON),
    "204": b"HTTP/1.1 204 No Content\r\n\r\n",
}
_BODY = "a body in answer to no request"
BAD_RECEIPTS = {
    "an_answer": (http(response()), _BODY),
    "an_answer_with_202": (http(response(), status="202 Accepted", headers=LEAKS), _BODY),
    "html": (http(b"<html>", "text/html", headers=LEAKS), _BODY),
    "a_blank": (http(b" ", headers=LEAKS), _BODY),
    "a_stream": (stream(b": hello\n\n"), "an event stream in answer to no request"),
    "a_redirect": (http(b"", None, status="302 Found", headers=LEAKS), "status 302"),
}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", GOOD_RECEIPTS)
def test_a_notification_is_answered_without_a_body(era: Era, name: str) -> None:
    async def case() -> None:
        async with World(sends(GOOD_RECEIPTS[name])) as world:
            answer = await world.ask(notification(era))
            assert answer.status == int(GOOD_RECEIPTS[name].split(b" ")[1])
            assert answer.body == b""
            await world.recovered(era)

    run(case())


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", BAD_RECEIPTS)
def test_a_notification_is_owed_no_answer(era: Era, name: str) -> None:
    sent, detail = BAD_RECEIPTS[name]

    async def case() -> None:
        async with World(sends(sent)) as world:
            check_refused(await world.ask(notification(era)), 502, refused(detail))
            await world.recovered(era)

    run(case())


# --- not HTTP ---------------------------------------------------------------------------------------

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
_BODY_TEXT = response()
_NOT_HTTP = "the upstream's answer is not HTTP"
_HEADERS = "the upstream's answer has too many headers, or too large ones"
NOT_HTTP = {
    "an_ssh_banner": (b"SSH-2.0-OpenSSH_9.6\r\n", _NOT_HTTP),
    "a_tls_alert": (b"\x15\x03\x01\x00\x02\x02\x46", _NOT_HTTP),
    "http_2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", _NOT_HTTP),
    "http_2_settings": (b"\x00\x00\x12\x04\x00\x00\x00\x00\x00" + b"\x00" * 18, _NOT_HTTP),
    "http_0_9": (response(), _NOT_HTTP),
    "version_3": (b"HTTP/3.0 200 OK\r\n\r\n", _NOT_HTTP),
    "no_status": (b"HTTP/1.1 OK\r\n\r\n", _NOT_HTTP),
    "status_999": (http(response(), status="999 Denied"), "the upstream's answer has no valid status"),
    "status_600": (http(response(), status="600 Odd"), "the upstream's answer has no valid status"),
    "status_99": (http(response(), status="099 Odd"), "the upstream's answer has no valid status"),
    "status_1000": (http(response(), status="1000 Odd"), _NOT_HTTP),
    "status_20": (http(response(), status="20 Odd"), _NOT_HTTP),
    "101": (http(b"", None, status="101 Switching Protocols", headers=(("Upgrade", "x"), ("Connection", "upgrade"))), "the upstream switched protocols"),
    "two_lengths": (_HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n" + _BODY_TEXT, _NOT_HTTP),
    "two_same_lengths": (_HEAD + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\n" + _BODY_TEXT, _NOT_HTTP),
    "a_negative_length": (_HEAD + b"Content-Length: -1\r\n\r\n" + _BODY_TEXT, _NOT_HTTP),
    "a_length_in_hex": (_HEAD + b"Content-Length: 0x10\r\n\r\n" + _BODY_TEXT, _NOT_HTTP),
    "a_length_that_overflows": (_HEAD + b"Content-Length: 99999999999999999999999\r\n\r\n", _NOT_HTTP),
    "length_and_chunks": (
        _HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(_BODY_TEXT) + b"0\r\n\r\n",
        _NOT_HTTP,
    ),
    "a_folded_header": (_HEAD + b"X-A: b\r\n c\r\nContent-Length: 2\r\n\r\n{}", _NOT_HTTP),
    "a_bare_lf": (b"HTTP/1.1 200 OK\nContent-Type: application/json\nContent-Length: 2\n\n{}", _NOT_HTTP),
    "a_nul_in_a_header": (_HEAD + b"X-A: b\0c\r\nContent-Length: 2\r\n\r\n{}", _NOT_HTTP),
    "a_control_character_in_a_header": (_HEAD + b"X-A: b\x01c\r\nContent-Length: 2\r\n\r\n{}", _NOT_HTTP),
    "a_blank_in_a_header_s_name": (_HEAD + b"X A: b\r\nContent-Length: 2\r\n\r\n{}", _NOT_HTTP),
    "a_header_without_a_name": (_HEAD + b": b\r\nContent-Length: 2\r\n\r\n{}", _NOT_HTTP),
    "a_header_without_a_colon": (_HEAD + b"nonsense\r\nContent-Length: 2\r\n\r\n{}", _NOT_HTTP),
    "a_chunk_size_that_is_none": (_HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", _NOT_HTTP),
    "a_chunk_size_that_overflows": (_HEAD + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n{}", _NOT_HTTP),
    "a_chunk_longer_than_it_says": (_HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n", _NOT_HTTP),
    "an_unknown_transfer_coding": (
        _HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        "the upstream's answer has an unknown transfer coding",
    ),
    "a_giant_header": (_HEAD + b"X-A: " + b"a" * 100_000 + b"\r\n\r\n", None),
    "a_giant_status_line": (b"HTTP/1.1 200 " + b"a" * 200_000, None),
    "a_giant_header_name": (_HEAD + b"a" * 200_000, None),
    "endless_headers": (_HEAD + b"X-A: b\r\n" * 100_000, _HEADERS),
    "endless_interim_answers": (b"HTTP/1.1 103 Early Hints\r\n\r\n" * 10_000, "the upstream's answer does not come to its point"),
    "endless_blank_lines": (b"\r\n" * 100_000, "the upstream's answer goes on without a body"),
    "an_endless_chunk_extension": (
        _HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"a" * 200_000,
        "the upstream's answer goes on without a body",
    ),
    "endless_trailers": (
        _HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(_BODY_TEXT) + b"0\r\n" + b"X-A: b\r\n" * 100_000,
        _HEADERS,
    ),
}


@pytest.mark.parametrize("closes", [True, False], ids=["and_closes", "and_stays"])
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", NOT_HTTP)
def test_what_is_not_http_is_replaced(era: Era, name: str, closes: bool) -> None:
    sent, detail = NOT_HTTP[name]

    async def case() -> None:
        async with World(sends_and_closes(sent) if closes else sends_and_hangs(sent)) as world:
            answer = await world.ask(post(era))
            assert answer.status == 502
            begin = refused(detail or "")[:-3] if detail in (None, _NOT_HTTP) else refused(detail)
            assert answer.body.startswith(begin)
            check_refused(answer, 502, answer.body)
            await world.recovered(era)

    run(case())


CUT_OFF = {
    "nothing_at_all": (b"", "the upstream closed the connection before it answered"),
    "half_a_status_line": (b"HTTP/1.1 20", "the upstream closed the connection before it answered"),
    "half_a_head": (_HEAD, "the upstream closed the connection before it answered"),
    "only_an_interim_answer": (b"HTTP/1.1 100 Continue\r\n\r\n", "the upstream closed the connection before it answered"),
    "a_length_larger_than_the_body": (http(response(), length=1000, headers=LEAKS), "the upstream's answer was cut off"),
    "a_length_of_100_mib_minus_one": (http(response(), length=104_857_599), "the upstream's answer was cut off"),
    "a_head_and_no_body": (http(b"", length=10), "the upstream's answer was cut off"),
    "chunks_without_an_end": (
        _HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(response()),
        "the upstream's answer was cut off",
    ),
    "a_chunk_without_its_end": (
        _HEAD + b"Transfer-Encoding: chunked\r\n\r\nff\r\n" + response(),
        "the upstream's answer was cut off",
    ),
    "a_last_chunk_without_its_blank_line": (
        _HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(response()) + b"0\r\n",
        "the upstream's answer was cut off",
    ),
}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", CUT_OFF)
@pytest.mark.parametrize("reset", [False, True], ids=["by_fin", "by_rst"])
def test_an_answer_that_is_cut_off_is_no_answer(era: Era, name: str, reset: bool) -> None:
    sent, detail = CUT_OFF[name]

    async def script(connection: Connection, request: RawRequest) -> None:
        await connection.send(sent)
        if reset:
            connection.reset()
        raise ConnectionAbortedError

    async def case() -> None:
        async with World(script) as world:
            answer = await world.ask(post(era))
            check_refused(answer, 502, answer.body)
            # What a reset destroys is chance: part of the answer may be lost on its way.
            assert answer.body == refused(detail, message="Upstream unavailable") or (
                reset and b"Upstream unavailable" in answer.body
            )
            await world.recovered(era)

    run(case())


@pytest.mark.parametrize("era", ERAS)
def test_interim_answers_before_the_answer_mean_nothing(era: Era) -> None:
    early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\nSet-Cookie: a=b\r\n\r\n"

    async def case() -> None:
        async with World(sends(early, http(response()))) as world:
            answer = await world.ask(post(era))
            assert (answer.status, answer.body) == (200, response())
            assert [name for name, _ in answer.headers] == ["content-type", "content-length"]
            await world.recovered(era)

    run(case())


@pytest.mark.parametrize("era", ERAS)
def test_a_body_that_ends_with_the_connection_is_whole(era: Era) -> None:
    async def case() -> None:
        async with World(sends_and_closes(_HEAD + b"\r\n" + response())) as world:
            answer = await world.ask(post(era))
            assert (answer.status, answer.body) == (200, response())
            await world.recovered(era)

    run(case())


# --- sessions that a malformed initialize announces -------------------------------------------------

BAD_INITIALIZE = {
    "garbage": (sends(http(b"{}", headers=LEAKS)), 502),
    "html": (sends(http(b"<html>", "text/html", headers=LEAKS)), 502),
    "another_id": (sends(http(response(8), headers=LEAKS)), 502),
    "an_empty_body": (sends(http(b"", headers=LEAKS)), 502),
    "202": (sends(http(b"", None, status="202 Accepted", headers=LEAKS)), 502),
    "too_large": (sends_and_hangs(http(b"", length=1 << 40, headers=LEAKS)), 502),
    "cut_off": (sends_and_closes(http(b"{", length=100, headers=LEAKS)), 502),
    "an_unknown_coding": (sends(http(response(), headers=(*LEAKS, ("Content-Encoding", "zstd")))), 502),
    "an_error_status_with_garbage": (sends(http(b"{}", status="500 No", headers=LEAKS)), 500),
}


@pytest.mark.parametrize("name", BAD_INITIALIZE)
def test_a_session_that_a_bad_initialize_answer_announced_is_ended_and_never_given_away(name: str) -> None:
    script, status = BAD_INITIALIZE[name]

    async def case() -> None:
        async with World(script) as world:
            answer = await world.ask(initialize())
            assert answer.status == status
            check_refused(answer, status, answer.body)
            await world.upstream.until(lambda _: world.ended_sessions() == ["leaked-session"])
            await world.recovered(Era.LEGACY)
            assert world.ended_sessions() == ["leaked-session"]

    run(case())
