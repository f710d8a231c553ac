"""CORS: preflights, and the headers that let a page of another origin read an answer. No I/O.

Source: the Fetch standard ("CORS protocol"), 2025-11-25 and 2026-07-28 basic/transports; Private Network Access for
browsers that still ask for it. Only origins of `[gateway] allowed_origins` are allowed, and the answer names the one
that asks: never `*`. Credentials are never allowed, since cookies mean nothing here. The upstream's CORS headers are
not forwarded (`forwarding`).
"""

from collections.abc import Mapping

from accredit.gateway.headers import RawHeaders, origin_listed
from accredit.jsonrpc.param_headers import PARAM_HEADERS

PREFLIGHT_SECONDS = 600
"""How long a browser may cache the answer to a preflight. Chromium caches it for two hours at most, but a change of the
configuration should take effect sooner."""


_METHODS = b"GET, POST, DELETE"
_PLAIN = frozenset(
    b"accept authorization content-type last-event-id mcp-method mcp-name mcp-protocol-version mcp-session-id "
    b"traceparent tracestate".split()
)
_EXPOSED = b"Mcp-Session-Id, Mcp-Protocol-Version, WWW-Authenticate, Retry-After"
_VARY = (b"vary", b"Origin")


def is_preflight(method: str, headers: Mapping[bytes, bytes]) -> bool:
    """Return whether this is a CORS preflight."""
    return method == "OPTIONS" and b"origin" in headers and b"access-control-request-method" in headers


def preflight(headers: Mapping[bytes, bytes], added: tuple[str, ...]) -> RawHeaders:
    """Return the headers of the answer to a preflight.

    They allow the headers that MCP clients send and those in `added`. They also allow the `Mcp-Param-*` headers that
    the browser asks for.
    """
    asked = headers.get(b"access-control-request-headers", b"").lower().split(b",")
    names = _PLAIN | {name.lower().encode() for name in added}
    allowed = sorted(names | {name for each in asked if _is_param(name := each.strip())})
    private = headers.get(b"access-control-request-private-network") == b"true"
    return [
        (b"access-control-allow-methods", _METHODS),
        (b"access-control-allow-headers", b", ".join(allowed)),
        (b"access-control-max-age", b"%d" % PREFLIGHT_SECONDS),
        *([(b"access-control-allow-private-network", b"true")] if private else []),
    ]


def add_cors_headers(raw: RawHeaders, origin: bytes | None, allowed: tuple[str, ...]) -> RawHeaders:
    """Return an answer's headers, and add those without which a page of `origin` could not read it."""
    if not allowed:
        return raw
    if origin is None or not origin_listed(origin, allowed):
        return [*raw, _VARY]
    return [*raw, (b"access-control-allow-origin", origin), (b"access-control-expose-headers", _EXPOSED), _VARY]


def _is_param(name: bytes) -> bool:
    rest = name.removeprefix(PARAM_HEADERS)
    return rest != name and rest != b"" and rest.replace(b"-", b"").replace(b"_", b"").isalnum()
