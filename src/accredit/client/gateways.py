"""The complete connection to a gateway at a URL: HTTP, proofs on top of that, and on top of these the renewal of
sessions.

Opens nothing itself. One `Prover` serves all sessions in turn: in a new session it still knows the gateway's id and the
scopes of tools and other targets.
"""

import ssl
from collections.abc import Callable, Mapping
from functools import partial
from urllib.request import getproxies

from msgspec import Struct

from accredit.client.http import SILENCE_SECONDS, GatewayHttp
from accredit.client.presenter import ProofPresenter
from accredit.client.proving import Prover
from accredit.client.renewing import OpenConnection, RenewingTransport, Transports
from accredit.client.streams import Heard, ProvingTransport, Uncovered
from accredit.client.ways import over_http, over_sse


class GatewayAddress(Struct, frozen=True, kw_only=True):
    """How to reach a gateway: the arguments of `GatewayHttp`, and the URL."""

    url: str
    token: str = ""
    headers: Mapping[str, str] = {}
    timeout: float | None = None
    on_trouble: Callable[[str], None] | None = None

    def __repr__(self) -> str:
        return f"<Reached {self.url}>"


class _Latest:
    """The latest HTTP connection: its session is the one that proofs are bound to."""

    def __init__(self, reached: GatewayAddress) -> None:
        self._reached = reached
        self._http: GatewayHttp | None = None

    def session_id(self) -> str:
        return "" if self._http is None else self._http.session_id

    def open(self, on_lost: Callable[[], None]) -> GatewayHttp:
        reached = self._reached
        self._http = GatewayHttp(
            reached.token,
            headers=reached.headers,
            timeout=reached.timeout,
            on_trouble=reached.on_trouble,
            on_lost=on_lost,
            trusted=_ssl_context(reached.url),
        )
        return self._http


def _ssl_context(url: str) -> ssl.SSLContext | None:
    """Return an SSL context without trusted certificates for plain HTTP without a proxy: loading the system's takes 20
    ms. Otherwise return None, which loads them."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if url.startswith("http://") and not getproxies() else None


def to_gateway(
    reached: GatewayAddress,
    presenter: ProofPresenter | None = None,
    *,
    whole_lists: bool = False,
    uncovered: Uncovered | None = None,
    heard: Heard | None = None,
) -> RenewingTransport:
    """Return the transport. Without a `presenter`, no proofs are added.

    `whole_lists` is passed to `Prover`, `uncovered` and `heard` to `ProvingTransport`. Raises `ConfigurationError` if
    the file of known gateways can't be read.
    """
    latest = _Latest(reached)
    prover = None
    if presenter is not None:
        prover = Prover(presenter, reached.url, latest.session_id, whole_lists=whole_lists)

    proving = partial(ProvingTransport, prover=prover, uncovered=uncovered, heard=heard)

    def streamable(on_lost: Callable[[], None]) -> OpenConnection:
        http = latest.open(on_lost)
        return OpenConnection(http, proving(over_http(reached.url, http)))

    def sse(on_lost: Callable[[], None]) -> OpenConnection:
        http = latest.open(on_lost)
        return OpenConnection(http, proving(over_sse(reached.url, http)))

    patience = SILENCE_SECONDS if reached.timeout is None else reached.timeout
    return RenewingTransport(Transports(streamable, sse), patience)
