"""Configured paths that are not MCP's: their messages are forwarded unread, within the same bounds.

We don't judge what such a message means, but we do control where it goes. Some headers could make a server or a proxy
take it for a message to another path, with another method, or from another sender. They are dropped (`forwarding`).
Methods that concern the connection are refused. A server answers TRACE with the request that it got, including the
gateway's own headers (RFC 9110 section 9.3.8). CONNECT asks for a tunnel.
"""

from accredit.base.text import excerpt
from accredit.errors import AnswerError, RequestError
from accredit.gateway.forwarding import Forwarding
from accredit.gateway.front.exchange import Exchange
from accredit.gateway.headers import RawHeaders
from accredit.gateway.settings import GatewaySettings
from accredit.gateway.upstream.http.client import Answer, UpstreamClient
from accredit.gateway.upstream.reply import WhileConnected
from accredit.jsonrpc.encode import INVALID_REQUEST

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""The methods that concern resources, not the connection (RFC 9110 section 9.3, RFC 5789)."""


def matches_pattern(path: str, patterns: tuple[str, ...]) -> bool:
    """Return whether a decoded path matches one of `patterns`. It may equal the pattern, or lie below one that ends
    with `/*`.

    A path with dot segments does not match: the upstream would resolve it to another path. Some servers also resolve
    backslashes, and parameters after the dots (`..;x`). Nor does a path match that can be decoded once more: some
    servers would do so.
    """
    if "%" in path:
        return False
    if any(segment.partition(";")[0] in (".", "..") for segment in path.replace("\\", "/").split("/")):
        return False
    return any(path.startswith(pattern[:-1]) if pattern.endswith("/*") else path == pattern for pattern in patterns)


async def forward(
    exchange: Exchange, target: bytes, client: UpstreamClient, settings: GatewaySettings, forwarding: Forwarding
) -> None:
    """Forward a request and its answer, piece by piece. Raises `RequestError` (405) for a method not in `METHODS`."""
    if exchange.head.method not in METHODS:
        raise RequestError(INVALID_REQUEST, "Method not allowed", status=405)
    body = await exchange.body(settings.max_request_bytes)
    headers = forwarding.unread_to_upstream(exchange.head.raw_headers)
    encodings = exchange.head.headers.get(b"accept-encoding")
    if encodings is not None:
        headers.append((b"accept-encoding", encodings))
    with exchange.rooms.calls.held(exchange), WhileConnected(exchange):
        answer = await client.send(exchange.head.method, headers, body, target=target)
        try:
            answer.check_length(settings.max_response_bytes)
            await pass_on(exchange, answer, forwarding.unread_to_client(answer.headers), settings)
        finally:
            answer.close()


async def pass_on(exchange: Exchange, answer: Answer, headers: RawHeaders, settings: GatewaySettings) -> None:
    """Forward an answer under these headers, piece by piece. Raises `AnswerError` where it goes on beyond its bound."""
    # The length shows the client if the answer is cut off; in a 304 it is that of another answer.
    length = answer.header(b"content-length") if answer.status not in (204, 304) else None
    given = [(b"content-length", length)] if length is not None else []
    await exchange.start(answer.status, [*headers, *given])
    passed = 0
    while chunk := await answer.chunk(timeout=settings.patience):
        passed += len(chunk)
        if passed > settings.max_response_bytes:
            raise AnswerError("the answer is too large", bound=True)
        await exchange.write(chunk)
    await exchange.end()


def refuse(path: str) -> RequestError:
    """Return the refusal of a path that nothing serves."""
    return RequestError(INVALID_REQUEST, f"Not found: {excerpt(path)}", status=404)
