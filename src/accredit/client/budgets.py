"""Bounds on what a server sends a client: per message, and over each whole call. No I/O.

- [message] A message has at most so many values and characters, and fewer values in members that the SDK's models
  validate: for each invalid one they make five errors. This holds on every transport, also on the caller's own. What
  that one takes to read a message is its own.
- [call] A call gets so many characters from its server in all, over all answers, rounds and notifications, and so many
  dialogs. What may queue for the host has lower bounds: each notification, and all requests during a call. As not every
  transport tells a message's call, it counts for the one with most left.
- [excess] What exceeds a bound is not passed on: an answer becomes an error, anything else is dropped.
"""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from msgspec import Struct

from accredit.client.sdk import Incoming
from accredit.errors import FrameError
from accredit.jsonrpc.encode import INVALID_ANSWER, UPSTREAM_ERROR
from accredit.limits import MAX_ANSWER_BYTES, MAX_ANSWER_VALUES, MAX_DIALOGS, MAX_ROUNDS, MAX_TYPED_VALUES

MAX_CALL_CHARS = 67_108_864
"""Characters from a server in all while a call is open: four of the longest answers."""
MAX_NOTIFICATION_CHARS = 262_144
"""Characters of a notification from a server. Progress waits for the host's callback, and with one rare character takes
1 MiB each. Hosts show a line of it."""
MAX_CALL_ASKED_CHARS = 8_388_608
"""Characters of what a server asks for while a call is open: requests that wait for a person or a model are kept. As
many as some pictures have, for a model to look at; with one rare character in each they take 32 MiB."""


_log = logging.getLogger("accredit.client")

_UNTYPED = frozenset({"structuredContent", "inputSchema", "outputSchema", "_meta"})
"""Members that the SDK's models don't validate."""


class CallBudget(Struct, eq=False):
    """The rest of a call's budget: dialogs, and characters of its server's messages, and of its requests."""

    dialogs: int
    chars: int = MAX_CALL_CHARS
    asked_chars: int = MAX_CALL_ASKED_CHARS


class Budgets:
    """The remaining budgets of one client's calls. `rounds` is how many each may have: it gets `MAX_DIALOGS` dialogs
    for each of them."""

    def __init__(self, rounds: int = MAX_ROUNDS) -> None:
        self._dialogs = MAX_DIALOGS * max(rounds, 1)
        self._calls: list[CallBudget] = []
        self._between = CallBudget(self._dialogs)
        """The budget while no call is open."""

    def begin(self) -> CallBudget:
        """Return the budget of a call that starts now."""
        left = CallBudget(self._dialogs)
        self._calls.append(left)
        return left

    def end(self, left: CallBudget) -> None:
        """Remove a call's budget."""
        self._calls.remove(left)
        self._between = CallBudget(self._dialogs)

    @contextmanager
    def call(self) -> Generator[None]:
        """Open a call for the time of this context."""
        left = self.begin()
        try:
            yield
        finally:
            self.end(left)

    def asked(self) -> bool:
        """Count a dialog; return whether it is allowed."""
        call = max(self._calls or [self._between], key=lambda left: left.dialogs)
        call.dialogs -= 1
        return call.dialogs >= 0

    def heard(self, item: Incoming) -> Incoming | None:
        """Count a message of the server; return what is passed on ([excess])."""
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
        """Count a message that may queue for the host. Raises `FrameError`."""
        if isinstance(message, JSONRPCNotification) and chars > MAX_NOTIFICATION_CHARS:
            raise FrameError(f"a notification of more than {MAX_NOTIFICATION_CHARS} characters", bound=True)
        if isinstance(message, JSONRPCRequest):
            call = max(self._calls or [self._between], key=lambda left: left.asked_chars)
            if chars > call.asked_chars:
                raise FrameError(f"more than {MAX_CALL_ASKED_CHARS} characters asked in one call", bound=True)
            call.asked_chars -= chars


def characters(message: JSONRPCMessage) -> int:
    """Count a message's characters. Raises `FrameError` for too many of them, or of values."""
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
