"""The gateway's own token for the server, sent with each request on a caller's behalf. Waits for tokens.

- [required] Nothing is sent without a token. With `token_exchange` the token is made from the caller's, so nothing is
  sent for an unknown caller.
- [each-request] The token is put into each request as it is sent, and into no cached head. So a renewed token takes
  effect at once.
- [rejected] If the server answers 401, that is about the gateway, not about the client. The token is dropped, and the
  client is told that the upstream is unavailable. The request is not sent again, as the server may have acted on it.

A client's own `Authorization` is not forwarded. Nor is an `Authorization` or `WWW-Authenticate` of the server
(`TAKEN_OFF`). On unread paths (`passthrough`) the token is not sent, as anybody may send requests there.
"""

from collections.abc import Callable

from accredit.errors import ConfigurationError, UpstreamLeftOut, UpstreamRefuses
from accredit.gateway.headers import RawHeaders
from accredit.gateway.settings import HttpUpstream
from accredit.gateway.upstream.http.client import Answer, Prepared, Route, UpstreamClient
from accredit.gateway.upstream.reply import Reply
from accredit.ports import AccessTokens
from accredit.tokens import AccessGrant

AccessTokensFor = Callable[[AccessGrant], AccessTokens]
"""Returns the object that gets the tokens for one server."""

TAKEN_OFF = ("authorization", "www-authenticate")


class OwnToken:
    """One per server to which the gateway authenticates itself."""

    def __init__(self, tokens: AccessTokens, *, exchanges: bool) -> None:
        self._tokens = tokens
        self._exchanges = exchanges

    async def exchange(
        self, client: UpstreamClient, reply: Reply, prepared: Prepared, body: bytes, headers: RawHeaders, route: Route
    ) -> Answer:
        """Send a prepared head, and more `headers`, with a token for the current caller. Raises what `client.exchange`
        raises, `UpstreamLeftOut` by [required] and `UpstreamRefuses` by [rejected]."""
        subject = reply.carried if self._exchanges else None
        if self._exchanges and subject is None:
            raise UpstreamLeftOut("no token of a caller that could be exchanged for one for the upstream")
        token = self._tokens.known(subject) or await self._tokens.token(subject)
        # A token is checked when it is received, not again with each call.
        brings = Prepared(prepared.head + token.line, prepared.bodiless, prepared.has_length)
        answer = await client.exchange(brings, body, headers, route)
        if answer.status == 401:
            answer.close()
            self._tokens.refused(subject, token)
            raise UpstreamRefuses
        return answer

    async def aclose(self) -> None:
        """Abandon the requests for tokens that are in progress."""
        await self._tokens.aclose()


def own_token(upstream: HttpUpstream, tokens_for: AccessTokensFor | None) -> OwnToken | None:
    """Return what authenticates the gateway to a server, or None if nothing does. Raises `ConfigurationError`."""
    if upstream.auth is None:
        return None
    if any(name.lower() == "authorization" for name in upstream.headers):
        raise ConfigurationError("the server is to get Authorization in two ways", "leave out one of headers and auth")
    if tokens_for is None:
        raise ConfigurationError(
            "the gateway is to authenticate itself to the server, and nothing gets it a token",
            "give create_app access_tokens",
        )
    return OwnToken(tokens_for(upstream.auth), exchanges=upstream.auth.exchanges)
