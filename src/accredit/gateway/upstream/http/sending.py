"""Sends requests to an HTTP server on behalf of callers: prepares heads, takes places, adds credentials. Also sends
messages whose answers are not needed. I/O through the client; waits for tokens.

Clients repeat their heads, so the head that is sent for a client's head is cached (`Sender.for_post`). The gateway's
own token for the server is added to each request on a caller's behalf (`OwnToken`):

- [required] Nothing is sent without a token. With `token_exchange` the token is made from the caller's, so nothing is
  sent for an unknown caller.
- [each-request] The token is added when the request is sent, and never to a cached head. So a renewed token takes
  effect at once.
- [rejected] A 401 from the server concerns the gateway, not the client. The token is dropped, and the client is told
  that the upstream is unavailable. The request is not sent again, as the server may have acted on it.

A client's own `Authorization` is not forwarded. Nor is an `Authorization` or `WWW-Authenticate` of the server
(`TAKEN_OFF`). On unread paths (`passthrough`) the token is not sent, as anybody may send requests there.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from accredit.base.caching import RecentlyUsed
from accredit.errors import AccreditError, ConfigurationError, RequestError, UpstreamLeftOut, UpstreamRefuses
from accredit.gateway.admission.identity import Identity
from accredit.gateway.forwarding import Forwarding
from accredit.gateway.headers import SESSION_HEADER, RawHeaders, RequestHead
from accredit.gateway.room import ALONE, RESERVED_SHARE, EqualShares, Room, Slot
from accredit.gateway.settings import GatewaySettings, HttpUpstream
from accredit.gateway.upstream.http.client import ANYWHERE, Answer, Prepared, Route, UpstreamClient
from accredit.gateway.upstream.http.encoding import accepted_codings
from accredit.gateway.upstream.http.replicas import client_of, route_of
from accredit.gateway.upstream.reply import Reply
from accredit.jsonrpc.encode import cancellation
from accredit.jsonrpc.frames import Request
from accredit.jsonrpc.methods import LISTEN, Era
from accredit.jsonrpc.responses import Expected
from accredit.limits import MAX_REMEMBERED_HEAD_BYTES
from accredit.ports import AccessTokens
from accredit.tokens.access import AccessGrant

MAX_PREPARED_HEADS = 256
"""For how many client heads the head to the server is cached. A client sends the same head each time. Each has at most
`MAX_REMEMBERED_HEAD_BYTES`, and is held twice."""
MAX_CHORES = 256
"""How many messages whose answers are not needed (ends of sessions, cancellations) may wait to be sent to one server.
They are a courtesy, so beyond this bound they are dropped."""
MAX_CHORES_AT_ONCE = 64
"""How many such messages may be on their way to all servers together, each on a connection. A server that answers takes
some milliseconds."""
MIN_CHORES_AT_ONCE = 4
"""How many such messages may be on their way to one of many servers, at least."""

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
        raises, `UpstreamLeftOut` if there is no token ([required]), and `UpstreamRefuses` if the server rejects it
        ([rejected])."""
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
    """Return the `OwnToken` for a server, or None if the gateway does not authenticate to it. Raises
    `ConfigurationError`."""
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


class Sender:
    """Sends to one server. `identity` makes the header that tells the server who calls. `forwarding` selects the
    headers, in both directions."""

    def __init__(
        self,
        settings: GatewaySettings,
        upstream: HttpUpstream,
        tokens_for: AccessTokensFor | None = None,
        parts: EqualShares = ALONE,
        *,
        before: "Sender | None" = None,
    ) -> None:
        """`parts` divides the process's bounds among its servers. `before` is the previous sender to the same server,
        whose connections and tokens are kept."""
        self._most = upstream.max_in_flight
        self._reserved = int(self._most * RESERVED_SHARE) if self._most is not None and settings.proving else 0
        if before is not None:
            self.client, self._room, self._own_token = before.client, before._room, before._own_token
        else:
            self.client = client_of(upstream, settings.patience, parts)
            self._room = Room("requests to this server", self._most, self._reserved) if self._most is not None else None
            self._own_token = own_token(upstream, tokens_for)
        self.identity = Identity(settings.identity, upstream.url) if settings.identity is not None else None
        own = [*upstream.headers, *([settings.identity.header] if settings.identity is not None else [])]
        own += TAKEN_OFF if self._own_token is not None else ()
        self.forwarding = Forwarding(listed_only=settings.guards, added=settings.forward_headers, own=own)
        self._prepared = RecentlyUsed[tuple[object, ...], Prepared](MAX_PREPARED_HEADS)
        self._chores: set[asyncio.Task[None]] = before._chores if before is not None else set()
        self._at_once = asyncio.Semaphore(parts.of(MAX_CHORES_AT_ONCE, MIN_CHORES_AT_ONCE))

    def begin(self) -> None:
        """Apply the configured bound (`max_in_flight`) from now on."""
        if self._room is not None and self._most is not None:
            self._room.fit(self._most, self._reserved)

    def exchange(
        self, reply: Reply, prepared: Prepared, body: bytes = b"", route: Route = ANYWHERE
    ) -> Coroutine[Any, Any, Answer]:
        """Send a prepared head on a caller's behalf. The caller's identity for the server and the gateway's own token
        are added. Raises what `client.send` raises."""
        said = self.identity.fields(reply.speaker) if self.identity is not None else []
        if self._own_token is not None:
            return self._own_token.exchange(self.client, reply, prepared, body, said, route)
        return self.client.exchange(prepared, body, said, route)

    def target(self, head: RequestHead) -> bytes:
        """Return the path and query for each request sent on behalf of this head. The caller's query is kept: with
        another query, a server may show other tools, or another tenant."""
        return self.client.target(b"" if self.forwarding.listed_only else head.query)

    def for_post(self, head: RequestHead) -> Prepared:
        """Return the head to send to the server for a POST with this head."""
        if isinstance(head.sent_as, Prepared):
            return head.sent_as
        fields = [pair for pair in head.raw_headers if pair[0] != b"content-length"]
        key = (head.query, head.headers.get(b"accept-encoding"), *fields)
        prepared = self._prepared.get(key)
        if prepared is None:
            headers = self._headers_for(head, body=True)
            prepared = self.client.prepare(head.method, headers, target=self.target(head))
            # Client fields that are not forwarded are part of the key as well.
            if max(len(prepared.head), _size(head)) <= MAX_REMEMBERED_HEAD_BYTES:
                self._prepared.put(key, prepared)
        head.sent_as = prepared
        return prepared

    async def without_body(self, reply: Reply) -> Answer:
        """Send a client's request that has no body. Raises what `client.send` raises."""
        head = reply.head
        headers = self._headers_for(head, body=False)
        prepared = self.client.prepare(head.method, headers, target=self.target(head))
        answer = await self.exchange(reply, prepared, route=route_of(head, []))
        reply.replica = answer.replica
        return answer

    def place(self, reply: Reply, requests: Sequence[Request]) -> Slot | None:
        """Take a place for requests, if their number is bounded. A request that opens a standing stream needs none.
        Raises `UpstreamLeftOut`."""
        if self._room is None or any(request.method == LISTEN for request in requests):
            return None
        try:
            return self._room.take(reply)
        except RequestError:
            raise UpstreamLeftOut("too many requests to the upstream are under way") from None

    def disown(self, reply: Reply, answer: Answer, requests: Sequence[Request]) -> None:
        """End the session that a refused `initialize` answer announced, as the client never learns of it. If the answer
        names two sessions, leave both to the server."""
        session = answer.header(SESSION_HEADER) if answer.head.names_once else None
        if session is None or not any(request.method == "initialize" for request in requests):
            return
        headers = [
            pair
            for pair in self.forwarding.to_upstream(reply.head.raw_headers, body=False)
            if pair[0] != SESSION_HEADER
        ]
        self._start(self._tell(reply, "DELETE", [*headers, (SESSION_HEADER, session)], b"", Route(answer.replica)))

    def take_back(self, reply: Reply, expected: Expected) -> None:
        """Send a legacy server the cancellations of requests that took too long. A modern server notices that the
        connection was closed."""
        if expected.era is not Era.LEGACY or SESSION_HEADER not in reply.head.headers:
            return
        headers = self.forwarding.to_upstream(reply.head.raw_headers, body=True)
        for id in expected.open:
            text = cancellation(id, "the upstream did not answer in time")
            self._start(self._tell(reply, "POST", headers, text, Route(reply.head.replica)))

    async def aclose(self) -> None:
        """Close idle connections, and cancel what is pending."""
        for chore in self._chores:
            chore.cancel()
        await asyncio.gather(*self._chores, return_exceptions=True)
        if self._own_token is not None:
            await self._own_token.aclose()
        await self.client.close()

    def _headers_for(self, head: RequestHead, *, body: bool) -> RawHeaders:
        codings = accepted_codings(head.headers.get(b"accept-encoding"))
        return [*self.forwarding.to_upstream(head.raw_headers, body=body), (b"accept-encoding", codings)]

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        if len(self._chores) >= MAX_CHORES:
            work.close()
            return
        chore = asyncio.create_task(work)
        self._chores.add(chore)
        chore.add_done_callback(self._chores.discard)

    async def _tell(self, reply: Reply, method: str, headers: RawHeaders, text: bytes, route: Route) -> None:
        """Send a message whose answer is ignored."""
        async with self._at_once:
            with contextlib.suppress(AccreditError):
                prepared = self.client.prepare(method, headers, target=self.target(reply.head))
                (await self.exchange(reply, prepared, text, route)).close()


def _size(head: RequestHead) -> int:
    """Return how many bytes from the client are kept with a head: its query and headers, without its path."""
    return len(head.query) + sum(len(name) + len(value) for name, value in head.raw_headers)
