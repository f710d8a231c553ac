"""HTTP headers as the gateway reads them, and the allowed hosts and origins. No I/O.

`forwarding` says which headers are forwarded. Source: 2025-11-25 and 2026-07-28 basic/transports ("Security").

The body of a POST must be JSON in UTF-8 (415). These are checked, in this order:

- [content-type] `Content-Type` is `application/json`, once, with no parameter but `charset=utf-8`;
- [content-encoding] `Content-Encoding` is absent, or `identity`.
"""

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from accredit.base.addresses import without_slash
from accredit.base.caching import CachedProperty, cache_short_values
from accredit.errors import RequestError
from accredit.gateway.media_types import is_json_request
from accredit.jsonrpc.encode import INVALID_REQUEST
from accredit.jsonrpc.era import METHOD_HEADER, NAME_HEADER, VERSION_HEADER, names_modern
from accredit.jsonrpc.param_headers import DUPLICATED, PARAM_HEADERS
from accredit.limits import MAX_QUOTED
from accredit.tokens.carried import CREDENTIALS

RawHeaders = list[tuple[bytes, bytes]]
"""Header fields in order, with lower-case names (as ASGI gives them)."""

SESSION_HEADER = b"mcp-session-id"
LAST_EVENT_HEADER = b"last-event-id"

JSON = (b"content-type", b"application/json")
EVENT_STREAM: RawHeaders = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
]

_HOST = r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?)(?::[0-9]{1,5})?"
_HOSTS = re.compile(_HOST)
_ORIGINS = re.compile(rf"[a-z][a-z0-9+.-]{{0,30}}://{_HOST}")
_OF_SESSIONS = (SESSION_HEADER, LAST_EVENT_HEADER)
_OF_UNJUDGED = frozenset({b"content-type", b"date", b"server", b"vary", b"x-accel-buffering"})
_LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})


_CONTENT_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]*)(\r\n)?", re.IGNORECASE)


class HeadText(NamedTuple):
    """The bytes of a parsed head, split at its only Content-Length: those before the digits, and those after.

    Other bytes count as the same head, with another body, if they differ only in these digits. The digits must state
    that body's length in the form that all readers agree on: no sign, no leading zero, nothing beside them. For a head
    without Content-Length, `before` is the whole head.
    """

    before: bytes
    after: bytes = b""

    @classmethod
    def measured(cls, head: bytes) -> "HeadText | None":
        """Split a head at its Content-Length. Return None if the field is repeated, or is not in that form."""
        found = list(_CONTENT_LENGTH.finditer(head))
        if len(found) != 1 or not found[0][1] or not found[0][2]:
            return None
        return cls(head[: found[0].start(1)], head[found[0].end(1) :])

    def rest(self, data: bytes) -> bytes | None:
        """Return the body that follows this head in `data`. Return None if `data` begins otherwise, or if the body is
        not as long as its head states."""
        before, after = self
        if not data.startswith(before):
            return None
        start = len(before)
        if not after:
            return data[start:]
        end = data.find(b"\r", start)
        rest = data[end + len(after) :]
        return rest if data[start:end] == b"%d" % len(rest) and data.startswith(after, end) else None


class RequestHead:
    """The head of a client's request. `headers` has values by name (`fold`); `raw_headers` has the fields in order.
    `root` is the mount path, and `path` the decoded path below it. `raw_path` is the whole path, as it came.

    A head is immutable, since the requests of a connection may share it. To remove a field, another head is made, and
    only that one is forwarded. Facts that depend on the head alone are computed once.
    """

    def __init__(
        self,
        method: str,
        path: str,
        raw_headers: RawHeaders,
        *,
        query: bytes = b"",
        root: str = "",
        raw_path: bytes = b"",
    ) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.root = root
        self.raw_path = raw_path
        self.raw_headers = raw_headers
        self.headers: Mapping[bytes, bytes] = fold(raw_headers)
        self.session = self.headers.get(SESSION_HEADER, b"").decode("latin-1")
        """The session id in the head, or ""."""
        version = self.headers.get(VERSION_HEADER)
        self.revision = None if version is None else version.decode("latin-1")
        """The revision that the head names, as it is spelled there."""
        self.is_modern = version is not None and names_modern(self.headers)
        """Whether the head names a modern revision."""
        self.found: object = None
        """The opened session id, cached here by `callers`."""
        self.replica = ""
        """The replica of the server at which the session lives, if there are several."""
        self._routing: tuple[bytes, ...] | None = None
        self.sent_as: object = None
        """The head to send upstream for this one, cached here by the relay."""

    @property
    def forwarded_for(self) -> list[bytes]:
        """The fields in which proxies say from whom they got the request."""
        return [value for name, value in self.raw_headers if name == b"x-forwarded-for"]

    @property
    def in_era(self) -> "RequestHead":
        """The head without the fields that its era does not have: session and stream ids in the modern era. There
        nothing would check them, and proofs and records would not cover them. A repeated field stays, so that the
        request is refused."""
        if not self.is_modern:
            return self
        return self.without([name for name in _OF_SESSIONS if DUPLICATED not in self.headers.get(name, b"")])

    @CachedProperty
    def without_slash(self) -> "RequestHead":
        """The head with the path's trailing slash removed. If there is none, this head itself."""
        path = without_slash(self.path)
        if path == self.path or not self.raw_path.endswith(b"/"):  # an encoded slash is not the end of a path
            return self
        raw_path = self.raw_path[:-1]
        head = RequestHead(self.method, path, self.raw_headers, query=self.query, root=self.root, raw_path=raw_path)
        head.replica = self.replica
        return head

    @property
    def credentials(self) -> RawHeaders:
        """The Authorization fields."""
        return [pair for pair in self.raw_headers if pair[0] == b"authorization"]

    @CachedProperty
    def without_credentials(self) -> "RequestHead":
        """The head without the Authorization fields, and without the proof that belongs to them (RFC 9449)."""
        return self.without(CREDENTIALS)

    def without(self, names: Collection[bytes]) -> "RequestHead":
        """Return the head without these fields."""
        if self.headers.keys().isdisjoint(names):
            return self
        return self.with_fields([pair for pair in self.raw_headers if pair[0] not in names])

    def with_field(self, name: bytes, value: bytes) -> "RequestHead":
        """Return the head with the field's value replaced, or with the field appended."""
        if name not in self.headers:
            return self.with_fields([*self.raw_headers, (name, value)])
        return self.with_fields([(each, value if each == name else old) for each, old in self.raw_headers])

    def check_post(self) -> tuple[bytes, ...]:
        """Return the names of the headers that route a POST's message, except the one that names the revision. Raises
        `RequestError` for a POST that is not JSON (415), or that repeats a session's header (400)."""
        if self._routing is None:
            check_request(self.headers)
            check_once(self.headers, *_OF_SESSIONS)
            self._routing = routing_headers(self.headers)
        return self._routing

    def with_fields(self, fields: RawHeaders, query: bytes | None = None) -> "RequestHead":
        """Return the head with `fields` in place of its own fields, and with `query`, if given, in place of its own."""
        query = self.query if query is None else query
        head = RequestHead(self.method, self.path, fields, query=query, root=self.root, raw_path=self.raw_path)
        head.replica = self.replica
        return head


def check_request(headers: Mapping[bytes, bytes]) -> None:
    """Raise `RequestError` (415) for a POST whose body could be read as anything but JSON in UTF-8."""
    if not is_json_request(headers.get(b"content-type")):
        raise RequestError(INVALID_REQUEST, "Content-Type must be application/json", status=415)
    if headers.get(b"content-encoding", b"identity").strip(b" \t").lower() != b"identity":
        raise RequestError(INVALID_REQUEST, "Content-Encoding must be absent, or identity", status=415)


def check_once(headers: Mapping[bytes, bytes], *names: bytes) -> None:
    """Raise `RequestError` (400) for a repeated header: some servers take the first, others the last."""
    for name in names:
        if DUPLICATED in headers.get(name, b""):
            raise RequestError(INVALID_REQUEST, f"Invalid Request: {name.decode().title()} occurs twice")


def routing_headers(headers: Mapping[bytes, bytes]) -> tuple[bytes, ...]:
    """Return the names of the headers by which a message is routed, except the version header."""
    return tuple(name for name in headers if name in (METHOD_HEADER, NAME_HEADER) or name.startswith(PARAM_HEADERS))


def fold(raw: RawHeaders) -> dict[bytes, bytes]:
    """Return the values by name. The values of a repeated header become one, joined by `DUPLICATED`, so that it equals
    no expected value."""
    once = dict(raw)
    if len(once) == len(raw):
        return once
    values: dict[bytes, list[bytes]] = {}
    for name, value in raw:
        values.setdefault(name, []).append(value)
    return {name: DUPLICATED.join(found) for name, found in values.items()}


def of_unjudged(raw: RawHeaders, session: bytes | None) -> RawHeaders:
    """Return the headers of an answer that may be sent before its body was judged. They concern only the transport of a
    stream.

    `session` is the session id of the request. If the answer has another one, it is left out: otherwise the client
    would adopt it.
    """
    return [
        (name, value) for name, value in raw if name in _OF_UNJUDGED or (name == SESSION_HEADER and value == session)
    ]


@cache_short_values(256)
def host_allowed(host: bytes | None, allowed: tuple[str, ...]) -> bool:
    """Return whether a `Host` header names this gateway, whatever the port. A rebound DNS name does not."""
    if host is None or DUPLICATED in host:
        return False
    name = host.decode("latin-1").lower()
    bare = name if name.endswith("]") else name.rsplit(":", 1)[0]
    return any(entry.lower() in (name, bare) for entry in allowed)


def origin_listed(origin: bytes, allowed: tuple[str, ...]) -> bool:
    """Return whether the configuration lists an origin."""
    return origin.decode("latin-1").lower() in {entry.lower().rstrip("/") for entry in allowed}


def origin_allowed(origin: bytes | None, host: bytes | None, allowed: tuple[str, ...]) -> bool:
    """Return whether an origin is allowed. Allowed are: no origin (not a browser), a listed one, and the request's own
    host on loopback."""
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


def host_refused(host: bytes | None) -> RequestError:
    """Return the refusal of a `Host`. If it is a valid host, the refusal says which setting would allow it."""
    found = _HOSTS.fullmatch(_short(host))
    what = f': if that is a name of this gateway, add "{found[1]}" to gateway.allowed_hosts' if found else ""
    return RequestError(INVALID_REQUEST, f"Forbidden: this Host is not allowed{what}", status=403)


def origin_refused(origin: bytes, *, key: str = "gateway.allowed_origins") -> RequestError:
    """Return the refusal of an `Origin`. If it is a page's origin and there is a `key`, the refusal says which setting
    would allow it."""
    text = _short(origin)
    what = f': if the page is yours, add "{text}" to {key}' if key and _ORIGINS.fullmatch(text) else ""
    return RequestError(INVALID_REQUEST, f"Forbidden: this Origin is not allowed{what}", status=403)


def _short(value: bytes | None) -> str:
    """Return a header's value in lower case, "" if it is too long to be quoted."""
    return value.decode("latin-1").lower() if value is not None and len(value) <= MAX_QUOTED else ""
