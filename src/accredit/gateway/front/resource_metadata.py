"""What a gateway with tokens serves beside an endpoint: its metadata.

Source: RFC 9728 section 3. The document is the same for everybody, so reading it needs no token.
"""

from urllib.parse import urlsplit

from accredit.gateway.front.exchange import Exchange
from accredit.gateway.headers import JSON
from accredit.gateway.settings import TokenSettings
from accredit.jsonrpc.encode import to_json
from accredit.tokens import metadata, metadata_paths, metadata_url


class Resource:
    """One per endpoint where tokens are on. `metadata_url` is what refusals name; `path` is the endpoint's.

    Unless it is the `only` one, the well-known path alone would not say which is meant, and is none of its paths.
    """

    def __init__(self, settings: TokenSettings, path: str, *, only: bool = True) -> None:
        self.metadata_url = metadata_url(settings.resource)
        self._document = to_json(metadata(settings.resource, settings.issuers))
        # Behind a proxy that rewrites paths, the endpoint has a different path for clients.
        both = metadata_paths(path), metadata_paths(urlsplit(settings.resource).path)
        self.paths = frozenset(name for names in both for name in (names if only else names[-1:]))
        """Where the document is."""

    async def serve(self, exchange: Exchange) -> None:
        """Answer a GET for one of its paths."""
        await exchange.reply(200, self._document, [JSON])
