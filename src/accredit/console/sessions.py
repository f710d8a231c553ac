"""Sessions of the desk's page: one-time links, and the bearer tokens they are exchanged for. In memory only. Reads
randomness.

- [link] A link holds 128 random bits in its fragment, which browsers never send. It works once, within 60 seconds.
- [bearer] It is exchanged for a bearer token of 256 random bits, valid for 12 hours, which only this process and that
  page know. The token is not a cookie, since a browser would send a cookie to every port of this machine.
- [digests] The secrets of both are kept as digests, and compared in constant time.
"""

import hashlib
import hmac
import secrets
from collections import OrderedDict

from accredit.limits import LOGIN_LINK_SECONDS

MAX_LOGIN_LINKS = 8
"""How many unused links there may be. If there is one more, the oldest stops working."""
PAGE_SESSION_SECONDS = 43_200
"""How long a page stays signed in: a working day."""
MAX_PAGE_SESSIONS = 8
"""How many pages may be signed in: all are browsers of one person. If there is one more, the oldest is signed out."""


_LINK_BYTES = 16
_BEARER_BYTES = 32


class Sessions:
    """Links and sessions. Times are unix seconds."""

    def __init__(self) -> None:
        self._links = _Secrets(MAX_LOGIN_LINKS)
        self._bearers = _Secrets(MAX_PAGE_SESSIONS)

    def new_link(self, now: int) -> str:
        """Return the secret of a new link. If there are now too many, the oldest unused link stops working."""
        link = secrets.token_urlsafe(_LINK_BYTES)
        self._links.add(link, now + LOGIN_LINK_SECONDS)
        return link

    def log_in(self, link: str, now: int) -> str | None:
        """Exchange a link for a bearer token. Return None for an unknown, used or expired link."""
        if not self._links.find(link, now, take=True):
            return None
        bearer = secrets.token_urlsafe(_BEARER_BYTES)
        self._bearers.add(bearer, now + PAGE_SESSION_SECONDS)
        return bearer

    def knows(self, bearer: str, now: int) -> bool:
        """Return whether this bearer token is that of a signed-in session."""
        return self._bearers.find(bearer, now)

    def log_out(self, bearer: str, now: int) -> None:
        """End a session."""
        self._bearers.find(bearer, now, take=True)


class _Secrets:
    """Digests of secrets, with their expiry times."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._until: OrderedDict[bytes, int] = OrderedDict()

    def add(self, secret: str, until: int) -> None:
        self._until[_digest(secret)] = until
        while len(self._until) > self._most:
            self._until.popitem(last=False)

    def find(self, secret: str, now: int, *, take: bool = False) -> bool:
        wanted = _digest(secret)
        matches = [digest for digest in self._until if hmac.compare_digest(digest, wanted)]
        good = any(now < self._until[digest] for digest in matches)
        for digest in matches if take or not good else ():
            del self._until[digest]
        return good


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
