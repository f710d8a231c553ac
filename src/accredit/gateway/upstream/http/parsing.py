"""Parses a connection's answers with httptools, adds bounds, and refuses some syntax that httptools tolerates. No I/O.

The result does not depend on how the bytes are split, except for where exactly a bound of [bounds] takes effect.
Refused with `AnswerError`, in this order:

- [syntax] What llhttp refuses: bare LF, folded lines, control characters, both Content-Length and Transfer-Encoding,
  two Content-Lengths, invalid chunk sizes (RFC 9112 sections 5, 6, 7).
- [bounds] Too many headers, bytes of head, interim answers, or bytes without content between pieces of a body.
- [version] A version other than 1.0 and 1.1, a status outside of 100 to 599, and 101: nobody asked to switch protocols.
- [coding] A transfer coding other than `chunked`, and any in HTTP/1.0 (section 6.1).

Blank lines before a status line are ignored, as in llhttp.

A server's heads repeat. So if an answer comes whole, in one read, its head is cached: all bytes but the digits of its
Content-Length. The same head may come again with the whole body, of the stated length or in one chunk. Then neither
head nor body is parsed, and the cached `AnswerHead` is used.
"""

import re
from typing import NoReturn

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from accredit.base.caching import CachedProperty
from accredit.errors import AnswerError, UpstreamUnavailable
from accredit.gateway.forwarding import Forwarding
from accredit.gateway.headers import SESSION_HEADER, HeadText, RawHeaders, fold
from accredit.gateway.media_types import EVENTS_TYPE, JSON_TYPE, MediaType, answer_type
from accredit.jsonrpc.era import VERSION_HEADER
from accredit.limits import MAX_HEADERS, MAX_INTERIM_ANSWERS, MAX_REMEMBERED_HEAD_BYTES, MAX_SESSION_ID_BYTES

IDLE_SECONDS = 4.0
"""How long a connection is kept for the next request. Common servers (Node, uvicorn) close after five seconds of
silence. A request that reaches the server after it has closed is lost, as it can't be sent again."""
MAX_ANSWER_HEADS = 8
"""How many heads of one server's answers are cached. They repeat, except for the length and, each second,
the date. A lookup takes some 0.1 us for each. Each has at most `MAX_REMEMBERED_HEAD_BYTES`."""
MAX_HEAD_BYTES = 65_536
"""How many bytes the names and values of an answer's headers may have. Also how many bytes without content an upstream
may send in a row (an endless status line, chunk extension or trailer). Servers themselves stop at 8 to 64 KiB."""
MAX_PIECES = 256
"""How many pieces of a body may wait before they are joined. Each piece costs some 50 bytes of its own."""
WITH_RESULT = frozenset({200, 201, 203})
"""The statuses whose whole body is the answer to a request. With 205 clients see no body, with 206 they see a part of
one. Clients read the other statuses below 300 in different ways (RFC 9110 section 15.3)."""

_KEEP_ALIVE_TIMEOUT = re.compile(rb"(?:^|[,;\s])timeout\s*=\s*\"?(\d{1,9})", re.IGNORECASE)
_END_OF_HEAD = b"\r\n\r\n"
_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,8}\r\n")
_END_OF_CHUNKS = b"\r\n0\r\n\r\n"

_WITHOUT_BODY = (204, 304)
_ONE_NAME = re.compile(rb"[!-+\--~]+")  # visible characters, as MCP requires, and no list


class ForwardedHeaders:
    """The headers of a head that one `Forwarding` lets through. They do not depend on the body's length."""

    __slots__ = ("by", "headers")

    def __init__(self) -> None:
        self.by: Forwarding | None = None
        self.headers: RawHeaders = []


class AnswerHead:
    """A head that has arrived.

    `headers` are as they came, including hop-by-hop ones, with names in lower case. `length` is the declared length.
    `chunked` says that the body comes in chunks. `idle_seconds` says for how long the connection may be reused
    afterwards.
    """

    def __init__(
        self,
        status: int,
        headers: RawHeaders,
        *,
        length: int | None = None,
        chunked: bool = False,
        idle_seconds: float = 0.0,
    ) -> None:
        self.status = status
        self.headers = headers
        self.length = length
        self.chunked = chunked
        self.idle_seconds = idle_seconds
        self._passed_on = ForwardedHeaders()

    def passed_on(self, forwarding: Forwarding) -> RawHeaders:
        """Return the headers to forward to the client. The result is cached for this `forwarding`, and made anew for
        another one."""
        known = self._passed_on
        if known.by is not forwarding:
            known.by, known.headers = forwarding, forwarding.to_client(self.headers)
        return known.headers

    def with_length(self, length: int) -> "AnswerHead":
        """Return this head with another Content-Length. What is cached about the head is kept."""
        if length == self.length:
            return self
        head = AnswerHead.__new__(AnswerHead)
        head.__dict__ = {name: value for name, value in vars(self).items() if name != "fields"}
        head.length = length
        head.headers = [(name, b"%d" % length if name == b"content-length" else value) for name, value in self.headers]
        return head

    @CachedProperty
    def fields(self) -> dict[bytes, bytes]:
        """The values by name. The values of a repeated header are joined by `DUPLICATED`."""
        return fold(self.headers)

    @CachedProperty
    def media_type(self) -> MediaType:
        """The media type that the answer claims."""
        return answer_type(self.fields.get(b"content-type"))

    @CachedProperty
    def is_stream(self) -> bool:
        """Whether the answer is an event stream."""
        return self.media_type.name == EVENTS_TYPE

    @CachedProperty
    def is_json(self) -> bool:
        """Whether the answer is JSON in UTF-8."""
        return self.media_type.name == JSON_TYPE and self.in_utf8

    @CachedProperty
    def names_once(self) -> bool:
        """Whether the head names at most one session and one revision. If a field is repeated, empty or a list, clients
        differ in which value they take."""
        named = [self.fields.get(name) for name in (SESSION_HEADER, VERSION_HEADER)]
        return all(value is None or _ONE_NAME.fullmatch(value) for value in named)

    @CachedProperty
    def session_fits(self) -> bool:
        """Whether the session id in the head is short enough to be sent back by the client."""
        return len(self.fields.get(SESSION_HEADER, b"")) <= MAX_SESSION_ID_BYTES

    @CachedProperty
    def in_utf8(self) -> bool:
        """Whether the answer names no charset other than UTF-8."""
        return self.media_type.in_utf8


class AnswerHeads:
    """The latest heads of one server's answers."""

    def __init__(self) -> None:
        self._known: list[tuple[HeadText, AnswerHead]] = []

    def __len__(self) -> int:
        """Return how many heads are cached."""
        return len(self._known)

    def find(self, data: bytes) -> tuple[AnswerHead, bytes] | None:
        """Return the cached head of a whole answer, and the answer's body. Return None if the head is unknown, or the
        answer is not certainly whole."""
        for text, head in self._known:
            rest = text.rest(data)
            if rest is not None:
                body = _one_chunk(rest) if head.chunked else rest
                return None if body is None else (head if head.chunked else head.with_length(len(body)), body)
        return None

    def put(self, text: HeadText, head: AnswerHead) -> None:
        """Cache a head, and drop the oldest if there are too many."""
        self._known = [(text, head), *self._known[: MAX_ANSWER_HEADS - 1]]


class Response:
    """An answer as it arrives: the parser fills it, and its reader empties it.

    `head` is None, and `status` 0, until the head is complete. `idle_seconds` says for how long the connection may be
    reused once the answer is `complete`. 0 means that it may not.
    """

    __slots__ = ("complete", "head", "idle_seconds", "pieces", "status", "unread")

    def __init__(self) -> None:
        self.status = 0
        self.head: AnswerHead | None = None
        self.pieces: list[bytes] = []
        self.unread = 0
        self.complete = False
        self.idle_seconds = 0.0

    @property
    def headers(self) -> RawHeaders:
        """The headers; none before the head is complete."""
        return self.head.headers if self.head is not None else []

    @property
    def length(self) -> int | None:
        """The declared length of the body, if there is one."""
        return self.head.length if self.head is not None else None

    def begin(self, head: AnswerHead) -> None:
        """Set the head."""
        self.head = head
        self.status = head.status
        self.idle_seconds = head.idle_seconds

    def take(self) -> bytes:
        """Return the bytes of the body that arrived since the last call."""
        pieces = self.pieces
        if not pieces:
            return b""
        self.pieces = []
        self.unread = 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def cut_off(response: Response) -> UpstreamUnavailable:
    """Return the error for an incomplete answer."""
    if response.status:
        return UpstreamUnavailable("the upstream's answer was cut off")
    return UpstreamUnavailable("the upstream closed the connection before it answered")


class ResponseParser:
    """Fills one `Response` after another. It can't be used again after an error, or an answer with `idle_seconds` 0."""

    __slots__ = (
        "_begun", "_bodiless", "_fault", "_fields", "_head_bytes", "_headers", "_heads", "_http", "_interim",
        "_response", "_without_body",
    )  # fmt: skip

    def __init__(self, heads: AnswerHeads | None = None) -> None:
        """`heads` are the server's cached heads. The parser adds to them."""
        self._heads = AnswerHeads() if heads is None else heads
        self._http = HttpResponseParser(self)
        self.expect(bodiless=False)

    def expect(self, *, bodiless: bool) -> Response:
        """Start the next answer. With `bodiless` it answers HEAD, and so ends with its head."""
        self._response = Response()
        self._bodiless = bodiless
        self._begun = False
        return self._response

    def feed(self, data: bytes) -> None:
        """Parse more bytes. Bytes after the end of an answer make the connection unusable, but not the answer."""
        response = self._response
        at_start, self._begun = not self._begun, True
        if at_start:
            if not self._bodiless and self._repeat(response, data):
                return
            self._headers: RawHeaders = []
            self._fault: AnswerError | None = None
            self._fields = self._head_bytes = self._interim = self._without_body = 0
        self._without_body += len(data)
        try:
            self._http.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            if not response.complete:
                raise self._fault or AnswerError(f"the upstream's answer is not HTTP: {error}") from None
            response.idle_seconds = 0.0
        if response.complete:
            if at_start and response.idle_seconds and not self._interim:
                self._remember(response, data)
            return
        if self._without_body > MAX_HEAD_BYTES:
            raise AnswerError("the upstream's answer goes on without a body", bound=True)
        if len(response.pieces) > MAX_PIECES:
            response.pieces = [b"".join(response.pieces)]

    def end(self) -> None:
        """Note that the upstream closed the connection. This ends an answer that has neither a length nor chunks."""
        response = self._response
        head = response.head
        if head is None or head.length is not None or head.chunked:
            raise cut_off(response)
        response.complete = True

    def on_message_begin(self) -> None:
        """An answer starts. If the answer that was requested is already complete, this one is unrequested."""
        if self._response.complete:
            self._refuse("more than one answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header field or a trailer. Trailers are counted, and dropped."""
        self._fields += 1
        self._head_bytes += len(name) + len(value)
        if self._fields > MAX_HEADERS or self._head_bytes > MAX_HEAD_BYTES:
            self._refuse("the upstream's answer has too many headers, or too large ones", bound=True)
        if not self._response.status:
            self._headers.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        """The head is complete."""
        response = self._response
        status = self._http.get_status_code()
        version = self._http.get_http_version()
        if version not in ("1.1", "1.0"):
            self._refuse("the upstream's answer is of another HTTP version")
        if status < 200:
            self._pass_interim(status)
            return
        if status > 599:
            self._refuse("the upstream's answer has no valid status")
        response.begin(self._head(status, version))
        self._without_body = 0
        if self._bodiless:
            # llhttp would wait for the announced body; nothing after the head belongs to this answer.
            response.complete = True
            self._refuse("a body in answer to HEAD")

    def on_body(self, piece: bytes) -> None:
        """A piece of the body."""
        response = self._response
        response.pieces.append(piece)
        response.unread += len(piece)
        self._without_body = 0

    def on_message_complete(self) -> None:
        """The answer, or an interim one, is complete."""
        response = self._response
        if response.status:
            response.complete = True
            if not self._http.should_keep_alive():
                response.idle_seconds = 0.0

    def _pass_interim(self, status: int) -> None:
        self._interim += 1
        if status == 101:
            self._refuse("the upstream switched protocols")
        if status < 100:
            self._refuse("the upstream's answer has no valid status")
        if self._interim > MAX_INTERIM_ANSWERS:
            self._refuse("the upstream's answer does not come to its point", bound=True)
        self._headers.clear()

    def _head(self, status: int, version: str) -> AnswerHead:
        idle_seconds = IDLE_SECONDS
        length: int | None = None
        codings: list[bytes] = []
        for name, value in self._headers:
            if name == b"content-length":
                length = int(value)
            elif name == b"transfer-encoding":
                codings.append(value.lower())
            elif name == b"keep-alive" and (timeout := _KEEP_ALIVE_TIMEOUT.search(value)):
                # The upstream's clock started before ours.
                idle_seconds = min(idle_seconds, int(timeout[1]) - 1.0)
        if codings and (codings != [b"chunked"] or version == "1.0"):
            self._refuse("the upstream's answer has an unknown transfer coding")
        idle_seconds = max(idle_seconds, 0.0)
        return AnswerHead(status, self._headers, length=length, chunked=bool(codings), idle_seconds=idle_seconds)

    def _repeat(self, response: Response, data: bytes) -> bool:
        """If `data` is a whole answer with a cached head, fill the response from it, and return True."""
        found = self._heads.find(data)
        if found is None:
            return False
        head, body = found
        response.begin(head)
        response.complete = True
        if body:
            response.pieces.append(body)
            response.unread = len(body)
        return True

    def _remember(self, response: Response, data: bytes) -> None:
        """Cache the head of an answer that came in `data` alone, if its body can be found there without a parser."""
        end = data.find(_END_OF_HEAD) + len(_END_OF_HEAD)
        head = response.head
        if head is None or head.status in _WITHOUT_BODY or end > MAX_REMEMBERED_HEAD_BYTES:
            return
        text = HeadText(data[:end]) if head.chunked else HeadText.measured(data[:end])
        rest = text.rest(data) if text is not None else None
        body = _one_chunk(rest) if head.chunked and rest is not None else rest
        if text is not None and body is not None and body == b"".join(response.pieces):
            self._heads.put(text, head)

    def _refuse(self, detail: str, *, bound: bool = False) -> NoReturn:
        """Make llhttp stop here, by an exception in this callback. `feed` then ends with an `HttpParserError`."""
        self._fault = AnswerError(detail, bound=bound)
        raise self._fault


def _one_chunk(data: bytes) -> bytes | None:
    """Return the content of `data` if it is one chunk and the end of the body, and nothing else."""
    size = _CHUNK_SIZE.match(data)
    if size is None or not data.endswith(_END_OF_CHUNKS):
        return None
    body = data[size.end() : -len(_END_OF_CHUNKS)]
    return body if body and len(body) == int(size[0], 16) else None
