"""The identity provider where people log in (`oauth.openid`). I/O: the network.

- [configured] The issuer is configured, and https or http on loopback. Its metadata names the endpoints.
- [no-redirects] No redirect is followed: of the metadata, the keys, or the endpoint that gets the client's secret.
- [elsewhere] An endpoint at another host than the issuer's is reached at a public address only, the one that was
  checked.
- [remembered] Metadata and keys count for `METADATA_SECONDS`; an id token with another key has them fetched again. They
  are fetched again at the earliest `METADATA_RETRY_SECONDS` after the last fetch ended, once for all who wait. Callers
  that need nothing new do not wait.
- [bounded] A request has `LOGIN_SECONDS`, and few run at once.
- [away] Whatever keeps the provider from answering is `LoginUnavailable`. Only its own `invalid_grant` says that a
  login is over.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from typing import NamedTuple

from accredit.errors import AccessTokenError, KeySetError, LoginUnavailable, OAuthError
from accredit.limits import MAX_KEY_SET_BYTES
from accredit.net.fetch import Resolve, check_url, fetch, public_address
from accredit.net.token_endpoint import post_form
from accredit.oauth import openid
from accredit.oauth.forms import Parameters
from accredit.tokens.access import basic_credentials
from accredit.tokens.discovery import MAX_METADATA_BYTES, is_elsewhere, metadata_urls_of, read_key_set_url
from accredit.tokens.key_sets import KeySet, read_key_set

METADATA_SECONDS = 300.0
"""How long the provider's metadata and keys count. So long a withdrawn key may still be accepted."""
METADATA_RETRY_SECONDS = 5.0
"""The least time from the end of one attempt to get them to the next. Anybody can begin a login, and so cause one."""
LOGIN_SECONDS = 10.0
"""How long the provider has for one answer. A person waits for the page."""
MAX_LOGINS_AT_ONCE = 64
"""How many requests to the provider run at once. If it hangs, logins and refreshes fail, and nothing piles up."""

_log = logging.getLogger("accredit.net")


class _Known(NamedTuple):
    provider: openid.Provider
    keys: KeySet


class IdentityProvider:
    """One provider. `clock` returns seconds. Raises `ConfigurationError` for an issuer that can't be asked."""

    def __init__(
        self, issuer: str, client_id: str, client_secret: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        check_url("oauth.idp.issuer", issuer)
        self._issuer = issuer
        self._client_id = client_id
        self._authorization = basic_credentials(client_id, client_secret)
        self._clock = clock
        self._known: _Known | None = None
        self._ask_at = self._known_until = -math.inf
        self._looking = asyncio.Lock()
        self._running = 0

    async def login_url(self, redirect_uri: str, state: str, secret: str) -> str:
        """Return the URL at which a person logs in. Raises `LoginUnavailable`."""
        return openid.login_url((await self._look_up()).provider, self._client_id, redirect_uri, state, secret)

    async def log_in(self, answer: Parameters, redirect_uri: str, secret: str, now: int) -> openid.Person:
        """Return the person who has logged in, from the parameters of the provider's redirect. Raises `OAuthError`."""
        code = openid.read_code((await self._look_up()).provider, answer, self._issuer)
        return await self._ask(openid.code_form(code, redirect_uri, secret), now, secret)

    async def read_again(self, refresh_token: str, now: int) -> openid.Person:
        """Return a person's groups as they are now. Raises `LoginUnavailable`, and `OAuthError` if the provider says
        that their login is over."""
        return await self._ask(openid.refresh_form(refresh_token), now, None)

    async def _ask(self, form: bytes, now: int, secret: str | None) -> openid.Person:
        """Send a form to the provider, and return whom its answer names ([bounded] and [away])."""
        if self._running >= MAX_LOGINS_AT_ONCE:
            raise LoginUnavailable
        self._running += 1
        try:
            url = (await self._look_up()).provider.token_endpoint
            async with asyncio.timeout(LOGIN_SECONDS):
                body = await post_form(url, self._authorization, form, self._way_to(url))
            tokens = openid.read_tokens(body)
            keys = (await self._look_up(openid.key_id_of(tokens[0]))).keys
        except AccessTokenError as error:
            if error.word == "invalid_grant":
                raise OAuthError("invalid_grant", "the identity provider says that this login is over") from None
            raise self._away(str(error)) from None
        except TimeoutError:
            raise self._away(f"no answer within {LOGIN_SECONDS:g} s") from None
        finally:
            self._running -= 1
        return openid.read_person(tokens, self._issuer, self._client_id, keys, now, secret=secret)

    async def _look_up(self, kid: str | None = None) -> _Known:
        """Return the provider's metadata and keys. If the provider has a key with the id `kid`, it is among them
        ([remembered])."""
        known = self._current()
        if known is None or not known.keys.knows(kid):
            async with self._looking:
                known = self._current()
                if (known is None or not known.keys.knows(kid)) and self._clock() >= self._ask_at:
                    known = await self._fetch() or known
        if known is None:
            raise LoginUnavailable
        return known

    def _current(self) -> _Known | None:
        return self._known if self._clock() < self._known_until else None

    async def _fetch(self) -> _Known | None:
        try:
            place = metadata_urls_of(self._issuer)[0]
            body = await fetch(place, max_bytes=MAX_METADATA_BYTES, timeout=LOGIN_SECONDS, redirects=0)
            provider, url = openid.read_provider(body, self._issuer), read_key_set_url(body, self._issuer)
            way = self._way_to(url)
            keys = await fetch(url, max_bytes=MAX_KEY_SET_BYTES, timeout=LOGIN_SECONDS, redirects=0, resolve=way)
            self._known, self._known_until = _Known(provider, read_key_set(keys)), self._clock() + METADATA_SECONDS
            return self._known
        except KeySetError as error:
            self._away(f"no metadata and keys: {error}")
            return None
        finally:
            self._ask_at = self._clock() + METADATA_RETRY_SECONDS  # from its end: it may take longer than that

    def _way_to(self, url: str) -> Resolve | None:
        """Return what looks up the host of an endpoint ([elsewhere])."""
        return public_address if is_elsewhere(url, self._issuer) else None

    def _away(self, why: str) -> LoginUnavailable:
        _log.warning("the identity provider %s: %s", self._issuer, why)
        return LoginUnavailable()
