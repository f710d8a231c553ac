"""Serves the protected resource metadata of an endpoint with tokens.

Source: RFC 9728 section 3. The document is the same for everybody, so reading it needs no token.
"""

from urllib.parse import urlsplit

from accredit.gateway.front.exchange import Exchange
from accredit.gateway.headers import JSON
from accredit.gateway.oauth_settings import OAuthSettings
from accredit.gateway.settings import TokenSettings
from accredit.jsonrpc.encode import to_json
from accredit.tokens.challenges import metadata, metadata_paths, metadata_url


class Resource:
    """Serves the metadata of one endpoint where tokens are on, or OAuth clients are let in. `metadata_url` is named in
    refusals. `path` is the endpoint's.

    With several endpoints, the well-known path without an endpoint's path would be ambiguous. So it is served only if
    this endpoint is the `only` one.
    """

    def __init__(
        self, settings: TokenSettings | None, path: str, *, only: bool = True, oauth: OAuthSettings | None = None
    ) -> None:
        issuers = settings.issuers if settings is not None else ()
        own = oauth.public_url if oauth is not None else ""
        resource = oauth.endpoint(path) if oauth is not None else settings.resource if settings is not None else path
        self.metadata_url = metadata_url(resource)
        self._document = to_json(metadata(resource, issuers, own))
        # Behind a proxy that rewrites paths, clients see the endpoint at a different path.
        both = metadata_paths(path), metadata_paths(urlsplit(resource).path)
        self.paths = frozenset(name for names in both for name in (names if only else names[-1:]))
        """The paths of the metadata document."""

    async def serve(self, exchange: Exchange) -> None:
        """Answer a GET for one of the document's paths."""
        await exchange.reply(200, self._document, [JSON])
