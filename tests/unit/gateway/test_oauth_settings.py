"""The front door's settings: who is let in, and the names of endpoints."""

import pytest
from tests.world.issuer import IssuerKey

from accredit.gateway.oauth_settings import OAuthSettings

KEY = IssuerKey(None)


def settings(url: str = "https://mcp.example.com", clients: tuple[str, ...] | None = None) -> OAuthSettings:
    return OAuthSettings(url, "mail", KEY.private, clients=clients)


@pytest.mark.parametrize(
    ("path", "url"),
    [
        ("/mcp", "https://mcp.example.com/mcp"),
        ("/mcp/", "https://mcp.example.com/mcp"),
        ("/", "https://mcp.example.com"),
    ],
)
def test_an_endpoint_has_one_name(path: str, url: str) -> None:
    assert settings().endpoint(path) == url


def test_only_clients_that_are_listed_are_let_in() -> None:
    assert settings().lets_in("https://claude.ai/c")
    assert not settings().lets_in("http://127.0.0.1/c")
    assert not settings(clients=()).lets_in("https://claude.ai/c")
    assert settings(clients=("https://claude.ai/*",)).lets_in("https://claude.ai/c")


def test_nothing_secret_is_shown() -> None:
    assert "PrivateKey" not in repr(settings())
    assert settings().is_secure
    assert not settings("http://127.0.0.1:9").is_secure
    assert len(settings().keys.keys) == 1
