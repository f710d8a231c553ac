"""The public keys of all issuers, fetched when needed, and the issuers' answers about tokens (`introspection`). I/O:
the network.

For an issuer whose keys are at a URL, in this order:

- [fresh] If the known set is fresh and has the requested key, it is returned at once.
- [fetch] Otherwise a fetch begins: at most once a minute (every few seconds while no set is known), and only one at a
  time. The fetch that found the first set does not count for this, so that a key published just after it is found at
  once.
- [stale] If the set has the key but is no longer fresh, it is returned at once, up to a day old: nobody waits for the
  fetch.
- [missing-key] If the set lacks the key, it is returned when the fetch is over, whatever the outcome: perhaps no such
  key exists.
- [no-set] If no set is known, or only one more than a day old, `KeysUnavailable` is raised.

If a fetch fails, or its result can't be read, the last good set stays in force.

- [found] If the URL is not configured, each fetch first looks it up in the issuer's metadata (`tokens.discovery`). No
  redirect is followed. A key set at another host than the issuer's is fetched from a public address only.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping

from accredit.errors import KeySetError, KeysUnavailable
from accredit.limits import MAX_KEY_SET_BYTES
from accredit.net.fetch import check_url, fetch, public_address
from accredit.net.introspection import Introspections
from accredit.tokens.claims import Claims
from accredit.tokens.discovery import MAX_METADATA_BYTES, is_elsewhere, metadata_urls_of, read_key_set_url
from accredit.tokens.key_sets import KeySet, read_key_set
from accredit.tokens.verify import Issuer

KEYS_FRESH_SECONDS = 300.0
"""The age at which a key set is fetched again. So long a withdrawn key may still be accepted."""
KEYS_REFETCH_SECONDS = 60.0
"""The least time between fetches of a known key set. Tokens with invented key ids must not cause a fetch each."""
KEYS_RETRY_SECONDS = 5.0
"""The least time between fetches of a key set that is not known yet. Until it is known, every token is refused."""
KEYS_STALE_SECONDS = 86_400.0
"""The age beyond which a key set is not used, even if it can't be fetched again. A day: an issuer that is down for a
night locks nobody out."""
KEYS_FETCH_SECONDS = 10.0
"""How long one fetch may take, with redirects and metadata. Issuers answer well within a second."""


_log = logging.getLogger("accredit.net")
_NEVER = -math.inf


class IssuerKeys:
    """The key sets of all issuers: those read from files, and those at URLs."""

    def __init__(
        self,
        sources: Mapping[str, KeySet | str | None],
        clock: Callable[[], float] = time.monotonic,
        *,
        before: "IssuerKeys | None" = None,
    ) -> None:
        """`sources` maps each issuer to its keys, to their URL, or to None if the URL is in the issuer's metadata.
        `clock` returns seconds. Sets that `before` has fetched from the same URL are kept. Raises `ConfigurationError`.
        """
        urls = {issuer: source for issuer, source in sources.items() if not isinstance(source, KeySet)}
        for issuer, url in urls.items():
            check_url(*("tokens.issuers.issuer", issuer) if url is None else ("tokens.issuers.jwks_url", url))
        self._fixed = {issuer: source for issuer, source in sources.items() if isinstance(source, KeySet)}
        known: dict[str, _Remote] = before._remote if before is not None else {}
        self._remote: dict[str, _Remote] = {
            issuer: known[issuer] if issuer in known and known[issuer].url == url else _Remote(issuer, url, clock)
            for issuer, url in urls.items()
        }
        self._clock = clock
        self._introspections: dict[str, Introspections] = before._introspections if before is not None else {}

    async def keys(self, issuer: str, kid: str | None) -> KeySet:
        """Return the keys of a configured issuer (`ports.KeySets`). Raises `KeysUnavailable`."""
        fixed = self._fixed.get(issuer)
        if fixed is not None:
            return fixed
        return await self._remote[issuer].keys(kid)

    async def introspect(self, issuer: Issuer, text: str) -> Claims:
        """Return what an issuer says about a token (`ports.KeySets`). Raises `InvalidToken` and `KeysUnavailable`."""
        asked = issuer.introspection
        if asked is None:
            raise KeysUnavailable(f"{issuer.issuer} can't be asked about tokens", math.ceil(KEYS_RETRY_SECONDS))
        known = self._introspections.get(issuer.issuer)
        if known is None or known.introspection != asked:
            known = self._introspections[issuer.issuer] = Introspections(issuer.issuer, asked, self._clock)
        return await known.claims(text)

    async def refresh(self) -> None:
        """Fetch known remote sets again. Wait until all fetches are over, successful or not."""
        await asyncio.gather(*(remote.refresh() for remote in self._remote.values()))

    def problem(self) -> str | None:
        """Return why some issuer's keys may be outdated, or None."""
        problems = [f"keys of {issuer}: {remote.fault}" for issuer, remote in self._remote.items() if remote.fault]
        asked = self._introspections.items()
        problems += [f"tokens of {issuer}: {each.fault}" for issuer, each in asked if each.fault]
        return "; ".join(problems) or None

    async def aclose(self) -> None:
        """Cancel all fetches and questions."""
        for each in (*self._remote.values(), *self._introspections.values()):
            await each.aclose()


class _Remote:
    """The key set at one URL: at `url`, or if that is None, at the URL in the issuer's metadata."""

    def __init__(self, issuer: str, url: str | None, clock: Callable[[], float]) -> None:
        self._issuer = issuer
        self.url = url
        self._clock = clock
        self._set: KeySet | None = None
        self._loaded_at = _NEVER
        self._tried_at = _NEVER
        self._fetch: asyncio.Task[None] | None = None
        self.fault = ""

    async def keys(self, kid: str | None) -> KeySet:
        """Return keys, perhaps fetched ([fresh] to [no-set])."""
        known = self._usable()
        if known is None or not known.knows(kid):
            await self._refetched()
            known = self._usable()
        elif self._age() >= KEYS_FRESH_SECONDS:
            self._begin()
        if known is None:
            raise KeysUnavailable(f"no keys of {self._issuer}: {self.fault}", self._retry_after())
        return known

    async def refresh(self) -> None:
        """Fetch the set again, if one is known. A fetch that is already running does not count: it may have begun too
        early."""
        if self._fetch is not None:
            await asyncio.wait([self._fetch])
        if self._set is not None:
            self._tried_at = _NEVER
            await self._refetched()

    async def aclose(self) -> None:
        """Cancel the running fetch."""
        if self._fetch is not None:
            self._fetch.cancel()
            await asyncio.wait([self._fetch])

    def _usable(self) -> KeySet | None:
        return self._set if self._age() < KEYS_STALE_SECONDS else None

    def _age(self) -> float:
        return self._clock() - self._loaded_at

    def _pause(self) -> float:
        return KEYS_RETRY_SECONDS if self._usable() is None else KEYS_REFETCH_SECONDS

    def _retry_after(self) -> int:
        return max(1, math.ceil(self._tried_at + self._pause() - self._clock()))

    async def _refetched(self) -> None:
        self._begin()
        if self._fetch is not None:
            await asyncio.wait([self._fetch])  # unlike `await`, no cancelled caller cancels the fetch

    def _begin(self) -> None:
        """Begin a fetch, if none is running and enough time has passed since the last."""
        if self._fetch is None and self._clock() - self._tried_at >= self._pause():
            self._tried_at = self._clock()
            self._fetch = asyncio.create_task(self._load())

    async def _load(self) -> None:
        first = self._usable() is None
        try:
            self._set = read_key_set(await self._text())
            self._loaded_at = self._clock()
            self.fault = ""
            if first:
                self._tried_at = _NEVER  # the first fetch does not count ([fetch])
        except KeySetError as error:
            self.fault = str(error)
            _log.warning("no keys of %s: %s", self._issuer, error)
        finally:
            self._fetch = None

    async def _text(self) -> bytes:
        """Return the key set's text. Raises `KeySetError`."""
        if self.url is not None:
            return await fetch(self.url, max_bytes=MAX_KEY_SET_BYTES, timeout=KEYS_FETCH_SECONDS)
        begun = time.monotonic()
        url = await _find_url(self._issuer)
        left = max(0.0, begun + KEYS_FETCH_SECONDS - time.monotonic())
        resolve = public_address if is_elsewhere(url, self._issuer) else None
        return await fetch(url, max_bytes=MAX_KEY_SET_BYTES, timeout=left, redirects=0, resolve=resolve)


async def _find_url(issuer: str) -> str:
    """Return the URL of the key set that an issuer's metadata names ([found]). Raises `KeySetError`."""
    faults: list[str] = []
    places = metadata_urls_of(issuer)
    for place in places:
        try:
            timeout = KEYS_FETCH_SECONDS / (len(places) + 1)
            text = await fetch(place, max_bytes=MAX_METADATA_BYTES, timeout=timeout, redirects=0)
            return read_key_set_url(text, issuer)
        except KeySetError as error:
            faults.append(str(error))
    raise KeySetError(f"no key set was found from its metadata: {'; '.join(dict.fromkeys(faults))}")
