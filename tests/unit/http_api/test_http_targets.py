"""A target has one spelling: whatever a proxy, a framework or a file system would change, is refused before."""

import re
from urllib.parse import quote, unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accredit.errors import RequestError
from accredit.http_api.targets import MAX_TARGET_BYTES, read_target


def refused(target: str | bytes) -> RequestError:
    with pytest.raises(RequestError) as caught:
        read_target(target.encode("latin-1") if isinstance(target, str) else target)
    assert caught.value.word == "unclear_target"
    return caught.value


@pytest.mark.parametrize(
    ("target", "segments", "query"),
    [
        ("/", ("",), ""),
        ("/messages", ("messages",), ""),
        ("/messages/", ("messages", ""), ""),
        ("/a.b/c-d_e~f/g:h@i!$&'()*+,=j", ("a.b", "c-d_e~f", "g:h@i!$&'()*+,=j"), ""),
        ("/caf%C3%A9/a%20b", ("caf\u00e9", "a b"), ""),
        ("/50%25", ("50%",), ""),
        ("/a?q=//x/../y;z&b[0]=%2f|", ("a",), "q=//x/../y;z&b[0]=%2f|"),
        ("/a?", ("a",), ""),
        ("/.well-known/x", (".well-known", "x"), ""),
    ],
)
def test_a_normal_target_is_read_as_it_is(target: str, segments: tuple[str, ...], query: str) -> None:
    found = read_target(target.encode())
    assert (found.text, found.segments, found.query) == (target, segments, query)


@pytest.mark.holds("http_api/targets", "origin-form")
@pytest.mark.parametrize(
    "target",
    [
        "",
        "*",
        "a",
        "http://host/a",
        "//host/a?x",
        "/a#b",
        "/a?b#c",
        "/a\\b",
        "/a b",
        "/a\tb",
        "/a\x00",
        "/a\x7f",
        "/é",
        "/a%",
        "/a%2",
        "/a%zz",
        '/a"b',
        "/a<b",
        "/a^b",
        "/a{b}",
        "/a|b",
        "/a?b c",
        "/a?b%",
        "/a?\\",
        "/%u002f",
        "/a?ÿ",
    ],
)
def test_what_is_no_origin_form_is_refused(target: str) -> None:
    assert refused(target).status == 400


@pytest.mark.holds("http_api/targets", "segments")
@pytest.mark.parametrize(
    "target",
    ["//", "//a", "/a//b", "/a//", "/.", "/..", "/a/.", "/a/..", "/a/../b", "/./a", "/...", "/a;b", "/;", "/a/;p=1/b"],
)
def test_segments_that_readers_resolve_are_refused(target: str) -> None:
    refused(target)


@pytest.mark.holds("http_api/targets", "encoding")
@pytest.mark.parametrize(
    "target",
    [
        "/a%2fb",
        "/a%2Fb",
        "/%5c",
        "/%5C",
        "/a%3bb",
        "/a%3Bb",
        "/%2e",
        "/%2E%2e",
        "/a%00",
        "/a%0a",
        "/a%1F",
        "/a%7f",
        "/%41",
        "/%7A",
        "/%30",
        "/%2d",
        "/%5F",
        "/%7e",
        "/a%252f",
        "/a%2541",
        "/a%25u002f",
        "/%25%32%46",
        "/%252525",
    ],
)
def test_encodings_that_are_undone_or_done_twice_are_refused(target: str) -> None:
    refused(target)


@pytest.mark.holds("http_api/targets", "unicode")
@pytest.mark.parametrize(
    "target",
    [
        "/%c0%af",
        "/%ff",
        "/%C3",
        "/%ED%A0%80",
        "/%F4%90%80%80",
        "/%EF%BC%8F",
        "/a%EF%BC%BCb",
        "/%EF%BC%8E%EF%BC%8E",
        "/%EF%BC%9B",
        "/%E2%80%A8",
        "/%C2%85",
        "/%E2%80%AE",
        "/%EF%BB%BFa",
        "/%E2%80%A5",
        "/%20%2e",
        "/..%20",
        "/%20",
    ],
)
def test_texts_that_could_become_separators_are_refused(target: str) -> None:
    refused(target)


def test_a_target_is_bounded() -> None:
    assert read_target(b"/" + b"a" * (MAX_TARGET_BYTES - 1))
    assert refused(b"/" + b"a" * MAX_TARGET_BYTES).status == 414


@settings(max_examples=300)
@given(st.one_of(st.binary(max_size=40), st.text("/.%;\\?#25fFeE2cC0aA~+ \u00e9", max_size=24).map(str.encode)))
def test_no_bytes_raise_anything_else__and_what_is_taken_is_its_own_normal_form(raw: bytes) -> None:
    try:
        target = read_target(raw)
    except RequestError:
        return
    path = target.text.partition("?")[0]
    # Unquoted and quoted again (as RFC 3986 would) it is the same, and nobody's second decoding changes its segments.
    assert "/" + "/".join(target.segments) == unquote(path)
    assert quote(unquote(path), safe="/!$&'()*+,=:@~").upper() == path.upper()
    assert all(unquote(segment) == segment for segment in target.segments)
    assert not re.search(r"//|/\.\.?(/|$)|[;\\]", unquote(path))
