"""The metadata documents of OAuth clients, fetched when they are needed and remembered for a while. I/O: the network.

Anybody can make the gateway fetch a URL, by naming it as a client's id. So:

- [public-host] The document is at a public https URL of one spelling (`oauth.uris`). Its host's addresses are all
  public, and the one that is connected to is one of those that were checked (`fetch`, [public]).
- [no-redirects] No redirect is followed: somebody who can make a host redirect need not own it.
- [bounded] It has at most `MAX_CLIENT_BYTES` and comes within `DOCUMENT_SECONDS`.
- [remembered] A document counts for `DOCUMENT_KEPT_SECONDS`. A failure counts for `DOCUMENT_PAUSE_SECONDS`. The number
  of both is bounded. They are kept apart, so that a flood of invented URLs displaces no good document.
- [one-fetch] A document is fetched once at a time, for all who wait for it.
- [rate] Fetches have a budget, and few run at once. So nobody can make the gateway flood a host. One peer gets a small
  part of that, so a peer that names endless documents or slow hosts keeps nobody else from logging in.
"""

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

from accredit.base.budget import PeerBudget
from accredit.base.caching import RecentlyUsed
from accredit.errors import KeySetError, OAuthError
from accredit.net.fetch import fetch, strangers_address
from accredit.oauth.clients import MAX_CLIENT_BYTES, Client, read_document
from accredit.oauth.uris import is_document_url

DOCUMENT_SECONDS = 5.0
"""How long a client's document may take. A person waits for the page."""
DOCUMENT_KEPT_SECONDS = 3_600.0
"""How long a document counts. A client that has changed its redirect URIs is told so an hour later at most."""
DOCUMENT_PAUSE_SECONDS = 30.0
"""How long a document that was not to be had is not asked for again."""
MAX_DOCUMENTS = 1_000
"""How many documents, and as many faults, are remembered. Each has a few hundred bytes; known hosts are some dozens."""
MAX_FETCHES = 16
"""How many documents are fetched at once."""
FETCHES = 60
"""How many documents are fetched in a burst, such as after a restart."""
FETCHES_PER_SECOND = 2.0
"""How many more of them with each second."""
FETCH_SHARES = 10
"""Of these, one peer gets at most one in so many: 6, and one in 5 s. Even if looking up each host takes half a minute,
that is fewer than `net.fetch.MAX_LOOK_UPS`."""


class _Found(NamedTuple):
    client: Client | None
    fault: str
    until: float


class ClientDocuments:
    """Documents by URL. `private` allows private addresses, and http on loopback: for tests. `clock` returns
    seconds."""

    def __init__(self, *, private: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._private = private
        self._clock = clock
        self._good = RecentlyUsed[str, _Found](MAX_DOCUMENTS)
        self._bad = RecentlyUsed[str, _Found](MAX_DOCUMENTS)
        self._asking: dict[str, asyncio.Task[_Found]] = {}
        self._budget = PeerBudget(FETCHES, FETCHES_PER_SECOND, clock, shares=FETCH_SHARES)

    async def client(self, url: str, peer: str) -> Client:
        """Return the client whose document is at `url`, for whoever asks from `peer`. Raises `OAuthError`."""
        if not is_document_url(url, private=self._private):
            raise OAuthError("invalid_client", "client_id is no URL of a metadata document")
        found = self._good.get(url) or self._bad.get(url)
        if found is None or self._clock() >= found.until:
            task = self._asking.get(url) or self._begin(url, peer)
            await asyncio.wait([task])  # unlike `await`, no cancelled caller cancels the fetch
            found = task.result() if not task.cancelled() else _Found(None, "the gateway is stopping", 0.0)
        if found.client is None:
            raise OAuthError("invalid_client", found.fault)
        return found.client

    async def aclose(self) -> None:
        """Cancel all fetches."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, url: str, peer: str) -> asyncio.Task[_Found]:
        if len(self._asking) >= MAX_FETCHES or not self._budget.take(peer):
            raise OAuthError("temporarily_unavailable", "too many clients' documents are asked for: try again soon")
        task = self._asking[url] = asyncio.create_task(self._fetch(url))
        return task

    async def _fetch(self, url: str) -> _Found:
        try:
            resolve = None if self._private else strangers_address
            body = await fetch(url, max_bytes=MAX_CLIENT_BYTES, timeout=DOCUMENT_SECONDS, redirects=0, resolve=resolve)
            found = _Found(read_document(body, url), "", self._clock() + DOCUMENT_KEPT_SECONDS)
        except KeySetError:  # says nothing more: whoever asks could look around behind the gateway
            fault = "the client's metadata document could not be fetched"
            found = _Found(None, fault, self._clock() + DOCUMENT_PAUSE_SECONDS)
        except OAuthError as error:
            found = _Found(None, error.detail, self._clock() + DOCUMENT_PAUSE_SECONDS)
        finally:
            self._asking.pop(url, None)
        for kept in (self._good, self._bad):
            kept.forget(url)
        (self._bad if found.client is None else self._good).put(url, found)
        return found
