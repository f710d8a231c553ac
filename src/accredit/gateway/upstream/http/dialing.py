"""Opens sockets to an upstream: from its URL to a connected socket, with TLS or without. Network I/O."""

import asyncio
import re
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from accredit.errors import ConfigurationError, UpstreamTimeout, UpstreamUnavailable

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
