"""Where the gateway may listen, and with which certificate. Reads the certificate and its key.

Outside loopback, anybody who reads the network can steal a token or proof that is sent unencrypted. So TLS is required,
unless the operator says (`--insecure`) that something else encrypts.
"""

import ipaddress
import socket
import ssl
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from accredit.base.addresses import is_loopback_host
from accredit.base.text import one_line
from accredit.config.schema import Admin, Gateway
from accredit.errors import ConfigurationError
from accredit.gateway.settings import ApiUpstream, GatewaySettings, HttpUpstream
from accredit.keys import FileContent, memory_file, read_file
from accredit.limits import MAX_PEM_CHAIN_BYTES

_DIALED = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not listened on
"""The addresses that stand for all of this machine's, each with the one to which a connection to it leads."""


def check_exposure(gateway: Gateway, admin: Admin | None = None) -> None:
    """Refuse to listen outside loopback without TLS. Raises `ConfigurationError`."""
    if gateway.tls_cert_file is not None:
        return
    if not is_loopback_host(gateway.host):
        raise ConfigurationError(
            f"gateway.host is {gateway.host}: others could read and change what passes without TLS",
            "set gateway.tls_cert_file and tls_key_file, or say --insecure behind a proxy that does TLS",
        )
    if admin is not None and admin.port is not None and not is_loopback_host(admin.host):
        raise ConfigurationError(
            f"admin.host is {admin.host}: others could read without TLS what is called here, and how often",
            "set gateway.tls_cert_file and tls_key_file, or say --insecure where nobody else reaches it",
        )


def url_here(gateway: Gateway) -> str:
    """Return the endpoint's URL for programs on this machine."""
    host = _DIALED.get(gateway.host, gateway.host).strip("[]")
    scheme = "http" if gateway.tls_cert_file is None else "https"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{gateway.port}{gateway.path}"


def check_no_loop(gateway: Gateway, servers: Iterable[GatewaySettings]) -> None:
    """Refuse a server that is this gateway itself: requests would multiply without end. Raises `ConfigurationError`."""
    for settings in servers:
        upstream = settings.upstream
        upstream = upstream.behind if isinstance(upstream, ApiUpstream) else upstream
        urls = (upstream.url, *upstream.others) if isinstance(upstream, HttpUpstream) else ()
        if any(leads_to(gateway, url) for url in urls):
            raise ConfigurationError(
                f"{settings.place}: its URL leads to this gateway itself ({one_line(gateway.host)}:{gateway.port})",
                "name the URL of the MCP server, or have the gateway listen on another port",
            )


def leads_to(gateway: Gateway, url: str) -> bool:
    """Return whether a URL is the gateway's own address."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return port == gateway.port and _is_here(parts.hostname or "", gateway.host)


def _is_here(host: str, own: str) -> bool:
    host, own = _address(host), _address(own)
    if own in _DIALED:
        return host in _DIALED or is_loopback_host(host)
    host = _DIALED.get(host, host)
    return host == own or ("localhost" in (host, own) and is_loopback_host(host) and is_loopback_host(own))


def _address(host: str) -> str:
    """Return a host with its address in canonical form: `127.1` and `::ffff:127.0.0.1` become 127.0.0.1. A name is not
    resolved: it becomes lower-case, and loses a trailing dot."""
    host = host.strip("[]").lower().removesuffix(".")
    with suppress(ValueError):
        parsed = ipaddress.IPv6Address(host)
        return str(parsed.ipv4_mapped or parsed)
    with suppress(OSError):
        host = socket.inet_ntoa(socket.inet_aton(host))
    return host


def tls_context(gateway: Gateway) -> ssl.SSLContext | None:
    """Return the TLS context of the listener (TLS 1.2 and later), or None if TLS is not configured. Raises
    `ConfigurationError`."""
    certificate, key = gateway.tls_cert_file, gateway.tls_key_file
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        present, missing = ("cert", "key") if key is None else ("key", "cert")
        raise ConfigurationError(
            f"gateway.tls_{present}_file is set and gateway.tls_{missing}_file is not",
            f"set gateway.tls_{missing}_file too, or neither",
        )
    chain, secret = _content("tls_cert_file", certificate), _content("tls_key_file", key)
    if secret.open_to_others:
        raise ConfigurationError(
            f"gateway.tls_key_file {key} can be read by others (mode {secret.mode:04o})",
            f"chmod 600 {key}",
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        with _memory_file_name(chain) as chain_file, _memory_file_name(secret) as key_file:
            context.load_cert_chain(chain_file, key_file, password="")  # empty: never ask the terminal for one
    except (ssl.SSLError, OSError, ValueError) as error:
        reason = error.reason if isinstance(error, ssl.SSLError) else getattr(error, "strerror", None)
        reason = reason or "one of them is no such file"
        raise ConfigurationError(
            f"gateway.tls_cert_file {certificate} and tls_key_file {key} can't be used: {reason}",
            "give a PEM certificate chain, and the PEM private key that belongs to it, without a password",
        ) from None
    return context


def _content(name: str, path: str) -> FileContent:
    try:
        return read_file(Path(path), MAX_PEM_CHAIN_BYTES)
    except ConfigurationError as error:
        raise ConfigurationError(
            f"gateway.{name}: {error.what}",
            f"correct gateway.{name}, a path relative to the file that names it",
        ) from None


@contextmanager
def _memory_file_name(content: FileContent) -> Generator[str]:
    """Yield the path of a private file in memory with this content. The TLS library reads only from paths, and we have
    read the content already."""
    with memory_file() as file:
        file.write(content.data)
        file.seek(0)
        yield f"/dev/fd/{file.fileno()}"
