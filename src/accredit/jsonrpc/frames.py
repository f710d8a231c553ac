"""Frames: one JSON-RPC message each, told apart and checked. No I/O.

A frame is bytes and what they say; the bytes stay as they came, so that what is not changed can be forwarded
byte for byte. `decode_frame` applies, in this order (docs/reference/validation.md):

1. the text is strict JSON (`text.check_text`), one object, no duplicate or misspelt member in it;
2. `jsonrpc` is exactly "2.0";
3. a message with `method` is a request (with an id) or a notification (without), and has no result or error;
4. a message without is a response: exactly one of `result` and `error`, an id that is a string or an integer,
   or, for an error only, null;
5. `error.code` is an integer, `error.message` a string, and `error` has no duplicate or misspelt member.
"""

from msgspec import Raw, Struct

from accredit.errors import FrameError, MessageId
from accredit.jsonrpc.objects import Names, is_object, unambiguous_members
from accredit.jsonrpc.scalars import as_integer, as_string
from accredit.jsonrpc.text import check_text

MESSAGE = Names("jsonrpc", "id", "method", "params", "result", "error")
_ERROR = Names("code", "message", "data")


class Request(Struct, frozen=True):
    """A call that is owed an answer."""

    id: MessageId
    method: str
    params: Raw | None
    text: bytes


class Notification(Struct, frozen=True):
    """A call that is owed none."""

    method: str
    params: Raw | None
    text: bytes


class Success(Struct, frozen=True):
    """A response with a `result` (which may be null: a member that is present counts)."""

    id: MessageId
    result: Raw
    text: bytes


class Failure(Struct, frozen=True):
    """A response with an `error`. `id` is None where the sender could not tell what it answers."""

    id: MessageId | None
    code: int
    message: str
    error: Raw
    text: bytes


Frame = Request | Notification | Success | Failure
Response = Success | Failure


def decode_frame(text: bytes) -> Frame:
    """Reads one message. Raises `FrameError` for anything that is not exactly one."""
    check_text(text)
    return frame_of(unambiguous_members(text, MESSAGE), text)


def decode_error(text: bytes) -> Failure:
    """Reads the body of an HTTP error status: an error response. Raises `FrameError`.

    There it may lack its id (2025-11-25, basic/transports, "Sending Messages to the Server").
    """
    check_text(text)
    found = unambiguous_members(text, MESSAGE)
    frame = frame_of({"id": Raw(b"null"), **found}, text)
    if not isinstance(frame, Failure):
        raise FrameError("an error status without an error")
    return frame


def frame_of(found: dict[str, Raw], text: bytes) -> Frame:
    """The message whose members are `found` (rules 2 to 5)."""
    if as_string(found.get("jsonrpc")) != "2.0":
        raise FrameError('"jsonrpc" is not "2.0"')
    if "method" in found:
        return _call_of(found, text)
    return _response_of(found, text)


def message_id(raw: Raw) -> MessageId:
    """A string or an integer: 1.0, 1.5, true and null are no ids. Raises `FrameError`."""
    value = as_integer(raw)
    if value is not None:
        return value
    name = as_string(raw)
    if name is None:
        raise FrameError('"id" is neither a string nor an integer')
    return name


def _call_of(found: dict[str, Raw], text: bytes) -> Request | Notification:
    if "result" in found or "error" in found:
        raise FrameError("a message with both a method and a result or error")
    method = as_string(found["method"])
    if method is None:
        raise FrameError('"method" is not a string')
    params = found.get("params")
    if params is not None and not is_object(params):
        raise FrameError('"params" is not an object')
    if "id" not in found:
        return Notification(method, params, text)
    return Request(message_id(found["id"]), method, params, text)


def _response_of(found: dict[str, Raw], text: bytes) -> Response:
    if "id" not in found:
        raise FrameError("neither a method nor an id")
    if "result" in found:
        if "error" in found:
            raise FrameError("both a result and an error")
        return Success(message_id(found["id"]), found["result"], text)
    if "error" not in found:
        raise FrameError("neither a result nor an error")
    error = found["error"]
    code, message = _error_of(error)
    no_id = bytes(found["id"]) == b"null"
    return Failure(None if no_id else message_id(found["id"]), code, message, error, text)


def _error_of(raw: Raw) -> tuple[int, str]:
    if not is_object(raw):
        raise FrameError('"error" is not an object')
    error = unambiguous_members(raw, _ERROR)
    code = as_integer(error.get("code"))
    if code is None:
        raise FrameError('"error.code" is not an integer')
    message = as_string(error.get("message"))
    if message is None:
        raise FrameError('"error.message" is not a string')
    return code, message
