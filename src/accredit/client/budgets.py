"""Bounds on what a server sends a client: per message, and over each whole call. No I/O.

- [message] A message has a bounded number of values and characters. Members that the SDK's models validate may have
  fewer values, because those models make five errors for each invalid one. This holds on every transport, also on one
  that the caller passes in. How much memory such a transport takes to read a message is not bounded here.
- [call] A call has a budget of characters from its server, over all answers, rounds and notifications, and a budget of
  dialogs, which are requests of the server to the host. Messages that may queue for the host have lower bounds: each
  notification, and all requests during a call together. Not every transport tells which call a message belongs to, so
  each message is charged to the open call with the most left.
- [excess] A message that exceeds a bound is not passed on: an answer becomes an error, and any other message is
  dropped.
"""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)
from msgspec import Struct

from accredit.client.sdk import Incoming
from accredit.errors import FrameError
from accredit.jsonrpc.encode import INVALID_ANSWER, UPSTREAM_ERROR
from accredit.limits import MAX_ANSWER_BYTES, MAX_ANSWER_VALUES, MAX_DIALOGS, MAX_ROUNDS, MAX_TYPED_VALUES

MAX_CALL_CHARS = 67_108_864
"""How many characters a server may send in all while a call is open: four times those of the longest answer."""
MAX_NOTIFICATION_CHARS = 262_144
"""How many characters a notification from a server may have. Progress waits for the host's callback, and a single rare
character can make each text take 1 MiB. Hosts show a line of it."""
MAX_CALL_ASKED_CHARS = 8_388_608
"""How many characters the server's requests may have in all while a call is open: they are kept while they wait for a
person or a model. That is enough for some pictures for a model. With one rare character in each, the requests take 32
MiB."""


_log = logging.getLogger("accredit.client")

_UNTYPED = frozenset({"structuredContent", "inputSchema", "outputSchema", "_meta"})
"""Members that the SDK's models don't validate."""


class CallBudget(Struct, eq=False):
    """The rest of a call's budget: dialogs, characters of its server's messages, and characters of its server's
    requests."""

    dialogs: int
    chars: int = MAX_CALL_CHARS
    asked_chars: int = MAX_CALL_ASKED_CHARS


class Budgets:
    """The budgets of one client's open calls. `rounds` is how many rounds a call may have. A call gets `MAX_DIALOGS`
    dialogs for each round."""

    def __init__(self, rounds: int = MAX_ROUNDS) -> None:
        self._dialogs = MAX_DIALOGS * max(rounds, 1)
        self._calls: list[CallBudget] = []
        self._between = CallBudget(self._dialogs)
        """The budget while no call is open."""
        self._open_dialogs = 0

    def begin(self) -> CallBudget:
        """Return the budget of a call that starts now, and keep it until `end`."""
        left = CallBudget(self._dialogs)
        self._calls.append(left)
        return left

    def end(self, left: CallBudget) -> None:
        """Remove a call's budget."""
        self._calls.remove(left)
        self._between = CallBudget(self._dialogs)

    @contextmanager
    def call(self) -> Generator[None]:
        """Keep a call open, with a budget of its own, within this context."""
        left = self.begin()
        try:
            yield
        finally:
            self.end(left)

    @contextmanager
    def dialog(self) -> Generator[None]:
        """Count one dialog, and keep it open within this context. Raises `MCPError` if it is not allowed, or if
        `MAX_DIALOGS` are open."""
        if self._open_dialogs >= MAX_DIALOGS or not self.asked():
            raise MCPError(INTERNAL_ERROR, "Too many requests for input")
        self._open_dialogs += 1
        try:
            yield
        finally:
            self._open_dialogs -= 1

    def asked(self) -> bool:
        """Count one dialog, a request of the server to the host. Return whether it is allowed."""
        call = max(self._calls or [self._between], key=lambda left: left.dialogs)
        call.dialogs -= 1
        return call.dialogs >= 0

    def heard(self, item: Incoming) -> Incoming | None:
        """Count a message of the server. Return the message itself, an error to pass on in its place, or None
        ([excess])."""
        if not isinstance(item, SessionMessage):
            return item
        try:
            chars = characters(item.message)
            call = max(self._calls or [self._between], key=lambda left: left.chars)
            call.chars -= chars
            if call.chars < 0:
                raise FrameError(f"more than {MAX_CALL_CHARS} characters for one call", bound=True)
            self._waits(item.message, chars)
        except FrameError as error:
            _log.warning("a message of the server is not taken: %s", error.detail)
            return _in_place_of(item.message, error.detail)
        return item

    def _waits(self, message: JSONRPCMessage, chars: int) -> None:
        """Check a message against the bounds on what may queue for the host, and count it. Raises `FrameError`."""
        if isinstance(message, JSONRPCNotification) and chars > MAX_NOTIFICATION_CHARS:
            raise FrameError(f"a notification of more than {MAX_NOTIFICATION_CHARS} characters", bound=True)
        if isinstance(message, JSONRPCRequest):
            call = max(self._calls or [self._between], key=lambda left: left.asked_chars)
            if chars > call.asked_chars:
                raise FrameError(f"more than {MAX_CALL_ASKED_CHARS} characters asked in one call", bound=True)
            call.asked_chars -= chars


def characters(message: JSONRPCMessage) -> int:
    """Return how many characters a message has. Raises `FrameError` if it has too many characters or values."""
    chars = values = 0
    typed, untyped = [_content_of(message)], list[object]()
    for waiting, most in ((typed, MAX_TYPED_VALUES), (untyped, MAX_ANSWER_VALUES)):
        while waiting:
            value = waiting.pop()
            if isinstance(value, str):
                chars += len(value)
            elif isinstance(value, dict | list):
                values += len(cast("list[object]", value))
                if values > most:
                    raise FrameError(f"a message with more than {most} values", bound=True)
                if isinstance(value, list):
                    waiting += cast("list[object]", value)
                    continue
                for name, member in cast("dict[str, object]", value).items():
                    chars += len(name)
                    (untyped if name in _UNTYPED else waiting).append(member)
            if chars > MAX_ANSWER_BYTES:
                raise FrameError(f"a message of more than {MAX_ANSWER_BYTES} characters", bound=True)
    return chars


def _content_of(message: JSONRPCMessage) -> Any:
    match message:
        case JSONRPCResponse():
            return message.result
        case JSONRPCError():
            return [message.error.message, message.error.data]
        case JSONRPCRequest() | JSONRPCNotification():
            return message.params


def _in_place_of(message: JSONRPCMessage, why: str) -> SessionMessage | None:
    if not isinstance(message, JSONRPCResponse | JSONRPCError):
        return None
    error = ErrorData(code=UPSTREAM_ERROR, message=INVALID_ANSWER, data=why)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=message.id, error=error))
