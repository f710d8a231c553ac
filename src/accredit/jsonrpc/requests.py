"""Reads what a client sends: one message, or a batch if the revision allows it. No I/O.

If the parsers of gateway and upstream differ, the gateway may decide on one reading of a request and the upstream act
on another. So requests are read more strictly than answers, in this order:

- [amount] the number of values in the text is bounded (`text.check_amount`), since the cost of all later steps grows
  with it;
- [strict-json] it is strict JSON, else -32700;
- [repeated-members] no member is repeated, at any depth. A spelling with escapes counts as the same name;
- [message] it is a valid message (`frames.frame_of`), or a non-empty array of messages if a batch is allowed;
- [lengths] its id, its method and the names in its `_meta` have bounded lengths, and are not used before that is
  checked;
- [spelling] in `params` and `params._meta`, no member differs only by case from one that MCP defines there.

Every refusal is a `RequestError`, with the request's id if that could be read.
"""

from collections.abc import Collection

from msgspec import Raw

from accredit.base.steps import Steps, at_one_go
from accredit.errors import FrameError, JsonError, MessageId, RequestError
from accredit.jsonrpc.encode import INVALID_REQUEST, PARSE_ERROR
from accredit.jsonrpc.frames import MESSAGE, Frame, Notification, Request, frame_of
from accredit.jsonrpc.methods import META_MEMBERS, METHODS, Era
from accredit.jsonrpc.objects import (
    Names,
    as_id,
    check_names,
    check_no_duplicates,
    is_object,
    split_batch,
    unambiguous_members,
)
from accredit.jsonrpc.text import check_amount, check_text
from accredit.limits import MAX_META_MEMBERS, SHORT_MESSAGE_BYTES

MAX_PARAMS_MEMBERS = 1_024
"""The most members of a request's `params`, whose names are read again and again. MCP defines up to six."""
MAX_METHOD_CHARS = 256
"""The most characters of a request's method. MCP's longest has 36; extensions prefix theirs with a domain name."""
MAX_ID_CHARS = 1_024
"""The most characters of a request's id that is a string. Clients use a counter, or a UUID of 36 characters."""
MAX_META_NAME_CHARS = 256
"""The most characters of a name in `_meta`: a domain name of at most 253, and the member's own name."""


PARAMS_MEMBERS = {name: Names("_meta", *method.params) for name, method in METHODS.items()}
"""The members that MCP defines in the `params` of each method of clients, over all revisions."""
UNKNOWN_PARAMS = Names("_meta")
"""The members that are defined in the `params` of a method that MCP does not define."""
_META_NAMES = Names(*META_MEMBERS)


class Batch:
    """The members of a JSON-RPC batch, and its text."""

    __slots__ = ("frames", "text")
    era = Era.LEGACY

    def __init__(self, frames: tuple[Frame, ...], text: bytes) -> None:
        self.frames = frames
        self.text = text


def decode_request(text: bytes, *, batch_allowed: bool = False) -> Frame | Batch:
    """Read the body of a client's POST, or a line of its stdin. Raises `RequestError`."""
    return at_one_go(read_request(text, batch_allowed=batch_allowed))


def read_request(text: bytes, *, batch_allowed: bool = False) -> Steps[Frame | Batch]:
    """Like `decode_request`, in steps between which others are served if the text is long."""
    message: dict[str, Raw] = {}
    is_long = len(text) > SHORT_MESSAGE_BYTES
    try:
        check_amount(text)
        if is_long:
            yield
        check_text(text)
        if is_long:
            yield
        if text.lstrip(b" \t\r\n").startswith(b"["):
            return _decode_batch(text, batch_allowed)
        message = unambiguous_members(text, MESSAGE)
        if is_long:
            yield
        check_no_duplicates(text)
        if is_long:
            yield
        return _check_lengths(frame_of(message, text))
    except JsonError as error:
        raise RequestError(PARSE_ERROR, f"Parse error: {error.detail}") from None
    except FrameError as error:
        raise RequestError(INVALID_REQUEST, f"Invalid Request: {error.detail}", id=_id_of(message)) from None


def _decode_batch(text: bytes, allowed: bool) -> Batch:
    if not allowed:
        raise FrameError("a batch is valid in revision 2025-03-26 only")
    parts = split_batch(text)
    check_no_duplicates(text)
    frames = tuple(_check_lengths(frame_of(unambiguous_members(part, MESSAGE), part)) for part in parts)
    ids = [frame.id for frame in frames if isinstance(frame, Request)]
    if len(set(ids)) != len(ids):
        raise FrameError("two requests of a batch have the same id")
    return Batch(frames, text)


def _check_lengths(frame: Frame) -> Frame:
    if not isinstance(frame, Notification) and isinstance(frame.id, str) and len(frame.id) > MAX_ID_CHARS:
        raise _too_long("an id", MAX_ID_CHARS)
    if isinstance(frame, Request | Notification):
        if len(frame.method) > MAX_METHOD_CHARS:
            raise _too_long("a method", MAX_METHOD_CHARS)
        _check_params(frame)
    return frame


def _check_params(call: Request | Notification) -> None:
    names = call.parts
    if len(names) > MAX_PARAMS_MEMBERS:
        raise FrameError(f'more than {MAX_PARAMS_MEMBERS} members in "params"', bound=True)
    check_names(names, PARAMS_MEMBERS.get(call.method, UNKNOWN_PARAMS))
    if isinstance(meta := names.get("_meta"), Raw) and is_object(meta):
        check_meta(call.meta)
        check_names(call.meta, _META_NAMES)


def check_meta(names: Collection[str]) -> None:
    """Refuse a `_meta` with more than `MAX_META_MEMBERS` names, or one longer than `MAX_META_NAME_CHARS`. Raises
    `FrameError`."""
    if len(names) > MAX_META_MEMBERS:
        raise FrameError(f'more than {MAX_META_MEMBERS} members in "params._meta"', bound=True)
    if max(map(len, names), default=0) > MAX_META_NAME_CHARS:
        raise _too_long("a name in params._meta", MAX_META_NAME_CHARS)


def _too_long(what: str, chars: int) -> FrameError:
    return FrameError(f"{what} of more than {chars} characters", bound=True)


def _id_of(message: dict[str, Raw]) -> MessageId | None:
    id = as_id(message.get("id"))
    return None if isinstance(id, str) and len(id) > MAX_ID_CHARS else id
