"""Paths that are not MCP's and that the configuration names: forwarded unread, within the same bounds.

What a message on them means is not our business, but where it goes is: headers by which a server or a proxy would take
it for one to another path, by another method, or from somebody else, stay here (`forwarding`). So do the methods that
are about the way and not about a resource: to TRACE a server answers with what it was sent, and that holds the
gateway's own headers (RFC 9110 section 9.3.8); CONNECT asks for a tunnel.
"""

from accredit.base.text import excerpt
from accredit.errors import AnswerError, RequestError
from accredit.gateway.forwarding import Forwarding
from accredit.gateway.front.exchange import Exchange
from accredit.gateway.settings import GatewaySettings
from accredit.gateway.upstream.http.client import UpstreamClient
from accredit.gateway.upstream.reply import WhileConnected
from accredit.jsonrpc.encode import INVALID_REQUEST

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""Those of resources (RFC 9110 section 9.3, RFC 5789)."""


def matches_pattern(path: str, patterns: tuple[str, ...]) -> bool:
    """Return whether a decoded path is one of `patterns`: exact, or below one that ends with `/*`.

    A path with dot segments is not: the upstream would resolve it to another path. Some servers also do so with
    backslashes, and with parameters after the dots (`..;x`). One that can be decoded once more is not, either: some
    servers do that, and see another path.
    """
    if "%" in path:
        return False
    if any(segment.partition(";")[0] in (".", "..") for segment in path.replace("\\", "/").split("/")):
        return False
    return any(path.startswith(pattern[:-1]) if pattern.endswith("/*") else path == pattern for pattern in patterns)


async def forward(
    exchange: Exchange, target: bytes, client: UpstreamClient, settings: GatewaySettings, forwarding: Forwarding
) -> None:
    """Forward a request and its answer, piece by piece. Raises `RequestError` (405) for a method that is none of
    `METHODS`."""
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
            # Its length, so that a client sees it when the answer is cut off; a 304 tells that of another answer.
            length = answer.header(b"content-length") if answer.status not in (204, 304) else None
            given = [(b"content-length", length)] if length is not None else []
            await exchange.start(answer.status, [*forwarding.unread_to_client(answer.headers), *given])
            passed = 0
            while chunk := await answer.chunk(timeout=settings.patience):
                passed += len(chunk)
                if passed > settings.max_response_bytes:
                    raise AnswerError("the answer is too large", bound=True)
                await exchange.write(chunk)
            await exchange.end()
        finally:
            answer.close()


def refuse(path: str) -> RequestError:
    """Answer a request for any other path."""
    return RequestError(INVALID_REQUEST, f"Not found: {excerpt(path)}", status=404)
