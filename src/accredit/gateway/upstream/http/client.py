"""A lean HTTP/1.1 client for one upstream. Network I/O.

A request is sent once. If an idle connection has become unusable, another is used before anything is written. Once
something is written, any failure is an error, since the upstream may have acted on the request.

No redirect is followed. It is described, for the log and the client's answer (`words_for`). Both the configured URL and
the redirect's target may hold keys in path and query. So only common words (`_PLAIN`) of a path are quoted; any other
segment is shown as `*`.

An `Answer` is a head, and a body that arrives as fast as the reader takes it.
"""

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping
from io import BytesIO
from typing import Any
from urllib.parse import urljoin, urlsplit

from msgspec import Struct

from accredit.base.text import excerpt
from accredit.errors import AnswerError, ConfigurationError, RequestError, UpstreamError, UpstreamTimeout
from accredit.gateway.headers import RawHeaders
from accredit.gateway.upstream.http.connection import Connection, Pool, Share
from accredit.gateway.upstream.http.dialing import parse_origin
from accredit.gateway.upstream.http.parsing import AnswerHead, Response
from accredit.jsonrpc.encode import INVALID_REQUEST
from accredit.limits import LARGE_ANSWER_BYTES, SHORT_MESSAGE_BYTES

REACHABLE_SECONDS = 2.0
"""How long `/readyz` waits for a connection to the upstream. Its callers (orchestrators) commonly wait for one to five
seconds."""

REDIRECTS = frozenset({301, 302, 303, 307, 308})

_REQUEST_LINE = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+ /[!-~\x80-\xff]* HTTP/1\.1\r\n")
_TOKENS = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]*")
_VALUES = re.compile(rb"[^\0-\x08\x0a-\x1f\x7f]*")
_PLAIN = re.compile(
    r"|v[0-9]{1,2}|api|app|auth|authorize|en|error|events?|home|http|https|index\.html|log-?in|maintenance|mcp|messages?"
    r"|oauth2?|open|public|rpc|servers?|session|sign-?in|sse|sso|stream|streamable|streamable-http|tools?|users?|www"
)
_FRAMING = frozenset({b"connection", b"content-length", b"transfer-encoding"})
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


def _nobody_counts() -> None:
    pass


class Route(Struct, frozen=True):
    """Where a request may go, if the server has replicas (`replicas`). `at` is the replica of its session, if it has
    one. `again` allows one repetition even after the request's bytes were sent. `repeated` is called before each
    repetition."""

    at: str | None = None
    again: bool = False
    repeated: Callable[[], None] = _nobody_counts


ANYWHERE = Route()


class UpstreamClient:
    """Sends requests to the origin of `url`, over persistent connections.

    `headers` are added to every request; they override headers of the same name passed to `send`. `timeout` is in
    seconds, from the start of a request to the head of its answer. `share` is how many of the process's connections
    this server may have. Raises `ConfigurationError` for a URL or a header that no request can carry.
    """

    def __init__(
        self, url: str, *, headers: Mapping[str, str] | None = None, timeout: float, share: Share | None = None
    ) -> None:
        origin = parse_origin(url)
        own = {b"host": b"Host: " + origin.authority + b"\r\n"}
        for name, value in (headers or {}).items():
            field = _own_field(name, value)
            own[name.lower().encode()] = field
        self._own_fields = b"".join(own.values())
        self._not_forwarded = _FRAMING | own.keys()
        self._target = origin.target
        self._url = url
        self._timeout = timeout
        self._pool = Pool(origin, share or Share())

    def target(self, query: bytes) -> bytes:
        """Return the path and query of the client's URL. If the URL has no query, add `query`, which is that of a
        caller's request."""
        return self._target + b"?" + query if query and b"?" not in self._target else self._target

    def url_of(self, replica: str) -> str:
        """Return the URL; it is the same for all names, as there is one replica only."""
        return self._url

    async def send(
        self,
        method: str,
        headers: RawHeaders,
        body: bytes = b"",
        *,
        target: bytes | None = None,
        route: Route = ANYWHERE,
    ) -> "Answer":
        """Send a request with end-to-end `headers` and wait for the head of its answer.

        `target` replaces the URL's path and query. Raises `UpstreamUnavailable`, `UpstreamTimeout`, `AnswerError` for
        an answer that is not HTTP, and `RequestError` for a request that no HTTP message can carry.
        """
        return await self.exchange(self.prepare(method, headers, target=target), body, None, route)

    def prepare(self, method: str, headers: RawHeaders, *, target: bytes | None = None) -> "Prepared":
        """Return a request head that can be sent repeatedly. `target` is as in `send`. Raises `RequestError` as `send`
        does."""
        line = b"%b %b HTTP/1.1\r\n" % (method.encode("latin-1", "replace"), self._target if target is None else target)
        if not _REQUEST_LINE.fullmatch(line):
            raise _cannot_be_sent()
        fields = self._fields(headers)
        return Prepared(b"".join((line, self._own_fields, *fields)), method == "HEAD", method in _WITH_BODY)

    def readdressed(self, prepared: "Prepared", to: "UpstreamClient") -> "Prepared":
        """Return a head prepared by this client, addressed to another client's server."""
        head, own = prepared.head, self._own_fields
        start = head.index(b"\r\n") + 2
        addressed = b"".join((head[:start], to._own_fields, head[start + len(own) :]))
        return Prepared(addressed, prepared.bodiless, prepared.has_length)

    async def exchange(
        self,
        prepared: "Prepared",
        body: bytes,
        headers: RawHeaders | None = None,
        route: Route = ANYWHERE,
        deadline: float | None = None,
    ) -> "Answer":
        """Send a prepared head, and more `headers`, with a body. `route` is ignored, as there is only one replica.
        `deadline` is in the loop's time. Raises what `send` raises."""
        head = self._head(prepared, len(body), headers)
        if deadline is None:
            deadline = asyncio.get_running_loop().time() + self._timeout
        connection = self._pool.rested() or await self._pool.dial(deadline)
        response = connection.start(head, body, bodiless=prepared.bodiless)
        try:
            while response.head is None:
                await connection.more(deadline)
        except BaseException:
            if not response.complete:  # otherwise the connection already serves another exchange
                connection.abort()
            raise
        return Answer(connection, response, response.head)

    def left_out(self) -> int | None:
        """Return how many replicas are ejected at present. That is None here, as a single one is never ejected."""
        return None

    async def reachable(self) -> bool:
        """Return whether the upstream accepts connections: an idle connection is usable, or a new one can be opened."""
        try:
            await self._pool.probe(asyncio.get_running_loop().time() + REACHABLE_SECONDS)
        except UpstreamError:
            return False
        return True

    async def close(self) -> None:
        """Close every connection. Requests in progress fail."""
        await self._pool.close()

    def _head(self, prepared: "Prepared", size: int, headers: RawHeaders | None) -> bytes:
        more = b"".join(self._fields(headers)) if headers else b""
        framing = b"Content-Length: %d\r\n\r\n" % size if size or prepared.has_length else b"\r\n"
        return prepared.head + more + framing

    def _fields(self, headers: RawHeaders) -> list[bytes]:
        """Return headers in wire form, in parts. Those that the client writes itself are left out. Raises
        `RequestError`."""
        parts: list[bytes] = []
        for name, value in headers:
            if name.lower() not in self._not_forwarded:
                parts += (name, b": ", value, b"\r\n")
        # Checked whatever their source: an extra line could smuggle in a request that was never judged.
        if not _sound(parts[::4], parts[2::4]):
            raise _cannot_be_sent()
        return parts


class Prepared(Struct, frozen=True):
    """A checked request head, up to the fields about the body's length. `bodiless` says that the answer has no body.
    `has_length` says that the request states its body's length even if that is 0."""

    head: bytes
    bodiless: bool = False
    has_length: bool = True


def _cannot_be_sent() -> RequestError:
    return RequestError(INVALID_REQUEST, "Invalid Request: a header or a path that can't be forwarded")


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


def target_of(url: str, location: bytes | None) -> str | None:
    """Return the absolute target of a redirect of `url`, or None if its location is missing or not a usable URL."""
    try:
        target = urljoin(url, (location or b"").decode("ascii"))
        parts = urlsplit(target)
        usable = bool(location) and parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return target if usable and "@" not in parts.netloc else None


def same_origin(one: str, other: str) -> bool:
    """Return whether two URLs have the same scheme, host and port."""
    return _origin(one) == _origin(other)


def words_for(status: int, url: str, location: bytes | None, key: str = "upstream.url") -> str:
    """Return the description of a redirect. `key` is the configuration key of the server's URL."""
    target = target_of(url, location)
    if target is None:
        return f"status {status}, a redirect that leads nowhere"
    here, there = urlsplit(url), urlsplit(target)
    if same_origin(url, target):
        to = _mask_path(there.path)  # what to change comes first: the text may be cut
        return f"status {status} to {to} ({key} has to name it): a redirect to {_way(here.path, there.path)}"
    way = "another server"
    if here.hostname == there.hostname and here.scheme != there.scheme:
        way = f"the same host {'by https' if there.scheme == 'https' else 'without TLS'}"
    return f"status {status}, a redirect to {way}: {key} has to name it, if it is meant"


def _way(here: str, there: str) -> str:
    if there == f"{here}/":
        return "the same path with a slash at its end"
    if here == f"{there}/":
        return "the same path without the slash at its end"
    return "the same path" if here == there else "another path of the server"


def _mask_path(path: str) -> str:
    return excerpt("/".join(each if _PLAIN.fullmatch(each) else "*" for each in path.split("/")) or "/")


def _origin(url: str) -> tuple[str, str | None, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


Grow = Callable[[int], Coroutine[Any, Any, None]]


class Answer:
    """An answer whose `head` has arrived. Read it to its end, or `close` it. `replica` is the name of the replica that
    answers, "" for a single one. `on_close`, if set, is called by `close`."""

    __slots__ = ("_connection", "_response", "head", "on_close", "replica", "status")

    def __init__(self, connection: Connection, response: Response, head: AnswerHead) -> None:
        self._connection = connection
        self._response = response
        self.head = head
        self.status = head.status
        self.replica = ""
        self.on_close: Callable[[], None] | None = None

    @property
    def headers(self) -> RawHeaders:
        """The headers as they came, including hop-by-hop ones, with names in lower case."""
        return self.head.headers

    def header(self, name: bytes) -> bytes | None:
        """Return a header's value; `name` is in lower case. The values of a repeated header are joined by
        `DUPLICATED`."""
        return self.head.fields.get(name)

    def short(self, limit: int) -> bytes | None:
        """Return the whole raw body and close the answer, if it has arrived, and is short: within `limit` bytes, and so
        few that edited copies of it need no room. Otherwise return None."""
        response = self._response
        if response.complete and response.unread <= min(limit, SHORT_MESSAGE_BYTES):
            return response.take()
        return None

    async def read(self, limit: int, *, timeout: float, grow: Grow | None = None) -> bytes:
        """Return the whole raw body, within `timeout` seconds in all, and close the answer.

        `grow` reserves memory for a number of bytes.

        Raises `AnswerError` as soon as the body is certain to exceed `limit` bytes, `UpstreamTimeout`, and
        `UpstreamUnavailable` if it is cut off.
        """
        try:
            self.check_length(limit)
            return await self._gather(limit, asyncio.get_running_loop().time() + timeout, grow)
        finally:
            self.close()

    def check_length(self, limit: int) -> None:
        """Raise `AnswerError` if the head declares a body of more than `limit` bytes, and one comes: the answer to HEAD
        has none."""
        response = self._response
        if response.length is not None and response.length > limit and (response.unread or not response.complete):
            raise _too_large(limit)

    @property
    def has_come(self) -> bool:
        """Whether the whole body has arrived, read or not."""
        return self._response.complete

    def rest(self) -> bytes:
        """Return what has arrived of the body since the last read."""
        return self._response.take()

    async def chunk(self, *, timeout: float | None) -> bytes:
        """Return the next bytes of the body, at most some 500 KiB, or b"" at its end.

        Raises `UpstreamTimeout` if none came within `timeout` seconds; then this may be called again. Raises
        `AnswerError` or `UpstreamUnavailable` if no more will come.
        """
        response = self._response
        deadline = asyncio.get_running_loop().time() + timeout if timeout is not None else None
        while not response.unread and not response.complete:
            await self._connection.more(deadline)
        return response.take()

    def handed_over(self) -> "Answer":
        """Return this answer as a new object, whose owner must end it. Closing the old object does nothing any more."""
        other = Answer(self._connection, self._response, self.head)
        self._response = Response()
        self._response.complete = True
        return other

    def close(self) -> None:
        """Drop the unread part: an unfinished answer closes its connection."""
        response = self._response
        if not response.complete:
            self._connection.abort()
        if response.pieces:
            response.take()
        if self.on_close is not None:
            self.on_close()

    async def _gather(self, limit: int, deadline: float, grow: Grow | None) -> bytes:
        response = self._response
        whole = BytesIO()  # grows in place, and returns its bytes without a copy
        while True:
            whole.write(response.take())
            if whole.tell() > limit:
                raise _too_large(limit)
            if grow is not None and whole.tell() > LARGE_ANSWER_BYTES:
                await grow(max(whole.tell(), response.length or 0))
            if response.complete:
                return whole.getvalue()
            if asyncio.get_running_loop().time() >= deadline:
                raise UpstreamTimeout("the upstream did not finish its answer in time")
            await self._connection.more(deadline)


def _too_large(limit: int) -> AnswerError:
    return AnswerError(f"the answer is larger than {limit} bytes", bound=True)
