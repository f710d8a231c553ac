"""The complete connection to a gateway at a URL: HTTP, proofs on top of that, and on top of these the renewal of
sessions.

Opens nothing itself. One `Prover` serves all sessions in turn: in a new session it still knows the gateway's id and the
scopes of tools and other targets.
"""

import ssl
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit
from urllib.request import getproxies

import httpx2
from msgspec import Struct

from accredit.client.http import SILENCE_SECONDS, GatewayHttp
from accredit.client.presenter import ProofPresenter
from accredit.client.proving import Prover, Uncovered
from accredit.client.renewing import OpenConnection, RenewingTransport
from accredit.client.sdk import Transport
from accredit.client.streams import Heard, ProvingTransport
from accredit.client.ways import over_http, over_sse
from accredit.errors import ConfigurationError
from accredit.limits import MAX_PORT


class GatewayAddress(Struct, frozen=True, kw_only=True):
    """How to reach a gateway: the arguments of `GatewayHttp`, and the URL. Raises `ConfigurationError` if that is none
    of an http or https server."""

    url: str
    token: str = ""
    headers: Mapping[str, str] = {}
    timeout: float | None = None
    on_trouble: Callable[[str], None] | None = None

    def __post_init__(self) -> None:
        check_url(self.url)

    def __repr__(self) -> str:
        return f"<Reached {self.url}>"


def check_url(url: str) -> None:
    """Check that a URL names a gateway. Raises `ConfigurationError`."""
    try:
        parts = httpx2.URL(url)
        urlsplit(url)  # whoever reads its path later: it refuses hosts that httpx2 takes
        has_port = parts.port is None or 0 < parts.port <= MAX_PORT
        good = parts.scheme in ("http", "https") and parts.host != "" and has_port
    except (httpx2.InvalidURL, ValueError):
        good = False
    if not good:
        shown = "what is given" if "@" in url else url.partition("?")[0]  # a user or a query may be secret
        raise ConfigurationError(
            f"{shown} is not an http or https URL",
            "name the endpoint that `accredit serve` prints, such as http://127.0.0.1:8484/mcp",
        )


def _ssl_context(url: str) -> ssl.SSLContext | None:
    """Return an SSL context without trusted certificates for plain HTTP without a proxy: loading the system's takes 20
    ms. Otherwise return None, which loads them."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if url.startswith("http://") and not getproxies() else None


def to_gateway(
    reached: GatewayAddress,
    presenter: ProofPresenter | None = None,
    *,
    uncovered: Uncovered | None = None,
    heard: Heard | None = None,
) -> Transport:
    """Return the transport. Without a `presenter`, no proofs are added.

    `uncovered` is passed to `Prover`, `heard` to `ProvingTransport`. Raises `ConfigurationError` if the file of known
    gateways can't be read.
    """
    latest: GatewayHttp | None = None

    def session_id() -> str:
        return "" if latest is None else latest.session_id

    prover = Prover(presenter, reached.url, session_id, uncovered=uncovered) if presenter is not None else None

    def open_way(sse: bool, on_lost: Callable[[], None]) -> OpenConnection:
        nonlocal latest
        latest = http = GatewayHttp(
            reached.token,
            headers=reached.headers,
            timeout=reached.timeout,
            on_trouble=reached.on_trouble,
            on_lost=on_lost,
            trusted=_ssl_context(reached.url),
        )
        way = over_sse if sse else over_http
        return OpenConnection(http, ProvingTransport(way(reached.url, http), prover, heard=heard).open())

    patience = SILENCE_SECONDS if reached.timeout is None else reached.timeout
    return RenewingTransport(open_way, patience).open()
