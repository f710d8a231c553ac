"""What a `Content-Type` says, in one reading only."""

from email.message import Message

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accredit.gateway.media_types import (
    MAX_MEDIA_TYPE_BYTES,
    MediaType,
    accepts,
    answer_type,
    is_json_request,
    parse_media_type,
)
from accredit.jsonrpc.era import DUPLICATED

TOKENS = st.text("!#$%&'*+.^_`|~-abcXYZ019", min_size=1, max_size=8).map(str.encode)
BLANKS = st.sampled_from([b"", b" ", b"\t", b" \t "])
QUOTED = st.text("".join(map(chr, range(0x20, 0x7F))), max_size=8).map(str.encode)
NEAR = st.lists(
    st.sampled_from(
        [
            *(b"application/json", b"text/event-stream", b";", b" ", b"charset", b"=", b"utf-8", b"UTF-7", b'"', b","),
            *(b"\0", b"\\", b"/", b"\xe9", b"CHARSET", b"\t", b"\n", b"q=1", b"boundary=x"),
        ]
    ),
    max_size=9,
).map(b"".join)


@pytest.mark.parametrize(
    "value",
    [
        b"application/json",
        b"Application/JSON",
        b" application/json\t",
        b"application/json;charset=utf-8",
        b"application/json ; charset=UTF-8",
        b'application/json; Charset="Utf-8"',
    ],
)
def test_json_in_utf_8_is_a_request(value: bytes) -> None:
    assert is_json_request(value)


@pytest.mark.holds("gateway/headers", "content-type")
@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"application/json-rpc",
        b"application/jsonx",
        b"application/vnd.x+json",
        b"text/json",
        b"application/json;",
        b"application/json; charset=utf-8;",
        b"application/json;;charset=utf-8",
        b"application/json; charset=utf-7",
        b"application/json; charset=utf-16",
        b"application/json; charset=utf8",
        b"application/json; charset=us-ascii",
        b"application/json; charset=",
        b"application/json; charset =utf-8",
        b"application/json; charset= utf-8",
        b"application/json; charset='utf-8'",
        b'application/json; charset="utf-8',
        b'application/json; charset="utf\\-8"',
        b"application/json; charset*=utf-8''utf-7",
        b"application/json; charset=utf-8; charset=utf-7",
        b"application/json; charset=utf-8; charset=utf-8",
        b"application/json; charset=utf-8; Charset=utf-7",
        b"application/json; boundary=x",
        b"application/json; charset=utf-8; profile=x",
        b"application/json, application/json",
        b"application/json\x00application/json",
        b"application/json; charset=utf-8\xa0",
        b"application/json\x0b; charset=utf-8",
        b"application/json " + b" " * MAX_MEDIA_TYPE_BYTES,
    ],
)
def test_what_a_reader_could_take_for_something_else_is_no_request(value: bytes | None) -> None:
    assert not is_json_request(value)


@given(NEAR)
def test_a_charset_that_another_reader_finds_is_utf_8(value: bytes) -> None:
    if is_json_request(value):
        message = Message()
        message["content-type"] = value.decode("latin-1")
        assert message.get_content_type() == "application/json"
        assert message.get_content_charset("utf-8") == "utf-8"


@given(
    st.tuples(TOKENS, TOKENS), st.lists(st.tuples(BLANKS, BLANKS, TOKENS, TOKENS | QUOTED, st.booleans()), max_size=4)
)
def test_what_the_grammar_allows_is_read_as_it_was_meant(
    name: tuple[bytes, bytes], parameters: list[tuple[bytes, bytes, bytes, bytes, bool]]
) -> None:
    text = meant = b"/".join(name)
    told: list[tuple[bytes, bytes]] = []
    for before, after, key, value, quoted in parameters:
        token = not quoted and value and all(chr(code) not in ' "\\(),/:;<=>?@[]{}' for code in value)
        escaped = value.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
        text += before + b";" + after + key + b"=" + (value if token else b'"' + escaped + b'"')
        told.append((key.lower(), value))
    twice = len({key for key, _ in told}) < len(told)
    assert parse_media_type(text) == (None if twice else MediaType(meant.lower(), tuple(told)))


@given(st.binary(max_size=60) | NEAR)
def test_no_value_breaks_the_parser_and_what_it_reads_means_the_same_when_it_is_written(value: bytes) -> None:
    said = parse_media_type(value)
    if said is not None and all(b'"' not in text and b"\\" not in text for _, text in said.parameters):
        written = said.name + b"".join(b"; %b=%b" % (name, b'"%b"' % text) for name, text in said.parameters)
        assert parse_media_type(written) == said


def test_a_type_of_many_blanks_and_quotes_is_read_in_one_pass() -> None:
    for piece in (b";" + b" " * 250, b';a="' + b"\\" * 245, b";a=" + b"b" * 240):
        assert parse_media_type((b"a/b" + piece)[:MAX_MEDIA_TYPE_BYTES] + b"\xff") is None


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (b"application/json;", b"application/json"),
        (b"application/json-rpc; charset=utf-8", b"application/json"),
        (b"application/json; profile=x", b"application/json"),
        (b"Text/Event-Stream;charset=UTF-8", b"text/event-stream"),
        (b"text/plain", b"text/plain"),
        (b"text/plain\x00text/plain", b""),
        (b"application/json; charset=utf-8; charset=utf-7", b""),
        (b"json", b""),
        (None, b""),
    ],
)
def test_an_answer_says_what_it_is_or_nothing(value: bytes | None, name: bytes) -> None:
    assert answer_type(value).name == name
    assert answer_type(value).in_utf8


@pytest.mark.parametrize("charset", [b"utf-7", b"utf-16", b'"UTF-16LE"', b"iso-8859-1", b'""', b"us-ascii"])
def test_an_answer_in_another_charset_is_known(charset: bytes) -> None:
    assert not answer_type(b"application/json; charset=" + charset).in_utf8


JSON = b"application/json"


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"*/*",
        b"application/*",
        b"application/json",
        b"Application/JSON; charset=utf-8",
        b"text/event-stream, application/json;q=0.1",
        b"text/html" + DUPLICATED + b"application/json",
        b"*/*;q=0, application/json",
    ],
)
def test_json_is_accepted(value: bytes | None) -> None:
    assert accepts(value, JSON)


@pytest.mark.parametrize(
    "value",
    [
        b"text/event-stream",
        b"text/*",
        b"application/jsonsomething",
        b"application/json;q=0",
        b"application/json; q=0.000, */*",
        b"application/*;q=0",
        b"nonsense",
    ],
)
def test_json_is_not_accepted(value: bytes) -> None:
    assert not accepts(value, JSON)
