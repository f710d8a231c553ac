"""What a redirect of the upstream's is called."""

import pytest

from accredit.gateway.upstream.http.client import same_origin, target_of, words_for

URL = "http://10.0.0.7:9000/secret/mcp?key=secret"


SLASH = "a redirect to the same path with a slash at its end"


@pytest.mark.parametrize(
    ("location", "words"),
    [
        (b"/secret/mcp/", f" to /*/mcp/ (upstream.url has to name it): {SLASH}"),
        (b"http://10.0.0.7:9000/secret/mcp/?key=secret", f" to /*/mcp/ (upstream.url has to name it): {SLASH}"),
        (b"/secret/mcp?key=secret2", " to /*/mcp (upstream.url has to name it): a redirect to the same path"),
        (b"/other/secret", " to /*/* (upstream.url has to name it): a redirect to another path of the server"),
        (b"/login?next=/secret", " to /login (upstream.url has to"),
        (b"/secret-mcp/mcp%2fsecret/api", " to /*/*/api (upstream.url has to"),
        (b"/" + b"mcp/" * 100, " to /mcp/mcp"),
        (b"https://10.0.0.7:9000/secret/mcp", ", a redirect to the same host by https: upstream.url has to name it"),
        (b"//evil.example/secret", ", a redirect to another server: upstream.url has to name it, if it is meant"),
        (b"http://10.0.0.7:80/secret", ", a redirect to another server"),
        (b"http://user@10.0.0.7:9000/secret", "leads nowhere"),
        (b"ftp://secret", "leads nowhere"),
        (b"http://[secret", "leads nowhere"),
        (b"http://10.0.0.7:secret/", "leads nowhere"),
        (b"\xff", "leads nowhere"),
        (b"", "leads nowhere"),
        (None, "leads nowhere"),
    ],
)
def test_a_redirect_is_told_in_words__and_no_url_of_the_upstream_gets_out(location: bytes | None, words: str) -> None:
    told = words_for(307, URL, location)
    assert told.startswith("status 307")
    assert words in told
    assert "secret" not in told
    assert "10.0.0.7" not in told
    assert len(told) < 250
    assert told.isprintable()


@pytest.mark.parametrize(
    ("url", "location", "to", "way"),
    [
        ("http://a/mcp", b"/mcp/", "/mcp/", "the same path with a slash at its end"),
        ("http://a/mcp/", b"/mcp", "/mcp", "the same path without the slash at its end"),
        ("http://a/", b"/mcp", "/mcp", "another path of the server"),
        ("http://a/mcp", b"/", "/", "another path of the server"),
    ],
)
def test_what_is_told_says_which_key_to_change(url: str, location: bytes, to: str, way: str) -> None:
    told = words_for(308, url, location, "servers.mail.url")
    assert told == f"status 308 to {to} (servers.mail.url has to name it): a redirect to {way}"


def test_a_proxy_that_ends_tls_is_told_apart_from_another_server() -> None:
    assert "a redirect to the same host without TLS: upstream.url" in words_for(308, "https://a/mcp", b"http://a/mcp/")


def test_a_default_port_is_the_same_origin() -> None:
    assert same_origin("http://a/mcp", "http://a:80/")
    assert not same_origin("http://a/mcp", "https://a/mcp")
    assert target_of("http://a/mcp", b"b/c") == "http://a/b/c"
