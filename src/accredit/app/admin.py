"""The admin listener: `/metrics`, `/healthz` and `/readyz`, for the operator. Runs in the event loop.

It requires no credential. It reveals which tools and routes are called here, how often, and why a part of the gateway
does not work, with names and paths. If another proxy serves an HTTP API, it asks here whether it may forward a request
(`gateway.front.authorize` says which proxies may ask). Any other request is refused by the first of these rules that it
breaks:

- [bounds] its connections have the same bounds as clients' (`http11`), and there may be only a few. If a proxy asks
  here, there may be many, and a head may be large enough for a proof;
- [host] `Host` must be an address or a configured name, against DNS rebinding, and other origins are refused: 403;
- [route] the path is one of the three (404), and the method GET or HEAD (405). Below `/v1/ratify/` Ratify's HTTP
  binding answers, if it is enabled for this listener (`ratify_http`).

Any worker answers with the metrics of all workers (`telemetry.board`). They are rendered in a thread, one scrape at a
time. The longer that takes, the longer the result is cached.
"""

import asyncio
import socket
import ssl
from collections.abc import Coroutine
from time import monotonic
from typing import Any, cast

from uvicorn.server import ServerState

from accredit.app.handshakes import TlsListener
from accredit.app.http11 import MAX_PROOF_HEAD_BYTES, HttpConnection
from accredit.app.http_request import HttpExchange, HttpRequest
from accredit.app.server import server_config
from accredit.base.addresses import is_address
from accredit.errors import RequestError
from accredit.gateway.app import Gateway
from accredit.gateway.front.endpoint import answer
from accredit.gateway.front.exchange import Exchange
from accredit.gateway.front.health import ALIVE, READY
from accredit.gateway.front.ratify_http import PREFIX
from accredit.gateway.headers import host_allowed, host_refused, origin_allowed, origin_refused
from accredit.gateway.room import Rooms
from accredit.gateway.settings import AUTHORIZE_PATH
from accredit.jsonrpc.encode import INVALID_REQUEST
from accredit.telemetry.board import Board
from accredit.telemetry.exposition import CONTENT_TYPE, text_of

MAX_ADMIN_CONNECTIONS = 16
"""The most connections to the admin listener of one worker: a few scrapers, an orchestrator's probes, each for one
request."""
MAX_PROXY_CONNECTIONS = 1_024
"""The most connections to the admin listener of one worker where proxies ask there: nginx opens one for each request
that is under way, unless it keeps them."""
SCRAPE_SHARE = 4
"""Rendered metrics are cached for so many times as long as rendering took. So a caller who asks all the time takes a
fifth of one thread, however many series there are."""


METRICS = "/metrics"
_AUTHORIZE = AUTHORIZE_PATH.encode("ascii")


class AdminApp:
    """The application on the admin listener of `gateway`. `host` is the address that it listens on."""

    def __init__(self, gateway: Gateway, board: Board, host: str) -> None:
        self._gateway = gateway
        self._board = board
        self._host = host
        self._writing = asyncio.Lock()
        self._text = b""
        self._good_until = float("-inf")

    @property
    def answers_proxies(self) -> bool:
        """Whether a proxy asks here about requests."""
        return bool(self._gateway.routes.apis)

    @property
    def rooms(self) -> Rooms:
        """The room for the bodies of requests."""
        return self._gateway.routes.rooms

    async def serve(self, exchange: Exchange) -> None:
        """Answer a request to one of the paths. Raises `AccreditError`."""
        head, routes = exchange.head, self._gateway.routes
        if head.raw_path.startswith(_AUTHORIZE):
            name = head.raw_path.removeprefix(_AUTHORIZE).partition(b"/")[0].decode("latin-1")
            if (api := routes.apis.get(name)) is None:
                raise RequestError(INVALID_REQUEST, "Not found", status=404)
            await api.answer_proxy(exchange)
            return
        host, origin = head.headers.get(b"host"), head.headers.get(b"origin")
        if not (_is_address(host) or host_allowed(host, (self._host, *routes.settings.allowed_hosts))):
            raise host_refused(host)
        if origin is not None and not origin_allowed(origin, host, ()):
            raise origin_refused(origin, key="")
        if head.path in (ALIVE, READY):
            await routes.health.serve(exchange, head.path, to_operator=True)
            return
        if head.path.startswith(PREFIX) and routes.settings.ratify_http == "admin" and routes.ratify_http:
            await routes.ratify_http.serve(exchange, head.path)
            return
        if head.path != METRICS:
            raise RequestError(INVALID_REQUEST, "Not found", status=404)
        if head.method not in ("GET", "HEAD"):
            raise RequestError(INVALID_REQUEST, "Method not allowed", status=405)
        await exchange.reply(200, await self._metrics(), [(b"content-type", CONTENT_TYPE)])

    async def _metrics(self) -> bytes:
        async with self._writing:
            began = monotonic()
            if began >= self._good_until:
                self._text = await asyncio.to_thread(text_of, self._board)
                now = monotonic()
                self._good_until = now + SCRAPE_SHARE * (now - began)
            return self._text


class AdminListener:
    """Serves the application on a socket, over TLS if a context is given."""

    def __init__(self, app: AdminApp, listener: socket.socket, tls: ssl.SSLContext | None) -> None:
        self._listener = listener
        self._config = server_config(app, protocol=AdminProtocol)
        self._config.load()
        self._state = ServerState()
        self._tls = tls
        self._server: asyncio.Server | TlsListener | None = None

    async def start(self) -> None:
        """Accept connections."""
        if self._tls is not None:
            self._server = TlsListener(self._listener, self._tls, self._protocol)
        else:
            self._server = await asyncio.get_running_loop().create_server(self._protocol, sock=self._listener)

    def take(self, tls: ssl.SSLContext | None) -> None:
        """Use this TLS context for the next handshakes. None changes nothing."""
        if isinstance(self._server, TlsListener) and tls is not None:
            self._server.tls = tls

    def close(self) -> None:
        """Stop accepting, and abort open connections."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._state.connections):
            cast(HttpConnection, connection).abort()

    def _protocol(self) -> "AdminProtocol":
        return AdminProtocol(config=self._config, server_state=self._state, app_state={})


class AdminProtocol(HttpConnection):
    """A client's connection to the admin listener."""

    def work_of(self, request: HttpRequest) -> Coroutine[Any, Any, None]:
        """Return the work that answers a request."""
        return answer(HttpExchange(request, self._app.rooms), self._app.serve)

    def most_connections(self) -> int:
        """Return how many connections there may be."""
        return MAX_PROXY_CONNECTIONS if self._app.answers_proxies else MAX_ADMIN_CONNECTIONS

    @property
    def most_head_bytes(self) -> int:
        """How many bytes a head may have."""
        return MAX_PROOF_HEAD_BYTES if self._app.answers_proxies else super().most_head_bytes


def _is_address(host: bytes | None) -> bool:
    return host is not None and is_address(host.decode("latin-1"))
