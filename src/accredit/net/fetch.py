"""Fetching a key set over HTTP, bounded, and the client for all that is fetched like it. I/O: the network.

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
- [work] These are bounded: the interim answers before an answer (`MAX_INTERIM_ANSWERS`), the bytes of all its heads
  (`MAX_FETCHED_HEAD_BYTES`), all of its bytes (`MAX_FETCHED_HEAD_BYTES` and twice `max_bytes`), and how many of its
  reads, and of the pieces of its body, may be short (`MAX_SHORT_PIECES`). Otherwise a stranger's server could send them
  without end, at no cost to itself, and occupy the thread in which calls are decided.

The callers check the content of the body.
"""

import asyncio
import re
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any

import httpx2

from accredit.base.addresses import is_loopback_host, is_public_address
from accredit.errors import ConfigurationError, KeySetError
from accredit.limits import MAX_INTERIM_ANSWERS, MAX_PORT, MAX_QUOTED

MAX_KEYS_REDIRECTS = 3
"""How many redirects one fetch follows, all within one origin."""


MAX_FETCHED_HEAD_BYTES = 32_768
"""The most bytes of an answer's head, with those of the interim responses before it. Servers' own have a few hundred,
and some kilobytes where a policy for browsers is in them."""
MAX_SHORT_PIECES = 256
"""How many reads of an answer, and how many pieces of its body, may be shorter than `SHORT_PIECE_BYTES`. Each takes as
much work as a long one."""
SHORT_PIECE_BYTES = 64
"""The length from which a piece is not short. Servers send kilobytes in a chunk, and networks in a packet."""

_END_OF_HEAD = re.compile(rb"\n\r?\n")  # as h11, beneath httpx2, finds it
_INTERIM = re.compile(rb"HTTP/[0-9]\.[0-9] 1")
_OPENED = ("connection.connect_tcp.complete", "connection.start_tls.complete")

JSON_HEADERS = {"accept": "application/json", "accept-encoding": "identity", "user-agent": "accredit"}
"""The headers of a request for JSON."""
NETWORK_ERRORS = (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError, ValueError)
"""What a request raises if there is no proper answer."""

_PORTS = {"https": 443, "http": 80}

MAX_LOOK_UPS = 16
"""How many hosts that strangers have named are looked up at once, and how many that issuers' metadata names. The
system's look-up can't be cancelled, and takes half a minute where no name server answers."""

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
        async with asyncio.timeout(timeout), plain_client(max_bytes, headers=JSON_HEADERS, context=context) as client:
            return await _get(client, httpx2.URL(url), max_bytes, redirects, resolve)
    except TimeoutError:
        raise KeySetError(f"no answer within {timeout:g} s") from None
    except NETWORK_ERRORS as error:
        detail = ascii(str(error))[:MAX_QUOTED]  # it may quote the other side
        raise KeySetError(f"{type(error).__name__}: {detail}") from None


async def _public_address(room: threading.BoundedSemaphore, host: str, port: int) -> str:
    """Return an address of a host whose addresses are all public ([public]). Raises `KeySetError`, also if there is no
    `room` for a look-up, or no thread."""
    if not room.acquire(blocking=False):
        raise KeySetError("too many hosts are looked up")
    thread = ThreadPoolExecutor(1, "accredit-look-up")
    try:
        look_up = thread.submit(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    except RuntimeError:
        room.release()
        raise KeySetError("no thread starts to look its host up") from None
    look_up.add_done_callback(lambda _: room.release())  # not before, even if nobody waits any more
    thread.shutdown(wait=False)  # it ends with its one look-up
    found = await asyncio.wrap_future(look_up)
    addresses = [str(info[4][0]) for info in found]
    if not addresses or not all(map(is_public_address, addresses)):
        raise KeySetError("its host is at an address that is not public")
    return addresses[0]


public_address = partial(_public_address, threading.BoundedSemaphore(MAX_LOOK_UPS))
"""Does as `_public_address`, for hosts that an issuer's metadata names."""
strangers_address = partial(_public_address, threading.BoundedSemaphore(MAX_LOOK_UPS))
"""Does the same for hosts that strangers have named: they do not delay those of issuers' metadata."""


async def place_of(url: httpx2.URL, resolve: Resolve | None) -> tuple[httpx2.URL, dict[str, str], dict[str, str]]:
    """Return where to send a request for a URL, with the header and the extension that name its host there ([public]).
    Raises `KeySetError`."""
    place = url if resolve is None else url.copy_with(host=await resolve(url.host, url.port or _PORTS[url.scheme]))
    return place, {"host": url.netloc.decode("ascii")}, {"sni_hostname": url.host}


def check_url(
    key: str,
    url: str,
    otherwise: str = "keys that come in the clear can be anybody's",
    *,
    clear_on_loopback: bool = True,
) -> None:
    """Check a configured URL: it has a host, no password, and meets [https], with http to loopback or without. Raises
    `ConfigurationError`, which names `key`. If the URL breaks [https], the error's text is `otherwise`."""
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL:
        raise ConfigurationError(f"{key}: not a URL", "name one that begins with https://") from None
    if not parsed.host or parsed.userinfo:
        raise ConfigurationError(f"{key}: not a URL of a host without a password", "name one like https://host/path")
    clear = clear_on_loopback and parsed.scheme == "http" and is_loopback_host(parsed.host)
    if parsed.scheme != "https" and not clear:
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


def plain_client(
    max_bytes: int,
    context: ssl.SSLContext | None = None,
    transport: httpx2.AsyncBaseTransport | None = None,
    **options: Any,
) -> httpx2.AsyncClient:
    """Return a client that takes nothing from the environment, follows no redirects, and does little work for answers
    ([work]). `max_bytes` is the most that is taken of a body: `read_body` has to be given the same. `context` has the
    certificates to trust (None: those of `trust`)."""
    transport = transport or _Transport(MAX_FETCHED_HEAD_BYTES + 2 * max_bytes, context or trust())
    return httpx2.AsyncClient(transport=transport, trust_env=False, follow_redirects=False, **options)


async def read_body(response: httpx2.Response, max_bytes: int) -> bytes | None:
    """Return a body as it was sent; None if it is longer. Raises `NETWORK_ERRORS`, also for too many short pieces
    ([work])."""
    body, short = bytearray(), 0
    async for chunk in response.aiter_raw():
        body += chunk
        short += len(chunk) < SHORT_PIECE_BYTES
        if len(body) > max_bytes:
            return None
        if short > MAX_SHORT_PIECES:
            raise httpx2.RemoteProtocolError("a body in too many short pieces")
    return bytes(body)


class _Transport(httpx2.AsyncHTTPTransport):
    """Reads the answers on each connection through `_Answers`, which bounds them to `most_bytes`."""

    def __init__(self, most_bytes: int, context: ssl.SSLContext) -> None:
        super().__init__(verify=context, trust_env=False)
        self._most_bytes = most_bytes

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if (request.url.port or 0) > MAX_PORT:
            raise httpx2.ConnectError("a port that there is none")
        request.extensions = {**request.extensions, "trace": self._on_event}
        return await super().handle_async_request(request)

    async def _on_event(self, event: str, info: Mapping[str, Any]) -> None:
        if event in _OPENED:
            stream = info["return_value"]
            answers = _Answers(stream, self._most_bytes)
            stream.read, stream.write = answers.read, answers.write


class _Answers:
    """Bounds the heads, the bytes and the short reads that come on a connection after each request ([work])."""

    def __init__(self, stream: Any, most_bytes: int) -> None:
        self._read, self._write = stream.read, stream.write
        self._most_bytes = most_bytes
        self._begin()

    async def write(self, data: bytes, timeout: float | None = None) -> None:
        """Write a part of a request. What is read from now on is its answer."""
        self._begin()
        await self._write(data, timeout)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return the next bytes. Raises `httpx2.RemoteProtocolError` for what is out of bounds."""
        data: bytes = await self._read(max_bytes, timeout)
        self._short += len(data) < SHORT_PIECE_BYTES
        if self._size > self._most_bytes or self._short > MAX_SHORT_PIECES:
            raise httpx2.RemoteProtocolError("an answer that is too long, or in too many short pieces")
        self._size += len(data)  # only now: of a long body, what one read brings is refused as such by `read_body`
        if self._in_heads:
            self._heads += data
            self._look()
        return data

    def _begin(self) -> None:
        self._heads = bytearray()
        self._interim = self._whole = self._size = self._short = 0
        self._in_heads = True

    def _look(self) -> None:
        while self._in_heads and (end := _END_OF_HEAD.search(self._heads, self._whole)) is not None:
            self._in_heads = _INTERIM.match(self._heads, self._whole) is not None
            self._interim += self._in_heads
            self._whole = end.end()
        size = len(self._heads) if self._in_heads else self._whole
        if self._interim > MAX_INTERIM_ANSWERS or size > MAX_FETCHED_HEAD_BYTES:
            raise httpx2.RemoteProtocolError("too many interim responses, or too large heads")
        if not self._in_heads:
            self._heads = bytearray()


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


@cache
def trust() -> ssl.SSLContext:
    """Return an SSL context with the certificates that this machine trusts. Cached: reading them takes some 20 ms."""
    return httpx2.create_ssl_context(trust_env=False)
