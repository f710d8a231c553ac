"""The questions of a running decision (needs), and how the ports answer them. No I/O of its own.

Any need may be answered with an exception: the call is then refused.
"""

from collections.abc import Awaitable, Callable, Generator
from typing import NamedTuple, TypeVar

from accredit.ports import ProofStore, RateLimit, Revocations, TaskStore
from accredit.ratify import HybridPublicKey

_Decision = TypeVar("_Decision")


class IsRevoked(NamedTuple):
    """Is this certificate revoked? The answer is a bool."""

    cert_id: str


class LookAtChallenge(NamedTuple):
    """What would `SpendChallenge` answer now? Nothing changes. The answer is a `Spending`."""

    challenge: bytes
    request_hash: bytes
    issued: bool


class SpendChallenge(NamedTuple):
    """Spend this challenge for good. The answer is a `Spending`. `keep_until` is in unix seconds."""

    challenge: bytes
    request_hash: bytes
    issued: bool
    keep_until: int


class IssueChallenge(NamedTuple):
    """Issue a fresh challenge for this request. The answer is an `IssuedChallenge`. `expires_at` is in unix seconds."""

    request_hash: bytes
    expires_at: int


class CountUses(NamedTuple):
    """How often was this certificate used in the last `window_s` seconds? The answer is an int."""

    cert_id: str
    window_s: int


class TakeUse(NamedTuple):
    """Record one use for each limit, unless that would exceed one of them. The answer is a bool: whether it was
    recorded."""

    limits: tuple[RateLimit, ...]


class FindRoom(NamedTuple):
    """When will a limit have room for one more use? The answer is an int (unix seconds), or None for never."""

    limit: RateLimit


class FindTask(NamedTuple):
    """Which task is stored under this key? The answer is a `Task`, or None."""

    key: bytes


class FindDefinition(NamedTuple):
    """Which definition does the server list for this tool and this caller? The answer is its digest in hex, or None if
    it can't be found."""

    tool: str
    principal_id: str
    agent_id: str


class FindRoot(NamedTuple):
    """Whose root is this key, which is not one of the policy's own? `find` asks the registries. The answer is a name,
    or None if the key is not a root."""

    key: HybridPublicKey
    find: "RootFinder"


RootFinder = Callable[[HybridPublicKey], Awaitable[str | None]]
"""Answers a `FindRoot`."""
Look = Callable[[FindDefinition], Awaitable[str | None]]
"""Answers a `FindDefinition`."""


_OfPorts = IsRevoked | LookAtChallenge | SpendChallenge | IssueChallenge | CountUses | TakeUse | FindRoom | FindTask
Need = FindDefinition | FindRoot | _OfPorts


async def drive(
    steps: Generator[Need, object, _Decision],
    store: ProofStore,
    revocations: Revocations | None,
    now: int,
    tasks: TaskStore | None = None,
    look: Look | None = None,
) -> _Decision:
    """Run a decision to its end. `now` must be the time that the decision was given, in unix seconds. Without `tasks`,
    no task is known; without `look`, no definition.

    An exception from a port is raised in the step that asked, which refuses the call.
    """
    try:
        need = next(steps)
        while True:
            try:
                if isinstance(need, FindDefinition):
                    answer = await look(need) if look is not None else None
                elif isinstance(need, FindRoot):
                    answer = await need.find(need.key)
                else:
                    answer = await _answer(need, store, revocations, tasks, now)
            except Exception as error:
                need = steps.throw(error)
            else:
                need = steps.send(answer)
    except StopIteration as stop:
        return stop.value


async def _answer(
    need: _OfPorts, store: ProofStore, revocations: Revocations | None, tasks: TaskStore | None, now: int
) -> object:
    match need:
        case IsRevoked(cert_id):
            if revocations is None:
                raise TypeError("nobody knows what is revoked")
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
        case FindRoom(limit):
            return await store.room_at(limit, now=now)
        case FindTask(key):
            return await tasks.find(key, now=now) if tasks is not None else None
