"""`accredit connect`: presents a gateway as a stdio server, for hosts that can't make proofs. Speaks HTTP to the
gateway.

- [lines] A line of the host is one message. An invalid line is answered with an error line. A valid message is
  forwarded as it is, with a proof and the token if needed (`streams`). Messages of both eras pass (legacy: MCP up to
  2025-11-25, modern: from 2026-07-28 on), and so do the server's requests to its client. If the host is legacy and the
  server modern, a `bridge` stands between them.
- [result-kinds] Answers are passed to the host unchanged. A result of a kind that the host can't know becomes an error.
  A refused tool call becomes a result, readable for models and people, that says what would allow it. Other refusals
  become errors with that text. Key, proof, challenge and token are never passed on. If a person can be asked
  (`client.asking`), the call is held meanwhile, and made once more if the person allows it.
- [session-first] Messages of a legacy host wait while its `initialize` is unanswered. Before that answer there is no
  session to bind proofs to, and the server's era is unknown.
- [useless-proof] An unusable key or delegation does not end the program, since hosts don't tell people why a server has
  ended. It is not used, and the text of each refusal says what is wrong with it. A delegation is read again once its
  file is mended; for a key the host has to be restarted.
- [ends] When the host closes its side, open calls may finish. While the gateway is gone, each request gets an error; a
  later request may find the gateway again.

Only messages are ever written to the host.
"""

import asyncio
import logging
import signal
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from msgspec import Struct
from msgspec.structs import replace
from pydantic import ValidationError

from accredit.base.stdio import StdioHost
from accredit.base.text import excerpt
from accredit.base.values import members_of
from accredit.client.asking import Allowed, Asking, AskPending, Say, Withheld, denial_message
from accredit.client.bridge import Bridge
from accredit.client.budgets import Budgets, CallBudget
from accredit.client.desk_start import DeskStarter
from accredit.client.gateways import GatewayAddress, to_gateway
from accredit.client.headers import RoutingHeaders, modern_version
from accredit.client.messages import encode_message, unavailable
from accredit.client.pages import Pages
from accredit.client.presenter import ProofPresenter
from accredit.client.refusals import Caller, explain_refusal, mark_uncovered, public_data, refusal_of
from accredit.client.sdk import Incoming, ReadStream, WriteStream
from accredit.consent.asks import Ask
from accredit.errors import ConfigurationError, FrameError, LineTooLong, RequestError
from accredit.jsonrpc.encode import INVALID_ANSWER, INVALID_REQUEST, UPSTREAM_ERROR, error_frame
from accredit.jsonrpc.frames import Frame, Request
from accredit.jsonrpc.lines import LineSplitter, encode_line
from accredit.jsonrpc.methods import BATCH_REVISION, TARGET_MEMBER
from accredit.jsonrpc.requests import Batch, decode_request
from accredit.jsonrpc.responses import COMPLETE, declared_extensions, is_result_type
from accredit.limits import GRACE_SECONDS, HOLD_SECONDS, MAX_OPEN_REQUESTS, STOP_GRACE_SECONDS
from accredit.refusals import DENIED

MAX_HOST_LINE_BYTES = 16_777_216
"""The longest message of the host, in bytes, that `accredit connect` reads."""


_log = logging.getLogger("accredit.client")


class Connecting(Struct, frozen=True, kw_only=True):
    """The gateway, and how to speak to it. Without a `presenter` nothing is proved, and the gateway's refusals say so;
    `key_fault` is why there is none, if a key was named.

    With `modern`, the modern era is spoken to the gateway if possible, whatever the host speaks. `desk` are the
    possible paths of the socket of the desk to ask; if there are none, nobody is asked. `starter` starts a desk if none
    runs, and `hold` is how many seconds a call waits for a person.
    """

    gateway: GatewayAddress
    presenter: ProofPresenter | None = None
    key_fault: ConfigurationError | None = None
    show_uncovered: bool = False
    modern: bool = False
    desk: tuple[Path, ...] = ()
    starter: DeskStarter | None = None
    hold: float = HOLD_SECONDS


async def run(connecting: Connecting) -> int:
    """Serve until the host ends, or a signal to stop comes. Return the exit code. Raises `ConfigurationError`."""
    presenter, url, shown = connecting.presenter, connecting.gateway.url, connecting.show_uncovered
    reached = replace(connecting.gateway, on_trouble=_log.warning)
    transport = to_gateway(reached, presenter, uncovered=mark_uncovered if shown else None)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    asking = None
    if presenter is not None and connecting.desk:
        asking = Asking(presenter, url, connecting.desk, connecting.hold, starter=connecting.starter)
    host = StdioHost()
    code = 1
    with anyio.CancelScope() as ending:  # a gateway or a desk that does not answer must not delay our end
        async with Bridge(transport, modern=connecting.modern).open() as (read, write):
            caller = Caller(presenter, url, key_fault=connecting.key_fault)
            code = await _Connection(read, write, host, caller, asking).serve(stopping)
            ending.deadline = anyio.current_time() + STOP_GRACE_SECONDS
            if asking is not None:
                await asking.withdraw()
    with suppress(TimeoutError):
        async with asyncio.timeout(STOP_GRACE_SECONDS):
            await host.drained(0)
    return code


class _Open(Struct):
    """An open request of the host: whether it belongs to the modern era, and which extensions it declares. `holding` is
    the task that waits for a person's answer to it, once a person is asked. `by_page` says that the host is first asked
    to show a page."""

    message: JSONRPCRequest
    modern: bool
    extensions: frozenset[str]
    left: CallBudget
    holding: asyncio.Task[None] | None = None
    by_page: bool = False

    @property
    def method(self) -> str:
        return self.message.method


class _Connection:
    """The host's side and the gateway's side, and the open requests between them."""

    def __init__(
        self,
        read: ReadStream[Incoming],
        write: WriteStream[SessionMessage],
        host: StdioHost,
        caller: Caller,
        asking: Asking | None = None,
    ) -> None:
        self._asking = asking
        self._pages = Pages(self._tell)
        self._holds: set[asyncio.Task[None]] = set()
        self._read = read
        self._write = write
        self._host = host
        self._caller = caller
        self._headers = RoutingHeaders()
        self._open: dict[RequestId, _Open] = {}
        self._budgets = Budgets()
        self._idle = asyncio.Event()
        self._idle.set()
        self._begun = asyncio.Event()
        self._begun.set()
        self._waiting: asyncio.Queue[JSONRPCMessage] = asyncio.Queue(MAX_OPEN_REQUESTS)
        self._revision = ""

    async def serve(self, stopping: asyncio.Event) -> int:
        """Serve until either side ends ([ends])."""
        from_host = asyncio.create_task(self._from_host())
        from_gateway = asyncio.create_task(self._from_gateway())
        sending = asyncio.create_task(self._to_gateway())
        ends = {from_gateway, asyncio.create_task(stopping.wait()), asyncio.create_task(self._host.gone.wait())}
        tasks = {from_host, sending, *ends}
        try:
            await asyncio.wait({from_host, *ends}, return_when=asyncio.FIRST_COMPLETED)
            if from_host.done():
                self._stop_asking()  # nobody waits for the answers any more
                tasks.add(over := asyncio.create_task(self._over()))
                await asyncio.wait({over, *ends}, timeout=GRACE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            for id in list(self._open) if from_gateway.done() else ():
                self._settle(id)
                self._tell(JSONRPCError(jsonrpc="2.0", id=id, error=unavailable("the connection was lost")))
            for task in (from_host, from_gateway, sending):
                if task.done():
                    task.result()  # an unexpected exception must not pass for an end
            return 1 if from_gateway.done() else 0
        finally:
            tasks |= self._holds
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _over(self) -> None:
        """Wait until all of the host's messages have been forwarded, and all of its requests answered."""
        await self._waiting.join()
        await self._idle.wait()

    def _stop_asking(self) -> None:
        self._asking = None
        for id, opened in list(self._open.items()):
            if opened.holding is not None and not opened.holding.done():
                self._settle(id)

    async def _from_host(self) -> None:
        splitter = LineSplitter(MAX_HOST_LINE_BYTES)
        chunk = b"-"
        while chunk:
            chunk = await self._host.read()
            for line in splitter.feed(chunk or b"\n"):  # the last line may be unterminated
                try:
                    for frame in self._frames(line):
                        await self._take(frame)
                except RequestError as error:
                    self._host.send(encode_line(error_frame(error.id, error.code, error.detail)))
                if chunk:
                    await self._host.drained()

    def _frames(self, line: bytes | FrameError) -> tuple[Frame, ...]:
        """Return the messages of a line. Those of a batch are forwarded and answered one by one. Raises
        `RequestError`."""
        if isinstance(line, FrameError):
            id = line.id if isinstance(line, LineTooLong) and line.kind != "response" else None
            raise RequestError(INVALID_REQUEST, f"Invalid Request: {line.detail}", id=id)
        decoded = decode_request(line, batch_allowed=self._revision == BATCH_REVISION)
        return decoded.frames if isinstance(decoded, Batch) else (decoded,)

    async def _take(self, frame: Frame) -> None:
        """Check and queue a message of the host ([lines]). Raises `RequestError`."""
        try:
            message = jsonrpc_message_adapter.validate_json(frame.text, by_name=False)
        except ValidationError:
            raise RequestError(INVALID_REQUEST, "Invalid Request: not one of MCP's messages") from None
        match message:
            case JSONRPCRequest():
                if message.id in self._open:
                    raise RequestError(INVALID_REQUEST, "Invalid Request: this id is in use", id=message.id)
                opened = self._open[message.id] = _open_request(message, frame, self._budgets.begin())
                self._idle.clear()
                if self._asking is not None and self._is_declined(self._asking, opened):
                    return
                message = opened.message
            case JSONRPCNotification(method="notifications/cancelled"):
                self._settle((message.params or {}).get("requestId"))
            case JSONRPCResponse() | JSONRPCError() if self._pages.settles(message):
                return
            case _:
                pass
        await self._waiting.put(message)

    async def _to_gateway(self) -> None:
        """Send the queued messages to the gateway, once `initialize` is answered ([session-first])."""
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # `serve` answers the open requests
            while True:
                message = await self._waiting.get()
                await self._begun.wait()
                if isinstance(message, JSONRPCRequest) and message.method == "initialize":
                    self._begun.clear()
                metadata = ClientMessageMetadata(headers=self._headers.of(message))
                await self._write.send(SessionMessage(message, metadata))
                self._waiting.task_done()

    async def _from_gateway(self) -> None:
        """Pass messages of the gateway to the host ([result-kinds])."""
        async for item in self._read:
            if isinstance(item, Exception):
                _log.warning("a message of the gateway can't be read")
                continue
            if isinstance(item.message, JSONRPCRequest) and item.message.method != "ping" and not self._budgets.asked():
                error = ErrorData(code=INTERNAL_ERROR, message="Too many requests for input")
                await self._waiting.put(JSONRPCError(jsonrpc="2.0", id=item.message.id, error=error))
                continue
            for_host = self._for_host(item.message)
            if for_host is not None:
                self._host.send(encode_line(encode_message(for_host)))
                await self._host.drained()

    def _for_host(self, message: JSONRPCMessage) -> JSONRPCMessage | None:
        """Return a message in the host's form. Return None for an answer that the host does not await."""
        if not isinstance(message, JSONRPCResponse | JSONRPCError):
            return message
        opened = self._open.get(message.id) if message.id is not None else None
        if opened is None:
            return None
        why_not = self._ask_person(message, opened) if isinstance(message, JSONRPCError) else ""
        if why_not is None:
            return None
        self._settle(message.id)
        if opened.method == "initialize":
            self._begun.set()
        if isinstance(message, JSONRPCError):
            return self._refusal(message, opened, why_not=why_not)
        fault = _unknown_kind(message, opened)
        if fault is not None:
            return fault
        self._headers.learn(opened.method, message.result)
        if self._asking is not None:
            self._asking.learn(opened.method, message.result)
        if opened.method == "initialize":
            self._revision = str(message.result.get("protocolVersion"))
        return message

    def _ask_person(self, message: JSONRPCError, opened: _Open) -> str | None:
        """Ask a person about a refused call, and return None: the host gets its answer later. If nobody is asked,
        return the reason as a text, "" if it need not be told."""
        refusal = refusal_of(message.error)
        if self._asking is None or opened.holding is not None or refusal is None:
            return ""
        ask = self._asking.ask_for(opened.method, opened.message.params or {}, refusal)
        if isinstance(ask, str):
            return ask
        opened.holding = self._start(self._hold(self._asking, ask, message, opened))
        return None

    def _is_declined(self, asking: Asking, opened: _Open) -> bool:
        """Check whether the host already showed the ask's page for this request. If the person declined there, answer
        the request and return True."""
        message = opened.message
        if message.method == "initialize":
            self._pages.begin(message)
        opened.by_page = opened.modern and self._pages.asks_by_page(message)
        resumed = self._pages.resumed(message, asking.agent_id)
        if resumed is None:
            return False
        opened.message = resumed.request
        if resumed.declined:
            opened.holding = self._start(self._decline(asking, resumed.code, opened))
        return resumed.declined

    async def _decline(self, asking: Asking, code: str, opened: _Open) -> None:
        await asking.deny(code)
        self._settle(opened.message.id)
        refused = ErrorData(code=DENIED, message="declined", data={"error": "ratify_scope_denied"})
        error = JSONRPCError(jsonrpc="2.0", id=opened.message.id, error=refused)
        self._tell(self._refusal(error, opened, told=denial_message("The user", code)))

    async def _hold(self, asking: Asking, ask: Ask, refused: JSONRPCError, opened: _Open) -> None:
        """Wait for a person's answer, then make the call once more, or tell the host why it is not made."""
        outcome = await asking.hold(ask, self._progress(opened), self._pages, wait=not opened.by_page)
        if isinstance(outcome, Allowed):
            await self._waiting.put(opened.message)
            return
        self._settle(opened.message.id)
        if isinstance(outcome, AskPending):
            result = self._pages.input_required(outcome.ask, outcome.url, ask.agent_id)
            self._tell(JSONRPCResponse(jsonrpc="2.0", id=opened.message.id, result=result))
        elif isinstance(outcome, Withheld):
            self._tell(self._refusal(refused, opened, told=outcome.text))
        else:
            self._tell(self._refusal(refused, opened, why_not=outcome))

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._holds.add(task)
        task.add_done_callback(self._holds.discard)
        return task

    def _tell(self, message: JSONRPCMessage) -> None:
        self._host.send(encode_line(encode_message(message)))

    def _progress(self, opened: _Open) -> Say | None:
        token = members_of((opened.message.params or {}).get("_meta")).get("progressToken")
        if isinstance(token, bool) or not isinstance(token, str | int):
            return None

        async def say(passed: float, total: float, text: str) -> None:
            params = {"progressToken": token, "progress": round(passed, 3), "total": total, "message": text}
            self._tell(JSONRPCNotification(jsonrpc="2.0", method="notifications/progress", params=params))
            await self._host.drained()

        return say

    def _refusal(self, message: JSONRPCError, opened: _Open, *, told: str = "", why_not: str = "") -> JSONRPCMessage:
        """Return a refusal in the host's form. `told` replaces the text about what would allow the call. `why_not` says
        why nobody was asked."""
        refusal = refusal_of(message.error)
        if refusal is None or message.id is None:
            return message
        _log.warning("the gateway refused %s: %s", excerpt(opened.method), excerpt(refusal.error))
        target = (opened.message.params or {}).get(TARGET_MEMBER.get(opened.method, ""))
        text = told or "\n".join(filter(None, (explain_refusal(refusal, self._caller, opened.method, target), why_not)))
        if opened.method != "tools/call":
            error = ErrorData(code=refusal.code, message=text, data=public_data(refusal.data))
            return JSONRPCError(jsonrpc="2.0", id=message.id, error=error)
        result = {"content": [{"type": "text", "text": text}], "isError": True}
        kind = {"resultType": "complete"} if opened.modern else {}
        return JSONRPCResponse(jsonrpc="2.0", id=message.id, result={**kind, **result})

    def _settle(self, id: object) -> None:
        opened = self._open.pop(id, None) if isinstance(id, int | str) else None
        if opened is not None:
            self._budgets.end(opened.left)
        if opened is not None and opened.holding is not None and opened.holding is not asyncio.current_task():
            opened.holding.cancel()  # it withdraws the ask
        if not self._open:
            self._idle.set()


def _open_request(message: JSONRPCRequest, frame: Frame, left: CallBudget) -> _Open:
    modern = bool(modern_version(message.params or {}))
    declared = declared_extensions(frame) if modern and isinstance(frame, Request) else frozenset[str]()
    return _Open(message, modern, declared, left)


def _unknown_kind(message: JSONRPCResponse, opened: _Open) -> JSONRPCError | None:
    kind = message.result.get("resultType", COMPLETE) if opened.modern else COMPLETE
    if isinstance(kind, str) and is_result_type(kind, opened.method, opened.extensions):
        return None
    reason = f"an unknown resultType: {excerpt(str(kind))}"
    _log.warning("a result of the gateway can't be used: %s", reason)
    return JSONRPCError(
        jsonrpc="2.0", id=message.id, error=ErrorData(code=UPSTREAM_ERROR, message=INVALID_ANSWER, data=reason)
    )
