"""Tasks in the results of one of several servers, as the client knows them: `NAME__id`, wherever one is named. No I/O.

`task.taskId` (2025-11-25), `taskId` (SEP-2663) and `_meta`'s `related-task`. Lists of tasks are merged as all lists are.
"""

from msgspec import Raw

from accredit.gateway.upstream.merged.messages import RELATED_TASK, with_task
from accredit.jsonrpc.encode import with_members
from accredit.jsonrpc.methods import TASK_MEMBER
from accredit.jsonrpc.objects import is_object, may_name, members


def named_outside(server: str, result: Raw) -> Raw:
    """Return a result with its server's tasks under the client's names. Raises `FrameError`."""
    if not is_object(result) or not may_name(result, TASK_MEMBER.encode()):
        return result
    found = members(result)
    changes: dict[str, object] = {}
    if TASK_MEMBER in found:
        found = members(with_task(server, result))
        changes[TASK_MEMBER] = found[TASK_MEMBER]
    task, meta = found.get("task"), found.get("_meta")
    if task is not None and is_object(task) and TASK_MEMBER in members(task):
        changes["task"] = with_task(server, task)
    if meta is not None and is_object(meta) and RELATED_TASK in (in_meta := members(meta)):
        changes["_meta"] = {**in_meta, RELATED_TASK: with_task(server, in_meta[RELATED_TASK])}
    return Raw(with_members(found, changes)) if changes else result
