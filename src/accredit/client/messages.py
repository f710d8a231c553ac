"""Reads a server's messages from bytes, and writes messages. I/O: the body of a response.

- [measure] A message is measured before it is decoded: its bytes, its values at any depth, and the digits of long
  numbers (the time to decode a number grows with the square of its digits). If it exceeds a bound, that is a
  `FrameError` with `bound`.
- [one-step] Only then is it decoded, in one step, after other tasks have had their turn. The bounds keep that step
  below a tenth of a second.
- [events] A stream of events is split as bytes. An event may have as many bytes as a message, and as many lines as a
  gateway allows.

The SDK would decode to text first, and then to its models. For an event of 16 MiB, that took 340 MiB of memory, and
blocked the loop for a second.
"""

from collections.abc import AsyncIterator, Iterator

import anyio.lowlevel
import httpx2
import msgspec
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCMessage, jsonrpc_message_adapter
from msgspec import structs
from pydantic import BaseModel, ValidationError

from accredit.errors import FrameError
from accredit.jsonrpc.arrays import check_values
from accredit.jsonrpc.encode import UNAVAILABLE, UPSTREAM_ERROR
from accredit.jsonrpc.objects import parts_of
from accredit.jsonrpc.sse import Event, SseParser
from accredit.jsonrpc.text import check_text, outside_strings
from accredit.limits import MAX_ANSWER_BYTES, MAX_ANSWER_VALUES

MAX_ANSWER_LONG_DIGITS = 1_048_576
"""How many digits such a message may have in all, in numbers of a hundred digits and more. The time for a number grows
with the square of its digits. In integers of 4,300 digits, the longest that are read, this many digits take 30 ms to
read, and 80 ms to write."""


RAW_BYTES = 1_024
"""How many raw bytes of an event are kept besides its data. They contain its `retry`."""

_LONG_DIGITS = b"0" * 100
_DIGITS = bytes(ord("0") if byte in b"0123456789" else ord(" ") for byte in range(256))


def unavailable(reason: str) -> ErrorData:
    """Return the error of a request that got no answer of the gateway. Hosts show nothing but the message, so the
    reason is in it, too."""
    return ErrorData(code=UPSTREAM_ERROR, message=f"{UNAVAILABLE}: {reason}", data=reason)


async def read_message(text: bytes) -> SessionMessage | FrameError:
    """Decode a message. Return an error in its place if it is invalid. Raises `FrameError` if it exceeds a bound."""
    try:
        _check(text)
        await anyio.lowlevel.checkpoint()  # others have their turn
        return SessionMessage(jsonrpc_message_adapter.validate_python(msgspec.json.decode(text), by_name=False))
    except FrameError as error:
        if error.bound:
            raise
        return error
    except (msgspec.MsgspecError, ValidationError, RecursionError):
        return FrameError("not one of MCP's messages")


async def events_of(response: httpx2.Response) -> AsyncIterator[Event]:
    """Yield a stream's events, each with the first `RAW_BYTES` of its bytes. Raises `FrameError` for an event beyond a
    bound, and `httpx2`'s errors for a stream that breaks off, or a body that is not a stream."""
    if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
        raise httpx2.SSEError("not a stream of events")
    parser = SseParser(MAX_ANSWER_BYTES)
    async for piece in response.aiter_raw():
        for event in parser.feed(piece):
            shortened = structs.replace(event, raw=event.raw[:RAW_BYTES])
            del event
            yield shortened


def is_message(event: Event) -> bool:
    """Return whether an event carries a message."""
    return bool(event.data) and event.name in (None, b"", b"message")


def encode_message(message: JSONRPCMessage) -> bytes:
    """Encode a message."""
    return _encode(message)


def can_be_written(message: JSONRPCMessage) -> bool:
    """Return whether a message has a form in UTF-8. A text with half of a surrogate pair has none; language models
    write such texts."""
    try:
        _encode(message)
    except UnicodeEncodeError:
        return False
    return True


def _members(model: BaseModel) -> dict[str, object]:
    return {name: getattr(model, name) for name in model.model_fields_set}


_encode = msgspec.json.Encoder(enc_hook=_members).encode


def _check(text: bytes) -> None:
    if len(text) > MAX_ANSWER_BYTES:
        raise FrameError(f"a message of more than {MAX_ANSWER_BYTES} bytes", bound=True)
    check_values(text, "a message", MAX_ANSWER_VALUES)
    check_text(text)
    # Few texts have too many digits, and then mostly in strings.
    if len(text) > MAX_ANSWER_LONG_DIGITS and _long_digits(parts_of(text)) and _long_digits(outside_strings(text)):
        raise FrameError("a message with too many long numbers", bound=True)


def _long_digits(parts: Iterator[bytes]) -> bool:
    found = sum(part.translate(_DIGITS).count(_LONG_DIGITS) for part in parts)
    return found * len(_LONG_DIGITS) > MAX_ANSWER_LONG_DIGITS
