"""Who is at an address, and from where it can be reached."""

from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accredit.base.addresses import (
    MAX_PROXIES_ON_THE_WAY,
    client_address,
    is_address,
    is_loopback_address,
    is_loopback_host,
    is_public_address,
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


@pytest.mark.parametrize(
    "text",
    [
        "fec0::2",  # the host of a virtual machine (QEMU), site-local
        "64:ff9b::7f00:1",
        "64:ff9b:1::a00:1",  # NAT64 with a prefix of one's own (RFC 8215)
        "::ffff:0:10.0.0.1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "2002:7f00:1::",
        "5f00::1",
        "fe80::1%eth0",
        "ff0e::1",
        "192.0.0.192",  # a cloud's metadata
        "100.100.100.200",
        "224.0.0.1",
        "localhost",
    ],
)
def test_a_stranger_s_document_is_fetched_from_no_address_within_our_own_network(text: str) -> None:
    assert not is_public_address(text)


@pytest.mark.parametrize("text", ["1.1.1.1", "::ffff:1.1.1.1", "2606:4700::1111", "2a00:1450::1"])
def test_an_address_that_was_given_out_is_public(text: str) -> None:
    assert is_public_address(text)


def test_an_address_is_what_one_machine_has() -> None:
    assert peer_of("192.0.2.1") == peer_of("::ffff:192.0.2.1") == "192.0.2.1"
    assert peer_of("2001:db8:1:2::1") == peer_of("2001:db8:1:2:ffff::9")
    assert peer_of("2001:db8:1:2::1") != peer_of("2001:db8:1:3::1")
    assert peer_of("fe80::1%eth0") == peer_of("fe80::2")
    assert [peer_of(text) for text in ("", "/run/a.sock", "a:b")] == ["", "/run/a.sock", "a:b"]


PROXIES = (ip_network("10.0.0.0/24"), ip_network("::1"))
HOPS = ("10.0.0.1", "10.0.0.2", "192.0.2.1", "192.0.2.2:80", "[2001:db8::1]:443", "evil", "", "10.0.0.1, 10.0.0.1")


@pytest.mark.parametrize(
    ("address", "forwarded", "found"),
    [
        ("10.0.0.1", ["192.0.2.1"], "192.0.2.1"),
        ("::ffff:10.0.0.1", ["192.0.2.1:5000"], "192.0.2.1"),
        ("::1", ["[2001:db8::1]:443"], "2001:db8::1"),
        ("::1", ["2001:db8::1"], "2001:db8::1"),
        ("10.0.0.1", ["192.0.2.9, 192.0.2.1 ,\t10.0.0.2"], "192.0.2.1"),
        ("10.0.0.1", ["192.0.2.9", "192.0.2.1", "10.0.0.2"], "192.0.2.1"),
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", [], "10.0.0.1"),
    ],
)
def test_a_request_comes_from_the_last_address_that_is_no_trusted_proxy_s(
    address: str, forwarded: list[str], found: str
) -> None:
    assert client_address(address, [each.encode() for each in forwarded], PROXIES) == found


@pytest.mark.parametrize(
    ("address", "forwarded", "found"),
    [
        ("192.0.2.1", "192.0.2.9", "192.0.2.1"),
        ("/run/a.sock", "192.0.2.9", "/run/a.sock"),
        ("10.0.0.1", "10.0.0.2, 192.0.2.9, 192.0.2.1", "192.0.2.1"),
        ("10.0.0.1", f"{'192.0.2.9, ' * 1_000}192.0.2.1", "192.0.2.1"),
        ("10.0.0.1", "evil, 192.0.2.1", "192.0.2.1"),
        ("10.0.0.1", "192.0.2.1, ", "10.0.0.1"),
        ("10.0.0.1", "192.0.2.1, unknown, 10.0.0.2", "10.0.0.1"),
        ("10.0.0.1", "192.0.2.1;10.0.0.2", "10.0.0.1"),
        ("10.0.0.1", f"192.0.2.1{', 10.0.0.2' * MAX_PROXIES_ON_THE_WAY}", "10.0.0.1"),
    ],
)
def test_nobody_says_where_they_are_by_a_header_of_their_own(address: str, forwarded: str, found: str) -> None:
    """Else one who asks without end has as many addresses as they like."""
    assert client_address(address, [forwarded.encode()], PROXIES) == found


@given(
    st.lists(st.sampled_from(HOPS) | st.text(st.characters(max_codepoint=255)), max_size=5),
    st.sampled_from(HOPS) | st.text(),
)
def test_whatever_a_client_sends__only_what_a_proxy_has_added_counts(sent: list[str], address: str) -> None:
    forwarded = [each.encode("latin-1", "replace") for each in sent]
    assert client_address("10.0.0.1", [*forwarded, b"192.0.2.1"], PROXIES) == "192.0.2.1"
    assert client_address("192.0.2.1", forwarded, PROXIES) == "192.0.2.1"
    assert isinstance(client_address(address, forwarded, PROXIES), str)


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
