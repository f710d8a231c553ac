"""The trace id of the call at hand, read only when something is logged. No I/O."""

import re
from contextvars import ContextVar
from typing import Any

from accredit.errors import FrameError
from accredit.jsonrpc.frames import Frame, Notification, Request
from accredit.jsonrpc.requests import Batch, meta_of
from accredit.jsonrpc.scalars import as_string

_current: ContextVar[Frame | Batch | None] = ContextVar("accredit_current_message", default=None)
# W3C Trace Context, version 00: version, trace id, parent id, flags.
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


def set_current(message: Frame | Batch | None) -> None:
    """Names the message that this task is about."""
    _current.set(message)


def trace_id() -> str | None:
    """The trace id in `params._meta.traceparent` of the current message, if it is one."""
    message = _current.get()
    if not isinstance(message, Request | Notification):
        return None
    try:
        parent = as_string(meta_of(message.params).get("traceparent"))
    except FrameError:
        return None
    found = _TRACEPARENT.fullmatch(parent or "")
    return found[1] if found else None


def traced() -> dict[str, Any]:
    """The field of a log line that names the trace, where there is one."""
    found = trace_id()
    return {} if found is None else {"trace_id": found}
