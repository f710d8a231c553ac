"""Reads a request for authorization: which client asks for what, and how much of it can be granted at its endpoint.

- [client-first] The client's own document, or its registration, says where answers may go. Until that is known, nobody
  is redirected: errors are shown to the person.
- [allow-list] A client that is not on the allow-list is not looked up at all.
- [standing-scopes] People are not asked for the scope of a sensitive tool, as a standing delegation never covers one;
  nor for a scope that no tool needs.
"""

from collections.abc import Mapping
from typing import NamedTuple

from accredit.errors import OAuthError
from accredit.gateway.oauth_settings import OAuthSettings
from accredit.oauth.answers import error_redirect
from accredit.oauth.clients import Client, read_registration
from accredit.oauth.forms import Parameters
from accredit.oauth.requests import Authorization, choose_scopes, read_asked, read_authorization
from accredit.oauth.uris import is_given_id, is_named_redirect
from accredit.policy.decision import Policy
from accredit.ports import ClientSource, DoorStore

READS = "mcp:tool"
"""The scope that `accredit init` gives to tools that only read."""


class WrongRequest(OAuthError):
    """A refusal that may be sent to the client: `location` is the URL to redirect to."""

    def __init__(self, error: OAuthError, location: str) -> None:
        super().__init__(error.error, error.detail)
        self.location = location


class Wanted(NamedTuple):
    """A whole request that may be shown to a person: the client, what it asks for, the names of the tools that it
    could call with the `scopes` of `request`, and who decides those calls."""

    request: Authorization
    client: Client
    tools: tuple[str, ...]
    policy: Policy


class Endpoint(NamedTuple):
    """An endpoint of the gateway, for which tokens are given out."""

    url: str
    policy: Policy

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes of its tools that may be granted for more than one call ([standing-scopes])."""
        entries = self.policy.catalog.tools.values()
        return frozenset(each.scope for each in entries if not each.sensitive)

    @property
    def reading(self) -> frozenset[str]:
        """The scopes of tools that only read: the one that `init` gives them, and those whose last word is `read`."""
        return frozenset(each for each in self.scopes if each == READS or each.endswith(":read"))

    def tools(self, scopes: tuple[str, ...]) -> tuple[str, ...]:
        """Return the tools that these scopes are for, except sensitive ones."""
        catalog = self.policy.catalog.tools
        return tuple(name for name, entry in catalog.items() if not entry.sensitive and entry.allows(scopes))


async def read_wanted(
    query: Parameters,
    settings: OAuthSettings,
    endpoints: Mapping[str, Endpoint],
    documents: ClientSource,
    door: DoorStore,
    now: int,
    peer: str,
) -> Wanted:
    """Return what an authorization request of a `peer` asks for ([client-first] to [standing-scopes]). `now` is in unix
    seconds.

    Raises `WrongRequest` for a refusal that may be sent to the client, and `OAuthError` for any other.
    """
    asked = read_asked(query, private=settings.private_documents)
    client = await find_client(asked.client_id, settings, documents, door, now, peer)
    if not is_named_redirect(asked.redirect_uri, client.redirect_uris):
        raise OAuthError("invalid_request", "redirect_uri is none that the client has named")
    try:
        request = read_authorization(query, asked, endpoints)
        endpoint = endpoints[request.resource]
        scopes = choose_scopes(request.scopes, endpoint.scopes, sorted(endpoint.reading))
    except OAuthError as error:
        location = error_redirect(asked.redirect_uri, settings.public_url, asked.state, error)
        raise WrongRequest(error, location) from None
    granted = Authorization(
        client_id=request.client_id,
        redirect_uri=request.redirect_uri,
        state=request.state,
        challenge=request.challenge,
        resource=request.resource,
        scopes=scopes,
    )
    return Wanted(granted, client, endpoint.tools(scopes), endpoint.policy)


async def find_client(
    client_id: str, settings: OAuthSettings, documents: ClientSource, door: DoorStore, now: int, peer: str
) -> Client:
    """Return a client by its id ([allow-list]). Raises `OAuthError`."""
    if not settings.lets_in(client_id):
        raise OAuthError("unauthorized_client", "this client is not let in here (oauth.clients)")
    if not is_given_id(client_id):
        return await documents.client(client_id, peer)
    document = await door.registered(client_id, now=now)
    if document is None:
        raise OAuthError("invalid_client", "this client is not registered here, or no longer")
    return read_registration(document, client_id)
