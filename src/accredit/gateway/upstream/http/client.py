"""A lean HTTP/1.1 client for one upstream. Network I/O.

A request is sent once. An idle connection that has become unusable is replaced before anything is written to it; after
that any failure is an error, since the upstream may have acted on the request.
"""

import asyncio
import re
from collections.abc import Mapping

from accredit.errors import ConfigurationError, RequestError, UpstreamError
from accredit.gateway.headers import RawHeaders
from accredit.gateway.upstream.http.answer import Answer
from accredit.gateway.upstream.http.dial import parse_origin
from accredit.gateway.upstream.http.pool import Pool
from accredit.jsonrpc.encode import INVALID_REQUEST
from accredit.limits import REACHABLE_SECONDS

__all__ = ["Answer", "UpstreamClient"]

_REQUEST_LINE = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+ /[!-~\x80-\xff]* HTTP/1\.1\r\n")
_TOKENS = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]*")
_VALUES = re.compile(rb"[^\0-\x08\x0a-\x1f\x7f]*")
_FRAMING = frozenset({b"connection", b"content-length", b"transfer-encoding"})
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


class UpstreamClient:
    """Sends requests to the origin of `url`, over persistent connections.

    `headers` go with every request and override those of the same name passed to `send`. `timeout` is in seconds, from
    the start of a request to the head of its answer. Raises `ConfigurationError` for a URL or a header that no request
    can carry.
    """

    def __init__(self, url: str, *, headers: Mapping[str, str] | None = None, timeout: float) -> None:
        origin = parse_origin(url)
        own = {b"host": b"Host: " + origin.authority + b"\r\n"}
        for name, value in (headers or {}).items():
            field = _own_field(name, value)
            own[name.lower().encode()] = field
        self._own_fields = b"".join(own.values())
        self._not_forwarded = _FRAMING | own.keys()
        self._target = origin.target
        self._timeout = timeout
        self._pool = Pool(origin)

    def target(self, query: bytes) -> bytes:
        """Return the URL's own path and query; if it has no query, that of a client's request."""
        return self._target + b"?" + query if query and b"?" not in self._target else self._target

    async def send(self, method: str, headers: RawHeaders, body: bytes = b"", *, target: bytes | None = None) -> Answer:
        """Send a request with end-to-end `headers` and wait for the head of its answer.

        `target` replaces the URL's path and query. Raises `UpstreamUnavailable`, `UpstreamTimeout`, `AnswerError` for
        an answer that is not HTTP, and `RequestError` for a request that no HTTP message can carry.
        """
        head = self._head(method, headers, len(body), self._target if target is None else target)
        deadline = asyncio.get_running_loop().time() + self._timeout
        connection = self._pool.rested() or await self._pool.dial(deadline)
        response = connection.start(head, body, bodiless=method == "HEAD")
        try:
            while not response.status:
                await connection.more(deadline)
        except BaseException:
            if not response.complete:  # otherwise the connection already serves another exchange
                connection.abort()
            raise
        return Answer(connection, response)

    async def reachable(self) -> bool:
        """Return whether the upstream accepts connections: an idle one is usable, or a new one succeeds."""
        try:
            await self._pool.probe(asyncio.get_running_loop().time() + REACHABLE_SECONDS)
        except UpstreamError:
            return False
        return True

    async def close(self) -> None:
        """Close every connection. Requests under way fail."""
        await self._pool.close()

    def _head(self, method: str, headers: RawHeaders, length: int, target: bytes) -> bytes:
        line = b"%b %b HTTP/1.1\r\n" % (method.encode("latin-1", "replace"), target)
        parts: list[bytes] = []
        for name, value in headers:
            if name.lower() not in self._not_forwarded:
                parts += (name, b": ", value, b"\r\n")
        # Checked whatever their source: an extra line could smuggle in a request that nobody judged.
        if not (_REQUEST_LINE.fullmatch(line) and _sound(parts[::4], parts[2::4])):
            raise RequestError(INVALID_REQUEST, "Invalid Request: a header or a path that can't be forwarded")
        framing = b"Content-Length: %d\r\n\r\n" % length if length or method in _WITH_BODY else b"\r\n"
        return b"".join((line, self._own_fields, *parts, framing))


def _sound(names: list[bytes], values: list[bytes]) -> bool:
    tokens = b"" not in names and _TOKENS.fullmatch(b"".join(names))
    return bool(tokens and _VALUES.fullmatch(b"".join(values)))


def _own_field(name: str, value: str) -> bytes:
    try:
        key, content = name.encode("ascii"), value.strip().encode("latin-1")
    except UnicodeEncodeError:
        key = content = b""
    if key.lower() in _FRAMING or not _sound([key], [content]):
        raise ConfigurationError(
            f"the upstream header {name!a} can't be sent",
            "use a header name, and a value on one line without control characters",
        )
    return key + b": " + content + b"\r\n"
