"""What the client is told at the start: URLs and headers that it takes, and those that it refuses."""

import pytest

from accredit.errors import ConfigurationError
from accredit.gateway.upstream.http.client import UpstreamClient
from accredit.gateway.upstream.http.dialing import parse_origin

pytestmark = pytest.mark.holds("gateway/upstream/http/dialing")


@pytest.mark.parametrize(
    ("url", "host", "port", "authority", "target"),
    [
        ("http://127.0.0.1:9000/mcp", "127.0.0.1", 9000, b"127.0.0.1:9000", b"/mcp"),
        ("http://Example.org", "example.org", 80, b"example.org", b"/"),
        ("http://example.org:80/a/b?c=d&e", "example.org", 80, b"example.org", b"/a/b?c=d&e"),
        ("HTTP://example.org:443/", "example.org", 443, b"example.org:443", b"/"),
        ("http://[::1]:9000/mcp#there", "::1", 9000, b"[::1]:9000", b"/mcp"),
        ("http://example.org?x", "example.org", 80, b"example.org", b"/?x"),
    ],
)
def test_a_url_is_taken_apart(url: str, host: str, port: int, authority: bytes, target: bytes) -> None:
    origin = parse_origin(url)
    assert (origin.host, origin.port, origin.authority, origin.target) == (host, port, authority, target)
    assert origin.tls is None


def test_https_has_its_own_port_and_checks_certificates_and_names() -> None:
    origin = parse_origin("https://example.org/mcp")
    assert (origin.port, origin.authority) == (443, b"example.org")
    assert origin.tls is not None
    assert origin.tls.check_hostname
    assert origin.tls.verify_mode.name == "CERT_REQUIRED"


@pytest.mark.parametrize(
    "url",
    [
        "", "mcp", "/mcp", "127.0.0.1:9000", "ftp://example.org/", "file:///etc/passwd", "http://", "http:///mcp",
        "http://user@example.org/", "http://user:secret@example.org/", "http://example.org:0/",
        "http://example.org:99999/", "http://example.org:x/", "http://[::1", "http://example.org/a b",
        "http://example.org/\r\nX: y", "http://example.org/\u00e4", "http://ex\u00e4mple.org/", "http://exam\tple.org/",
    ],
)  # fmt: skip
def test_what_is_no_url_of_an_upstream_stops_the_start_and_is_not_quoted(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        UpstreamClient(url, timeout=1)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-Key", "a\r\nX: b"), ("X-Key", "a\nb"), ("X-Key", "a\0b"), ("X-Key", "\u20ac"), ("X Key", "a"), ("", "a"),
        ("X-Key:", "a"), ("X-Key: a\r\nX", "b"), ("X-K\u00e4y", "a"), ("Content-Length", "5"), ("connection", "close"),
        ("Transfer-Encoding", "chunked"),
    ],
)  # fmt: skip
def test_a_header_that_no_request_can_carry_stops_the_start_and_its_value_is_not_quoted(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        UpstreamClient("http://127.0.0.1:1/", headers={name: f"secret{value}"}, timeout=1)
    assert "secret" not in str(caught.value)
