"""The trace id of a call, for logs and records: the id of the span made for it, otherwise the client's. No I/O.

The message is held by a weak reference only. A timer keeps the context in which it was set. With a strong reference,
each idle connection, session or child process would keep its last message, of up to some megabytes, in memory.
"""

from contextvars import ContextVar
from typing import Any
from weakref import ref

from accredit.jsonrpc.frames import Frame, Notification, Request
from accredit.jsonrpc.objects import as_string
from accredit.jsonrpc.requests import Batch
from accredit.telemetry import trace_context

_TRACED = (Request, Notification)
_current: ContextVar[ref[Request | Notification] | None] = ContextVar("accredit_current_message", default=None)


def set_current(message: Frame | Batch | None) -> None:
    """Set the current task's message, by a weak reference."""
    _current.set(ref(message) if isinstance(message, _TRACED) else None)


def current() -> Request | Notification | None:
    """Return the current task's message, if it is of a type that can belong to a trace."""
    known = _current.get()
    return known() if known is not None else None


def trace_of(message: Frame | Batch | None) -> str | None:
    """Return the trace id that the gateway gave the message, else the one in its `params._meta.traceparent`, if valid:
    32 lower-case hex characters."""
    if not isinstance(message, Request | Notification):
        return None
    if isinstance(message, Request) and message.watcher is not None and message.watcher.trace_id is not None:
        return message.watcher.trace_id
    context = trace_context(as_string(message.in_meta("traceparent")) or "")
    return context.trace_id if context is not None else None


def trace_id() -> str | None:
    """Return the trace id of the current message, or None."""
    return trace_of(current())


def trace_field() -> dict[str, Any]:
    """Return the trace id as a field of a log line, or an empty dict if there is none."""
    id = trace_id()
    return {} if id is None else {"trace_id": id}
