"""HTTP headers at the gateway: which pass, and which hosts and origins may ask. No I/O.

Source: RFC 9110 section 7.6.1 (hop-by-hop), 2025-11-25 and 2026-07-28 basic/transports ("Security").
"""

from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import urlsplit

from accredit.jsonrpc.era import DUPLICATED

RawHeaders = list[tuple[bytes, bytes]]
"""Header fields in their order, names in lower case (as ASGI gives them)."""

SESSION_HEADER = b"mcp-session-id"

_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
# These say how a message is read, and for whom. A peer that names them in `Connection` (which RFC 9110 forbids)
# would have the gateway judge one message and the other side read another.
_END_TO_END = frozenset(
    {
        b"accept",
        b"authorization",
        b"content-encoding",
        b"content-type",
        b"cookie",
        b"last-event-id",
        b"origin",
        b"set-cookie",
        b"www-authenticate",
    }
)
# The gateway writes these itself, or they are a client's word about addresses, which nobody should trust.
_NOT_FORWARDED = frozenset({b"accept-encoding", b"content-length", b"expect", b"forwarded", b"host", b"x-real-ip"})
_NOT_TO_UPSTREAM = _HOP_BY_HOP | _NOT_FORWARDED
_NOT_TO_CLIENT = _HOP_BY_HOP | {b"content-length"}
_OF_UNJUDGED = frozenset({b"content-type", b"date", b"server", b"vary", b"x-accel-buffering"})
_LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})


def fold(raw: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Values by name; those of a repeated header are joined by `DUPLICATED`, which equals no value."""
    folded: dict[bytes, bytes] = {}
    for name, value in raw:
        folded[name] = value if name not in folded else folded[name] + DUPLICATED + value
    return folded


def _and_hops(dropped: frozenset[bytes], raw: RawHeaders) -> frozenset[bytes]:
    """With the headers that `Connection` names."""
    values = [value for name, value in raw if name == b"connection"]
    if not values:
        return dropped
    named = {token.strip().lower() for value in values for token in value.split(b",")}
    return dropped | {name for name in named - _END_TO_END if not name.startswith(b"mcp-")}


def to_upstream(raw: RawHeaders) -> RawHeaders:
    """A client's end-to-end headers."""
    drop = _and_hops(_NOT_TO_UPSTREAM, raw)
    return [pair for pair in raw if pair[0] not in drop and not pair[0].startswith(b"x-forwarded-")]


def to_client(raw: RawHeaders, *, without: frozenset[bytes] = frozenset()) -> RawHeaders:
    """An upstream's end-to-end headers, without `Content-Length`, which is written anew, and `without`."""
    drop = _and_hops(_NOT_TO_CLIENT, raw)
    return [pair for pair in raw if pair[0] not in drop and pair[0] not in without]


def of_unjudged(raw: RawHeaders, session: bytes | None) -> RawHeaders:
    """Of an answer's headers for the client, those that go out before anything in its body was judged.

    Only what says how a stream is carried. `session` is the one that the request was made in: another one, which an
    answer announces, would be the client's from then on.
    """
    return [
        (name, value)
        for name, value in raw
        if name in _OF_UNJUDGED or name.startswith(b"access-control-") or (name == SESSION_HEADER and value == session)
    ]


@lru_cache(256)
def host_allowed(host: bytes | None, allowed: tuple[str, ...]) -> bool:
    """Whether a `Host` header names this gateway: a rebound DNS name does not. The port does not matter."""
    if host is None or DUPLICATED in host:
        return False
    name = host.decode("latin-1").lower()
    bare = name if name.endswith("]") else name.rsplit(":", 1)[0]
    return any(entry.lower() in (name, bare) for entry in allowed)


def origin_allowed(origin: bytes | None, host: bytes | None, allowed: tuple[str, ...]) -> bool:
    """Whether a page of this origin may ask: none (not a browser), a listed one, or the same on loopback."""
    if origin is None:
        return True
    text = origin.decode("latin-1").lower()
    if text in {entry.lower().rstrip("/") for entry in allowed}:
        return True
    try:
        netloc = urlsplit(text).netloc
    except ValueError:
        return False
    same = host is not None and netloc == host.decode("latin-1").lower()
    return same and host_allowed(netloc.encode("latin-1"), tuple(_LOOPBACK_HOSTS))


@lru_cache(256)
def media_type(value: bytes | None) -> bytes:
    """The type of a `Content-Type` without its parameters, in lower case; empty where there is none, or two."""
    if value is None or DUPLICATED in value:
        return b""
    return value.split(b";", 1)[0].strip().lower()


def is_json(value: bytes | None) -> bool:
    """Whether a `Content-Type` says JSON. A type that merely begins so is not JSON."""
    return media_type(value) in (b"application/json", b"application/json-rpc")
