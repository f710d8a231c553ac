"""Answer a decision's needs from the ports. Awaits them; no I/O of its own.

Whatever a port raises is thrown into the step that asked, which refuses the call.
"""

from accredit.policy.decide import Decision, Steps
from accredit.policy.needs import (
    CountUses,
    FindTask,
    IsRevoked,
    IssueChallenge,
    LookAtChallenge,
    Need,
    SpendChallenge,
    TakeUse,
)
from accredit.ports import ProofStore, Revocations, TaskStore


async def drive(
    steps: Steps, store: ProofStore, revocations: Revocations, now: int, tasks: TaskStore | None = None
) -> Decision:
    """Run a decision to its end. `now` must be the decision's own, in unix seconds. Without `tasks` no task is
    known."""
    try:
        need = next(steps)
        while True:
            try:
                answer = await _answer(need, store, revocations, tasks, now)
            except Exception as error:
                need = steps.throw(error)
            else:
                need = steps.send(answer)
    except StopIteration as stop:
        return stop.value


async def _answer(need: Need, store: ProofStore, revocations: Revocations, tasks: TaskStore | None, now: int) -> object:
    match need:
        case IsRevoked(cert_id):
            return await revocations.is_revoked(cert_id)
        case LookAtChallenge(challenge, request_hash, issued):
            return await store.look(challenge, request_hash, issued=issued, now=now)
        case SpendChallenge(challenge, request_hash, issued, keep_until):
            return await store.spend(challenge, request_hash, issued=issued, keep_until=keep_until, now=now)
        case IssueChallenge(request_hash, expires_at):
            return await store.issue(request_hash, expires_at=expires_at)
        case CountUses(cert_id, window_s):
            return await store.uses(cert_id, window_s, now=now)
        case TakeUse(limits):
            return await store.use(limits, now=now)
        case FindTask(key):
            return await tasks.find(key, now=now) if tasks is not None else None
