"""The fast path through uvicorn's protocol: a plain POST to the MCP path goes straight to the gateway. Runs in the
event loop.

The rules of `edge` hold unchanged; both paths share one parser and one queue of requests. For a plain POST
(`_is_plain`):

1. it starts as soon as its bytes are read, not at the loop's next step, and without an asyncio task (`gateway.eager`);
2. a whole response is one write;
3. a connection remembers the last head that came in one piece with its body and nothing else. The same bytes again,
   but for the digits of Content-Length, with a body of just that length, are not parsed again;
4. a disconnected client is noticed by the connection's end, not by a waiting task. The call has the same grace as on
   the other path.

An application that is not a gateway itself, such as one that mounts a gateway, always takes the other path.
"""

import asyncio
from contextvars import Context, copy_context
from typing import Any, NamedTuple, cast

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from accredit.app.edge import EdgeProtocol
from accredit.app.plain_post import PlainPost
from accredit.gateway.app import Gateway, Routes
from accredit.gateway.eager import EagerTask
from accredit.gateway.front.asgi import Scope, head_of
from accredit.gateway.headers import HeadText, RequestHead
from accredit.limits import MAX_REMEMBERED_HEAD_BYTES

_END_OF_HEAD = b"\r\n\r\n"
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})
_NOT_PLAIN = frozenset({b"expect", b"upgrade"})


class _Head(NamedTuple):
    """A request's head as bytes, and as parsed (without Content-Length), with the routes for which it was parsed."""

    text: HeadText
    head: RequestHead
    routes: Routes
    cycle: dict[str, Any]
    """The attributes of uvicorn's cycle for it."""


class FastProtocol(EdgeProtocol):
    """One client's connection. `address` is where it comes from."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        app = cast(object, self.app)
        gateway = app if isinstance(app, Gateway) else None
        fits = not self.access_log and not self.root_path and self.limit_concurrency is None
        self._gateway = gateway if fits else None
        self._known: _Head | None = None
        self._at_boundary = True
        """Whether the next byte begins a request."""
        self._reading = False
        self._begun = 0
        """Requests begun in the bytes being read."""
        self._to_start: EagerTask | None = None
        self._post: PlainPost | None = None
        """The last plain POST."""
        self.address = ""
        self._context = Context()

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A client has come."""
        super().connection_made(transport)
        self.address = (self.client or ("",))[0]
        self._context = copy_context()  # in which no call is

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone."""
        super().connection_lost(exc)
        self._known = None
        if self._post is not None:
            self._post.lost()

    def data_received(self, data: bytes) -> None:
        """Repeat a known head with its new body, or feed the parser."""
        known = self._known
        if known is not None and self._gateway is not None and known.routes is not self._gateway.routes:
            known = self._known = None  # there was a reload
        self._reading, self._begun = True, 0
        if known is not None and not (self._at_boundary and self.cycle.response_complete):
            known = None
        body = known.text.rest(data) if known is not None else None
        if known is None or body is None:
            self._read(data)
        else:
            self._repeat(known, body)
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
            self._start(PlainPost(self, cycle, self._gateway.routes, head_of(cast(Scope, cycle.scope))))

    def _start(self, post: PlainPost) -> None:
        self._post = post
        task = EagerTask(post.answer(), self.loop, self.tasks.discard, self._context.copy())
        self.tasks.add(task)  # pyright: ignore[reportArgumentType] - a task, though not asyncio's
        if self._reading:
            self._to_start = task  # there is at most one: the next waits for its answer
        else:
            self.loop.call_soon(task.start)  # its turn has come in the middle of an earlier one's

    def _read(self, data: bytes) -> None:
        from_boundary = self._at_boundary
        super().data_received(data)
        if self.flow.read_paused and self._post is not None:
            self._post.look_later()
        if from_boundary and self._at_boundary and self._begun == 1 and self._to_start is not None:
            self._remember(data)

    def _remember(self, data: bytes) -> None:
        """Remember the head of one whole plain POST (rule 3)."""
        cycle = self.cycle
        size = len(data) - len(cycle.body)
        lengths = [value for name, value in cycle.scope["headers"] if name in _FRAMING]
        if not cycle.keep_alive or size > MAX_REMEMBERED_HEAD_BYTES or lengths != [b"%d" % len(cycle.body)]:
            return
        text = HeadText.measured(data[:size])
        if text is None or data.find(_END_OF_HEAD) != size - len(_END_OF_HEAD) or text.rest(data) != bytes(cycle.body):
            return
        if self._gateway is not None:
            head = head_of(cast(Scope, cycle.scope)).without(_FRAMING)
            self._known = _Head(text, head, self._gateway.routes, self._whole_cycle(cast(Scope, cycle.scope)))

    def _repeat(self, known: _Head, body: bytes) -> None:
        """Do what the parser would for a whole plain POST with a known head."""
        self._begin_whole()
        self.cycle = cycle = RequestResponseCycle.__new__(RequestResponseCycle)
        cycle.__dict__ |= known.cycle
        cycle.default_headers = self.server_state.default_headers
        cycle.keep_alive = self._gateway is None or not self._gateway.draining
        self._start(PlainPost(self, cycle, known.routes, known.head, body))

    def _whole_cycle(self, scope: Scope) -> dict[str, Any]:
        """Return the attributes of a cycle whose request is complete: making a cycle for each would cost more than the
        rest. Its event is shared, as nobody waits for more of the request."""
        cycle = RequestResponseCycle(
            scope=cast(Any, scope),
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=True,
            on_response=self.on_response_complete,
        )
        cycle.more_body = False
        return vars(cycle)

    def _is_plain(self, scope: Scope) -> bool:
        if self._gateway is None or scope["raw_path"] not in self._gateway.routes.targets:
            return False
        if scope["method"] != "POST" or scope["query_string"]:
            return False
        return scope["http_version"] == "1.1" and _NOT_PLAIN.isdisjoint([name for name, _ in scope["headers"]])
