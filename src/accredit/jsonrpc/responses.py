"""Decides whether an upstream's answer answers *this* request. No I/O.

`Expected` is made from what the client sent, and judges each frame that comes back. These are refused, in this order
(docs/reference/validation.md):

- [frame] anything that is not a valid frame (`frames.decode_frame`);
- [batch] a batch where none was sent, an empty batch, and a batch with a member that is not a response, or that
  [unasked] refuses;
- [unasked] a response to an id that was not asked for (7 is not "7"), or that was answered already;
- [request-here] a request from the upstream where none may come: in the modern era, or in a plain JSON body;
- [modern-result] in the modern era, any of these:
  - a `result` that is not an object;
  - a `resultType` that is not a string, or that may not answer this request (`is_result_type`);
  - an `input_required` that breaks its rules;
  - a result or notification in which a task asks for a kind of input that the client did not declare.

It does not check whether a result has the shape that its method defines.

Most answers are one object of exactly `jsonrpc`, the requested `id`, and a `result` that is an object, in the order and
with the spaces that the common servers write. `plain_result` confirms such an object in one pass, without splitting it:
the text begins and ends in that way, the fast parser finds it valid with three members, and it is not too deep. It
never refuses an answer.

The kinds of a modern result are from 2026-07-28, basic/index ("ResultType"), and SEP-2663 ("Polymorphic Results",
"Supported Methods") for tasks. A client that takes a result of an unknown kind for a complete one acts on half an
answer. So only the kinds listed here are accepted. The kinds that an extension adds may answer only the methods they
are defined for. The request must also declare that extension (`clientCapabilities.extensions`: an object under its
identifier).
"""

from collections.abc import Callable, Container, Iterable, Mapping

from msgspec import Raw, Struct
from msgspec.structs import replace

from accredit.base.steps import Steps, at_one_go
from accredit.base.text import excerpt
from accredit.errors import AnswerError, FrameError, MessageId
from accredit.jsonrpc.encode import to_json, with_members
from accredit.jsonrpc.frames import (
    MESSAGE,
    Failure,
    Frame,
    Notification,
    Request,
    Response,
    Success,
    decode_frame,
    frame_of,
)
from accredit.jsonrpc.input_required import check_input_requests, check_input_required, check_told_of_task
from accredit.jsonrpc.methods import INPUT_REQUIRED_METHODS, META_CAPABILITIES, TASK_METHODS, TASK_NOTIFICATION, Era
from accredit.jsonrpc.objects import (
    Names,
    as_string,
    check_names,
    is_object,
    members,
    pairs,
    split_batch,
    unambiguous_members,
)
from accredit.jsonrpc.text import ParsedObject, check_structures, check_text, is_too_deep, parsed_object
from accredit.limits import MAX_SPLIT_BYTES

COMPLETE = "complete"
INPUT_REQUIRED = "input_required"
TASK = "task"

DECIDING = Names("resultType", "inputRequests", "requestState")
"""The members of a result that state its kind, and the input that it asks for."""

TASKS_EXTENSION = "io.modelcontextprotocol/tasks"

_EXTENSION_RESULT_TYPES = {TASKS_EXTENSION: {TASK: frozenset({"tools/call"})}}
"""For each extension, the kinds that it adds, each with the methods that it may answer. Kinds of other extensions are
unknown."""


def is_result_type(kind: str, method: str, extensions: Container[str]) -> bool:
    """Return whether the answer to a `method` may be of this kind, given the declared extensions."""
    if kind == INPUT_REQUIRED:
        return method in INPUT_REQUIRED_METHODS
    return kind == COMPLETE or any(
        method in kinds.get(kind, ()) for extension, kinds in _EXTENSION_RESULT_TYPES.items() if extension in extensions
    )


def declared_extensions(request: Request) -> frozenset[str]:
    """Return the extensions that a request declares. Raises `FrameError` if its `_meta` is not an object."""
    capabilities = request.meta.get(META_CAPABILITIES)
    declared = members(capabilities).get("extensions") if capabilities is not None and is_object(capabilities) else None
    if declared is None or not is_object(declared):
        return frozenset()
    return frozenset(name for name, settings in members(declared).items() if is_object(settings))


MAX_PLAIN_RESULT_MEMBERS = 64
"""The most members of a modern result whose names are read one by one from the fast parser. Real results have five. A
larger result is split."""


_MEMBERS = 3
_BEGINNINGS = (b'{"jsonrpc":"2.0","id":%b,"result":{', b'{"jsonrpc": "2.0", "id": %b, "result": {')
"""How answers begin: first as the Python SDK and most others write them, then as Python's own `json` does. After such a
beginning, only the last brace follows the result."""
_RESULT_FIRST = b'{"result":{'
_END = b'},"jsonrpc":"2.0","id":%b}'
"""How an answer ends that the TypeScript SDK writes: the result comes first."""


def plain_result(text: bytes, id: MessageId, *, modern: bool) -> Raw | None:
    """Return the `result` of a valid response of usual form to the request with this id. None means undecided."""
    start, end = _extent(text, b"%d" % id if isinstance(id, int) else to_json(id))
    if not end:
        return None
    message = parsed_object(text)
    if message is None or len(message) != _MEMBERS or is_too_deep(text):
        return None
    if modern and not _is_complete(message["result"]):  # pyright: ignore[reportArgumentType] - it begins with a brace
        return None
    return Raw(text[start:end])


def _extent(text: bytes, id: bytes) -> tuple[int, int]:
    """Return where the result begins and ends, provided that the text is valid and has one of the usual forms. Return
    0, 0 if it has none of these forms."""
    if text.endswith(b"}}"):
        for form in _BEGINNINGS:
            beginning = form % id
            if text.startswith(beginning):
                return len(beginning) - 1, len(text) - 1
    elif text.startswith(_RESULT_FIRST) and text.endswith(end := _END % id):
        return len(_RESULT_FIRST) - 1, len(text) - len(end) + 1
    return 0, 0


def _is_complete(result: ParsedObject) -> bool:
    if len(result) > MAX_PLAIN_RESULT_MEMBERS:
        return False
    deciding = [name for name in result if name.casefold() in DECIDING.folded]
    return not deciding or (deciding == ["resultType"] and result["resultType"] == COMPLETE)


Edit = Callable[[Success], Steps[bytes]]
"""A function that changes a valid response before it is forwarded, in steps. If it raises `FrameError`, the response is
refused."""

_Judged = tuple[Response, Request | None, bytes]
"""A response, the request that it answers, and the bytes to forward for it."""


class Answers(Struct, frozen=True):
    """The responses in one text, each with the bytes to forward. `array` says that they were a batch."""

    members: list[tuple[Response, bytes]]
    array: bool = False

    def text(self, instead: Mapping[MessageId, bytes]) -> bytes:
        """Return the bytes to forward; `instead` holds replacement responses by id."""
        texts = [instead.get(response.id, text) if response.id is not None else text for response, text in self.members]
        return b"[" + b",".join(texts) + b"]" if self.array else texts[0]


class Expected:
    """The answers that one exchange may still get. Each answer that arrives is removed.

    `requests` are those of the client's POST; a standing stream has none. `batch` says that they were sent as an array.
    A `resumed` stream continues another one, so it may answer requests that were sent elsewhere. `edits` holds, by
    request id, the change that is made to a response; `otherwise` changes all other responses. `answers` are the
    responses in the last text judged. `told` counts the notifications and responses that the client sent over the same
    connection: an error without an id may be about one of them.
    """

    __slots__ = ("answers", "batch", "edits", "era", "open", "otherwise", "resumed", "told", "waiting")

    def __init__(
        self,
        era: Era,
        requests: Iterable[Request] = (),
        *,
        batch: bool = False,
        resumed: bool = False,
        edits: Mapping[MessageId, Edit] | None = None,
        otherwise: Edit | None = None,
    ) -> None:
        self.era = era
        self.batch = batch
        self.resumed = resumed
        self.edits = dict(edits) if edits else {}
        self.otherwise = otherwise
        self.open: dict[MessageId, Request] = {}
        for request in requests:
            self.open[request.id] = request
        self.waiting = bool(self.open)
        self.answers = Answers([])
        self.told = 0

    @property
    def done(self) -> bool:
        """Whether each request has been answered. A standing stream is never done."""
        return self.waiting and not self.open

    def take_answers(self) -> Answers:
        """Return the responses in the last text judged, and forget them."""
        taken, self.answers = self.answers, Answers([])
        return taken

    def ask(self, request: Request) -> None:
        """Add a request to those that a standing stream may answer. Raises `FrameError` for an id in use."""
        if request.id in self.open:
            raise FrameError("a request with this id is still open")
        self.open[request.id] = request

    def body(self, text: bytes) -> bytes:
        """Judge a JSON body; return the bytes to forward. Raises `AnswerError`."""
        return (self._usual(text) or at_one_go(self.judging(text, alone=True)))[0]

    def event(self, data: bytes) -> tuple[bytes, Frame | None]:
        """Judge the data of one SSE event, or one line. Return the bytes to forward, and the frame in them.

        The frame is None for a batch. Raises `AnswerError`.
        """
        return self._usual(data) or at_one_go(self.judging(data))

    def judging(self, text: bytes, *, alone: bool = False) -> Steps[tuple[bytes, Frame | None]]:
        """Judge a text as `event` does, or as `body` does if it comes `alone`. A long text is read in one step, after
        others were served; the edits are made in further steps.

        Between steps a request may be withdrawn, or another request may take its id. Then this response is refused as
        unasked.
        """
        self.answers = Answers([])
        try:
            frame = self._plain(text)
            if frame is not None:
                return (yield from self._response(frame, self.open[frame.id])), frame
            yield
            if self.batch and text.lstrip(b" \t\r\n").startswith(b"["):
                return (yield from self._batch(text)), None
            frame = decode_frame(text)
            if isinstance(frame, Success | Failure):
                if isinstance(frame, Failure) and frame.id is None:
                    return self._nameless(frame), frame
                assert frame.id is not None  # noqa: S101 - a success has one
                return (yield from self._response(frame, self._asked(frame, frame.id))), frame
            if alone:
                raise FrameError("a call where a response was due")
            self._check_call(frame)
            return text, frame
        except FrameError as error:
            raise AnswerError(error.detail, bound=error.bound) from None

    def _check_call(self, call: Request | Notification) -> None:
        """Raise `FrameError` for a request or notification that the upstream may not send here."""
        if isinstance(call, Request) and self.era is Era.MODERN:
            raise FrameError("a request from the upstream, which this revision does not allow")
        if isinstance(call, Notification) and call.method == TASK_NOTIFICATION:
            check_told_of_task(call, self.open)

    def _usual(self, text: bytes) -> tuple[bytes, Success] | None:
        """Judge a valid answer of usual form in one call. None means undecided."""
        frame = self._plain(text)
        if frame is None:
            return None
        edit = self.edits.get(frame.id)
        try:
            edited = text if edit is None else at_one_go(edit(frame))
        except FrameError as error:
            raise AnswerError(error.detail, bound=error.bound) from None
        request = self.open.pop(frame.id)  # there was one
        self.edits.pop(frame.id, None)
        if request.watcher is not None:
            request.watcher.answered(frame)
        self.answers = Answers([(frame, edited)])
        return edited, frame

    def _plain(self, text: bytes) -> Success | None:
        """Return the response if it is valid and of usual form. None means undecided."""
        if len(self.open) != 1:
            return None
        (id,) = self.open
        is_modern = self.era is Era.MODERN
        result = plain_result(text, id, modern=is_modern)
        return Success(id, result, text, is_complete=is_modern) if result is not None else None

    def _batch(self, text: bytes) -> Steps[bytes]:
        if len(text) > MAX_SPLIT_BYTES:
            raise FrameError(f"a batch of more than {MAX_SPLIT_BYTES} bytes", bound=True)
        check_structures(text)
        check_text(text)
        parts = split_batch(text)
        seen = set[MessageId]()
        judged: list[_Judged] = []
        for part in parts:
            yield
            frame = frame_of(unambiguous_members(part, MESSAGE), part)
            if not isinstance(frame, Success | Failure) or frame.id is None:
                raise FrameError("a batch with a member that answers no request")
            request = self._asked(frame, frame.id) if frame.id not in seen else self._unknown()
            seen.add(frame.id)
            judged.append((frame, request, (yield from self._edited(frame, request))))
        self._take(judged, array=True)
        edited = [text for _, _, text in judged]
        return text if edited == parts else b"[" + b",".join(edited) + b"]"

    def _response(self, frame: Response, request: Request | None) -> Steps[bytes]:
        text = yield from self._edited(frame, request)
        self._take([(frame, request, text)])
        return text

    def _asked(self, frame: Response, id: MessageId) -> Request | None:
        """Return the request that a valid response answers; None if the request was sent elsewhere. Raises
        `FrameError`."""
        request = self.open.get(id)
        if request is None:
            return self._unknown()
        if isinstance(frame, Success) and self.era is Era.MODERN:
            _check_modern_result(request, frame.result)
        return request

    def _unknown(self) -> None:
        if not self.resumed:
            raise FrameError("a response to an id that was not asked for")

    def _edited(self, frame: Response, request: Request | None) -> Steps[bytes]:
        if not isinstance(frame, Success):
            return frame.text
        edit = self.edits.get(frame.id) if request is not None else self.otherwise
        if edit is None:
            return frame.text
        return (yield from edit(frame))

    def _take(self, judged: list[_Judged], *, array: bool = False) -> None:
        """Count the requests of these responses as answered. This comes last, since a request whose answer is refused
        still needs one. Raises `FrameError` if a request was withdrawn meanwhile."""
        if any(self.open.get(frame.id) is not request for frame, request, _ in judged if frame.id is not None):
            raise FrameError("a response to an id that was not asked for")
        for frame, request, _ in judged:
            if frame.id is not None:
                self.open.pop(frame.id, None)
                self.edits.pop(frame.id, None)
            if request is not None and request.watcher is not None:
                request.watcher.answered(frame)
        self.answers = Answers([(frame, text) for frame, _, text in judged], array=array)

    def _nameless(self, frame: Failure) -> bytes:
        # Some clients wait for ever on an error without an id. If one request is open, the error is about that, or
        # about a notification: many servers report unknown notifications so.
        if self.told:
            self.told -= 1
            raise FrameError("an error without an id, after a notification or a response")
        if len(self.open) != 1 or len(frame.text) > MAX_SPLIT_BYTES:
            raise FrameError("an error without an id")
        ((id, request),) = self.open.items()
        text = with_members(members(frame.text), {"id": id})
        del self.open[id]
        if request.watcher is not None:
            request.watcher.answered(frame)
        self.answers.members.append((replace(frame, id=id), text))
        return text


def _check_modern_result(request: Request, result: Raw) -> None:
    """Check [modern-result] for the `result` of a response to `request`. Raises `FrameError`."""
    if not is_object(result):
        raise FrameError('"result" is not an object')
    # Members that decide about input must be unambiguous; other names in a result are the client's concern.
    deciding = [(name, value) for name, value in pairs(result) if name.casefold() in DECIDING.folded]
    check_names([name for name, _ in deciding], DECIDING)
    found = dict(deciding)
    if request.method in TASK_METHODS and "inputRequests" in found:
        check_input_requests(request, found["inputRequests"])  # what a task waits for
    if "resultType" not in found:
        return
    kind = as_string(found["resultType"])
    if kind is None:
        raise FrameError('"resultType" is not a string')
    if kind == INPUT_REQUIRED:
        check_input_required(request, found)
    elif not is_result_type(kind, request.method, declared_extensions(request)):
        raise FrameError(f"an unknown resultType: {excerpt(kind)}")
