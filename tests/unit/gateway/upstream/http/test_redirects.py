"""What a redirect of the upstream's is called."""

import pytest

from accredit.gateway.upstream.http.redirects import same_origin, target_of, words_for

URL = "http://10.0.0.7:9000/secret/mcp?key=secret"


@pytest.mark.parametrize(
    ("location", "words"),
    [
        (b"/secret/mcp/", "the same path with a slash at its end"),
        (b"http://10.0.0.7:9000/secret/mcp/?key=secret", "the same path with a slash at its end"),
        (b"/other/secret", "another path of the server"),
        (b"https://10.0.0.7:9000/secret/mcp", "another server"),
        (b"//evil.example/secret", "another server"),
        (b"http://10.0.0.7:80/secret", "another server"),
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
    assert told.startswith("status 307, a redirect")
    assert words in told
    assert "secret" not in told
    assert "10.0.0.7" not in told


def test_a_slash_too_many_is_told_too() -> None:
    assert "without the slash" in words_for(301, "http://a/mcp/", b"/mcp")


def test_a_default_port_is_the_same_origin() -> None:
    assert same_origin("http://a/mcp", "http://a:80/")
    assert not same_origin("http://a/mcp", "https://a/mcp")
    assert target_of("http://a/mcp", b"b/c") == "http://a/b/c"
