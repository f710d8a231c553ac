"""Which paths pass untouched."""

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accredit.errors import ConfigurationError
from accredit.gateway import GatewaySettings, HttpUpstream
from accredit.gateway.front.passthrough import matches_pattern, refuse

PATTERNS = ("/.well-known/*", "/robots.txt")


@pytest.mark.parametrize(
    "path", ["/.well-known/x", "/.well-known/", "/.well-known/a/b.c", "/.well-known/...", "/robots.txt"]
)
def test_a_configured_path_passes(path: str) -> None:
    assert matches_pattern(path, PATTERNS)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/.well-known",
        "/.well-knownx",
        "/robots.txt/",
        "/x/robots.txt",
        "/.well-known/..",
        "/.well-known/../x",
        "/.well-known/./x",
        "/.well-known/a\\..\\..\\x",
        "/.well-known/..;a=b/x",
    ],
)
def test_no_other_does(path: str) -> None:
    assert not matches_pattern(path, PATTERNS)


def test_nothing_passes_by_default() -> None:
    assert not matches_pattern("/.well-known/x", ())


@pytest.mark.slow
@given(st.lists(st.sampled_from(["..", ".", "a", "", "\\", "..\\", ";x", "%2e%2e"]), max_size=8))
def test_a_path_that_passes_resolves_to_below_its_pattern(segments: list[str]) -> None:
    path = "/.well-known/" + "/".join(segments)
    if matches_pattern(path, PATTERNS):
        for seen in (path, path.replace("\\", "/"), path.split(";")[0]):
            assert posixpath.normpath(seen).startswith("/.well-known")


def test_the_refusal_quotes_little_of_the_path() -> None:
    detail = refuse("/\u00e4\n" + "a" * 5_000).detail
    assert detail.isascii()
    assert detail.isprintable()
    assert len(detail) < 150


@pytest.mark.parametrize(
    "pattern", ["/*", "/mcp", "/mcp/", "/mcp/*", "/api/*", "/api/rpc", "/api/rpc/*", "/MCP", "/Api/*"]
)
def test_a_pattern_that_covers_mcp_is_refused__frames_would_pass_unread_there(pattern: str) -> None:
    with pytest.raises(ConfigurationError, match="where MCP is served"):
        GatewaySettings(HttpUpstream("http://127.0.0.1:1/api/rpc"), passthrough=(pattern,))


@pytest.mark.parametrize("pattern", ["/.well-known/*", "/mcpx", "/mcpx/*", "/api", "/api/rpcs/*", "/robots.txt"])
def test_a_pattern_beside_mcp_is_not(pattern: str) -> None:
    GatewaySettings(HttpUpstream("http://127.0.0.1:1/api/rpc"), passthrough=(pattern,))
