"""What a gateway with tokens serves beside its endpoint: its metadata and, if configured, a first token.

Source: RFC 9728 section 3. The document is the same for everybody, so reading it needs no token.
"""

from urllib.parse import urlsplit

from accredit.gateway.front.bootstrap import PATH, Bootstrap
from accredit.gateway.front.exchange import Exchange
from accredit.gateway.headers import JSON
from accredit.gateway.settings import TokenSettings
from accredit.jsonrpc.encode import to_json
from accredit.tokens import metadata, metadata_paths, metadata_url


class Resource:
    """One per gateway where tokens are on. `metadata_url` is what refusals name; `path` is the endpoint's."""

    def __init__(self, settings: TokenSettings, path: str) -> None:
        self.metadata_url = metadata_url(settings.resource)
        self._document = to_json(metadata(settings.resource, settings.issuers))
        # Behind a proxy that rewrites paths, the endpoint has a different path for clients.
        self._paths = {*metadata_paths(path), *metadata_paths(urlsplit(settings.resource).path)}
        self._bootstrap = Bootstrap(settings.bootstrap) if settings.bootstrap is not None else None

    async def serve(self, exchange: Exchange, path: str) -> bool:
        """Answer a request for one of its paths; return whether it was one. Raises `RequestError`."""
        if exchange.head.method == "GET" and path in self._paths:
            await exchange.reply(200, self._document, [JSON])
        elif exchange.head.method == "POST" and path == PATH and self._bootstrap is not None:
            await self._bootstrap.serve(exchange, exchange.address)
        else:
            return False
        return True
