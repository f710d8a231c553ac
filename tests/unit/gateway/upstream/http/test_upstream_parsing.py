"""What `ResponseParser` makes of bytes: each refusal with the harm that it prevents, and any split the same."""

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accredit.errors import AnswerError, UpstreamUnavailable
from accredit.gateway.upstream.http.parsing import (
    IDLE_SECONDS,
    MAX_HEAD_BYTES,
    MAX_PIECES,
    AnswerHeads,
    Response,
    ResponseParser,
)
from accredit.limits import MAX_HEADERS, MAX_INTERIM_ANSWERS, MAX_REMEMBERED_HEAD_BYTES

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def parse(*parts: bytes, bodiless: bool = False) -> Response:
    parser = ResponseParser()
    response = parser.expect(bodiless=bodiless)
    for part in parts:
        parser.feed(part)
    return response


def refusal(*parts: bytes) -> AnswerError:
    with pytest.raises(AnswerError) as caught:
        parse(*parts)
    return caught.value


# --- sound answers ----------------------------------------------------------------------------------


def test_an_answer_with_a_length_is_complete_at_its_length() -> None:
    response = parse(OK + b"Content-Type: application/json\r\nContent-Length: 5\r\n\r\nhello")
    assert (response.status, response.complete, response.length, response.unread) == (200, True, 5, 5)
    assert response.headers == [(b"content-type", b"application/json"), (b"content-length", b"5")]
    assert response.take() == b"hello"
    assert response.take() == b""
    assert response.unread == 0


def test_a_chunked_answer_is_complete_at_its_last_chunk_and_its_trailers_are_dropped() -> None:
    response = parse(CHUNKED, b"3\r\nabc\r\n", b"2;ext=1\r\nde\r\n0\r\n", b"Expires: never\r\nX: y\r\n\r\n")
    assert response.complete
    assert response.take() == b"abcde"
    assert response.headers == [(b"transfer-encoding", b"chunked")]
    assert response.idle_seconds == IDLE_SECONDS


def test_an_answer_without_length_or_chunks_ends_when_the_upstream_closes() -> None:
    parser = ResponseParser()
    response = parser.expect(bodiless=False)
    parser.feed(OK + b"\r\nhel")
    parser.feed(b"lo")
    assert not response.complete
    parser.end()
    assert response.complete
    assert response.take() == b"hello"


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_a_status_without_a_body_is_complete_with_its_head(status: bytes) -> None:
    response = parse(b"HTTP/1.1 " + status + b"\r\nContent-Length: 5\r\n\r\n")
    assert response.complete
    assert response.take() == b""
    assert response.idle_seconds == IDLE_SECONDS


def test_an_answer_to_head_is_complete_with_its_head_and_gives_up_its_connection() -> None:
    response = parse(OK + b"Content-Length: 500\r\n\r\n", bodiless=True)
    assert (response.status, response.complete, response.length, response.idle_seconds) == (200, True, 500, 0.0)


def test_interim_answers_are_skipped_with_their_headers() -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    response = parse(interim + OK + b"Content-Length: 1\r\n\r\na")
    assert response.headers == [(b"content-length", b"1")]
    assert response.take() == b"a"


def test_one_parser_reads_one_answer_after_another() -> None:
    parser = ResponseParser()
    for body in (b"first", b"second", b""):
        response = parser.expect(bodiless=False)
        parser.feed(OK + b"X-Body: " + body + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        assert (response.complete, response.take(), response.headers[0]) == (True, body, (b"x-body", body))


def test_an_offer_to_upgrade_is_no_upgrade() -> None:
    response = parse(OK + b"Connection: Upgrade, Keep-Alive\r\nUpgrade: h2,h2c\r\nContent-Length: 1\r\n\r\na")
    assert response.take() == b"a"


def test_white_space_around_a_value_is_not_the_value() -> None:
    response = parse(OK + b"A: \t x y\t \r\nB:\r\nC: \r\nContent-Length: 0\r\n\r\n")
    assert response.headers[:3] == [(b"a", b"x y"), (b"b", b""), (b"c", b"")]


def test_bytes_above_ascii_in_a_value_pass() -> None:
    assert parse(OK + b"A: caf\xc3\xa9\r\nContent-Length: 0\r\n\r\n").headers[0] == (b"a", b"caf\xc3\xa9")


def test_many_small_pieces_are_put_together_while_nobody_reads_them() -> None:
    parser = ResponseParser()
    response = parser.expect(bodiless=False)
    parser.feed(CHUNKED)
    for _ in range(3):
        parser.feed(b"2\r\nab\r\n" * MAX_PIECES)
    assert len(response.pieces) <= MAX_PIECES
    assert response.unread == 6 * MAX_PIECES
    assert response.take() == b"ab" * (3 * MAX_PIECES)


# --- for how long the connection may serve again ------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "seconds"),
    [
        (OK, IDLE_SECONDS),
        (OK + b"Keep-Alive: timeout=5, max=100\r\n", IDLE_SECONDS),
        (OK + b"Keep-Alive: max=3, timeout=3\r\n", 2.0),
        (OK + b'Keep-Alive: timeout="2"\r\n', 1.0),
        (OK + b"Keep-Alive: timeout=1\r\n", 0.0),
        (OK + b"Keep-Alive: timeout=0\r\n", 0.0),
        (OK + b"Keep-Alive: timeout=99999999999999999999\r\n", IDLE_SECONDS),
        (OK + b"Keep-Alive: mytimeout=1, timeout=x\r\n", IDLE_SECONDS),
        (OK + b"Connection: close\r\n", 0.0),
        (OK + b"Connection: foo, Close\r\n", 0.0),
        (b"HTTP/1.0 200 OK\r\n", 0.0),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n", IDLE_SECONDS),
    ],
)
def test_a_connection_serves_again_for_no_longer_than_the_upstream_says(head: bytes, seconds: float) -> None:
    response = parse(head + b"Content-Length: 1\r\n\r\na")
    assert response.complete
    assert response.idle_seconds == seconds


@pytest.mark.parametrize("surplus", [OK + b"Content-Length: 1\r\n\r\nb", b"H", b"x", b"\0" * 70_000, OK])
@pytest.mark.parametrize("connection", [b"", b"Connection: close\r\n"])
def test_bytes_after_an_answer_end_its_connection__the_next_request_would_get_them(
    surplus: bytes, connection: bytes
) -> None:
    response = parse(OK + connection + b"Content-Length: 1\r\n\r\na" + surplus)
    assert response.complete
    assert response.take() == b"a"
    assert response.idle_seconds == 0


def test_a_body_where_none_may_be_ends_the_connection__it_would_be_the_next_answer() -> None:
    response = parse(b"HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\nabc")
    assert response.complete
    assert response.take() == b""
    assert response.idle_seconds == 0


# --- what is refused ----------------------------------------------------------------------------------

TWO_READINGS = {
    "length_and_chunks": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
    "chunks_and_length": b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
    "length_and_another_coding": b"Content-Length: 5\r\nTransfer-Encoding: identity\r\n",
    "two_lengths": b"Content-Length: 5\r\nContent-Length: 6\r\n",
    "the_same_length_twice": b"Content-Length: 5\r\nContent-Length: 5\r\n",
    "a_list_of_lengths": b"Content-Length: 5, 5\r\n",
    "a_signed_length": b"Content-Length: +5\r\n",
    "a_negative_length": b"Content-Length: -5\r\n",
    "a_hexadecimal_length": b"Content-Length: 0x5\r\n",
    "an_empty_length": b"Content-Length: \r\n",
    "a_length_in_two_parts": b"Content-Length: 5 5\r\n",
    "a_length_past_64_bits": b"Content-Length: 99999999999999999999999\r\n",
    "a_length_of_5000_zeros": b"Content-Length: " + b"0" * 5000 + b"\r\n",
    "an_empty_transfer_coding": b"Transfer-Encoding: \r\n",
    "a_coding_that_nobody_decodes": b"Transfer-Encoding: gzip\r\n",
    "a_coding_under_chunks": b"Transfer-Encoding: gzip, chunked\r\n",
    "chunks_under_a_coding": b"Transfer-Encoding: chunked, gzip\r\n",
    "almost_chunked": b"Transfer-Encoding: xchunked\r\n",
    "chunked_with_a_control_character": b"Transfer-Encoding: \x0bchunked\r\n",
    "chunked_twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    "chunked_in_a_list_twice": b"Transfer-Encoding: chunked, chunked\r\n",
    "a_folded_line": b"A: x\r\n y\r\n",
    "a_line_that_begins_with_a_space": b" A: x\r\n",
    "a_space_before_the_colon": b"Content-Length : 5\r\n",
    "a_space_within_a_name": b"X A: b\r\n",
    "a_bare_line_feed": b"A: x\nB: y\r\n",
    "a_bare_carriage_return": b"A: x\ry\r\n",
    "a_nul": b"A: x\0y\r\n",
    "a_control_character": b"A: x\x01y\r\n",
    "a_delete_character": b"A: x\x7fy\r\n",
    "no_name": b": x\r\n",
    "no_colon": b"Abc\r\n",
    "a_name_that_is_no_token": b"A\xff: x\r\n",
}


@pytest.mark.holds("gateway/upstream/http/parsing", "syntax")
@pytest.mark.parametrize("name", TWO_READINGS)
def test_a_head_that_can_be_read_in_two_ways_is_refused__two_readers_would_see_two_answers(name: str) -> None:
    error = refusal(OK + TWO_READINGS[name] + b"\r\n5\r\nhello\r\n0\r\n\r\n")
    assert not error.bound


@pytest.mark.holds("gateway/upstream/http/parsing", "coding")
def test_a_transfer_coding_in_http_1_0_is_refused__its_framing_is_anybodys_guess() -> None:
    refusal(b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n")


BAD_CHUNKS = {
    "longer_than_it_says": b"3\r\nabcd\r\n0\r\n\r\n",
    "bare_line_feeds": b"3\nabc\n0\n\n",
    "negative": b"-3\r\nabc\r\n0\r\n\r\n",
    "prefixed": b"0x3\r\nabc\r\n0\r\n\r\n",
    "no_number": b"zz\r\nabc\r\n0\r\n\r\n",
    "without_a_size": b"\r\nabc\r\n0\r\n\r\n",
    "with_only_an_extension": b";a\r\nabc\r\n0\r\n\r\n",
    "larger_than_64_bits": b"fffffffffffffffff\r\nabc\r\n0\r\n\r\n",
    "a_line_feed_in_an_extension": b"3;a\nb\r\nabc\r\n0\r\n\r\n",
    "a_length_among_the_trailers": b"3\r\nabc\r\n0\r\nContent-Length: 7\r\n\r\n",
}


@pytest.mark.holds("gateway/upstream/http/parsing", "syntax")
@pytest.mark.parametrize("name", BAD_CHUNKS)
def test_a_chunk_that_can_be_read_in_two_ways_is_refused__two_readers_would_see_two_bodies(name: str) -> None:
    refusal(CHUNKED + BAD_CHUNKS[name])


@pytest.mark.holds("gateway/upstream/http/parsing", "version")
@pytest.mark.parametrize(
    "start",
    [b"HTTP/0.9 200 OK", b"HTTP/2.0 200 OK", b"HTTP/1.2 200 OK", b"HTTP/3.0 200 OK", b"HTTP/11.1 200 OK"],
)
def test_another_version_of_http_is_refused__its_framing_has_other_rules(start: bytes) -> None:
    refusal(start + b"\r\nContent-Length: 1\r\n\r\na")


@pytest.mark.holds("gateway/upstream/http/parsing", "version")
@pytest.mark.parametrize("status", [b"000", b"099", b"20", b"2000", b"600", b"999", b"-20", b"2x0", b""])
def test_a_status_that_is_none_is_refused__a_client_could_not_be_given_it(status: bytes) -> None:
    refusal(b"HTTP/1.1 " + status + b" X\r\nContent-Length: 1\r\n\r\na")


@pytest.mark.holds("gateway/upstream/http/parsing", "version")
@pytest.mark.parametrize("head", [b"Upgrade: x\r\nConnection: upgrade\r\n", b""])
def test_switching_protocols_is_refused__nobody_asked_for_it(head: bytes) -> None:
    error = refusal(b"HTTP/1.1 101 Switching Protocols\r\n" + head + b"\r\nwhatever")
    assert error.detail == "the upstream switched protocols"


@pytest.mark.parametrize(
    "bytes_", [b"SSH-2.0-OpenSSH_9.6\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\x15\x03\x01\x00\x02\x02\x46", b"{}\r\n", b"\0"]
)
def test_another_protocol_is_refused(bytes_: bytes) -> None:
    assert refusal(bytes_).detail.startswith("the upstream's answer is not HTTP")


# --- bounds -------------------------------------------------------------------------------------------


def feed_until(parser: ResponseParser, again: bytes, most: int) -> None:
    for _ in range(0, most, len(again)):
        parser.feed(again)


@pytest.mark.holds("gateway/upstream/http/parsing", "bounds")
@pytest.mark.parametrize(
    ("prefix", "again"),
    [
        (b"HTTP/1.1 200 ", b"reason " * 100),
        (b"", b"\r\n" * 100),
        (OK + b"A: ", b"x" * 1000),
        (OK, b"x" * 1000),
        (OK, b"A: " + b"x" * 1000 + b"\r\n"),
        (OK, b"A: x\r\n"),
        (OK, b"A:\r\n"),
        (CHUNKED + b"1;", b"x" * 1000),
        (CHUNKED + b"1\r\na\r\n", b"0" * 1000),
        (CHUNKED + b"1\r\na\r\n0\r\nA: ", b"x" * 1000),
        (CHUNKED + b"1\r\na\r\n0\r\n", b"A: x\r\n"),
    ],
    ids=[
        "reason", "blank_lines", "value", "name", "large_headers", "many_headers", "empty_headers", "chunk_extension",
        "chunk_size", "trailer", "many_trailers",
    ],
)  # fmt: skip
def test_what_belongs_around_a_body_does_not_go_on_for_ever__it_would_fill_the_memory(
    prefix: bytes, again: bytes
) -> None:
    parser = ResponseParser()
    parser.expect(bodiless=False)
    parser.feed(prefix)
    with pytest.raises(AnswerError) as caught:
        feed_until(parser, again, 2 * MAX_HEAD_BYTES)
    assert caught.value.bound


def test_a_large_head_in_one_read_is_refused_as_well() -> None:
    assert refusal(OK + b"A: " + b"x" * MAX_HEAD_BYTES + b"\r\nContent-Length: 1\r\n\r\na").bound
    assert refusal(OK + b"A: x\r\n" * MAX_HEADERS + b"Content-Length: 1\r\n\r\na").bound


def test_trailers_count_as_headers_do() -> None:
    assert refusal(CHUNKED + b"1\r\na\r\n0\r\n" + b"A: x\r\n" * MAX_HEADERS + b"\r\n").bound


def test_the_largest_head_that_is_allowed_passes() -> None:
    fields = b"".join(b"A%d: x\r\n" % n for n in range(MAX_HEADERS - 2))
    filler = b"B: " + b"x" * (MAX_HEAD_BYTES - len(fields) - 100) + b"\r\n"
    assert len(parse(OK + fields + filler + b"Content-Length: 1\r\n\r\na").headers) == MAX_HEADERS


@pytest.mark.holds("gateway/upstream/http/parsing", "bounds")
def test_interim_answers_do_not_go_on_for_ever__the_real_one_would_never_come() -> None:
    interim = b"HTTP/1.1 103 Early Hints\r\n\r\n"
    parser = ResponseParser()
    parser.expect(bodiless=False)
    for _ in range(MAX_INTERIM_ANSWERS):
        parser.feed(interim)
    with pytest.raises(AnswerError) as caught:
        parser.feed(interim)
    assert caught.value.bound


def test_a_body_may_go_on_for_ever__its_reader_bounds_it() -> None:
    parser = ResponseParser()
    response = parser.expect(bodiless=False)
    parser.feed(CHUNKED)
    for _ in range(100):
        parser.feed(b"1\r\na\r\n" * 1000)
        assert response.take() == b"a" * 1000


# --- ends ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "begun",
    [
        OK + b"Content-Length: 6\r\n\r\nhello",
        OK + b"Content-Length: 6\r\n\r\n",
        CHUNKED,
        CHUNKED + b"5\r\nhello\r\n",
        CHUNKED + b"5\r\nhello\r\n0\r\n",
        CHUNKED + b"5\r\nhel",
    ],
)
def test_an_answer_that_ends_before_its_end_is_cut_off__half_of_it_may_mean_something_else(begun: bytes) -> None:
    parser = ResponseParser()
    response = parser.expect(bodiless=False)
    parser.feed(begun)
    with pytest.raises(UpstreamUnavailable, match="cut off"):
        parser.end()
    assert not response.complete


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 20", OK, b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_an_end_before_the_head_is_no_answer(begun: bytes) -> None:
    parser = ResponseParser()
    parser.expect(bodiless=False)
    parser.feed(begun)
    with pytest.raises(UpstreamUnavailable, match="before it answered"):
        parser.end()


# --- properties ---------------------------------------------------------------------------------------

names = st.sampled_from([b"Content-Type", b"X-A", b"mcp-session-id", b"Date"])
values = st.binary(max_size=20).map(lambda raw: bytes(byte for byte in raw if byte >= 0x20 and byte != 0x7F).strip())


@st.composite
def answers(draw: st.DrawFn) -> tuple[bytes, list[tuple[bytes, bytes]], bytes, bool]:
    """The bytes of a sound answer; its headers, its body, and whether the end of the connection ends it."""
    headers = draw(st.lists(st.tuples(names, values), max_size=5))
    body = draw(st.binary(max_size=200))
    framing = draw(st.sampled_from(["length", "chunked", "close"]))
    if framing == "length":
        headers.append((b"Content-Length", b"%d" % len(body)))
        raw = body
    elif framing == "chunked":
        headers.append((b"Transfer-Encoding", b"chunked"))
        size = draw(st.integers(1, 50))
        pieces = [body[start : start + size] for start in range(0, len(body), size)]
        raw = b"".join(b"%x\r\n" % len(piece) + piece + b"\r\n" for piece in pieces) + b"0\r\n\r\n"
    else:
        raw = body
    interim = draw(st.sampled_from([b"", b"HTTP/1.1 100 Continue\r\n\r\n"]))
    head = interim + OK + b"".join(name + b": " + value + b"\r\n" for name, value in headers) + b"\r\n"
    return head + raw, [(name.lower(), value) for name, value in headers], body, framing == "close"


def split(raw: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(raw) + 1) for cut in cuts), len(raw)]
    return [raw[start:end] for start, end in itertools.pairwise(places)]


@pytest.mark.slow
@settings(max_examples=200)
@given(answers(), st.lists(st.integers(0, 2000), max_size=10))
def test_any_split_of_an_answer_gives_the_same_answer(
    answer: tuple[bytes, list[tuple[bytes, bytes]], bytes, bool], cuts: list[int]
) -> None:
    raw, headers, body, until_close = answer
    parser = ResponseParser()
    response = parser.expect(bodiless=False)
    for part in split(raw, cuts):
        parser.feed(part)
    if until_close:
        parser.end()
    assert (response.status, response.complete, response.headers) == (200, True, headers)
    assert response.take() == body


def outcome(parts: list[bytes]) -> tuple[object, ...]:
    parser = ResponseParser()
    response = parser.expect(bodiless=False)
    try:
        for part in parts:
            if response.complete:
                return response.status, response.headers, response.take(), True
            parser.feed(part)
        if not response.complete:
            parser.end()
    except AnswerError as error:
        return ("refused", error.bound)
    except UpstreamUnavailable:
        return ("cut off",)
    return response.status, response.headers, response.take(), response.complete


mutated = st.tuples(answers(), st.lists(st.tuples(st.integers(0, 2000), st.binary(max_size=3)), max_size=4)).map(
    lambda pair: mutate(pair[0][0], pair[1])
)


def mutate(raw: bytes, changes: list[tuple[int, bytes]]) -> bytes:
    for place, new in changes:
        at = place % (len(raw) + 1)
        raw = raw[:at] + new + raw[at + 1 :]
    return raw


@pytest.mark.slow
@settings(max_examples=300)
@given(mutated | st.binary(max_size=300), st.lists(st.integers(0, 2000), max_size=6))
def test_no_bytes_escape_the_error_tree_and_any_split_of_them_ends_the_same(raw: bytes, cuts: list[int]) -> None:
    assert outcome(split(raw, cuts)) == outcome([raw])


# --- heads that come again --------------------------------------------------------------------------

AGAIN = [
    OK + b"Content-Type: a/b\r\nContent-Length: 5\r\n\r\nhello",
    OK + b"Content-Length: 0\r\nKeep-Alive: timeout=3\r\n\r\n",
    b"HTTP/1.1 404 X\r\nA: 1\r\na: 2\r\nContent-Length: 1\r\n\r\nx",
    CHUNKED + b"5\r\nhello\r\n0\r\n\r\n",
]
NEVER_AGAIN = [
    OK + b"Content-Length: 5\r\nConnection: close\r\n\r\nhello",
    b"HTTP/1.1 304 X\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.1 204 X\r\n\r\n",
    b"HTTP/1.1 103 X\r\n\r\n" + OK + b"Content-Length: 1\r\n\r\na",
    CHUNKED + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
    CHUNKED + b"3\r\nabc\r\n0\r\nX: y\r\n\r\n",
    CHUNKED + b"0\r\n\r\n",
]


def told(response: Response) -> tuple[object, ...]:
    head = (response.status, response.headers, response.length)
    return *head, response.complete, response.idle_seconds, response.unread, response.take()


@pytest.mark.parametrize("answer", AGAIN)
def test_a_head_that_comes_again_is_not_parsed_again__and_says_the_same(answer: bytes) -> None:
    heads = AnswerHeads()
    parser = ResponseParser(heads)
    response = parser.expect(bodiless=False)
    parser.feed(answer)
    assert len(heads) == 1
    assert told(response) == told(parse(answer))
    for _ in range(2):
        again = parser.expect(bodiless=False)
        parser.feed(answer)
        assert again.head is response.head
        assert told(again) == told(parse(answer))
    split = parser.expect(bodiless=False)
    for byte in answer:
        parser.feed(bytes([byte]))
    assert told(split) == told(parse(answer))


@pytest.mark.parametrize("answer", NEVER_AGAIN)
def test_a_head_is_remembered_only_where_it_alone_says_where_the_body_ends__and_that_another_may_follow(
    answer: bytes,
) -> None:
    heads = AnswerHeads()
    ResponseParser(heads).feed(answer)
    assert len(heads) == 0


def test_a_head_as_long_as_none_should_be_is_not_remembered() -> None:
    heads = AnswerHeads()
    ResponseParser(heads).feed(OK + b"X: " + b"x" * MAX_REMEMBERED_HEAD_BYTES + b"\r\nContent-Length: 0\r\n\r\n")
    assert len(heads) == 0


@pytest.mark.parametrize(
    "data",
    [
        OK + b"Content-Length: 5\r\n\r\nhell",
        OK + b"Content-Length: 5\r\n\r\nhello!",
        OK + b"Content-Length: 5\r\n\r\nhello" + OK + b"Content-Length: 5\r\n\r\nhello",
        CHUNKED + b"4\r\nhello\r\n0\r\n\r\n",
        CHUNKED + b"6\r\nhello\r\n0\r\n\r\n",
        CHUNKED + b"5\r\nhello\r\n0\r\n\r\n0\r\n\r\n",
        CHUNKED + b"0\r\n\r\n0\r\n\r\n",
        CHUNKED + b"5;x\r\nhello\r\n0\r\n\r\n",
        CHUNKED + b"000000005\r\nhello\r\n0\r\n\r\n",
    ],
)
def test_behind_a_known_head_every_body_is_read_as_behind_an_unknown_one(data: bytes) -> None:
    parser = ResponseParser()
    for known in (OK + b"Content-Length: 5\r\n\r\nhello", CHUNKED + b"5\r\nhello\r\n0\r\n\r\n"):
        parser.feed(known)
        parser.expect(bodiless=False)
    assert read_by(parser, data) == read_by(ResponseParser(), data)


@given(mutated)
def test_where_heads_are_known_any_bytes_are_read_as_where_none_is(raw: bytes) -> None:
    parser = ResponseParser()
    for known in AGAIN:
        parser.feed(known)
        parser.expect(bodiless=False)
    assert read_by(parser, raw) == read_by(ResponseParser(), raw)


def test_an_answer_to_head_has_no_body_also_where_its_head_is_known() -> None:
    answer = OK + b"Content-Length: 0\r\n\r\n"
    parser = ResponseParser()
    parser.feed(answer)
    response = parser.expect(bodiless=True)
    parser.feed(answer)
    assert (response.complete, response.idle_seconds) == (True, 0.0)


LENGTHS = st.sampled_from(
    [
        *(
            b"0",
            b"1",
            b"4",
            b"5",
            b"6",
            b"05",
            b"+5",
            b"-5",
            b" 5",
            b"5 ",
            b"5\t",
            b"5,5",
            b"5, 5",
            b"0x5",
            b"5_0",
            b"",
        ),
        *(b"5\r\nContent-Length: 5", b"5\r\nContent-Length: 6", b"5\r\nTransfer-Encoding: chunked", b"5\n", b"\r\n 5"),
        *(b"5;", b"5\0", b"9" * 10, b"9" * 30, b"18446744073709551621", "\u0665".encode()),
    ]
)
MEASURED = [answer for answer in AGAIN if b"Content-Length" in answer]


@given(st.sampled_from(MEASURED), LENGTHS, st.sampled_from([b"", b"a", b"hell", b"hello", b"hello!", b"hello" * 10]))
def test_a_known_head_with_another_length_is_read_as_one_that_is_not_known(
    answer: bytes, length: bytes, body: bytes
) -> None:
    parser = ResponseParser()
    parser.feed(answer)
    head, _, _ = answer.partition(b"\r\n\r\n")
    other = re.sub(rb"(?<=Content-Length: )[0-9]+", lambda _: length, head) + b"\r\n\r\n" + body
    assert read_by(parser, other) == read_by(ResponseParser(), other)


@pytest.mark.parametrize("status", [b"204 X", b"304 X"])
def test_a_head_without_a_body_tells_no_length(status: bytes) -> None:
    head = b"HTTP/1.1 " + status + b"\r\nContent-Length: %d\r\n\r\n"
    parser = ResponseParser()
    parser.feed(head % 0)
    assert read_by(parser, head % 5 + b"hello") == read_by(ResponseParser(), head % 5 + b"hello")


def test_a_head_is_known_again_with_another_length__else_most_answers_would_be_parsed() -> None:
    heads = AnswerHeads()
    parser = ResponseParser(heads)
    for size in (5, 0, 70_000):
        response = parser.expect(bodiless=False)
        parser.feed(OK + b"Content-Length: %d\r\n\r\n" % size + b"x" * size)
        assert response.length == size
        assert (b"content-length", b"%d" % size) in response.headers
        assert response.take() == b"x" * size
    assert len(heads) == 1


def read_by(parser: ResponseParser, data: bytes) -> tuple[object, ...]:
    response = parser.expect(bodiless=False)
    try:
        parser.feed(data)
    except AnswerError as error:
        return error.detail, error.bound
    return told(response)
