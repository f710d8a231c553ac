"""Frames: one JSON-RPC message each, classified and checked. No I/O.

A frame holds the bytes as they arrived, and their meaning. So an unchanged message is forwarded byte for byte.
`decode_frame` applies, in this order (docs/reference/validation.md):

- [text] the text has a bounded number of arrays and objects (`text.check_structures`). It is strict JSON
  (`text.check_text`) and one object, without duplicate or misspelt members;
- [version] `jsonrpc` is exactly "2.0";
- [call] a message with `method` is a request (with an id) or a notification (without), and has no result or error;
- [response] a message without `method` is a response. It has exactly one of `result` and `error`. Its id is a string or
  an integer; an error's may be null;
- [error] `error.code` is an integer, `error.message` a string, and `error` has no duplicate or misspelt member.
"""

from collections.abc import Collection, Mapping
from copy import copy
from typing import Protocol, Self, cast

from msgspec import Raw, Struct

from accredit.base.caching import CachedProperty
from accredit.errors import AccreditError, FrameError, MessageId
from accredit.jsonrpc.encode import around, to_json
from accredit.jsonrpc.methods import META_PROGRESS, META_VERSION, TARGET_MEMBER, Era
from accredit.jsonrpc.objects import (
    Names,
    as_id,
    as_integer,
    as_string,
    is_object,
    members,
    message_id,
    meta_members,
    unambiguous_members,
)
from accredit.jsonrpc.text import check_structures, check_text
from accredit.limits import MAX_SPLIT_BYTES

MESSAGE = Names("jsonrpc", "id", "method", "params", "result", "error")
_ERROR = Names("code", "message", "data")
_VERSION = b'"2.0"'


class _Call:
    """A request or notification. Its `params` are parsed once, when first needed.

    Nothing is parsed twice: a change makes an edited copy of the call, whose text is encoded when it is sent. So the
    judged call is the forwarded one, and a call that is not edited keeps its bytes.
    """

    def __init__(self, method: str, params: Raw | None, text: bytes, envelope: Mapping[str, Raw] | None) -> None:
        """`envelope` holds the members of the message in `text`, if already known."""
        self.method = method
        self.size = len(text)
        """The number of bytes that arrived: the time that processing takes grows with it."""
        self._given = params
        self._came = text
        self._envelope = envelope
        self._changes: Mapping[str, object] = {}
        self.__dict__["text"] = text  # an edited call computes it

    @CachedProperty
    def text(self) -> bytes:
        """The message: as it arrived or, for an edited call, as it is sent."""
        envelope = self._envelope if self._envelope is not None else members(self._came)
        return to_json({**envelope, **self._changes})

    @CachedProperty
    def params(self) -> Raw | None:
        """The text of `params`, or None if there are none."""
        return Raw(to_json(self._changes["params"])) if "params" in self._changes else self._given

    @CachedProperty
    def members(self) -> Mapping[str, Raw]:
        """The members of `params`, without `_meta`. Raises `FrameError`."""
        found = cast("dict[str, Raw]", {**self.parts})
        found.pop("_meta", None)
        return found

    @CachedProperty
    def meta(self) -> Mapping[str, Raw]:
        """The members of `params._meta`, empty if there is none. Raises `FrameError` if it is not an object."""
        meta = self.parts.get("_meta")
        if meta is None:
            return {}
        return meta_members(meta) if isinstance(meta, Raw) else meta

    def in_meta(self, name: str) -> Raw | None:
        """Return a member of `params._meta`; None if there is none, or it can't be read."""
        try:
            return self.meta.get(name)
        except FrameError:
            return None

    @CachedProperty
    def target(self) -> str | None:
        """The target of the call (`TARGET_MEMBER`); None if its method has no target, or the target is not a string.

        Raises `FrameError`.
        """
        member = TARGET_MEMBER.get(self.method)
        value = self.parts.get(member) if member is not None else None
        return as_string(value) if isinstance(value, Raw) else None

    def with_params(self, changes: Mapping[str, Raw], *, without: Collection[str] = ()) -> Self:
        """Return a copy of the call with some members of `params` replaced, added or, by `without`, removed. `_meta` is
        changed by `with_meta` only. Raises `FrameError`."""
        left = {name: value for name, value in self.parts.items() if name not in without}
        parts = {**left, **changes}
        return self._edited({"params": parts}, kept=("meta", "era"), parts=parts)

    def with_meta(self, changes: Mapping[str, Raw], *, without: Collection[str] = ()) -> Self:
        """Return a copy of the call with some members of `params._meta` replaced, added or, by `without`, removed.
        Raises `FrameError`."""
        left = {name: value for name, value in self.meta.items() if name not in without}
        meta = {**left, **changes}
        parts = {**self.parts, "_meta": meta}
        kept = ("members", "target") if META_VERSION in {*changes, *without} else ("members", "target", "era")
        return self._edited({"params": parts}, kept=kept, parts=parts, meta=meta)

    @CachedProperty
    def parts(self) -> Mapping[str, Raw | Mapping[str, Raw]]:
        """The members of `params`. In an edited call, `_meta` may be a parsed mapping instead of text. Raises
        `FrameError`."""
        return members(self._given) if self._given is not None else {}

    def _edited(self, changes: Mapping[str, object], kept: Collection[str], **known: object) -> Self:
        """Return a copy with these changes. Of the values read so far, it keeps those named in `kept`; `known` are new
        values. All others are read again when needed, from the copy's members."""
        edited = copy(self)
        edited.__dict__ = {name: value for name, value in vars(self).items() if name in _OF_EVERY_COPY or name in kept}
        edited.__dict__.update(known)
        edited._changes = {**self._changes, **changes}
        return edited


_OF_EVERY_COPY = frozenset({"id", "method", "size", "watcher", "_given", "_came", "_envelope"})
_OF_PARAMS = ("parts", "meta", "members", "target", "era")
"""The values that are read from `params`."""


class Watcher(Protocol):
    """Observes the outcome of a request, and changes nothing. `trace_id` names the trace that the request belongs to,
    if one was started."""

    trace_id: str | None

    def answered(self, response: "Response") -> None:
        """Take note of a valid response to the request."""
        ...

    def failed(self, error: AccreditError) -> None:
        """Take note that the request failed, and why: the gateway itself answers the request with this error."""
        ...


class Request(_Call):
    """A call that expects a response. Its `watcher`, if any, is passed on to edited copies."""

    watcher: Watcher | None = None

    def __init__(
        self, id: MessageId, method: str, params: Raw | None, text: bytes, envelope: Mapping[str, Raw] | None = None
    ) -> None:
        super().__init__(method, params, text, envelope)
        self.id = id

    @CachedProperty
    def era(self) -> Era:
        """The era that the request's own metadata names: legacy if it names none."""
        return Era.LEGACY if self.in_meta(META_VERSION) is None else Era.MODERN

    def failed(self, error: AccreditError) -> None:
        """Tell the watcher that the gateway answers the request itself, and why."""
        if self.watcher is not None:
            self.watcher.failed(error)

    def with_id(self, id: MessageId) -> Self:
        """Return the request under another id."""
        edited = self._edited({"id": id}, kept=_OF_PARAMS)
        edited.id = id
        return edited


class Notification(_Call):
    """A call that expects no response."""

    era = Era.LEGACY
    """Of all messages, only a request can name another era in its metadata."""

    def __init__(self, method: str, params: Raw | None, text: bytes, envelope: Mapping[str, Raw] | None = None) -> None:
        super().__init__(method, params, text, envelope)


class Success(Struct, frozen=True):
    """A response with a `result` (null counts as a result).

    If `is_complete`, the result is known to be an object whose `resultType` is `complete` or missing.
    """

    id: MessageId
    result: Raw
    text: bytes
    is_complete: bool = False
    era = Era.LEGACY

    def members(self) -> dict[str, Raw]:
        """Return the members of the result by name; empty if it is not an object. Raises `FrameError`."""
        return members(self.result) if is_object(self.result) else {}

    def message(self) -> dict[str, Raw]:
        """Return the members of the whole message by name. Raises `FrameError`."""
        return members(self.text)

    def with_result(self, members: Mapping[str, Raw], changes: Mapping[str, object]) -> "Success":
        """Return a copy of the response with a new result. The result has these `members`, some of which `changes`
        replaces; `changes` may also add members."""
        message = self.message()
        before, after = around("result", message)
        text = to_json({**message, "result": {**members, **changes}})
        return Success(self.id, Raw(memoryview(text)[len(before) : len(text) - len(after)]), text)


class Failure(Struct, frozen=True):
    """A response with an `error`. `id` is None if the sender could not tell which request it answers."""

    id: MessageId | None
    code: int
    message: str
    error: Raw
    text: bytes
    era = Era.LEGACY


Frame = Request | Notification | Success | Failure
Response = Success | Failure


def decode_frame(text: bytes) -> Frame:
    """Read one message. Raises `FrameError` unless the text is exactly one."""
    check_structures(text)
    check_text(text)
    return frame_of(unambiguous_members(text, MESSAGE), text)


def decode_error(text: bytes) -> Failure:
    """Read the body of an HTTP error status: an error response. Raises `FrameError`.

    Such an error response may lack its id (2025-11-25, basic/transports, "Sending Messages to the Server").
    """
    check_structures(text)
    check_text(text)
    frame = frame_of({"id": Raw(b"null"), **unambiguous_members(text, MESSAGE)}, text)
    if not isinstance(frame, Failure):
        raise FrameError("an error status without an error")
    return frame


def frame_of(found: dict[str, Raw], text: bytes) -> Frame:
    """Return the message whose members are `found` ([version] to [error]). Raises `FrameError`."""
    version = found.get("jsonrpc")
    if version is None or (bytes(version) != _VERSION and as_string(version) != "2.0"):
        raise FrameError('"jsonrpc" is not "2.0"')
    if "method" in found:
        return _call_of(found, text)
    return _response_of(found, text)


def progress_token(request: Request) -> MessageId | None:
    """Return a request's progress token, or None."""
    return as_id(request.in_meta(META_PROGRESS))


def member_id(notification: Notification, name: str) -> MessageId | None:
    """Return a member of a notification's params if it has the form of a request's id."""
    try:
        return as_id(notification.members.get(name))
    except FrameError:
        return None


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
        return Notification(method, params, text, found)
    return Request(message_id(found["id"]), method, params, text, found)


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
    if len(raw) > MAX_SPLIT_BYTES:
        raise FrameError(f"an error of more than {MAX_SPLIT_BYTES} bytes", bound=True)
    error = unambiguous_members(raw, _ERROR)
    code = as_integer(error.get("code"))
    if code is None:
        raise FrameError('"error.code" is not an integer')
    message = as_string(error.get("message"))
    if message is None:
        raise FrameError('"error.message" is not a string')
    return code, message
