"""HTTP headers as the gateway reads them, and which hosts and origins may ask. No I/O.

Which go on is in `forwarding`. Source: 2025-11-25 and 2026-07-28 basic/transports ("Security").
"""

from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import urlsplit

from accredit.jsonrpc.era import DUPLICATED

RawHeaders = list[tuple[bytes, bytes]]
"""Header fields in their order, names in lower case (as ASGI gives them)."""

SESSION_HEADER = b"mcp-session-id"

_OF_UNJUDGED = frozenset({b"content-type", b"date", b"server", b"vary", b"x-accel-buffering"})
_LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})


def fold(raw: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Values by name; those of a repeated header are joined by `DUPLICATED`, which equals no value."""
    values: dict[bytes, list[bytes]] = {}
    for name, value in raw:
        values.setdefault(name, []).append(value)
    return {name: DUPLICATED.join(found) for name, found in values.items()}


def of_unjudged(raw: RawHeaders, session: bytes | None) -> RawHeaders:
    """Of an answer's headers for the client, those that go out before anything in its body was judged.

    Only what says how a stream is carried. `session` is the one that the request was made in: another one, which an
    answer announces, would be the client's from then on.
    """
    return [
        (name, value) for name, value in raw if name in _OF_UNJUDGED or (name == SESSION_HEADER and value == session)
    ]


@lru_cache(256)
def host_allowed(host: bytes | None, allowed: tuple[str, ...]) -> bool:
    """Whether a `Host` header names this gateway: a rebound DNS name does not. The port does not matter."""
    if host is None or DUPLICATED in host:
        return False
    name = host.decode("latin-1").lower()
    bare = name if name.endswith("]") else name.rsplit(":", 1)[0]
    return any(entry.lower() in (name, bare) for entry in allowed)


def origin_listed(origin: bytes, allowed: tuple[str, ...]) -> bool:
    """Whether an origin is one of those that the configuration names."""
    return origin.decode("latin-1").lower() in {entry.lower().rstrip("/") for entry in allowed}


def origin_allowed(origin: bytes | None, host: bytes | None, allowed: tuple[str, ...]) -> bool:
    """Whether a page of this origin may ask: none (not a browser), a listed one, or the same on loopback."""
    if origin is None:
        return True
    if origin_listed(origin, allowed):
        return True
    text = origin.decode("latin-1").lower()
    try:
        netloc = urlsplit(text).netloc
    except ValueError:
        return False
    same = host is not None and netloc == host.decode("latin-1").lower()
    return same and host_allowed(netloc.encode("latin-1"), tuple(_LOOPBACK_HOSTS))
