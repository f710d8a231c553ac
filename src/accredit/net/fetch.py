"""Fetching a key set over HTTP, bounded. I/O: the network.

The URL is configured, or an issuer's metadata named it. Nobody on the way may change what is fetched, or make the fetch
cost more than intended:

- [https] Only https is used, or http to loopback, where nobody listens in.
- [environment] No proxy, credential or certificate is taken from the environment.
- [redirects] At most `MAX_KEYS_REDIRECTS` redirects are followed, only within the same origin. If the URL was not
  configured, none is.
- [public] If the host was not configured, all its addresses must be public. The connection goes to one of the addresses
  that were checked: a second look-up of the name could give another. Such names are looked up in a few threads of
  their own: a stranger's slow name server delays nothing else.
- [response] The status must be 200, without a content coding, and the body at most `max_bytes`, all within one time
  limit.

The callers check the content of the body.
"""

import asyncio
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import httpx2

from accredit.base.addresses import is_loopback_host, is_public_address
from accredit.errors import ConfigurationError, KeySetError
from accredit.limits import MAX_QUOTED

MAX_KEYS_REDIRECTS = 3
"""How many redirects one fetch follows, all within one origin."""


JSON_HEADERS = {"accept": "application/json", "accept-encoding": "identity", "user-agent": "accredit"}
"""The headers of a request for JSON."""
NETWORK_ERRORS = (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError, ValueError)
"""What a request raises if there is no proper answer."""

_PORTS = {"https": 443, "http": 80}

MAX_LOOK_UPS = 16
"""How many hosts that were not configured are looked up at once. The system's look-up can't be cancelled, and takes
half a minute where no name server answers."""
_look_ups = threading.BoundedSemaphore(MAX_LOOK_UPS)

Resolve = Callable[[str, int], Awaitable[str]]
"""Returns the address to connect to, for a host and a port."""


async def fetch(
    url: str,
    *,
    max_bytes: int,
    timeout: float,
    redirects: int = MAX_KEYS_REDIRECTS,
    resolve: Resolve | None = None,
    context: ssl.SSLContext | None = None,
) -> bytes:
    """Return the body at `url`, which `check_url` has accepted. `timeout` is in seconds. If `resolve` is given, connect
    to the address that it returns. `context` has the certificates to trust (None: those of `trust`). Raises
    `KeySetError`."""
    try:
        async with asyncio.timeout(timeout), plain_client(headers=JSON_HEADERS, context=context) as client:
            return await _get(client, httpx2.URL(url), max_bytes, redirects, resolve)
    except TimeoutError:
        raise KeySetError(f"no answer within {timeout:g} s") from None
    except NETWORK_ERRORS as error:
        detail = ascii(str(error))[:MAX_QUOTED]  # it may quote the other side
        raise KeySetError(f"{type(error).__name__}: {detail}") from None


async def public_address(host: str, port: int) -> str:
    """Return an address of a host whose addresses are all public ([public]). Raises `KeySetError`."""
    if not _look_ups.acquire(blocking=False):
        raise KeySetError("too many hosts are looked up")
    thread = ThreadPoolExecutor(1, "accredit-look-up")
    look_up = thread.submit(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    look_up.add_done_callback(lambda _: _look_ups.release())  # not before, even if nobody waits any more
    thread.shutdown(wait=False)  # it ends with its one look-up
    found = await asyncio.wrap_future(look_up)
    addresses = [str(info[4][0]) for info in found]
    if not addresses or not all(map(is_public_address, addresses)):
        raise KeySetError("its host is at an address that is not public")
    return addresses[0]


async def place_of(url: httpx2.URL, resolve: Resolve | None) -> tuple[httpx2.URL, dict[str, str], dict[str, str]]:
    """Return where to send a request for a URL, with the header and the extension that name its host there ([public]).
    Raises `KeySetError`."""
    place = url if resolve is None else url.copy_with(host=await resolve(url.host, url.port or _PORTS[url.scheme]))
    return place, {"host": url.netloc.decode("ascii")}, {"sni_hostname": url.host}


def check_url(key: str, url: str, otherwise: str = "keys that come in the clear can be anybody's") -> None:
    """Check a configured URL: it has a host, no password, and meets [https]. Raises `ConfigurationError`, which names
    `key`. If the URL breaks [https], the error's text is `otherwise`."""
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL:
        raise ConfigurationError(f"{key}: not a URL", "name one that begins with https://") from None
    if not parsed.host or parsed.userinfo:
        raise ConfigurationError(f"{key}: not a URL of a host without a password", "name one like https://host/path")
    if parsed.scheme != "https" and not (parsed.scheme == "http" and is_loopback_host(parsed.host)):
        raise ConfigurationError(f"{key}: {otherwise}", "use https")


async def _get(
    client: httpx2.AsyncClient, url: httpx2.URL, max_bytes: int, redirects: int, resolve: Resolve | None
) -> bytes:
    for _ in range(redirects + 1):
        place, host, names = await place_of(url, resolve)
        async with client.stream("GET", place, headers=host, extensions=names) as response:
            if not response.has_redirect_location:
                return await _body(response, max_bytes)
            target = url.join(response.headers["location"])
        if _origin(target) != _origin(url):
            raise KeySetError("redirected to another origin")
        url = target
    raise KeySetError("too many redirects")


async def _body(response: httpx2.Response, max_bytes: int) -> bytes:
    if response.status_code != 200:
        raise KeySetError(f"status {response.status_code}")
    if response.headers.get("content-encoding", "identity") != "identity":
        raise KeySetError("a Content-Encoding that was not asked for")
    body = await read_body(response, max_bytes)
    if body is None:
        raise KeySetError(f"more than {max_bytes} bytes")
    return body


def plain_client(context: ssl.SSLContext | None = None, **options: Any) -> httpx2.AsyncClient:
    """Return a client that takes nothing from the environment, and follows no redirects. `context` has the certificates
    to trust (None: those of `trust`)."""
    return httpx2.AsyncClient(verify=context or trust(), trust_env=False, follow_redirects=False, **options)


async def read_body(response: httpx2.Response, max_bytes: int) -> bytes | None:
    """Return a body as it was sent; None if it is longer. Raises `NETWORK_ERRORS`."""
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > max_bytes:
            return None
    return bytes(body)


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


@cache
def trust() -> ssl.SSLContext:
    """Return an SSL context with the certificates that this machine trusts. Cached: reading them takes some 20 ms."""
    return httpx2.create_ssl_context(trust_env=False)
