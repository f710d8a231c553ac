"""The fast road through the server's protocol: a plain POST on the MCP path goes straight to the gateway. Runs in the
event loop.

Everything that uvicorn's protocol and `edge` do about connections, heads, bounds and pipelining stays; both roads are
one queue of requests, read by one parser. What is different of a plain POST (`_is_plain`):

1. it begins when the bytes that it came in are read, not at the loop's next step, and needs no task of asyncio's
   (`gateway.eager`);
2. a whole answer is one write;
3. a connection remembers the last head that came in one piece with its body and nothing else. The same bytes again,
   with a body of the same length and nothing behind it, are the same head: it is not parsed again;
4. a client that goes away is noticed by the connection's end, not by a task that waits for it. The call still has the
   moment that it has on the other road.

An application that is not a gateway itself, as where one is mounted in another, knows one road only.
"""

import asyncio
import re
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from accredit.app.edge import EdgeProtocol
from accredit.gateway.app import Gateway
from accredit.gateway.eager import EagerTask
from accredit.gateway.front.asgi import Scope, head_of
from accredit.gateway.front.fast import FastExchange
from accredit.gateway.headers import RawHeaders, RequestHead
from accredit.limits import ANSWER_PIECE_BYTES, DISCONNECT_WATCH_SECONDS, MAX_REMEMBERED_HEAD_BYTES

_END_OF_HEAD = b"\r\n\r\n"
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})
_NOT_PLAIN = frozenset({b"expect", b"upgrade"})
_NAMES = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]*")
_VALUES = re.compile(rb"[^\0-\x08\x0a-\x1f\x7f]*")


class _Head(NamedTuple):
    """A request's head as it came, the length of the body that it announces, and what was made of it."""

    text: bytes
    length: int
    scope: Scope
    head: RequestHead


class FastProtocol(EdgeProtocol):
    """One client's connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        app = cast(object, self.app)
        gateway = app if isinstance(app, Gateway) else None
        fits = not self.access_log and not self.root_path and self.limit_concurrency is None
        self._gateway = gateway if fits else None
        self._target = gateway.endpoint_path.encode("utf-8") if gateway is not None else b""
        self._known: _Head | None = None
        self._at_boundary = True
        """Whether the next byte begins another request: the parser has read whole ones only, or nothing."""
        self._reading = False
        self._begun = 0
        """Requests that have begun in the bytes that are being read."""
        self._to_start: EagerTask | None = None
        self._wire: _Wire | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone."""
        super().connection_lost(exc)
        self._known = None
        if self._wire is not None:
            self._wire.lost()

    def data_received(self, data: bytes) -> None:
        """A head that is known, with its body; else what the parser makes of it."""
        known = self._known
        again = known is not None and len(data) == len(known.text) + known.length and data.startswith(known.text)
        self._reading, self._begun = True, 0
        if known is not None and again and self._at_boundary and not self._is_answering():
            self._repeat(known, data[len(known.text) :])
        else:
            self._read(data)
        self._reading = False
        starting, self._to_start = self._to_start, None
        if starting is not None:
            starting.start()

    def on_message_begin(self) -> None:
        """A request begins."""
        self._at_boundary = False
        self._begun += 1
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """A request's head is whole."""
        super().on_headers_complete()
        if self._gateway is not None and self._gateway.draining:
            self.answer_last()

    def on_message_complete(self) -> None:
        """A request's last byte."""
        super().on_message_complete()
        self._at_boundary = True

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        if self._gateway is None or not self._is_plain(cast(Scope, cycle.scope)):
            super()._start_asgi_task(cycle, app)
        else:
            self._start(cycle, self._gateway, head_of(cast(Scope, cycle.scope)))

    def _start(self, cycle: RequestResponseCycle, gateway: Gateway, head: RequestHead) -> None:
        self._wire = wire = _Wire(self, cycle, gateway, head)
        task = EagerTask(cycle.run_asgi(cast(Any, wire.serve)), self.loop, self.tasks.discard)
        self.tasks.add(cast("asyncio.Task[None]", task))
        if self._reading:
            self._to_start = task  # there is at most one: the next waits for its answer
        else:
            self.loop.call_soon(task.start)  # its turn has come in the middle of an earlier one's

    def _read(self, data: bytes) -> None:
        from_boundary = self._at_boundary
        super().data_received(data)
        if self.flow.read_paused and self._wire is not None:
            self._wire.look_later()
        if from_boundary and self._at_boundary and self._begun == 1 and self._to_start is not None:
            self._remember(data)

    def _remember(self, data: bytes) -> None:
        """Rule 3, for one plain POST that is whole."""
        cycle = self.cycle
        size = len(data) - len(cycle.body)
        lengths = [value for name, value in cycle.scope["headers"] if name in _FRAMING]
        if not cycle.keep_alive or size > MAX_REMEMBERED_HEAD_BYTES or lengths != [b"%d" % len(cycle.body)]:
            return
        if data.find(_END_OF_HEAD) == size - len(_END_OF_HEAD) and data.endswith(cycle.body):
            scope = cast(Scope, cycle.scope)
            self._known = _Head(data[:size], len(cycle.body), scope, head_of(scope))

    def _repeat(self, known: _Head, body: bytes) -> None:
        """What the parser does about a plain POST that is whole, of one whose head is known."""
        gateway = cast(Gateway, self._gateway)
        self._unset_keepalive_if_required()
        self.cycle = cycle = RequestResponseCycle(
            scope=cast(Any, known.scope),
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=not gateway.draining,
            on_response=self.on_response_complete,
        )
        cycle.body = cast(bytearray, body)  # nothing is added to it
        cycle.more_body = False
        cycle.message_event.set()
        self._has_come()
        self._start(cycle, gateway, known.head.copy())

    def _is_plain(self, scope: Scope) -> bool:
        if scope["raw_path"] != self._target or scope["method"] != "POST" or scope["query_string"]:
            return False
        return scope["http_version"] == "1.1" and _NOT_PLAIN.isdisjoint([name for name, _ in scope["headers"]])


class _Wire:
    """One plain POST: `gateway.front.fast.Wire`, over uvicorn's cycle."""

    __slots__ = ("_cycle", "_gateway", "_head", "_looks", "_lost", "_on_gone", "_protocol")

    def __init__(
        self, protocol: FastProtocol, cycle: RequestResponseCycle, gateway: Gateway, head: RequestHead
    ) -> None:
        self._on_gone: Callable[[], None] | None = None
        self._lost = False
        self._protocol = protocol
        self._cycle = cycle
        self._gateway = gateway
        self._head = head
        self._looks = False

    async def serve(self, scope: Any, receive: Any, send: Any) -> None:
        """The application of this one request."""
        address = (self._protocol.client or ("",))[0]
        around = self._gateway.surroundings
        await self._gateway.serve(FastExchange(self, receive, send, self._head, address, *around))

    @property
    def writable(self) -> bool:
        """Whether the client keeps up."""
        return not self._cycle.flow.write_paused

    def body(self) -> bytes | None:
        """The body, once, if it is whole."""
        cycle = self._cycle
        if cycle.more_body or cycle.disconnected or not cycle.message_event.is_set():
            return None
        cycle.message_event.clear()
        cycle.flow.resume_reading()
        body = bytes(cycle.body)
        cycle.body = bytearray()
        return body

    def answer(self, status: int, headers: RawHeaders, body: bytes) -> bool:
        """Sends a whole answer, as `send` does in two messages, in one write."""
        cycle = self._cycle
        if cycle.disconnected:
            return True
        if cycle.flow.write_paused or len(body) > ANSWER_PIECE_BYTES:
            return False
        fields = [*cycle.default_headers, *headers]
        names, values = b"".join([name for name, _ in fields]), b"".join([value for _, value in fields])
        if not (_NAMES.fullmatch(names) and _VALUES.fullmatch(values)):
            raise RuntimeError("a header field that can't be sent")
        end = b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n"
        cycle.response_started = cycle.response_complete = True
        cycle.transport.write(b"".join([STATUS_LINE[status], *[b"%b: %b\r\n" % field for field in fields], end, body]))
        cycle.message_event.set()
        if not cycle.keep_alive:
            cycle.transport.close()
        cycle.on_response()
        return True

    def watch(self, on_gone: Callable[[], None] | None) -> None:
        """Sees to it that `on_gone` is called a moment after the connection's end. None ends that."""
        self._on_gone = on_gone
        if on_gone is None:
            return
        if self._lost:
            self.lost()
        if self._cycle.flow.read_paused:
            self.look_later()

    def lost(self) -> None:
        """The connection has ended. uvicorn tells only the last request of it, which may wait for its turn."""
        self._lost = self._cycle.disconnected = True
        if self._on_gone is not None:
            self._protocol.loop.call_later(DISCONNECT_WATCH_SECONDS, self._tell)

    def look_later(self) -> None:
        """Reads on after a moment, once, where others wait for their turn: else its client's end would go unnoticed."""
        if self._on_gone is not None and not self._looks:
            self._looks = True
            self._protocol.loop.call_later(DISCONNECT_WATCH_SECONDS, self._look)

    def _look(self) -> None:
        if self._on_gone is not None:
            self._cycle.flow.resume_reading()

    def _tell(self) -> None:
        if self._on_gone is not None:
            self._on_gone()
