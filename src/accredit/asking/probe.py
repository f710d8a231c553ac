"""Probes a URL before its server is asked: finds out whether it is the right URL, and which HTTP transport the server
speaks.

- A redirect within the same origin gives the right URL. Any other redirect is reported, and not followed.
- Servers that require authorization (401, 403) or have an untrusted certificate are reported as such.
- HTTP+SSE (2024-11-05) is tried if the URL ends in `/sse`, or if the server accepts no POST; then also at `sse` beside
  the URL.

Sends one request that has no effect, `ping` without a session, and also `GET` if the server may speak HTTP+SSE. Network
I/O. Every failure is a `ConfigurationError`, and quotes no query, which may hold a key.
"""

import asyncio
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

from accredit.errors import AccessTokenError, AnswerError, ConfigurationError, UpstreamError
from accredit.gateway import HttpUpstream, StdioUpstream
from accredit.gateway.headers import RawHeaders
from accredit.gateway.media_types import EVENTS_TYPE, answer_type
from accredit.gateway.upstream.http.client import REDIRECTS, Answer, UpstreamClient, same_origin, target_of
from accredit.jsonrpc.sse import SseParser
from accredit.limits import ACCESS_TOKEN_REQUEST_SECONDS
from accredit.net.token_endpoint import request_token

MAX_SETUP_REDIRECTS = 5
"""The most redirects that `accredit init` follows. HTTP servers add a slash, or take one away, with one redirect."""
ENDPOINT_EVENT_SECONDS = 5.0
"""How many seconds a stream that may be HTTP+SSE has for its first event. Servers send it at once."""
MAX_ENDPOINT_EVENT_BYTES = 65_536
"""The most bytes of that first event, which names a URL."""


_PING = b'{"jsonrpc":"2.0","id":"accredit-setup","method":"ping"}'
_POST: RawHeaders = [(b"content-type", b"application/json"), (b"accept", b"application/json, text/event-stream")]
_GET: RawHeaders = [(b"accept", b"text/event-stream")]
_TAKES_NO_POST = frozenset({404, 405})
"""The statuses with which a server of HTTP+SSE answers a POST (2025-11-25, transports, "Backwards Compatibility"). 400
is not included: newer servers may send it, too, for a request without a session."""


class ServerEndpoint(NamedTuple):
    """A server's endpoint, and whether it speaks HTTP+SSE (2024-11-05) there."""

    upstream: HttpUpstream | StdioUpstream
    sse: bool = False


async def probe_url(upstream: HttpUpstream, *, follow: bool, seconds: float, place: str = "upstream") -> ServerEndpoint:
    """Find the server's endpoint, with `seconds` for each step. If not `follow`, a redirect is an error. `place` is the
    server's table in the configuration."""
    for _ in range(MAX_SETUP_REDIRECTS):
        try:
            door = await _look(upstream, seconds)
        except UpstreamError as error:
            raise ConfigurationError(
                f"the server did not list its tools: {error.detail} (at {without_query(upstream.url)})", _remedy(error)
            ) from None
        except AnswerError as error:
            raise ConfigurationError(
                f"what answers at {without_query(upstream.url)} can't be understood: {error.detail}",
                "see whether the URL is that of an MCP server",
            ) from None
        if isinstance(door, ServerEndpoint):
            return door
        upstream = replace(upstream, url=_next(upstream.url, door, place, follow=follow))
    raise ConfigurationError(
        f"{without_query(upstream.url)} redirects again and again", "name the URL where the server is"
    )


async def wants_sign_in(upstream: HttpUpstream, seconds: float) -> bool:
    """Return whether a server answers 401 to these headers. For a server that can't be reached, return False."""
    client = UpstreamClient(upstream.url, headers=upstream.headers, timeout=seconds)
    try:
        async with asyncio.timeout(seconds):
            answer = await client.send("POST", _POST, _PING)
        answer.close()
        return answer.status == 401
    except (UpstreamError, AnswerError, TimeoutError):
        return False
    finally:
        await client.close()


async def add_access_token(upstream: HttpUpstream, place: str = "upstream") -> HttpUpstream:
    """Return the upstream with one more header: a token, obtained as its `auth` says. `place` is the server's table in
    the configuration. Raises `ConfigurationError`."""
    auth = upstream.auth
    if auth is None:
        return upstream
    if auth.exchanges:
        raise ConfigurationError(
            f"{place}.auth exchanges the tokens of callers, and this command has none",
            "give it a token that the server takes: --token-env NAME",
        )
    try:
        async with asyncio.timeout(ACCESS_TOKEN_REQUEST_SECONDS):
            token = await request_token(auth, None)
    except (AccessTokenError, TimeoutError) as error:
        raise ConfigurationError(
            f"no token for the server from {without_query(auth.token_url)}: {str(error) or 'no answer in time'}",
            f"see whether {place}.auth names the right URL, client, secret and audience",
        ) from None
    return replace(upstream, headers={**upstream.headers, "Authorization": f"Bearer {token.text}"}, auth=None)


def without_query(url: str) -> str:
    """Return a URL without its query."""
    return url.partition("?")[0]


def _next(url: str, target: str, place: str, *, follow: bool) -> str:
    """Return the URL that a redirect leads to. It must have the same origin, and redirects must be followed (`follow`).
    Raises `ConfigurationError`."""
    if not same_origin(url, target):
        raise ConfigurationError(
            f"{without_query(url)} redirects to another server, {without_query(target)}, and that is not followed",
            "name that URL, if it is the server that you mean",
        )
    if not follow:
        raise ConfigurationError(
            f"{without_query(url)} redirects to {without_query(target)}, and a gateway follows no redirects",
            f"name {without_query(target)}: in {place}.url, or on the command line",
        )
    return target


async def _look(upstream: HttpUpstream, seconds: float) -> ServerEndpoint | str:
    """Return the endpoint, or the URL of a redirect."""
    streams = urlsplit(upstream.url).path.rstrip("/").endswith("/sse")
    client = UpstreamClient(upstream.url, headers=upstream.headers, timeout=seconds)
    try:
        answer = await (client.send("GET", _GET) if streams else client.send("POST", _POST, _PING))
        try:
            if answer.status in REDIRECTS:
                return _leads(upstream.url, answer)
            _check_admitted(answer)
            if streams:
                return ServerEndpoint(upstream, sse=await _announces(answer))
        finally:
            answer.close()
        if answer.status in _TAKES_NO_POST:
            return await _stream_of(upstream, client)
        return ServerEndpoint(upstream)
    finally:
        await client.close()


async def _stream_of(upstream: HttpUpstream, client: UpstreamClient) -> ServerEndpoint:
    """Return the endpoint of a server that accepts no POST. Its HTTP+SSE stream is looked for where a gateway would
    look."""
    beside = urljoin(upstream.url, "sse")
    for url in (upstream.url, beside):
        answer = await client.send("GET", _GET, target=_path_of(url))
        try:
            is_stream = await _announces(answer)
        finally:
            answer.close()
        if is_stream and url == beside:
            return ServerEndpoint(replace(upstream, url=beside), sse=True)
        if is_stream:
            raise ConfigurationError(
                f"{without_query(url)} speaks HTTP+SSE (2024-11-05), which a gateway looks for at paths that end in"
                " /sse",
                "have the server serve it at a path that ends in /sse, or speak streamable HTTP",
            )
    return ServerEndpoint(upstream)


async def _announces(answer: Answer) -> bool:
    """Return whether a response is a stream of HTTP+SSE: its first event must name the endpoint for messages."""
    media_type = answer_type(answer.header(b"content-type"))
    if answer.status != 200 or media_type.name != EVENTS_TYPE:
        return False
    parser = SseParser(MAX_ENDPOINT_EVENT_BYTES)
    deadline = asyncio.get_running_loop().time() + ENDPOINT_EVENT_SECONDS
    try:
        while chunk := await answer.chunk(timeout=deadline - asyncio.get_running_loop().time()):
            for event in parser.feed(chunk):
                if event.data is not None:
                    return event.name == b"endpoint"
    except UpstreamError:
        pass
    return False


def _leads(url: str, answer: Answer) -> str:
    target = target_of(url, answer.header(b"location"))
    if target is None:
        raise ConfigurationError(f"{without_query(url)} redirects to no URL", "name the URL where the server is")
    return target


def _check_admitted(answer: Answer) -> None:
    """Check that the server does not require authorization. Raises `ConfigurationError`, which says what to do."""
    if answer.status == 401:
        raise ConfigurationError(
            "the server wants authorization (HTTP 401)",
            "give it a token, by the variable that holds it: --token-env NAME; or a key: --header X-Api-Key=env:NAME",
        )
    if answer.status == 403:
        raise ConfigurationError(
            "the server refuses whoever asks so (HTTP 403)",
            "see whether the token (--token-env NAME) or the key (--header X-Api-Key=env:NAME) may do this",
        )


def _remedy(error: UpstreamError) -> str:
    if "certificate" in error.detail:
        return (
            "have its certificate signed by an authority that is trusted here, or name that one's file: SSL_CERT_FILE"
        )
    return "start it, or see whether it runs, what it logs, and whether the URL has its path, such as /mcp"


def _path_of(url: str) -> bytes:
    parts = urlsplit(url)
    return f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}".encode("ascii")
