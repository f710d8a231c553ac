"""Who is at an address, and from where it can be reached."""

import pytest

from accredit.base.addresses import (
    is_address,
    is_loopback_address,
    is_loopback_host,
    peer_of,
    without_slash,
)


@pytest.mark.parametrize("text", ["127.0.0.1", "127.9.9.9", "::1"])
def test_an_address_of_this_machine_is_loopback__as_a_peer_and_as_a_host(text: str) -> None:
    assert is_loopback_address(text)
    assert is_loopback_host(text)


@pytest.mark.parametrize("text", ["localhost", "[::1]"])
def test_what_only_a_url_or_a_setting_can_say_is_no_peer(text: str) -> None:
    assert is_loopback_host(text)
    assert not is_loopback_address(text)


@pytest.mark.parametrize(
    "text", ["", "0.0.0.0", "::", "192.168.0.1", "localhost.example.com", "0", "127.1", "2130706433"]
)
def test_anything_else_is_public(text: str) -> None:
    assert not is_loopback_address(text)
    assert not is_loopback_host(text)


def test_an_address_is_what_one_machine_has() -> None:
    assert peer_of("192.0.2.1") == peer_of("::ffff:192.0.2.1") == "192.0.2.1"
    assert peer_of("2001:db8:1:2::1") == peer_of("2001:db8:1:2:ffff::9")
    assert peer_of("2001:db8:1:2::1") != peer_of("2001:db8:1:3::1")
    assert peer_of("fe80::1%eth0") == peer_of("fe80::2")
    assert [peer_of(text) for text in ("", "/run/a.sock", "a:b")] == ["", "/run/a.sock", "a:b"]


@pytest.mark.parametrize(
    ("authority", "is_one"),
    [
        *((each, True) for each in ("127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:80", "10.0.0.1:")),
        *((each, False) for each in ("", "[]", "localhost", "127.0.0.1.evil.example:80", "127.0.0.1:80:80", "::1")),
        *((each, False) for each in ("[127.0.0.1]evil.example", "[::1]evil.example:80", "127.0.0.1:evil", "a@[::1]")),
    ],
)
def test_only_an_address_and_a_port_are_an_address__so_that_no_name_of_a_page_s_passes_for_one(
    authority: str, is_one: bool
) -> None:
    assert is_address(authority) is is_one


@pytest.mark.parametrize(
    ("path", "same"),
    [
        *(("/mcp/", "/mcp"), ("/mcp/mail/", "/mcp/mail"), ("/mcp", "/mcp")),
        *((each, each) for each in ("/mcp//", "/", "//", "")),
    ],
)
def test_one_slash_more_is_the_same_path__and_two_are_not(path: str, same: str) -> None:
    assert without_slash(path) == same
