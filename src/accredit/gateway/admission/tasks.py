"""Tasks at the gateway: their owners are stored when a server announces them, and checked when a request names them.
Asks the store.

- [owner-first] A call that may be answered with a task is settled only once the task's owner is stored. Until then its
  client does not see the answer. If the owner can't be stored, the client gets a refusal instead.
- [known-id] A task id that is already known is accepted only in an answer to the same call of the same owner (same
  tool, same params). Otherwise a task could be given the rights of another. Any other answer that announces a known id
  is invalid.
- [scope] A task id is unique only within its scope, which includes the server's name if there are several. If the
  server is at a URL, the scope is that server. If it is a command, the scope is one session, which has a child of its
  own; without sessions, it is this process of the gateway.
- [notifications] A notification about a task goes only to the session that made or named the task, and to the
  subscription or request that names it. Any other is dropped. There are bounds to the known tasks of a session, and of
  all sessions. When the latter is used up, a session with more than its share forgets its tasks. Otherwise the least
  recently used session is forgotten.
"""

import hashlib
import secrets
from collections.abc import Callable, Collection
from functools import partial
from itertools import islice

from msgspec.structs import replace

from accredit.attest import Outcome
from accredit.base.caching import RecentlyUsedInSize
from accredit.base.clock import unix_seconds
from accredit.base.steps import Steps
from accredit.errors import AnswerError, ConfigurationError, MessageId, StoreUnavailable
from accredit.gateway.call import Call
from accredit.gateway.counters import Counters
from accredit.gateway.recording.open_calls import OpenCall, Settler
from accredit.gateway.replies import refusal
from accredit.gateway.settings import GatewaySettings
from accredit.jsonrpc.frames import Notification, Request, Success
from accredit.jsonrpc.methods import TASK_LIST, TASK_METHODS, Era
from accredit.jsonrpc.responses import Edit
from accredit.jsonrpc.tasks import (
    Announced,
    announced_task,
    check_about,
    filter_tasks,
    holds_tasks,
    may_announce,
    subject_of,
    without_state,
)
from accredit.limits import MAX_TOLD_TASKS, TASK_SECONDS
from accredit.policy import refusals
from accredit.policy.guarded_call import GuardedCall
from accredit.policy.tasks import Owner, TaskScope, encode_task_facts, same_call
from accredit.ports import Task, TaskStore

TASK_GRACE_SECONDS = 60
"""How many seconds longer than its `ttl` a task is remembered, for a client that fetches a result at the last
moment."""
MAX_TASK_TTL_SECONDS = 31_536_000
"""The longest `ttl` that counts, in seconds: a year. So no server can make a row stay for ever."""
MAX_TOLD_TASKS_OF_ALL = 100_000
"""How many tasks are known in all sessions with a server together: as many as a store remembers. They take 10 MB, since
only digests are kept."""
MAX_TASK_SESSIONS = 10_000
"""For how many sessions the known tasks are kept. They are needed to filter streams that were opened without a
proof."""


Hears = Callable[[Notification], Notification | None]
"""Returns the form in which a stream receives a notification, or None if it does not receive it. May raise
`FrameError`."""


class Tasks:
    """One per gateway. Without a `store`, callers prove nothing, and any caller may use any task.

    Where proofs are only observed, tasks are stored so that requests about them can be decided. No such request is
    refused for its task, unless tokens are required: then a task belongs to its token's subject alone.
    """

    def __init__(
        self, store: TaskStore | None, settings: GatewaySettings, counters: Counters, before: "Tasks | None" = None
    ) -> None:
        """`before` is the server's previous `Tasks`. Raises `ConfigurationError` if calls are guarded without a
        store."""
        remembers = settings.guards or settings.observes
        if remembers and store is None:
            raise ConfigurationError("calls are guarded, and nobody remembers their tasks", "give the gateway tasks")
        self._counters = counters
        self._servers = {"", settings.server, *(member.server for member in settings.members)}
        self._told = RecentlyUsedInSize[str, set[bytes]](MAX_TASK_SESSIONS, MAX_TOLD_TASKS_OF_ALL)
        self.unrecorded = Settler()
        apart = secrets.token_hex(8) if settings.lives_here else ""
        if before is not None:
            apart, self._told, self.unrecorded = before.place.apart, before._told, before.unrecorded
        self.store = store if remembers else None
        self._guards = settings.guards
        name, by_token = f"{settings.server}|" if settings.server else "", settings.observes and settings.guards
        self.place = TaskScope(name, settings.server, bool(settings.members), by_token, apart)
        """The scope of the server's task ids ([scope]). It also says who can own these tasks."""

    def watch_answer(self, request: Request, call: Call, opened: OpenCall | None) -> None:
        """Make an edit run before the call's own edit of its answer. `opened` is the call on record, if it is recorded.
        If the answer announces a task, that is stored. If the answer could announce one, the call stays open until it
        is settled, even if calls are not recorded."""
        # The edit outlives the request and its call if their stream is cut off, so it keeps neither.
        id, era, session, inner = request.id, request.era, call.session, call.edit
        if opened is None and self.store is None:
            return
        # In the legacy era, a request has a flow only if it may be answered with a task (`request_state`).
        task = self._task_of(request, call) if call.flow and may_announce(request) else None
        if opened is None and task is not None:
            opened = self.unrecorded.keep(OpenCall(self.unrecorded, None, id, session))
            call.open_calls.add(opened)

        def edit(response: Success) -> Steps[bytes]:
            announcement = announced_task(response.result, era, allowed=task is not None)
            if announcement is not None and opened is not None and task is not None:
                opened.on_settled = partial(self._keep, id, announcement, task, session)
            return (yield from inner(response)) if inner is not None else response.text

        call.edit = edit
        if opened is not None:
            opened.edit = edit

    def _task_of(self, request: Request, call: Call) -> Task:
        """Return the task to store if the request's answer announces one."""
        target = request.target or ""
        remembered = encode_task_facts({}, b"", None, ())
        guarded, decision = call.guarded, call.decision
        if guarded is not None and decision is not None and decision.authority is not None:
            entry = decision.entry
            facts = entry.facts.of(guarded.arguments) if entry is not None else {}
            remembered = encode_task_facts(facts, guarded.call_digest(), guarded.arguments, decision.authority.chain)
        owner = _owner_of(call, self.place).at(self.place.server_of(target))
        return Task(owner, request.method, target, remembered, call.flow)

    async def of(self, call: GuardedCall, owner: Owner) -> Task | None:
        """Return the task that a request is about, if any. Raises `ProofRefused` unless `owner` owns all tasks that the
        request names."""
        task: Task | None = None
        place, now = self.place, unix_seconds()
        for id in call.tasks:
            key = place.key(id, call.session_id)
            task = await self.store.find(key, now=now) if self.store is not None else None
            if task is None or not owner.has(task, place.server_of(id)):
                raise refusals.unknown_task(call)
        return task

    async def edit(self, request: Request, guarded: GuardedCall, call: Call) -> Edit:
        """Return the edit for the answer to a request about tasks. Raises `StoreUnavailable`."""
        inner = call.edit
        if request.method == TASK_LIST:
            place, session, own = self.place, call.session, set[bytes]()
            owner = _owner_of(call, place)
            if self.store is not None:
                for server in self._servers:
                    own |= await self.store.owned(owner.at(server), now=unix_seconds())
            return lambda response: filter_tasks(response, lambda id: place.key(id, session) in own)

        target = guarded.target

        def about(response: Success) -> Steps[bytes]:
            if request.method in TASK_METHODS:
                check_about(response.result, target)
            return (yield from inner(response)) if inner is not None else response.text

        return about

    def named(self, session_id: str, ids: Collection[str]) -> None:
        """Remember that a session may receive notifications about these tasks."""
        if session_id and ids:
            known = self._told.get(session_id) or set[bytes]()
            new = {_digest_of(id) for id in ids} - known
            if len(known) > MAX_TOLD_TASKS_OF_ALL // MAX_TASK_SESSIONS and not self._told.has_room(len(new)):
                known = set[bytes]()
            known |= set(islice(new, MAX_TOLD_TASKS - len(known)))
            self._told.put(session_id, known, len(known))

    def heard(self, session_id: str, ids: Collection[str], notification: Notification) -> Notification | None:
        """Return a notification in the form in which a stream of a session receives it, or None if it does not
        ([notifications]). `ids` are the tasks that the stream's requests name. May raise `FrameError`."""
        subject = subject_of(notification)
        told = (self._told.get(session_id) if session_id else None) or ()
        if subject is None or subject in ids or _digest_of(subject) in told:
            return without_state(notification)
        return None

    async def _keep(
        self, id: MessageId, announcement: Announced, task: Task, session_id: str, outcome: Outcome
    ) -> tuple[Outcome, bytes | None]:
        """Store the task in an announcement ([owner-first] and [known-id]). Return the call's outcome, and the response
        that replaces the answer, or None."""
        if outcome.status not in ("ok", "tool_error"):
            return outcome, None  # the answer was refused, or too late
        now = unix_seconds()
        seconds = TASK_SECONDS
        if announcement.ttl_ms is not None and announcement.ttl_ms >= 0:
            seconds = min(-(-announcement.ttl_ms // 1000), MAX_TASK_TTL_SECONDS) + TASK_GRACE_SECONDS
        if self.store is None:
            return Outcome(status="task", result=outcome.result), None
        try:
            key = self.place.key(announcement.id, session_id)
            known = await self.store.keep(key, task, keep_until=now + seconds, now=now)
            same = same_call(known, task)
        except StoreUnavailable:
            if not self._guards:
                return Outcome(status="task", detail="not remembered", result=outcome.result), None
            error = refusals.task_not_kept(task.method, task.target)
            self._counters.refused(error, method=task.method)
            return Outcome(status="task", detail="not remembered", result=outcome.result), refusal(error).frame(id)
        if not same and self._guards:
            problem = AnswerError("a task with the id of another")
            self._counters.refused(problem, method=task.method)
            return Outcome(status="upstream_invalid", detail=problem.detail), refusal(problem).frame(id)
        self.named(session_id, (announcement.id,))
        return Outcome(status="task", result=outcome.result), None


def _owner_of(call: Call, place: TaskScope) -> Owner:
    """Return the owner of any tasks that are announced in answers to this call."""
    authority, token = call.authority, call.token
    return Owner(token=token) if authority is None else place.owner(authority.principal_id, authority.agent_id, token)


def _digest_of(id: str) -> bytes:
    """Return a task id's digest. It is kept instead of the id, so that long ids take no more memory than short ones."""
    return hashlib.blake2b(id.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def of_resumed(response: Success, text: bytes) -> Steps[bytes]:
    """Edit a response to an unknown request. `text` is the response as edited so far.

    Who owns the tasks in it is unknown. So a task that it announces is refused, and a list of tasks is emptied.
    """
    if announced_task(response.result, Era.LEGACY, allowed=True) is not None:
        return refusal(refusals.task_not_kept("tools/call", "")).frame(response.id)
    if not holds_tasks(response):
        return text
    edited = replace(response, text=text)
    edited = replace(edited, result=edited.message()["result"])
    return (yield from filter_tasks(edited, lambda _: False))
