"""How headers are read, and who may ask."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accredit.gateway.headers import (
    fold,
    host_allowed,
    origin_allowed,
)

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
ANY = st.binary(max_size=40)


def test_a_repeated_header_equals_no_value() -> None:
    folded = fold([(b"a", b"1"), (b"b", b"2"), (b"a", b"1")])
    assert folded[b"b"] == b"2"
    assert folded[b"a"] not in (b"1", b"1, 1", b"11")


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
