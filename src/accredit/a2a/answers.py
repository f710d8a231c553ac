"""Judges what an agent answers, and each event of its streams. No I/O.

An answer that passes is not forwarded as it came: it is encoded again from the members that were read here. So its
reader gets exactly what was judged. Members that are repeated, spelled differently, or unknown to A2A 1.0 are not in
it.

- [frame] An answer is one response of JSON-RPC 2.0 to this request, with a result or an error. An error may have no id.
- [own-codes] The codes of the decision's refusals (-31099 to -31000) are the gateway's. An agent's error must have
  another one.
- [result] A result has its method's type (`shapes`). A message is answered with a task or a message; each event of a
  stream is a task, a message or an update.
- [same-task] An answer about a task is about the task that the request names. All events of a stream are about the same
  task. A message in a task belongs to that task, also in a list.
- [message-alone] A message is the only event of its stream. Nothing follows an error.
- [same-context] If the request names a conversation, the answer and all events belong to it.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from accredit.a2a import shapes
from accredit.a2a.shapes import METHODS
from accredit.base.values import decodable
from accredit.errors import AnswerError, FrameError, MessageId
from accredit.jsonrpc.encode import to_json
from accredit.jsonrpc.text import check_amount, check_text
from accredit.policy.agent_call import AgentCall
from accredit.refusals import is_own_code

_Shape = TypeVar("_Shape")


@decodable
class _Frame(Struct, frozen=True, forbid_unknown_fields=True):
    jsonrpc: str
    id: int | str | None = None
    result: Raw = shapes.ABSENT
    error: Raw = shapes.ABSENT


@decodable
class _Error(Struct, frozen=True, omit_defaults=True):
    code: int
    message: str
    data: Raw = shapes.ABSENT


class Judged(NamedTuple):
    """A judged answer. `result` has the method's type; it is None if the answer is an error (then `code` is set) or
    null. `task` and `context` are the ids of what the answer is about, or ""."""

    result: shapes.AgentObject | None
    code: int | None = None
    error: bytes = b""
    task: str = ""
    context: str = ""

    def frame(self, id: MessageId) -> bytes:
        """Return the response to the request `id`."""
        head = to_json({"jsonrpc": "2.0", "id": id})[:-1]
        if self.code is not None:
            return head + b',"error":' + self.error + b"}"
        return head + b',"result":' + to_json(self.result) + b"}"


class Answers:
    """The answers to one request: one, or the events of a stream in their order."""

    def __init__(self, id: MessageId, call: AgentCall) -> None:
        self._id = id
        self._does = METHODS[call.method]
        self._task = call.one_task or ""
        self._context = call.context
        self._has_come = self._is_over = False

    def judge(self, text: bytes) -> Judged:
        """Judge an answer, or the data of an event. Raises `AnswerError`."""
        if self._is_over:
            raise AnswerError("an event after the last one")
        try:
            check_amount(text)
            check_text(text)
        except FrameError as error:
            raise AnswerError(error.detail, bound=error.bound) from None
        frame = _read(text, _Frame)
        if frame.jsonrpc != "2.0" or not self._is_own(frame):
            raise AnswerError("not a response to this request")
        if _is_there(frame.error):
            if _is_there(frame.result):
                raise AnswerError("a response with a result and an error")
            error = _read(frame.error, _Error)
            if is_own_code(error.code):
                raise AnswerError("an error with a code of the gateway's own")
            self._is_over = True
            return Judged(None, error.code, to_json(error))
        if len(frame.result) == 0:
            raise AnswerError("a response without a result")
        if self._does.result is None:
            return Judged(None)
        return self._result(_read(frame.result, self._does.result))

    def _is_own(self, frame: _Frame) -> bool:
        if frame.id is None:
            return _is_there(frame.error)
        return type(frame.id) is type(self._id) and frame.id == self._id

    def _result(self, result: shapes.AgentObject) -> Judged:
        """Check which task and conversation a result is about ([same-task], [same-context])."""
        task, context = "", ""
        if isinstance(result, shapes.SendResult):
            task, context = self._payload(result)
        elif isinstance(result, shapes.Task):
            task, context = _of_task(result)
        elif isinstance(result, shapes.PushResult):
            task = result.task_id or ""
        elif isinstance(result, shapes.PushListResult):
            for each in result.configs:
                self._stay(each.task_id or "", "")
        self._stay(task, context)
        return Judged(result, task=task, context=context)

    def _payload(self, result: shapes.SendResult) -> tuple[str, str]:
        found = [value for name in result.__struct_fields__ if (value := getattr(result, name))]
        if len(found) != 1:
            raise AnswerError("a result with none or several of its payloads")
        payload: object = found[0]
        match payload:
            case shapes.Task():
                task, context = _of_task(payload)
            case shapes.Message():
                task, context = payload.task_id or "", payload.context_id or ""
                if self._has_come:
                    raise AnswerError("a message among a task's events")
                self._is_over = True
                if task and not self._task:
                    raise AnswerError("a message of a task that was not named")
                return task, context
            case shapes.StatusUpdate():
                task, context = payload.task_id, payload.context_id
                _check_inner(task, context, [payload.status.message] if payload.status.message else [])
            case shapes.ArtifactUpdate():
                task, context = payload.task_id, payload.context_id
            case _:
                raise AnswerError("a result with none or several of its payloads")
        self._has_come = True
        self._task, self._context = self._task or task, self._context or context
        return task, context

    def _stay(self, task: str, context: str) -> None:
        if task and self._task and task != self._task:
            raise AnswerError("an answer about another task")
        if context and self._context and context != self._context:
            raise AnswerError("an answer of another context")


def only_own(judged: Judged, is_own: Callable[[str], bool], known: int, *, whole: bool) -> Judged:
    """Return a list of tasks without other callers' tasks. If the list is `whole`, its total is the number of tasks
    left. Otherwise it is `known`, the number of all tasks of the caller, even if only some were asked for. Raises
    `AnswerError` ([same-task])."""
    result = judged.result
    if not isinstance(result, shapes.ListResult):
        return judged
    kept = [task for task in result.tasks if is_own(task.id)]
    for task in kept:
        _of_task(task)
    total = len(kept) if whole and not result.next_page_token else max(known, len(kept))
    listed = replace(result, tasks=kept, total_size=total, page_size=result.page_size or len(kept))
    return judged._replace(result=listed)


def next_page(judged: Judged) -> str | None:
    """If a page of a task list holds no tasks, return the token of the next page, if any. Otherwise return None."""
    result = judged.result
    return result.next_page_token or None if isinstance(result, shapes.ListResult) and not result.tasks else None


def _of_task(task: shapes.Task) -> tuple[str, str]:
    context = task.context_id or ""
    inner = [*(task.history or ()), *([task.status.message] if task.status.message else [])]
    _check_inner(task.id, context, inner)
    return task.id, context


def _check_inner(task: str, context: str, messages: "list[shapes.Message]") -> None:
    """Check that the messages in a task are its own ([same-task]). Raises `AnswerError`."""
    for message in messages:
        if (message.task_id or task) != task or (context and (message.context_id or context) != context):
            raise AnswerError("a task with a message of another task")


def _read(text: bytes | Raw, shape: type[_Shape]) -> _Shape:
    try:
        return msgspec.json.decode(text, type=shape)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise AnswerError(f"not what {shape.__name__.strip('_')} has to be") from None


def _is_there(value: Raw) -> bool:
    return len(value) > 0 and bytes(value) != b"null"
