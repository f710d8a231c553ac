"""A transport of the official SDK that adds proofs to its messages. Awaits the streams it wraps; no I/O of its own.

Proofs are added to messages only here, below the SDK's session, so that what is signed is what is written.

- [proof] A request that needs a proof gets one (`proving`). It also gets the token, if tokens are sent in messages.
- [challenge] Each answer is examined. A refusal that a new proof can answer is not passed on: the request is sent again
  under an id of our own. That id is translated back in the answer, and in a subscription's notifications.
- [list-first] If a list is needed before a call, it is requested under an id of our own. The call waits for the answer,
  with all calls that need the same list. If the list is refused, they are sent as they are.
- [lists] Only the items of a list that the delegations cover are passed on.
- [foreign-gateway] A server may claim the id of a gateway that is known under another URL. From then on nothing is sent
  to that server: each request is answered here, and everything else is dropped.
- [unwritable] A message that has no form in UTF-8 is not sent: the transport would fail with all its requests. A
  request is answered here, and an answer to the server becomes an error.
- [dialogs] While `MAX_DIALOGS` answers to the server's requests wait to be written, no more of its requests are passed
  on. Otherwise a server that reads nothing could make the host keep any number of answers.

Everything else passes unchanged, both ways. A request gets `MAX_PROOFS_OF_REQUEST` proofs in all, whatever is answered.
"""

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import cast

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectSendStream
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import (
    INVALID_PARAMS,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from msgspec import Struct

from accredit.base.text import excerpt
from accredit.base.values import members_of
from accredit.client.headers import RoutingHeaders
from accredit.client.messages import can_be_written
from accredit.client.peers import Changed
from accredit.client.pins import PinsInUse
from accredit.client.proving import Attempt, Params, Prover, with_meta
from accredit.client.sdk import Incoming, ReadStream, Transport, TransportStreams, WriteStream, send_unless_gone
from accredit.errors import ProofRefused
from accredit.jsonrpc.methods import LISTEN, META_CAPABILITIES, META_CLIENT_INFO, META_SUBSCRIPTION, META_VERSION
from accredit.limits import MAX_DIALOGS, MAX_TOLD_REASON_CHARS
from accredit.policy.guarded_call import GUARDED, LISTS
from accredit.policy.lists import KINDS
from accredit.refusals import MISSING

KNOWN_GATEWAYS_SECONDS = 0.5
"""How long a client waits for another process that has locked the file of known gateways. Reading and changing it takes
a millisecond or two; without this bound a stopped process would block all others."""
KNOWN_GATEWAYS_LOOK_SECONDS = 0.002
"""How often the client tries again meanwhile."""


_log = logging.getLogger("accredit.client")
_OF_EACH_REQUEST = frozenset({META_VERSION, META_CLIENT_INFO, META_CAPABILITIES, "token"})
"""The members that the `_meta` of a list request takes over from that of the call."""

_UNWRITABLE = ErrorData(code=INVALID_PARAMS, message="Invalid params: a text has half of a surrogate pair")

Heard = Callable[[Incoming], Incoming | None]
"""Returns the message to pass on in place of a server's message, or None: see `budgets`."""


class _Open(Struct):
    """A request whose answer is awaited, and the host's id for it."""

    sent: SessionMessage
    id: RequestId
    attempt: Attempt


class ProvingTransport:
    """A transport over `inner` that adds proofs. `open` gives a read and a write stream, as every transport does.

    Without a `prover`, no proofs are added. `token` goes into `_meta.token` of requests that need one.
    """

    def __init__(
        self,
        inner: Transport,
        prover: Prover | None,
        *,
        token: str = "",
        heard: Heard | None = None,
    ) -> None:
        self._inner = inner
        self._prover = prover
        self._token = token
        self._heard = heard
        self._open: dict[RequestId, _Open] = {}
        self._renamed: dict[RequestId, RequestId] = {}
        self._resent = 0
        self._told = ""
        self._looks = 0
        self._looking: dict[RequestId, str] = {}
        self._waiting: dict[str, list[_Open]] = {}
        self._is_closed = False
        self._tasks: TaskGroup
        self._write: WriteStream[SessionMessage]

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[TransportStreams]:
        """Open the wrapped transport."""
        async with self._inner as (read, self._write), anyio.create_task_group() as self._tasks:
            self._writer = _Writer(self._write, self._sent)
            self._to_host, from_server = anyio.create_memory_object_stream[Incoming]()
            self._tasks.start_soon(self._pass_on, read, self._to_host.clone())
            try:
                yield from_server, self._writer
            finally:
                self._is_closed = True
                from_server.close()
                self._tasks.cancel_scope.cancel()

    async def _pass_on(self, read: ReadStream[Incoming], to_host: MemoryObjectSendStream[Incoming]) -> None:
        """Pass on the server's messages, until the stream ends."""
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async with to_host, self._to_host:
                async for item in read:
                    taken = item if self._heard is None else self._heard(item)
                    changed = None if taken is None else await self._answered(taken)
                    if isinstance(changed, SessionMessage) and isinstance(changed.message, JSONRPCRequest):
                        await self._writer.few()
                    if changed is not None:
                        await to_host.send(changed)

    def _sent(self, item: SessionMessage) -> SessionMessage | None:
        """Return the message to write in place of the host's, or None to write nothing ([foreign-gateway]). Raises
        `ClosedResourceError`."""
        if self._is_closed:
            raise anyio.ClosedResourceError
        if not can_be_written(item.message):
            return self._unwritable(item.message)
        refused = self._prover.refused if self._prover is not None else None
        if refused is not None:
            if isinstance(item.message, JSONRPCRequest):
                self._tasks.start_soon(send_unless_gone, self._to_host, _refusal(item.message.id, refused))
            return None
        match item.message:
            case JSONRPCRequest():
                return self._request(item, item.message)
            case JSONRPCNotification(method="notifications/cancelled") as cancelled:
                # A server that does not read must not delay the caller of a cancelled call.
                self._write_later(self._cancelled(item, cancelled))
                return None
            case _:
                return item

    def _unwritable(self, message: JSONRPCMessage) -> SessionMessage | None:
        """Return the error to write in place of an answer, or None ([unwritable])."""
        match message:
            case JSONRPCRequest(id=id):
                answer = JSONRPCError(jsonrpc="2.0", id=id, error=_UNWRITABLE)
                self._tasks.start_soon(send_unless_gone, self._to_host, SessionMessage(answer))
                return None
            case JSONRPCResponse(id=id):
                return SessionMessage(JSONRPCError(jsonrpc="2.0", id=id, error=_UNWRITABLE))
            case _:
                return None

    def _request(self, item: SessionMessage, request: JSONRPCRequest) -> SessionMessage | None:
        # Sign the dump: it is what is written, while values in memory may have another form.
        dumped = request.model_dump(by_alias=True, mode="json", exclude_unset=True)
        params = cast("Params", dumped.get("params") or {})
        if self._token and request.method in GUARDED | LISTS | {LISTEN}:
            params = with_meta(params, {"token": self._token})
        attempt = self._prover.attempt(request.method, params) if self._prover is not None else None
        if self._prover is not None and attempt is not None:
            opened = self._open[request.id] = _Open(item, request.id, attempt)
            if (first := self._prover.list_first(attempt)) is not None:
                return self._look(first, opened)
            params = self._prover.proved(attempt)
        return item if params == (request.params or {}) else _with_params(item, request.id, params)

    def _look(self, method: str, opened: _Open) -> SessionMessage | None:
        """Let a call wait for a list. Return the request for it, or None if it was sent already ([list-first])."""
        waiting = self._waiting.setdefault(method, [])
        waiting.append(opened)
        if len(waiting) > 1:
            return None
        self._looks += 1
        id = f"accredit-list-{self._looks}"
        self._looking[id] = method
        return _list_request(method, id, opened)

    def _go_on(self, id: RequestId, result: Params) -> None:
        """Send the calls that waited for a list. Raises `PinsInUse`, with nothing changed."""
        prover = cast("Prover", self._prover)
        method = self._looking[id]
        try:
            prover.learn_list(method, result)
        except ProofRefused:
            prover.learn_list(method, {})  # from now on nothing is sent, or signed, and each call is answered so
        except PinsInUse as held:
            held.request = id
            raise
        del self._looking[id]
        for opened in self._waiting.pop(method):
            if self._open.get(opened.id) is not opened:
                continue  # it was cancelled
            del self._open[opened.id]
            message = self._sent(opened.sent)
            if message is not None:
                self._write_later(message)

    def _cancelled(self, item: SessionMessage, cancelled: JSONRPCNotification) -> SessionMessage:
        id = cast("RequestId | None", (cancelled.params or {}).get("requestId"))
        if id is None:
            return item
        wire_id = self._renamed.pop(id, id)
        self._open.pop(wire_id, None)
        if wire_id == id:
            return item
        renamed = cancelled.model_copy(update={"params": {**(cancelled.params or {}), "requestId": wire_id}})
        return SessionMessage(renamed, item.metadata)

    async def _answered(self, item: Incoming) -> Incoming | None:
        """Handle a received message (`_received`); while another process has locked the file of known gateways, try
        again."""
        until = anyio.current_time() + KNOWN_GATEWAYS_SECONDS
        while True:
            try:
                return self._received(item)
            except PinsInUse as held:
                if anyio.current_time() >= until and held.request in self._looking:
                    self._go_on(held.request, {})
                    return None
                if anyio.current_time() >= until:
                    return _refusal(self._settle(held.request).id, held.refusal)
                await anyio.sleep(KNOWN_GATEWAYS_LOOK_SECONDS)

    def _received(self, item: Incoming) -> Incoming | None:
        """Return the message to pass on in place of a received one, or None if the request was sent again instead.
        Raises `PinsInUse`, with nothing changed."""
        message = item.message if isinstance(item, SessionMessage) else None
        if isinstance(message, JSONRPCNotification):
            return self._notification(item, message)
        if not isinstance(message, JSONRPCResponse | JSONRPCError) or message.id is None:
            return item
        if message.id in self._looking:
            self._go_on(message.id, message.result if isinstance(message, JSONRPCResponse) else {})
            return None
        opened = self._open.get(message.id)
        if opened is None or self._prover is None:
            return item
        changes: dict[str, object] = {"id": opened.id}
        try:
            if isinstance(message, JSONRPCError):
                params = self._prover.again(opened.attempt, message.error.code, message.error.data)
                self._tell_refused(opened.attempt.method, message.error, is_sent_again=params is not None)
            elif opened.attempt.method in KINDS:
                changes["result"], params = self._prover.listed(opened.attempt, message.result)
            else:
                params = None
                self._prover.answered(opened.attempt, message.result)
        except ProofRefused as error:
            return _refusal(self._settle(message.id).id, error)
        except PinsInUse as held:
            held.request = message.id
            raise
        self._settle(message.id)
        if params is None:
            return SessionMessage(message.model_copy(update=changes))
        self._send_again(opened, params)
        return None

    def _tell_refused(self, method: str, error: ErrorData, *, is_sent_again: bool) -> None:
        """Log once why a list comes although the delegation is refused: the list looks as if all were well."""
        why = error.message
        if is_sent_again and method in LISTS and error.code != MISSING and why != self._told:
            self._told = why
            text = "%s; the list is shown all the same, but calls are refused, and each answer says what to do"
            _log.warning(text, excerpt(why, MAX_TOLD_REASON_CHARS))

    def _settle(self, id: RequestId) -> _Open:
        opened = self._open.pop(id)
        self._renamed.pop(opened.id, None)
        return opened

    def _notification(self, item: Incoming, message: JSONRPCNotification) -> Incoming:
        """Return a notification with the host's own id of its subscription put back."""
        id = members_of((message.params or {}).get("_meta")).get(META_SUBSCRIPTION)
        opened = self._open.get(id) if isinstance(id, str | int) else None
        if opened is None or opened.id == id:
            return item
        params = with_meta(message.params or {}, {META_SUBSCRIPTION: opened.id})
        return SessionMessage(message.model_copy(update={"params": params}))

    def _send_again(self, opened: _Open, params: Params) -> None:
        self._resent += 1
        # An id must not be used twice in a session (2025-11-25, basic, "Requests").
        wire_id = f"accredit-proof-{self._resent}"
        self._open[wire_id] = opened
        self._renamed[opened.id] = wire_id
        self._write_later(_with_params(opened.sent, wire_id, params))

    def _write_later(self, item: SessionMessage) -> None:
        # If the stream is closed by then, the waiting calls were answered.
        self._tasks.start_soon(send_unless_gone, self._write, item)


def _with_params(item: SessionMessage, id: RequestId, params: Params) -> SessionMessage:
    return SessionMessage(item.message.model_copy(update={"id": id, "params": params}), item.metadata)


def _list_request(method: str, id: str, opened: _Open) -> SessionMessage:
    """Return a request for a list, made as the host made its call: with its token, revision and headers."""
    of_call = members_of(opened.attempt.params.get("_meta"))
    meta: Params = {name: value for name, value in of_call.items() if name in _OF_EACH_REQUEST}
    request = JSONRPCRequest(jsonrpc="2.0", id=id, method=method, params={"_meta": meta} if meta else {})
    headers = RoutingHeaders().of(request)
    if not headers and isinstance(opened.sent.metadata, ClientMessageMetadata):
        headers = dict(opened.sent.metadata.headers or {})
    return SessionMessage(request, ClientMessageMetadata(headers=headers))


def _refusal(id: RequestId, refused: ProofRefused) -> SessionMessage:
    error = ErrorData(code=refused.code, message=refused.message, data=dict(refused.data))
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=id, error=error))


class _Writer(Changed):
    """Changes messages on their way out, and counts the answers to the server that wait to be written ([dialogs])."""

    def __init__(
        self, inner: WriteStream[SessionMessage], change: Callable[[SessionMessage], SessionMessage | None]
    ) -> None:
        super().__init__(inner, change)
        self._waiting = 0
        self._fewer = anyio.Event()

    async def few(self) -> None:
        """Wait until fewer than `MAX_DIALOGS` answers wait."""
        while self._waiting >= MAX_DIALOGS:
            await self._fewer.wait()

    async def _write(self, item: SessionMessage) -> None:
        answers = isinstance(item.message, JSONRPCResponse | JSONRPCError)
        self._waiting += answers
        try:
            await self._inner.send(item)
        finally:
            self._waiting -= answers
            self._fewer.set()
            self._fewer = anyio.Event()
