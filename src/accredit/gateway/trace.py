"""The trace id of a call, as its client gives it: for logs and records. No I/O."""

import re
from contextvars import ContextVar
from typing import Any

from accredit.jsonrpc.frames import Frame, Notification, Request
from accredit.jsonrpc.objects import as_string
from accredit.jsonrpc.requests import Batch

_current: ContextVar[Frame | Batch | None] = ContextVar("accredit_current_message", default=None)
# W3C Trace Context, section 3.2.2: version, trace id, parent id, flags. No id is all zeros, there is no version ff, and
# only a version after 00 may have more, behind a dash.
_TRACEPARENT = re.compile(r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")


def set_current(message: Frame | Batch | None) -> None:
    """Set the message that the current task is about."""
    _current.set(message)


def trace_of(message: Frame | Batch | None) -> str | None:
    """Return the trace id in `params._meta.traceparent` of a message, if it is one: 32 lowercase hex characters."""
    if not isinstance(message, Request | Notification):
        return None
    match = _TRACEPARENT.fullmatch(as_string(message.in_meta("traceparent")) or "")
    return match[2] if match and not (match[1] == "00" and match[3]) else None


def trace_id() -> str | None:
    """Return the trace id of the current message, or None."""
    return trace_of(_current.get())


def traced() -> dict[str, Any]:
    """Return the field of a log line that names the trace, where there is one."""
    id = trace_id()
    return {} if id is None else {"trace_id": id}
