"""The listening socket is open, or there is one clear error and no socket."""

import resource
import socket

import pytest

from accredit.app.listener import MAX_DESCRIPTORS, address_of, allow_descriptors, open_listener
from accredit.errors import ConfigurationError


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_listener_accepts_at_once_and_knows_its_address(host: str) -> None:
    with open_listener(host, 0) as listener:
        port = listener.getsockname()[1]
        assert address_of(listener) == f"127.0.0.1:{port}"
        socket.create_connection(("127.0.0.1", port)).close()


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_an_ipv6_address_is_written_in_brackets(host: str) -> None:
    with open_listener(host, 0) as listener:
        assert address_of(listener) == f"[::1]:{listener.getsockname()[1]}"


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("203.0.113.1", "not an address of this machine"),
        ("no.such.host.invalid", "no address of that name"),
        ("a" * 300, "no address of that name"),
        ("\n", "no address of that name"),
    ],
)
def test_what_can_not_be_listened_on_is_said(host: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason) as refused:
        open_listener(host, 0)
    assert refused.value.what.isprintable()


def test_a_port_in_use_is_said_also_when_the_other_may_share_addresses() -> None:
    with open_listener("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"port {port}: the port is taken"):
            open_listener("127.0.0.1", port)


def test_a_gateway_does_not_run_out_of_descriptors_at_the_usual_1024() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1_024, hard))
        allow_descriptors()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(hard, MAX_DESCRIPTORS)
        allow_descriptors()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
