"""HTTP/1.1 (RFC 9112) for clients: the protocol that uvicorn's server gets for its sockets. Runs in the event loop.

httptools parses; an `HttpRequest` carries one request and its response. Requests of a connection are answered in
their order, one at a time.

- [head-bounds] The head, the trailers and each chunk extension may each have `MAX_REQUEST_HEAD_BYTES`; a request to an
  HTTP API, which has its proof in a header, may have `MAX_PROOF_HEAD_BYTES`. The number of
  fields is bounded by `MAX_HEADERS`, and that of pipelined requests by `MAX_PIPELINED_REQUESTS`.
- [ambiguous-head] An ambiguous head is refused: a version other than 1.0 and 1.1, a transfer coding other than
  `chunked`, any coding in HTTP/1.0 (section 6.1), a target whose host is not `Host` (section 3.2.2).
- [trailers] Trailers are read and dropped.
- [upgrade] `Upgrade` is ignored, and the request answered in HTTP/1.1 (RFC 9110 section 7.8).
- [error-response] An invalid request is answered only if that can't be mistaken for the response to an earlier one.
- [eager-start] A request starts as soon as its bytes are read, not at the loop's next step, and without an asyncio
  task (`gateway.eager`).
- [same-head] If one read brings exactly one POST with its whole body, the connection remembers its head. If the same
  bytes come again, they are not parsed again. Only the digits of Content-Length may differ, and a body of exactly
  that length must follow.
"""

import asyncio
import logging
import urllib.parse
from collections.abc import Coroutine
from contextvars import copy_context
from typing import Any, NamedTuple, NoReturn, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser, parse_url
from uvicorn.config import Config
from uvicorn.server import ServerState

from accredit.app.connection import ClientConnection
from accredit.app.http_request import CLOSING, HttpExchange, HttpRequest, status_line
from accredit.gateway.app import Gateway, Routes
from accredit.gateway.eager import EagerTask
from accredit.gateway.headers import HeadText, RawHeaders, RequestHead
from accredit.limits import MAX_HEADERS, MAX_REMEMBERED_HEAD_BYTES

MAX_PIPELINED_REQUESTS = 16
"""The most requests of one connection that may wait for the answer to an earlier one. Clients and proxies send one at a
time. One read of the event loop could bring some 10,000, each of which costs a kilobyte and, when its turn comes,
time."""
MAX_REQUEST_HEAD_BYTES = 65_536
"""The most bytes of a request outside its body, at a time: its head, its trailers, or a chunk's extension. Clients and
proxies themselves stop at 8 to 64 KiB."""

MAX_PROOF_HEAD_BYTES = 196_608
"""The most bytes of a request's head where a header may hold a proof. The largest has 174,763 bytes in base64url."""
HELD_BODY_BYTES = 65_536
"""How many bytes of a body are held for an application that does not read yet. After that the client has to wait."""

_TOO_LARGE = "The request's head is too large."
_INVALID = "Invalid HTTP request received."
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})
_END_OF_HEAD = b"\r\n\r\n"

_logger = logging.getLogger("accredit.app")


class _Refused(Exception):
    """Stops the parser: httptools turns an exception in a callback into an `HttpParserError`."""


class _KnownHead(NamedTuple):
    """A request's head, as bytes and as parsed (without Content-Length), and the routes for which it was parsed."""

    text: HeadText
    head: RequestHead
    routes: Routes


class HttpConnection(ClientConnection):
    """One client's connection."""

    __slots__ = (
        "_app",
        "_at_boundary",
        "_begun",
        "_context",
        "_current",
        "_fault",
        "_gateway",
        "_head_bytes",
        "_headers",
        "_known",
        "_parser",
        "_request",
        "_resuming",
        "_target",
        "_waiting",
        "_without_progress",
    )

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._app = cast(Any, config.loaded_app)
        self._gateway = self._app if isinstance(self._app, Gateway) else None
        self._parser: Any = None
        """The `HttpRequestParser`, made when bytes come that are to be parsed."""
        self._context = copy_context()  # in which no call is
        self._request: HttpRequest | None = None
        """The last request whose head has come."""
        self._current: HttpRequest | None = None
        self._waiting: list[HttpRequest] = []
        """At most `MAX_PIPELINED_REQUESTS`. An empty `deque` would take 0.8 KB."""
        self._known: _KnownHead | None = None
        self._begin_head()
        self._at_boundary = True
        """Whether the next byte begins a request."""
        self._resuming = False
        self._begun = 0
        """How many requests have begun in the bytes that are being read."""
        self._without_progress = 0
        self._fault = ""

    def connection_lost(self, exc: Exception | None) -> None:
        """Interrupt the request: the connection has ended."""
        super().connection_lost(exc)
        self._known = None
        for request in (self._current, *self._waiting):
            if request is not None and not request.answered:
                request.lose()

    def shutdown(self) -> None:
        """Close the connection after the response to the last request received. If none is being answered, close it
        now. uvicorn calls this."""
        if self._is_answering:
            self.answer_last()
        else:
            self.close()

    def answer_last(self) -> None:
        """Close the connection after the response to the last request received."""
        if self._request is not None and not self._request.answered:
            self._request.keep_alive = False

    def data_received(self, data: bytes) -> None:
        """Take bytes: if they are a known head with a new body, start that request; otherwise feed the parser."""
        before, known = self._current, self._known
        if known is not None and self._gateway is not None and known.routes is not self._gateway.routes:
            known = self._known = None  # there was a reload
        if known is not None and (not self._at_boundary or self._is_answering):
            known = None
        self._begun = 0
        body = known.text.rest(data) if known is not None else None
        if known is None or body is None:
            self._read(data)
        else:
            self._repeat(known, body)
        current = self._current
        self.note_read(self._without_progress, works=current is not None and current.begun and not current.answered)
        if current is not None and current is not before:
            self._start(current)
        elif current is not None:
            current.wake()

    @property
    def most_head_bytes(self) -> int:
        """How many bytes a head may have ([head-bounds])."""
        prefixes = self._gateway.routes.proof_prefixes if self._gateway is not None else ()
        return MAX_PROOF_HEAD_BYTES if prefixes and self._target.startswith(prefixes) else MAX_REQUEST_HEAD_BYTES

    def work_of(self, request: HttpRequest) -> Coroutine[Any, Any, None]:
        """Return the work that answers a request: the gateway's."""
        routes = cast(Gateway, self._app).routes
        return routes.serve(HttpExchange(request, *routes.surroundings))

    def on_message_begin(self) -> None:
        """Note that a request begins."""
        if not self._resuming:
            self._at_boundary = False
            self._begun += 1
            self._begin_head()

    def on_url(self, url: bytes) -> None:
        """Take the target of a request, or a part of it."""
        if not self._resuming:
            self._count(len(url))
            self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header field, or a trailer ([trailers])."""
        if not self._resuming:
            self._count(len(name) + len(value))
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Note that the head is complete: later fields are trailers."""
        if self._resuming:
            return
        self._without_progress = 0
        version = self._parser.get_http_version()
        self._check_head(version)
        target = parse_url(self._target)
        path = target.path.decode("ascii")
        head = RequestHead(
            self._parser.get_method().decode("ascii"),
            urllib.parse.unquote(path) if "%" in path else path,
            self._headers,
            query=target.query or b"",
            raw_path=target.path,
        )
        keep_alive = version != "1.0" and self._parser.should_keep_alive()
        self._request = HttpRequest(self, head, version, keep_alive=keep_alive)
        self._begin_head()
        if not self._is_answering:
            self._current = self._request
        else:
            self.pause_reading()
            self._waiting.append(self._request)
            if len(self._waiting) > MAX_PIPELINED_REQUESTS:
                self._refuse("Too many requests at once.")
        if self._gateway is not None and self._gateway.condition.draining:
            self.answer_last()

    def on_body(self, body: bytes) -> None:
        """Take part of a body. From here on the application sets the pace, unless it has already responded."""
        self._without_progress = 0
        request = self._request
        if request is not None and not request.answered:
            request.begun = True
            request.body += body
            if len(request.body) > HELD_BODY_BYTES:
                self.pause_reading()

    def on_message_complete(self) -> None:
        """Note that a request's last byte has come."""
        if self._parser.should_upgrade():  # the parser does not read a body behind an offer
            return
        self._at_boundary = True
        self._without_progress = 0
        if self._request is not None:
            self._request.begun, self._request.more = True, False
        if not self._is_answering:
            self.stop_clock()  # that was the rest of a body whose request is answered

    def _read(self, data: bytes) -> None:
        before, from_boundary = self._current, self._at_boundary
        self._without_progress += len(data)
        try:
            self._feed(data)
        except HttpParserError:
            self._send_400(self._fault or _INVALID)
            return
        if self._without_progress > self.most_head_bytes:
            self._send_400(_TOO_LARGE)
        if self.read_paused and self._current is not None:
            self._current.look_later()
        if from_boundary and self._at_boundary and self._begun == 1 and self._current is not before:
            self._remember(data)

    def _feed(self, data: bytes) -> None:
        if self._parser is None:
            self._parser = _parser(self)
        while True:
            try:
                self._parser.feed_data(data)
            except HttpParserUpgrade as offer:
                data = data[offer.args[0] :]
                self._pass_over()
            else:
                return

    def _pass_over(self) -> None:
        """Ignore an `Upgrade`. The parser has stopped after the head, so a new parser reads the body."""
        self._parser = _parser(self)
        headers = self._request.head.raw_headers if self._request is not None else []
        framing = [b"%b: %b\r\n" % pair for pair in headers if pair[0] in _FRAMING]
        self._resuming = True
        self._parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % b"".join(framing))
        self._resuming = False

    def _begin_head(self) -> None:
        self._target = b""
        self._headers: RawHeaders = []
        self._head_bytes = 0

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if len(self._headers) >= MAX_HEADERS or (
            self._head_bytes > MAX_REQUEST_HEAD_BYTES and self._head_bytes > self.most_head_bytes
        ):
            self._refuse(_TOO_LARGE)

    def _check_head(self, version: str) -> None:
        if version not in ("1.1", "1.0"):
            self._refuse("This is HTTP/1.1.")
        codings = [value.lower() for name, value in self._headers if name == b"transfer-encoding"]
        if codings and (codings != [b"chunked"] or version == "1.0"):
            self._refuse("The request's transfer coding is not known here.")
        if not self._target.startswith(b"/"):
            hosts = [value.lower() for name, value in self._headers if name == b"host"]
            if [self._target.partition(b"://")[2].partition(b"/")[0].lower()] != hosts:
                self._refuse("The request's target is not of this host.")

    def _refuse(self, why: str) -> NoReturn:
        self._fault = why
        raise _Refused

    def _send_400(self, message: str) -> None:
        """Close the connection. First answer 400 if the client would take that for the answer to the current request
        ([error-response]). If a head is too large where heads may hold a proof, the answer is 431 instead."""
        _logger.warning(message)
        last = self._request
        coming = last is None or last.answered or (last.more and not last.started)
        if coming and not self._waiting:
            head = b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n" % len(message)
            status = 431 if message == _TOO_LARGE and self.most_head_bytes > MAX_REQUEST_HEAD_BYTES else 400
            self.write(b"".join((status_line(status), head, CLOSING, message.encode("ascii"))))
        self.close()

    def _remember(self, data: bytes) -> None:
        """Remember the head of a request that came whole ([same-head]), if the same head would mean the same request
        again, so that only the body may differ."""
        request = self._request
        if request is None or self._gateway is None or not request.keep_alive or request.version != "1.1":
            return
        head = request.head
        if head.method != "POST" or head.query or b"expect" in head.headers or b"upgrade" in head.headers:
            return
        size = len(data) - len(request.body)
        lengths = [value for name, value in head.raw_headers if name in _FRAMING]
        if size > MAX_REMEMBERED_HEAD_BYTES or lengths != [b"%d" % len(request.body)]:
            return
        text = HeadText.measured(data[:size])
        if text is None or data.find(_END_OF_HEAD) != size - len(_END_OF_HEAD) or text.rest(data) != request.body:
            return
        self._known = _KnownHead(text, head.without(_FRAMING), self._gateway.routes)

    def _repeat(self, known: _KnownHead, body: bytes) -> None:
        """Do what the parser would do for a whole request with this known head."""
        keep_alive = self._gateway is None or not self._gateway.condition.draining
        self._request = self._current = HttpRequest(self, known.head, "1.1", keep_alive=keep_alive, body=body)

    def _start(self, request: HttpRequest) -> None:
        task: Any = EagerTask(self.work_of(request), self.loop, request.end_work, self._context.copy())
        self.server_state.tasks.add(task)
        task.start()

    def has_answered(self) -> None:
        """Start the next request, or note that the connection is idle: the current response is complete."""
        if self._transport.is_closing():
            return
        if self.read_paused:
            self.resume_reading()
        if self._waiting:
            self._current = self._waiting.pop(0)
            if not self._current.begun:
                self.await_head()
            self._start(self._current)
        else:
            if self._at_boundary:
                self._request = self._current = None
                if self._known is not None:
                    self._parser = None  # the next request probably begins as this one did
            self.rest()

    @property
    def _is_answering(self) -> bool:
        return self._current is not None and not self._current.answered


def _parser(connection: HttpConnection) -> HttpRequestParser:
    parser = HttpRequestParser(connection)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)  # what comes behind a last request is not read
    return parser
