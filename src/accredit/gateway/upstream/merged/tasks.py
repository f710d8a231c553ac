"""Maps task ids in one server's results for the client: `NAME__id`, wherever one is named. No I/O.

`task.taskId` (2025-11-25), `taskId` (SEP-2663) and `_meta`'s `related-task`. Lists of tasks are merged like all lists.
"""

from msgspec import Raw

from accredit.base.steps import Steps
from accredit.gateway.upstream.merged.messages import with_task
from accredit.jsonrpc.encode import with_members
from accredit.jsonrpc.frames import Success
from accredit.jsonrpc.long_text import may_hold_any
from accredit.jsonrpc.methods import TASK_MEMBER, TASK_METHODS
from accredit.jsonrpc.objects import is_object, members
from accredit.jsonrpc.responses import Edit
from accredit.jsonrpc.tasks import RELATED_TASK

_NAMED = TASK_MEMBER.encode("ascii")


def with_merged_tasks(server: str, method: str, outer: Edit | None) -> Edit | None:
    """Return the edit for one server's response to a request of this method; `outer` edits its result."""
    return with_merged_tasks_anywhere(server, outer) if method in TASK_METHODS or method == "tools/call" else outer


def with_merged_tasks_anywhere(server: str, outer: Edit | None) -> Edit:
    """Return the edit for a response whose request is unknown."""

    def edit(response: Success) -> Steps[bytes]:
        if is_object(response.result) and (yield from may_hold_any(response.result, _NAMED)):
            response = yield from _map_tasks(server, response)
        return (yield from outer(response)) if outer is not None else response.text

    return edit


def _map_tasks(server: str, response: Success) -> Steps[Success]:
    found = yield from response.members()
    changes: dict[str, object] = {}
    task, meta = found.get("task"), found.get("_meta")
    if TASK_MEMBER in found:
        changes[TASK_MEMBER] = members(with_task(server, Raw(with_members({}, {TASK_MEMBER: found[TASK_MEMBER]}))))[
            TASK_MEMBER
        ]
    if task is not None and is_object(task) and TASK_MEMBER in members(task):
        changes["task"] = with_task(server, task)
    if meta is not None and is_object(meta) and RELATED_TASK in (in_meta := members(meta)):
        changes["_meta"] = {**in_meta, RELATED_TASK: with_task(server, in_meta[RELATED_TASK])}
    if not changes:
        return response
    return (yield from response.with_result(found, changes))
