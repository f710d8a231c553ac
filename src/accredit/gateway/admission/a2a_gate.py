"""The gate of an agent: decides whether a request of A2A may pass, and whose its tasks and conversations are. Asks the
ports; logs.

Each request passes `admit`, once it was read (`a2a.requests`). It takes the steps of `call_gate`, and four more before
the record:

- [push] A push configuration names an address that is configured. If no address is configured, all methods about push
  configurations are refused.
- [room] There is room to remember one more task of the caller's, and one more conversation. Otherwise the agent would
  act, and no client could ask about the task.
- [context] A conversation belongs to the caller to whom the agent gave it. Any other conversation is refused like an
  unknown task, even one that the gateway has forgotten: the agent may still know it. But with `client_contexts`, an
  unknown conversation becomes the caller's before anything is forwarded.
- [skills] Once a message has continued a task, the task also needs the scopes of that message. A token that denies one
  of the task's skills can neither continue nor change the task.

What an agent answers passes `settle` before its client sees any of it:

- [owner-first] A task that it announces is remembered with its owner, and so is its conversation. If that is
  impossible, the client gets a refusal in place of the answer.
- [known-id] An answer with another caller's task or conversation is invalid.

Both are remembered for a day (`TASK_SECONDS`), and for a week from each message that names them (`USED_TASK_SECONDS`).
After that they are unknown. Where proofs are only observed, none of these rules refuses an answer.
"""

from collections.abc import Sequence
from time import perf_counter

from accredit.a2a.answers import Judged, only_own
from accredit.a2a.call import call_of, card_call
from accredit.a2a.errors import push_refused
from accredit.a2a.requests import A2aRequest
from accredit.a2a.shapes import METHODS
from accredit.base.clock import unix_seconds
from accredit.errors import AccreditError, AnswerError, StoreUnavailable, TokenError
from accredit.gateway.admission.call_gate import CallGate
from accredit.gateway.call import Call
from accredit.gateway.counters import report_fault
from accredit.gateway.headers import RawHeaders
from accredit.gateway.settings import AgentSettings
from accredit.limits import MAX_TASKS_PER_OWNER, TASK_SECONDS
from accredit.policy import refusals
from accredit.policy.agent_call import AgentCall
from accredit.policy.drill import is_drill
from accredit.policy.tasks import Owner, TaskScope, encode_task_facts, read_made_by, with_skill
from accredit.ports import Task, TaskStore

USED_TASK_SECONDS = 604_800
"""How long a task or a conversation is remembered from the last message that continues it: a week."""
GO_ON_TRIES = 8
"""How many times the gateway tries to note that a message continues a task, while others do the same. Each try that
fails is one that another message has won."""


class A2aGate(CallGate):
    """The gate of one agent."""

    async def admit(self, asked: A2aRequest, proofs: Sequence[bytes], credentials: RawHeaders, call: Call) -> AgentCall:
        """Take a request through all steps. Store the results in its call. Raises the error that refuses it."""
        began = perf_counter()
        guarded = call_of(asked, proofs)
        error: BaseException | None = None
        try:
            targets = self._skills_of(guarded.target) if guarded.sends else ()
            await self._admit_call(guarded, call, credentials, targets=targets, form=asked.form)
        except BaseException as found:
            error = found
            raise
        finally:
            skill = guarded.target if guarded.sends else ""
            is_known = self.policy.catalog.find(guarded.method, skill) is not None
            self._measure(guarded.method, skill if is_known else None, error, began)
        return guarded

    async def granted_by(self, proofs: Sequence[bytes]) -> frozenset[str] | None:
        """Return the scopes of a proof that came with a request for the card, None without one. Raises
        `ProofRefused`."""
        if not proofs:
            return None
        call = Call()
        await self._decide(card_call(proofs), call)
        if call.refusal is not None:
            raise call.refusal
        return self.granted(call)

    def granted(self, call: Call) -> frozenset[str] | None:
        """Return the scopes of a call's proof, None without one."""
        return frozenset(call.authority.granted_scope) if call.authority is not None else None

    async def settle(self, call: Call, guarded: AgentCall, judged: Judged) -> None:
        """Remember what an answer announces ([owner-first] and [known-id]), once. Raises `AnswerError` and
        `ProofRefused`."""
        if (judged.task, judged.context) == call.remembered:
            return
        try:
            if judged.context and judged.context != guarded.context:
                await self._own(self._contexts, judged.context, call, guarded)
            if judged.task and judged.task not in guarded.tasks:
                await self._own(self.place, judged.task, call, guarded)
        except StoreUnavailable:
            if not self.policy.observes:
                raise refusals.task_not_kept(guarded.method, guarded.target) from None
        call.remembered = (judged.task, judged.context)

    async def only_own(self, call: Call, judged: Judged, *, whole: bool) -> Judged:
        """Return a list of tasks without those of other callers. Raises `ProofRefused`."""
        if self.policy.observes or call.guarded is None:
            return judged
        place = self.place
        try:
            own = await self._remembered.owned(self._owner(place, call), now=unix_seconds())
        except StoreUnavailable as error:
            report_fault(call.guarded.method, error)
            raise refusals.no_decision(call.guarded, None) from None
        return only_own(judged, lambda id: place.key(id) in own, len(own), whole=whole)

    async def _refusal_besides(self, guarded: AgentCall, call: Call) -> AccreditError | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the error for a request that `policy.decide` allows, but that breaks a rule from [push] to [skills];
        else None."""
        pushes = METHODS[guarded.method].pushes or guarded.push_url is not None
        allowed = self._agent.push_urls
        if pushes and (not allowed or guarded.push_url not in (None, *allowed)):
            return push_refused(guarded.method)
        if call.decision is None or self.policy.observes or is_drill(guarded.method, guarded.target):
            return None
        try:
            await self._check_room(guarded, call)
            if guarded.context:
                await self._check_context(guarded, call)
            if guarded.continued:
                await self._go_on(guarded, call)
            elif call.task is not None:
                self._check_skills(call.task, call)
        except AnswerError:
            return refusals.unknown_task(guarded)
        except TokenError as error:
            return error
        except StoreUnavailable as error:
            report_fault(guarded.method, error)
            return refusals.no_decision(guarded, call.decision.entry)
        return None

    async def _check_room(self, guarded: AgentCall, call: Call) -> None:
        """Check that there is room for the task and the conversation that a message may begin ([room]). Raises
        `StoreUnavailable`."""
        if not guarded.sends or guarded.continued:
            return
        for place in (self.place, *(() if guarded.context else (self._contexts,))):
            if len(await self._remembered.owned(self._owner(place, call), now=unix_seconds())) >= MAX_TASKS_PER_OWNER:
                raise StoreUnavailable("no room to remember one more task or conversation of this caller")

    async def _check_context(self, guarded: AgentCall, call: Call) -> None:
        """Check that the conversation that a request names is the caller's ([context]). If the request is a message,
        remember the conversation longer. Raises `AnswerError` and `StoreUnavailable`."""
        place, now = self._contexts, unix_seconds()
        key = place.key(guarded.context)
        known = await self._remembered.find(key, now=now)
        if known is None and self._agent.client_contexts:
            if guarded.sends:
                await self._own(place, guarded.context, call, guarded)
            return
        if known is None or known.owner != self._owner(place, call):
            raise AnswerError("a context that is not the caller's")
        if guarded.sends:
            await self._remembered.renew(key, known, known, keep_until=now + USED_TASK_SECONDS, now=now)

    async def _go_on(self, guarded: AgentCall, call: Call) -> None:
        """Note the skill by which a message continues a task ([skills]). Raises `AnswerError`, `TokenError` and
        `StoreUnavailable`."""
        key = self.place.key(guarded.continued)
        for _ in range(GO_ON_TRIES):
            now = unix_seconds()
            known = await self._remembered.find(key, now=now)
            if known is None:
                raise AnswerError("a task that was forgotten just now")
            self._check_skills(known, call)
            task = with_skill(known, guarded.target)
            if await self._remembered.renew(key, known, task, keep_until=now + USED_TASK_SECONDS, now=now):
                return
        raise StoreUnavailable("too many go on with this task at once")

    def _check_skills(self, task: Task, call: Call) -> None:
        """Check that the token denies no skill of a task ([skills]). Raises `TokenError` and `StoreUnavailable`."""
        for skill in (task.target, *read_made_by(task).also):
            self._check_targets(call, self._skills_of(skill))

    async def _own(self, place: TaskScope, id: str, call: Call, guarded: AgentCall) -> None:
        """Remember whose a task or a conversation is. Raises `AnswerError` if another caller owns it,
        and `StoreUnavailable`."""
        now, chain = unix_seconds(), call.authority.chain if call.authority is not None else ()
        made = encode_task_facts({}, guarded.digest, guarded.arguments, chain)
        task = Task(self._owner(place, call), guarded.method, guarded.target if guarded.sends else "", made, "")
        key = place.key(id)
        kept = await self._remembered.keep(key, task, keep_until=now + TASK_SECONDS, now=now)
        if kept.owner != task.owner and not self.policy.observes:
            raise AnswerError("a task or a context of another")
        if kept != task and kept.owner == task.owner:
            await self._remembered.renew(key, kept, kept, keep_until=now + USED_TASK_SECONDS, now=now)

    def _skills_of(self, named: str) -> tuple[str, ...]:
        """Return the skills that a token must not deny: the one that a message names. If it names none, return all that
        have a scope, as the message may be for any of these."""
        return (named,) if named else tuple(filter(None, self.policy.catalog.routes)) or ("",)

    @property
    def _contexts(self) -> TaskScope:
        """Where conversations are remembered: apart from tasks, and counted apart."""
        name, server = f"{self.place.name} contexts", f"{self.place.server} contexts"
        return TaskScope(name, server, by_token=self.place.by_token)

    @property
    def _agent(self) -> AgentSettings:
        assert self._api.agent is not None  # noqa: S101 - `ApiServer` makes no other gate for an API
        return self._api.agent

    @property
    def _remembered(self) -> TaskStore:
        assert self._tasks is not None  # noqa: S101 - `CallGate` has seen to it
        return self._tasks

    def _owner(self, place: TaskScope, call: Call) -> bytes:
        authority, token = call.authority, call.token
        if authority is None:
            return Owner(token=token).at(place.server)
        return place.owner(authority.principal_id, authority.agent_id, token).at(place.server)
