"""Writes the few frames that the gateway makes itself, and the few members that it changes. No I/O."""

from collections.abc import Mapping

import msgspec
from msgspec import Raw

from accredit.errors import MessageId
from accredit.jsonrpc.methods import CANCELLED

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
UPSTREAM_ERROR = -32000
"""The error code that says: the upstream's answer was invalid or missing."""
HEADER_MISMATCH = -32020
"""The error code that says: HTTP headers and body disagree (2026-07-28, basic/transports)."""

UNSUPPORTED_VERSION = -32022
"""The error code that says: the receiver does not support this revision (2026-07-28, basic/transports)."""

INVALID_ANSWER = "Invalid upstream JSON-RPC response"
UNAVAILABLE = "Upstream unavailable"

to_json = msgspec.json.encode


def error_frame(id: MessageId | None, code: int, message: str, data: object = None) -> bytes:
    """Return an error response as compact JSON text; `data` is omitted if None."""
    error: dict[str, object] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return to_json({"jsonrpc": "2.0", "id": id, "error": error})


def cancellation(id: MessageId, reason: str) -> bytes:
    """Return the notification that cancels a request."""
    return to_json({"jsonrpc": "2.0", "method": CANCELLED, "params": {"requestId": id, "reason": reason}})


def around(name: str, own: Mapping[str, object]) -> tuple[bytes, bytes]:
    """Return two parts of the text of the object `own`: what precedes the value of its member `name`, and what follows
    it."""
    names = list(own)
    at = names.index(name)
    before = to_json({**{each: own[each] for each in names[:at]}, name: 0})[: -len(b"0}")]
    after = to_json({each: own[each] for each in names[at + 1 :]})
    return before, b"," + after[1:] if after != b"{}" else b"}"


def with_members(own: dict[str, Raw], changes: dict[str, object]) -> bytes:
    """Return an object's text with some members replaced or added; the text of all other values is unchanged."""
    return to_json({**own, **changes})
