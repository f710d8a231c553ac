"""The gate of an agent: decides whether a request of A2A may go on, and whose its tasks and conversations are. Asks the
ports; logs.

Each request passes `admit`, once it was read (`a2a.requests`). It takes the steps of `call_gate`, and three more before
the record:

- [push] A push configuration names an address that is configured. Without any address, no method about push
  configurations is there.
- [room] There is room to remember one more task of the caller's, and one more conversation. Else the agent would act,
  and nobody could ask about it.
- [context] A conversation belongs to the first who named it, or to whom the agent gave it. A2A lets clients make up its
  id, so an unknown one is taken, and remembered before anything is forwarded. Another's is refused as an unknown task
  is.

What an agent answers passes `settle` before its client sees any of it:

- [owner-first] A task that it announces is remembered with its owner, and so is its conversation. If that is
  impossible, the client gets a refusal in place of the answer.
- [known-id] A task or a conversation that is another's is no answer: it is invalid.

Both are remembered for a day (`TASK_SECONDS`), and no longer known after that. Where proofs are only observed, an
answer is refused for none of this.
"""

from collections.abc import Sequence
from time import perf_counter

from accredit.a2a.answers import Judged, only_own
from accredit.a2a.call import call_of, card_call
from accredit.a2a.errors import push_refused
from accredit.a2a.methods import METHODS
from accredit.a2a.requests import Asked
from accredit.base.clock import unix_seconds
from accredit.errors import AnswerError, ProofRefused, StoreUnavailable
from accredit.gateway.admission.call_gate import CallGate, report_fault
from accredit.gateway.call import Call
from accredit.gateway.headers import RawHeaders
from accredit.limits import MAX_TASKS_PER_OWNER, TASK_SECONDS
from accredit.policy import refusals
from accredit.policy.agent_call import AgentCall
from accredit.policy.drill import is_drill
from accredit.policy.tasks import Owner, TaskScope, encode_task_facts, task_key
from accredit.ports import Task, TaskStore


class A2aGate(CallGate):
    """One per agent."""

    async def admit(self, asked: Asked, proofs: Sequence[bytes], credentials: RawHeaders, call: Call) -> AgentCall:
        """Take a request through all steps. What is found out about it is stored in its call. Raises what refuses
        it."""
        began = perf_counter()
        guarded = call_of(asked, proofs)
        error: BaseException | None = None
        try:
            also = self._skills if guarded.sends and not guarded.target else ()
            await self._admit_call(guarded, call, credentials, named=guarded.sends, also=also, form=asked.form)
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
        """Return a list of tasks with the caller's alone. Raises `ProofRefused`."""
        if self.policy.observes or call.guarded is None:
            return judged
        place = self.place
        try:
            own = await self._remembered.owned(self._owner(place, call), now=unix_seconds())
        except StoreUnavailable as error:
            report_fault(call.guarded, error)
            raise refusals.no_decision(call.guarded, None) from None
        return only_own(judged, lambda id: task_key(place.name, id) in own, len(own), whole=whole)

    async def _refusal_besides(self, guarded: AgentCall, call: Call) -> ProofRefused | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return why an allowed request is refused all the same ([push] and [context])."""
        pushes = METHODS[guarded.method].pushes or guarded.push_url is not None
        if pushes and (not self._push_urls or guarded.push_url not in (None, *self._push_urls)):
            return push_refused(guarded.method)
        if call.decision is None or self.policy.observes or is_drill(guarded.method, guarded.target):
            return None
        try:
            await self._check_room(guarded, call)
            if guarded.context:
                await self._check_context(guarded, call)
        except AnswerError:
            return refusals.unknown_task(guarded)
        except StoreUnavailable as error:
            report_fault(guarded, error)
            return refusals.no_decision(guarded, call.decision.entry)
        return None

    async def _check_room(self, guarded: AgentCall, call: Call) -> None:
        """Check that what a message may begin can be remembered ([room]). Raises `StoreUnavailable`."""
        if not guarded.sends or guarded.continued:
            return
        for place in (self.place, *(() if guarded.context else (self._contexts,))):
            if len(await self._remembered.owned(self._owner(place, call), now=unix_seconds())) >= MAX_TASKS_PER_OWNER:
                raise StoreUnavailable("no room to remember one more task or conversation of this caller")

    async def _check_context(self, guarded: AgentCall, call: Call) -> None:
        """Check whose the conversation is that a request names ([context]). A message makes an unknown one the
        caller's. Raises `AnswerError` and `StoreUnavailable`."""
        place = self._contexts
        if guarded.sends:
            await self._own(place, guarded.context, call, guarded)
            return
        known = await self._remembered.find(task_key(place.name, guarded.context), now=unix_seconds())
        if known is not None and known.owner != self._owner(place, call):
            raise AnswerError("a context of another")

    async def _own(self, place: TaskScope, id: str, call: Call, guarded: AgentCall) -> None:
        """Remember whose a task or a conversation is. Raises `AnswerError` if it is another's, `StoreUnavailable`."""
        now, chain = unix_seconds(), call.authority.chain if call.authority is not None else ()
        made = encode_task_facts({}, guarded.digest, guarded.arguments, chain)
        task = Task(self._owner(place, call), guarded.method, guarded.target if guarded.sends else "", made, "")
        kept = await self._remembered.keep(task_key(place.name, id), task, keep_until=now + TASK_SECONDS, now=now)
        if kept.owner != task.owner and not self.policy.observes:
            raise AnswerError("a task or a context of another")

    @property
    def _skills(self) -> tuple[str, ...]:
        """The skills that have scopes: a message that names none may be for any, so a token must not deny one."""
        return tuple(filter(None, self.policy.catalog.routes))

    @property
    def _contexts(self) -> TaskScope:
        """Where conversations are remembered: apart from tasks, and counted apart."""
        name, server = f"{self.place.name} contexts", f"{self.place.server} contexts"
        return TaskScope(name, server, by_token=self.place.by_token)

    @property
    def _push_urls(self) -> tuple[str, ...]:
        return self._api.agent.push_urls if self._api.agent is not None else ()

    @property
    def _remembered(self) -> TaskStore:
        assert self._tasks is not None  # noqa: S101 - `CallGate` has seen to it
        return self._tasks

    def _owner(self, place: TaskScope, call: Call) -> bytes:
        authority, token = call.authority, call.token
        if authority is None:
            return Owner(token=token).at(place.server)
        return place.owner(authority.principal_id, authority.agent_id, token).at(place.server)
