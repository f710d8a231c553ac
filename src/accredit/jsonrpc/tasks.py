"""Tasks on the wire, as 2025-11-25 and as SEP-2663 write them: results that announce one, messages about one, and
lists. No I/O.

Source: 2025-11-25, basic/utilities/tasks (`params.task`, `result.task`, `tasks/list`, `related-task`), and the
extension `io.modelcontextprotocol/tasks` of SEP-2663 (`resultType` "task"). An answer is checked so:

- [announced] a task is announced only if its request allows one: with `task` in the legacy era, with the extension in
  the modern one;
- [id] the task's id is a string of bounded length. The members that decide what an answer means occur once, in one
  spelling;
- [same-task] the answer to a request about a task is about that task.
"""

from collections.abc import Callable

from msgspec import Raw, Struct

from accredit.base.steps import Steps
from accredit.errors import FrameError
from accredit.jsonrpc.arrays import elements
from accredit.jsonrpc.frames import Notification, Request, Success
from accredit.jsonrpc.methods import LISTEN, TASK_MEMBER, TASK_NOTIFICATION, Era
from accredit.jsonrpc.objects import (
    Names,
    as_integer,
    as_string,
    is_object,
    may_hold,
    may_name,
    members,
    meta_members,
    unambiguous_members,
)
from accredit.jsonrpc.responses import TASK, TASKS_EXTENSION, declared_extensions
from accredit.limits import ITEMS_AT_ONCE, MAX_SPLIT_BYTES

MAX_TASK_ID_CHARS = 1_024
"""The most characters of a task's id. The id is sent in `Mcp-Name`, beside other headers."""


RELATED_TASK = "io.modelcontextprotocol/related-task"
"""The member of `_meta` that names the task which a message belongs to."""
_STATUS_NOTIFICATIONS = frozenset({"notifications/tasks/status", TASK_NOTIFICATION})

_CREATED = Names("task", "resultType", "content", TASK_MEMBER, "ttl", "ttlMs", "requestState", "_meta")
_TASK = Names(TASK_MEMBER, "status", "ttl", "ttlMs")
_LIST = Names("tasks", "nextCursor", "_meta")
_NAMED = TASK_MEMBER.encode("ascii")


class Announced(Struct, frozen=True):
    """A task that an answer announces. `ttl_ms` is how long the server keeps it, None if it does not say."""

    id: str
    ttl_ms: int | None


def may_announce(request: Request) -> bool:
    """Return whether a request may be answered with a task. Raises `FrameError`."""
    if request.method != "tools/call":
        return False
    if request.era is Era.MODERN:
        return TASKS_EXTENSION in declared_extensions(request)
    return "task" in request.parts


def announced_task(result: Raw, era: Era, *, allowed: bool) -> Announced | None:
    """Return the task that the result of a call announces; None if it announces none. `allowed` says that the request
    allows one.

    Raises `FrameError` ([announced] and [id]).
    """
    if not is_object(result) or not may_hold(result, _NAMED):
        return None
    answer = unambiguous_members(result, _CREATED)
    if era is Era.MODERN:
        if as_string(answer.get("resultType")) != TASK:
            return None
        if not allowed:
            raise FrameError("a task that was not asked for")
        return _read_task(answer, "ttlMs")
    task = answer.get("task")
    if task is None or not is_object(task):
        return None
    if not allowed or "content" in answer:
        raise FrameError("a task that was not asked for")
    return _read_task(unambiguous_members(task, _TASK), "ttl")


def check_about(result: Raw, id: str) -> None:
    """Check the result of a request about the task `id`: it must not name another task ([same-task]). Raises
    `FrameError`."""
    if not is_object(result) or not may_hold(result, _NAMED):
        return
    answer = unambiguous_members(result, _CREATED)
    named = [answer.get(TASK_MEMBER), _related_id(answer)]
    if any(each is not None and as_string(each) != id for each in named):
        raise FrameError("an answer about another task")


def may_subscribe(call: Request | Notification) -> bool:
    """Return whether a message may be a subscription to tasks. Quick; False is certain."""
    return call.method == LISTEN and may_name(call.params, b"taskIds")


def subscribed_tasks(request: Request) -> tuple[str, ...]:
    """Return the ids of the tasks that a `subscriptions/listen` names; none if they can't be read."""
    try:
        notifications = request.members.get("notifications")
        ids = members(notifications).get("taskIds") if is_object(notifications) and notifications is not None else None
        texts = elements(ids, "taskIds") if ids is not None else []
    except FrameError:
        return ()
    return tuple(id for each in texts if (id := as_string(each)) is not None)


def subject_of(notification: Notification) -> str | None:
    """Return the id of the task that a notification is about. It is None if the notification is not about a task, and
    "" if the task is missing or ambiguous."""
    if not may_name(notification.params, _NAMED) or notification.params is None:
        return "" if notification.method in _STATUS_NOTIFICATIONS else None
    try:
        params = unambiguous_members(notification.params, _TASK)
        related = _related_id(params)
    except FrameError:
        return ""
    ids = [params.get(TASK_MEMBER)] if notification.method in _STATUS_NOTIFICATIONS else []
    ids += [related] if related is not None else []
    texts = {as_string(each) or "" for each in ids}
    return None if not texts else texts.pop() if len(texts) == 1 else ""


def without_state(notification: Notification) -> Notification:
    """Return a notification without its `requestState`: the gateway can't seal that in a notification, and must not
    pass it on unsealed. Raises `FrameError`."""
    if not may_name(notification.params, b"requestState"):
        return notification
    return notification.with_params({}, without=("requestState",))


def filter_tasks(response: Success, shown: Callable[[str], bool]) -> Steps[bytes]:
    """Return the response to `tasks/list` with only the tasks for which `shown` is true, in steps. Raises
    `FrameError`."""
    if len(response.text) > MAX_SPLIT_BYTES:
        raise FrameError(f"a list of more than {MAX_SPLIT_BYTES} bytes", bound=True)
    answer = unambiguous_members(response.result, _LIST) if is_object(response.result) else {}
    if "tasks" not in answer:
        raise FrameError("a list of tasks without tasks")
    tasks = elements(answer["tasks"], '"tasks"')
    kept: list[Raw] = []
    for number, task in enumerate(tasks):
        if number % ITEMS_AT_ONCE == 0:
            yield
        if shown(_id_in(task)):
            kept.append(task)
    if len(kept) == len(tasks):
        return response.text
    return response.with_result(answer, {"tasks": kept}).text


def holds_tasks(response: Success) -> bool:
    """Return whether a response looks like a list of tasks. It is for responses on a resumed stream, whose
    request is unknown."""
    try:
        return "tasks" in response.members()
    except FrameError:
        return False


def _read_task(task: dict[str, Raw], ttl_name: str) -> Announced:
    id = as_string(task.get(TASK_MEMBER))
    if not id or len(id) > MAX_TASK_ID_CHARS:
        raise FrameError(f"a task whose id is no string of at most {MAX_TASK_ID_CHARS} characters")
    ttl = task.get(ttl_name)
    return Announced(id, as_integer(ttl) if ttl is not None else None)


def _related_id(members: dict[str, Raw]) -> Raw | None:
    related = meta_members(members.get("_meta")).get(RELATED_TASK)
    if related is None:
        return None
    if not is_object(related):
        raise FrameError("a related task that is not an object")
    return unambiguous_members(related, _TASK).get(TASK_MEMBER, Raw(b"null"))


def _id_in(task: Raw) -> str:
    if not is_object(task):
        raise FrameError("a task that is not an object")
    id = as_string(unambiguous_members(task, _TASK).get(TASK_MEMBER))
    if not id:
        raise FrameError("a task without an id")
    return id
