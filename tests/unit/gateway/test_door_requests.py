"""What of a request may be shown to a person: of a client that is let in, for tools that may be granted standing."""

from pathlib import Path

import pytest
from tests.world.authorization import CATALOG, GATEWAY, Trust
from tests.world.issuer import IssuerKey

from accredit.base.clock import unix_seconds
from accredit.errors import OAuthError
from accredit.gateway.front.door.requests import Endpoint, find_client
from accredit.gateway.oauth_settings import OAuthSettings
from accredit.oauth.clients import Client
from accredit.policy.decision import Policy
from accredit.ratify import CertificateCache
from accredit.rounds.sealing import KeyRing
from accredit.stores import parse_store_url

URL = "https://claude.ai/client.json"


class NoDocuments:
    """What says of each URL that it was asked for."""

    async def client(self, url: str, peer: str) -> Client:
        raise OAuthError("invalid_client", f"asked for {url}")

    async def aclose(self) -> None: ...


def settings(clients: tuple[str, ...] | None) -> OAuthSettings:
    return OAuthSettings("https://mcp.example.com", "mail", IssuerKey(None).private, clients=clients)


async def refusal(client_id: str, clients: tuple[str, ...] | None) -> str:
    door = parse_store_url("memory:", Path()).open_door(KeyRing([b"k" * 32]))
    try:
        await find_client(client_id, settings(clients), NoDocuments(), door, unix_seconds(), "192.0.2.1")
    except OAuthError as error:
        return error.detail
    finally:
        await door.aclose()
    return ""


@pytest.mark.holds("gateway/front/door/requests", "allow-list")
async def test_a_client_that_is_not_listed_is_not_even_looked_up() -> None:
    assert "asked for" in await refusal(URL, None)
    assert "asked for" in await refusal(URL, ("https://claude.ai/*",))
    for client_id, listed in ((URL, ("https://chatgpt.com/*",)), (URL, ()), ("https://127.0.0.1/c", None)):
        assert "not let in" in await refusal(client_id, listed)
    assert "not registered" in await refusal("accredit-client:" + "0a" * 16, None)


@pytest.mark.holds("gateway/front/door/requests", "standing-scopes")
def test_a_sensitive_tool_is_in_no_standing_delegation() -> None:
    trust = Trust()
    policy = Policy(
        verifier_id=GATEWAY,
        roots={trust.owner.public_key: "Owner"},
        catalog=CATALOG,
        vocabulary=CATALOG.vocabulary(),
        cert_cache=CertificateCache(),
    )
    endpoint = Endpoint("https://mcp.example.com/mcp", policy)
    assert endpoint.reading == {"email:read"}
    assert "email:send" not in endpoint.scopes
    assert "send_email" not in endpoint.tools(("email:read", "email:send", "comms:email:send"))
    assert endpoint.tools(("email:read",)) == ("list_inbox",)
