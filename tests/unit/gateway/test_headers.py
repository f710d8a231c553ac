"""Which headers pass, and who may ask."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accredit.gateway.headers import (
    fold,
    host_allowed,
    is_json,
    media_type,
    origin_allowed,
    to_client,
    to_upstream,
)

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
ANY = st.binary(max_size=40)


def test_a_repeated_header_equals_no_value() -> None:
    folded = fold([(b"a", b"1"), (b"b", b"2"), (b"a", b"1")])
    assert folded[b"b"] == b"2"
    assert folded[b"a"] not in (b"1", b"1, 1", b"11")


@pytest.mark.parametrize(
    "name",
    [b"connection", b"keep-alive", b"proxy-authorization", b"te", b"trailer", b"transfer-encoding", b"upgrade"],
)
def test_hop_by_hop_headers_pass_neither_way(name: bytes) -> None:
    assert to_upstream([(name, b"x"), (b"accept", b"y")]) == [(b"accept", b"y")]
    assert to_client([(name, b"x"), (b"etag", b"y")]) == [(b"etag", b"y")]


@pytest.mark.parametrize(
    "name",
    [b"x-forwarded-for", b"x-forwarded-anything", b"forwarded", b"x-real-ip", b"host", b"content-length", b"expect"],
)
def test_a_client_s_word_about_addresses_and_framing_does_not_pass(name: bytes) -> None:
    assert to_upstream([(name, b"x")]) == []


def test_what_connection_names_belongs_to_one_hop() -> None:
    raw = [
        (b"connection", b"close, X-Hop"),
        (b"connection", b"x-two"),
        (b"x-hop", b""),
        (b"x-two", b""),
        (b"x-three", b""),
    ]
    assert to_upstream(raw) == [(b"x-three", b"")]
    assert to_client(raw) == [(b"x-three", b"")]


@pytest.mark.parametrize(
    "name", [b"content-type", b"content-encoding", b"authorization", b"mcp-session-id", b"mcp-name"]
)
def test_but_not_what_says_how_a_message_is_read(name: bytes) -> None:
    raw = [(b"connection", name.upper()), (name, b"x")]
    assert to_upstream(raw) == [(name, b"x")]
    assert to_client(raw) == [(name, b"x")]


def test_a_response_leaves_out_what_it_is_told_to() -> None:
    raw = [(b"content-encoding", b"gzip"), (b"content-length", b"5"), (b"etag", b"x")]
    assert to_client(raw, without=frozenset({b"content-encoding"})) == [(b"etag", b"x")]


@pytest.mark.parametrize("host", [b"127.0.0.1", b"127.0.0.1:80", b"LocalHost:1", b"[::1]", b"[::1]:8484"])
def test_our_own_hosts_are_allowed(host: bytes) -> None:
    assert host_allowed(host, LOOPBACK)


@pytest.mark.parametrize(
    "host",
    [None, b"", b":80", b"evil", b"127.0.0.1.evil", b"::1", b"[::1", b"127.0.0.1\x00127.0.0.1", b"127.0.0.1 evil"],
)
def test_other_hosts_are_not(host: bytes | None) -> None:
    assert not host_allowed(host, LOOPBACK)


def test_a_configured_host_may_name_its_port() -> None:
    assert host_allowed(b"a.example:99", ("a.example:99",))
    assert not host_allowed(b"a.example:98", ("a.example:99",))


def test_no_origin_is_no_browser() -> None:
    assert origin_allowed(None, b"127.0.0.1", ())


@pytest.mark.parametrize(
    ("origin", "host", "allowed"),
    [
        (b"http://localhost:1", b"localhost:1", ()),
        (b"http://LOCALHOST:1", b"localhost:1", ()),
        (b"https://[::1]:1", b"[::1]:1", ()),
        (b"https://app.example", b"gate.example", ("https://app.example",)),
        (b"https://app.example", b"gate.example", ("https://APP.example/",)),
    ],
)
def test_the_same_loopback_origin_and_a_configured_one_are_allowed(
    origin: bytes, host: bytes, allowed: tuple[str, ...]
) -> None:
    assert origin_allowed(origin, host, allowed)


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        (b"http://localhost:2", b"localhost:1"),
        (b"http://127.0.0.1:1", b"localhost:1"),
        (b"http://gate.example", b"gate.example"),  # the same, but not on loopback: it must be configured
        (b"null", b"localhost"),
        (b"", b""),
        (b"", None),
        (b"http://", b""),
        (b"http://[", b"localhost"),
        (b"http://localhost\x00http://localhost", b"localhost"),
    ],
)
def test_other_origins_are_not(origin: bytes, host: bytes | None) -> None:
    assert not origin_allowed(origin, host, ())


@given(origin=ANY, host=ANY)
def test_no_origin_and_no_host_break_the_check(origin: bytes, host: bytes) -> None:
    assert host_allowed(host, LOOPBACK) in (True, False)
    assert origin_allowed(origin, host, ("https://a.example",)) in (True, False)


@pytest.mark.parametrize(
    "value", [b"application/json", b"Application/JSON ; charset=utf-8", b" application/json-rpc", b"application/json;"]
)
def test_json_is_json(value: bytes) -> None:
    assert is_json(value)


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b";",
        b"application/jsonx",
        b"application/json, application/json",
        b"application/json\x00text/plain",
        b"json",
    ],
)
def test_what_is_not_json_is_not(value: bytes | None) -> None:
    assert not is_json(value)


def test_a_media_type_has_no_parameters() -> None:
    assert media_type(b"Text/Event-Stream; charset=utf-8") == b"text/event-stream"
    assert media_type(b"text/plain\x00text/plain") == b""
