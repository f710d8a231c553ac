"""The trace id of a call: that of the trace which was begun for it, else as its client gives it. For logs and records.
No I/O.

A timer keeps the context in which it was set, so the message is not held by that: a connection that rests, a session or
a server's child would each keep the last one, of some megabytes, for as long as they live.
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
    """Set the message that the current task is about, for as long as somebody else holds it."""
    _current.set(ref(message) if isinstance(message, _TRACED) else None)


def current() -> Request | Notification | None:
    """Return the message that the current task is about, if it is about one that may belong to a trace."""
    known = _current.get()
    return known() if known is not None else None


def trace_of(message: Frame | Batch | None) -> str | None:
    """Return the id of a message's trace, else the one in its `params._meta.traceparent`, if it is one: 32 lowercase
    hex characters."""
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
    """Return the field of a log line that names the trace, where there is one."""
    id = trace_id()
    return {} if id is None else {"trace_id": id}
