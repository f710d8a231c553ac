"""Whether an upstream's answer answers *this* request. No I/O.

`Expected` is made from what the client sent and is asked about each frame that comes back. It refuses, in this
order (docs/reference/validation.md):

1. what is no valid frame at all (`frames.decode_frame`);
2. a batch where none was sent, an empty one, or one with a member that is no response or that rule 3 refuses;
3. a response to an id that was not asked for (7 is not "7"), or that was answered already;
4. a request from the upstream where none may come: in the modern era, or in a plain JSON body;
5. in the modern era: a `result` that is no object, a `resultType` that is no string or none of those that may answer
   this request (`result_types`), an `input_required` that breaks its rules, a task, in a result or a notification,
   that waits for what the client did not declare.

What it does not check: whether a result has the shape that its method defines.
"""

from collections.abc import Callable, Generator, Iterable, Mapping

from msgspec import Raw, Struct
from msgspec.structs import replace

from accredit.base.text import excerpt
from accredit.errors import AnswerError, FrameError, MessageId
from accredit.jsonrpc.encode import with_members
from accredit.jsonrpc.frames import (
    MESSAGE,
    Failure,
    Frame,
    Notification,
    Opened,
    Request,
    Response,
    Success,
    decode_frame,
    frame_of,
)
from accredit.jsonrpc.input_required import check_input_requests, check_input_required, check_told_of_task
from accredit.jsonrpc.long_text import members_in_steps, pairs_in_steps
from accredit.jsonrpc.methods import TASK_METHODS, TASK_NOTIFICATION, Era
from accredit.jsonrpc.objects import (
    as_string,
    check_names,
    is_object,
    members,
    pairs,
    split_batch,
    unambiguous_members,
)
from accredit.jsonrpc.plain_answers import plain_result
from accredit.jsonrpc.result_types import DECIDING, INPUT_REQUIRED, declared_extensions, is_result_type
from accredit.jsonrpc.text import check_text
from accredit.limits import LONG_ANSWER_BYTES

Edit = Callable[[Success], bytes]
"""What a good response becomes before it is forwarded. May raise `FrameError`: then it was none."""


class Answers(Struct, frozen=True):
    """The responses that one text held, each with what is forwarded of it. `array` says that they were a batch."""

    members: list[tuple[Response, bytes]]
    array: bool = False

    def text(self, instead: Mapping[MessageId, bytes]) -> bytes:
        """What is forwarded, with other responses in place of those to some ids."""
        texts = [instead.get(response.id, text) if response.id is not None else text for response, text in self.members]
        return b"[" + b",".join(texts) + b"]" if self.array else texts[0]


class Expected:
    """What one exchange may still be answered with; it shrinks as answers come.

    `requests` are those of the client's POST, none for a standing stream. `batch` says that they were sent as an
    array. With `resumed` the stream goes on where another one ended, so that ids asked for elsewhere may be
    answered in it. `edits` are for the responses to the requests of these ids, `otherwise` for those to others.
    `answers` are the responses in the text that was judged last.
    """

    __slots__ = ("answers", "batch", "edits", "era", "open", "otherwise", "resumed", "waiting")

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

    @property
    def done(self) -> bool:
        """Whether each request has had its response. A standing stream is never done."""
        return self.waiting and not self.open

    def ask(self, request: Request) -> None:
        """Adds a request to those that a standing stream may answer. Raises `FrameError` for an id in use."""
        if request.id in self.open:
            raise FrameError("a request with this id is still open")
        self.open[request.id] = request

    def body(self, text: bytes, opened: Opened | None = None) -> bytes:
        """Judges a JSON body, which may be `opened` already, and gives the bytes to forward. Raises `AnswerError`."""
        self.answers = Answers([])
        try:
            if opened is None and (plain := self._plain(text)) is not None:
                return self._taken(plain, plain.id)
            if self.batch and text.lstrip(b" \t\r\n").startswith(b"["):
                check_text(text)
                return self._batch(text)
            frame = decode_frame(text, opened)
            if not isinstance(frame, Success | Failure):
                raise FrameError("a call where a response was due")
            return self._response(frame, opened)
        except FrameError as error:
            raise AnswerError(error.detail, bound=error.bound) from None

    def event(self, data: bytes, opened: Opened | None = None) -> tuple[bytes, Frame | None]:
        """Judges the data of one SSE event, or one line; gives the bytes to forward, and the frame in them.

        It may be `opened` already.

        The frame is None for a batch. Raises `AnswerError`.
        """
        self.answers = Answers([])
        try:
            if opened is None and (plain := self._plain(data)) is not None:
                return self._taken(plain, plain.id), plain
            if self.batch and data.lstrip(b" \t\r\n").startswith(b"["):
                check_text(data)
                return self._batch(data), None
            frame = decode_frame(data, opened)
            if isinstance(frame, Success | Failure):
                return self._response(frame, opened), frame
            if isinstance(frame, Request) and self.era is Era.MODERN:
                raise FrameError("a request from the upstream, which this revision does not allow")
            if isinstance(frame, Notification) and frame.method == TASK_NOTIFICATION:
                check_told_of_task(frame, self.open)
            return data, frame
        except FrameError as error:
            raise AnswerError(error.detail, bound=error.bound) from None

    def _plain(self, text: bytes) -> Success | None:
        """Return the response if it is good and of the usual form; None may mean that nobody has looked."""
        if len(self.open) != 1:
            return None
        (id,) = self.open
        result = plain_result(text, id, modern=self.era is Era.MODERN)
        return Success(id, result, text) if result is not None else None

    def _batch(self, text: bytes) -> bytes:
        before, edits = self.open.copy(), self.edits.copy()
        parts = split_batch(text)
        edited: list[bytes] = []
        self.answers = Answers([], array=True)
        try:
            for part in parts:
                frame = frame_of(unambiguous_members(part, MESSAGE), part)
                if not isinstance(frame, Success | Failure) or frame.id is None:
                    raise FrameError("a batch with a member that answers no request")
                edited.append(self._response(frame))
        except FrameError:
            self.open, self.edits, self.answers = before, edits, Answers([])
            raise
        return text if edited == parts else b"[" + b",".join(edited) + b"]"

    def _response(self, frame: Response, opened: Opened | None = None) -> bytes:
        if frame.id is None:
            return self._nameless(frame)
        request = self.open.get(frame.id)
        if request is None and not self.resumed:
            raise FrameError("a response to an id that was not asked for")
        if isinstance(frame, Success) and self.era is Era.MODERN and request is not None:
            check_modern_result(request, frame.result, opened.result if opened is not None else None)
        return self._taken(frame, frame.id)

    def _taken(self, frame: Response, id: MessageId) -> bytes:
        """Apply the edit for a good response to the request of this id, and take that as answered."""
        edit = self.edits.get(id) if id in self.open else self.otherwise
        text = edit(frame) if edit is not None and isinstance(frame, Success) else frame.text
        self.open.pop(id, None)  # only now: a request whose answer is refused is still owed one
        self.edits.pop(id, None)
        self.answers.members.append((frame, text))
        return text

    def _nameless(self, frame: Response) -> bytes:
        # Some clients wait for ever on an error without an id: where one request is open, it can only be that.
        if len(self.open) != 1:
            raise FrameError("an error without an id")
        id, _ = self.open.popitem()
        text = with_members(members(frame.text), {"id": id})
        self.answers.members.append((replace(frame, id=id), text))
        return text


def open_answer(text: bytes, era: Era) -> Generator[None, None, Opened]:
    """Opens a long answer in steps, for `Expected` to judge it, or the message that comes in its place."""
    try:
        found = yield from members_in_steps(text, MESSAGE)
        result = found.get("result")
        if result is None or len(result) <= LONG_ANSWER_BYTES or era is Era.LEGACY or not is_object(result):
            return Opened(found)
        return Opened(found, (yield from pairs_in_steps(bytes(result))))
    except FrameError as error:
        return Opened({}, error=error)


def check_modern_result(request: Request, result: Raw, listed: list[tuple[str, Raw]] | None = None) -> None:
    """Rule 5, for the `result` of a response to `request`, whose members may be listed. Raises `FrameError`."""
    if not is_object(result):
        raise FrameError('"result" is not an object')
    # What decides about input must be said once; of other names in a result it is for the client to judge.
    listed = pairs(result) if listed is None else listed
    deciding = [(name, value) for name, value in listed if name.casefold() in DECIDING.folded]
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
