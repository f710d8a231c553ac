"""The gateway's access tokens for one upstream server, requested when needed. I/O: the network.

There is one token for the gateway itself or, if callers' tokens are exchanged, one for each caller
(`tokens.access.SubjectToken.key`). When one is needed, in this order:

- [cache] A token with enough time left is returned at once. Shortly before it expires the next one is requested, while
  calls still use the old one.
- [request] Otherwise a request begins, unless one failed a moment ago. There is one at a time for each token, and all
  callers that need the token wait for it. The request continues if a caller leaves.
- [failure] If there is no token, `UpstreamLeftOut` is raised: no call proceeds without one.
- [pause] After a failed connection to the authorization server, no request is made for any token for a moment. If the
  server only refused one caller's token, requests for others continue: they must not suffer for it.
- [rejection] A token that the upstream server rejects is dropped, and the next call gets another one. This happens only
  so often.

The numbers of cached tokens and of concurrent requests are bounded. Keys are digests; tokens are in memory only, and
are never logged.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable

from accredit.base.caching import RecentlyUsed
from accredit.base.log_events import log_event
from accredit.errors import AccessTokenError, UpstreamLeftOut
from accredit.limits import ACCESS_TOKEN_REQUEST_SECONDS
from accredit.net.fetch import check_url
from accredit.net.token_endpoint import Unreachable, request_token
from accredit.tokens.access import AccessGrant, AccessToken, SubjectToken

ACCESS_TOKEN_RETRY_SECONDS = 2.0
"""How long a failed request for an access token is not repeated. So an authorization server that is down is not
flooded, and calls work again soon after it is back."""
ACCESS_TOKEN_DROP_SECONDS = 5.0
"""At most once in this time, a token that the upstream refuses is dropped. An upstream that answers 401 to everything,
or to one tool, must not cause a request to the authorization server each time."""
ACCESS_TOKEN_MARGIN_SECONDS = 10.0
"""An access token is no longer used in this last part of its lifetime, or in its last tenth, if that is shorter. Clocks
differ, and a request with the token takes a while to arrive."""
ACCESS_TOKEN_RENEW_SECONDS = 60.0
"""A token in use is renewed in this last part of its lifetime, or in its last quarter, if that is shorter. Meanwhile
calls still use it."""
MAX_ACCESS_TOKEN_SECONDS = 86_400
"""The longest time that an access token is used, whatever lifetime the authorization server gives it. So a token that
is revoked there is out of use within a day."""
MAX_ACCESS_TOKENS = 4_096
"""How many access tokens are kept for one upstream: one for each caller whose token is exchanged. Each takes some 2
KiB, and at most 17 KiB."""
MAX_TOKEN_REQUESTS = 32
"""How many requests for access tokens run at once. Further callers without a token wait for these; callers with a token
don't."""


_log = logging.getLogger("accredit.net")
_OWN = b""
"""The key of the gateway's own token."""


class _Held:
    """The token under one key, if any, and the pending request for the next one. Times are those of the clock that was
    passed in."""

    __slots__ = ("dropped_at", "ends_at", "renew_at", "request", "retry_at", "token")

    def __init__(self) -> None:
        self.token: AccessToken | None = None
        self.renew_at = self.ends_at = self.retry_at = self.dropped_at = -math.inf
        self.request: asyncio.Task[None] | None = None

    def take(self, token: AccessToken, asked_at: float) -> None:
        seconds = min(token.seconds, MAX_ACCESS_TOKEN_SECONDS)
        self.token = token
        self.renew_at = asked_at + seconds - min(ACCESS_TOKEN_RENEW_SECONDS, seconds / 4)
        self.ends_at = asked_at + seconds - min(ACCESS_TOKEN_MARGIN_SECONDS, seconds / 10)


class AccessTokens:
    """The access tokens for one server (`ports.AccessTokens`)."""

    def __init__(self, grant: AccessGrant, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds. Raises `ConfigurationError` for a URL to which secrets must not be sent."""
        check_url("auth.token_url", grant.token_url, "the client's secret would go there in the clear")
        self._grant = grant
        self._clock = clock
        self._held = RecentlyUsed[bytes, _Held](MAX_ACCESS_TOKENS)
        self._asking: dict[bytes, _Held] = {}
        """Pending requests by key. They are kept here so that no second request is made if the key is evicted from the
        cache."""
        self._room = asyncio.Semaphore(MAX_TOKEN_REQUESTS)
        self._retry_at = -math.inf

    def known(self, subject: SubjectToken | None) -> AccessToken | None:
        """Return a valid token, or None ([cache])."""
        key = _OWN if subject is None else subject.key
        held = self._held.get(key)
        if held is None or held.token is None:
            return None
        now = self._clock()
        if now < held.renew_at:
            return held.token
        self._begin(key, held, subject)
        return held.token if now < held.ends_at else None

    async def token(self, subject: SubjectToken | None) -> AccessToken:
        """Return a token ([cache] to [pause]). Raises `UpstreamLeftOut`."""
        known = self.known(subject)
        if known is not None:
            return known
        key = _OWN if subject is None else subject.key
        held = self._held.get(key) or self._asking.get(key) or _Held()
        self._held.put(key, held)
        self._begin(key, held, subject)
        if held.request is not None:
            await asyncio.wait([held.request])  # unlike `await`, no cancelled caller cancels the request
        if held.token is None or self._clock() >= held.ends_at:
            raise UpstreamLeftOut("the gateway has no token for the upstream")
        return held.token

    def refused(self, subject: SubjectToken | None, token: AccessToken) -> None:
        """Drop a rejected token ([rejection])."""
        held, now = self._held.peek(_OWN if subject is None else subject.key), self._clock()
        if held is not None and held.token is token and now - held.dropped_at >= ACCESS_TOKEN_DROP_SECONDS:
            held.token, held.dropped_at = None, now

    async def aclose(self) -> None:
        """Cancel all requests."""
        requests = [held.request for held in self._asking.values() if held.request is not None]
        for request in requests:
            request.cancel()
        await asyncio.gather(*requests, return_exceptions=True)

    def _begin(self, key: bytes, held: _Held, subject: SubjectToken | None) -> None:
        """Begin a request, unless one is already running, or it is too early for another ([request] and [pause])."""
        if held.request is None and self._clock() >= max(held.retry_at, self._retry_at):
            self._asking[key] = held
            held.request = asyncio.create_task(self._load(key, held, subject))

    async def _load(self, key: bytes, held: _Held, subject: SubjectToken | None) -> None:
        try:
            async with asyncio.timeout(ACCESS_TOKEN_REQUEST_SECONDS), self._room:
                asked_at = self._clock()
                token = await request_token(self._grant, subject)
            held.take(token, asked_at)
        except (AccessTokenError, TimeoutError) as error:
            held.retry_at = self._clock() + ACCESS_TOKEN_RETRY_SECONDS
            if isinstance(error, Unreachable):
                self._retry_at = held.retry_at
            detail = str(error) or f"no answer within {ACCESS_TOKEN_REQUEST_SECONDS:g} s"
            log_event(
                _log, logging.WARNING, "no_upstream_token", url=self._grant.token_url.partition("?")[0], detail=detail
            )
        finally:
            held.request = None
            self._asking.pop(key, None)
