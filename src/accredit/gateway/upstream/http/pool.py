"""The connections to one upstream: how they are opened, those in use, and idle ones. Network I/O."""

import asyncio
import re
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from accredit.errors import ConfigurationError, UpstreamError, UpstreamLeftOut, UpstreamTimeout, UpstreamUnavailable
from accredit.gateway.room import ALONE, EqualShares
from accredit.gateway.upstream.http.connection import Connection
from accredit.gateway.upstream.http.parsing import IDLE_SECONDS, AnswerHeads
from accredit.limits import CONNECT_SECONDS

MAX_IDLE_CONNECTIONS = 64
"""How many connections are kept for the next request. If more calls than this run at once, some pay for new
connections."""
MAX_CONNECTIONS = 3_200
"""How many connections to the upstream there may be in all. Each takes a file descriptor. They serve `MAX_CALLS` calls,
`MAX_STREAMS` streams, and the gateway's own requests, which are few at a time."""
MAX_ADDRESSES = 8
"""How many addresses of the upstream's name are tried. Each gets its share of the time to connect."""


_PRINTABLE = re.compile(r"[!-~]+")
_Address = tuple[int, int, int, str, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]]
"""One entry of `getaddrinfo`'s result."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The parts of an upstream's URL. `authority` is what `Host` says. `tls` is None for plain HTTP."""

    host: str
    port: int
    authority: bytes
    target: bytes
    tls: ssl.SSLContext | None


def parse_origin(url: str) -> Origin:
    """Split an upstream's URL. Raises `ConfigurationError` unless it is an absolute http or https URL."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _unusable("it is not a URL") from None
    if parts.scheme not in ("http", "https") or not host:
        raise _unusable("it needs http:// or https:// and a host")
    if parts.username is not None or parts.password is not None:
        raise _unusable("a user and a password do not belong there")
    if not _PRINTABLE.fullmatch(url) or port == 0:
        raise _unusable("it holds a character or a port that no URL has")
    secure = parts.scheme == "https"
    usual = 443 if secure else 80
    authority = f"[{host}]" if ":" in host else host
    if port is not None and port != usual:
        authority += f":{port}"
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    trust = _trust(ssl.get_default_verify_paths()) if secure else None
    return Origin(host, port or usual, authority.encode(), target.encode(), trust)


def _unusable(why: str) -> ConfigurationError:
    return ConfigurationError(f"the upstream's URL can't be used: {why}", 'write it like "http://127.0.0.1:9000/mcp"')


@lru_cache(1)
def _trust(_places: ssl.DefaultVerifyPaths) -> ssl.SSLContext:
    """Return a TLS context with the system's certificates (or those of SSL_CERT_FILE), for HTTP/1.1 only.

    All servers share one context, as it holds some 100 certificates.
    """
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


async def open_socket(host: str, port: int, deadline: float) -> socket.socket:
    """Connect to the first of the host's addresses that accepts. Give each its share of the time. `deadline` is in the
    loop's time.

    Raises `UpstreamUnavailable` or `UpstreamTimeout`. Then no socket stays open; nor does one after a cancellation.
    """
    try:
        async with asyncio.timeout_at(deadline):
            addresses = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except TimeoutError:
        raise UpstreamTimeout("the upstream's name was not resolved in time") from None
    except (OSError, UnicodeError):
        raise UpstreamUnavailable("the upstream's name can't be resolved") from None
    return await _first(addresses[:MAX_ADDRESSES], deadline)


async def attach(sock: socket.socket, protocol: asyncio.Protocol, origin: Origin, deadline: float) -> None:
    """Give a connected socket to `protocol`, after the TLS handshake if the origin has one. `deadline` is in the loop's
    time.

    From here on its transport owns the socket. Raises `UpstreamUnavailable` or `UpstreamTimeout`.
    """
    name = origin.host if origin.tls is not None else None
    try:
        async with asyncio.timeout_at(deadline):
            await asyncio.get_running_loop().create_connection(
                lambda: protocol, sock=sock, ssl=origin.tls, server_hostname=name
            )
    except TimeoutError:
        raise UpstreamTimeout("the upstream did not finish the TLS handshake in time") from None
    except ssl.SSLCertVerificationError:
        raise UpstreamUnavailable("the upstream's certificate is not trusted") from None
    except OSError:
        raise UpstreamUnavailable("the upstream did not finish the TLS handshake") from None


async def _first(addresses: Sequence[_Address], deadline: float) -> socket.socket:
    loop = asyncio.get_running_loop()
    late = False
    for position, address in enumerate(addresses):
        now = loop.time()
        try:
            async with asyncio.timeout_at(now + (deadline - now) / (len(addresses) - position)):
                return await _connect(address)
        except TimeoutError:
            late = True
        except OSError:
            continue
    if late:
        raise UpstreamTimeout("the upstream did not take a connection in time")
    raise UpstreamUnavailable("the upstream takes no connections")


async def _connect(address: _Address) -> socket.socket:
    family, kind, protocol, _, where = address
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        await asyncio.get_running_loop().sock_connect(sock, where)
    except BaseException:
        sock.close()
        raise
    return sock


class Share:
    """How many connections one server may have open, to all its replicas together: an equal part of the process's
    bound."""

    def __init__(self, parts: EqualShares = ALONE) -> None:
        self._parts = parts
        self._pools: list[Pool] = []

    def join(self, pool: "Pool") -> None:
        """Count the connections of one more pool."""
        self._pools.append(pool)

    def used_up(self) -> bool:
        """Return whether the server may open no more connections."""
        return sum(pool.held for pool in self._pools) >= self._parts.of(MAX_CONNECTIONS)


class Pool:
    """Gives out connections: the idle one that was used last, or else a new one. All of them count towards a
    `share`."""

    def __init__(self, origin: Origin, share: Share) -> None:
        self._origin = origin
        self._share = share
        share.join(self)
        self.heads = AnswerHeads()
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._dialing = 0
        self._closed = False
        self._emptied = asyncio.Event()

    @property
    def held(self) -> int:
        """How many connections are open, or about to be."""
        return len(self._open) + self._dialing

    def rested(self) -> Connection | None:
        """Return an idle connection that is still usable, or None."""
        while self._idle:
            connection = self._idle.pop()
            if connection.usable():
                return connection
            connection.abort()
        return None

    async def dial(self, deadline: float) -> Connection:
        """Open a connection. `deadline` is in the loop's time. Raises `UpstreamLeftOut` if the server has used up its
        share of connections, and `UpstreamUnavailable` or `UpstreamTimeout`, marked as `unsent`."""
        if self._closed:
            raise UpstreamUnavailable("the gateway is stopping")
        if self._share.used_up():
            raise UpstreamLeftOut("too many connections to the upstream are open")
        self._dialing += 1
        try:
            return await self._connect(deadline)
        except UpstreamError as error:
            error.unsent = True
            raise
        finally:
            self._dialing -= 1

    async def probe(self, deadline: float) -> None:
        """Make sure that there is an idle connection. Raises what `dial` raises."""
        connection = self.rested()
        if connection is not None:
            self._idle.append(connection)
        else:
            self.free(await self.dial(deadline), IDLE_SECONDS)

    def opened(self, connection: Connection) -> None:
        """Count a connection."""
        self._open.add(connection)

    def free(self, connection: Connection, seconds: float) -> None:
        """Keep a connection for reuse within `seconds`."""
        if self._closed or len(self._idle) >= MAX_IDLE_CONNECTIONS:
            connection.abort()
            return
        self._idle.append(connection)
        connection.rest(seconds)

    async def close(self) -> None:
        """Close every connection, in use or not, and return when they are gone."""
        self._closed = True
        for connection in list(self._open):
            connection.abort()
        while self._open:
            self._emptied.clear()
            await self._emptied.wait()

    def lost(self, connection: Connection) -> None:
        """Remove a connection."""
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        if not self._open:
            self._emptied.set()

    async def _connect(self, deadline: float) -> Connection:
        origin = self._origin
        until = min(deadline, asyncio.get_running_loop().time() + CONNECT_SECONDS)
        try:
            sock = await open_socket(origin.host, origin.port, until)
        except UpstreamError as error:
            error.at = origin.authority.decode("ascii")
            raise
        connection = Connection(sock, self)
        try:
            await attach(sock, connection, origin, until)
            if self._closed:
                raise UpstreamUnavailable("the gateway is stopping")
            if connection.closing:
                raise UpstreamUnavailable("the upstream closed the connection at once")
        except BaseException:
            if connection in self._open:
                connection.abort()
                self.lost(connection)  # uvloop omits `connection_lost` if it is cancelled just after `connection_made`
            raise
        return connection
