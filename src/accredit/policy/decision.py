"""A decision's settings (`Policy`), its questions to the outside (needs) and how the ports answer them, and its result
(`Decision`). No I/O of its own.

Any need may be answered with an exception: the call is then refused.

The trusted root that a proof's chain begins with:

- [pinned] A root that the policy names is trusted, and no registry is asked about it.
- [registry] If there are registries, they are asked about any other key. Unless one names a person for it, the key is
  not a root.
"""

from collections.abc import Awaitable, Callable, Collection, Generator, Mapping
from typing import NamedTuple, TypeVar

from msgspec import Struct

from accredit.attest.canonical import KeptProof
from accredit.errors import ProofRefused
from accredit.policy.catalog import Catalog, Entry
from accredit.policy.evaluators import OWN_EVALUATORS
from accredit.policy.guarded_call import GuardedCall
from accredit.policy.quotas import Quotas
from accredit.ports import ProofStore, RateLimit, Revocations, Task, TaskStore
from accredit.ratify import CertificateCache, DelegationCert, Evaluator, HybridPublicKey, IdentityStatus, ProofBundle
from accredit.ratify.terms import IsRevoked

_Decision = TypeVar("_Decision")
RootFinder = Callable[[HybridPublicKey], Awaitable[str | None]]
"""Answers a `FindRoot`."""


class Policy(Struct, frozen=True, kw_only=True):
    """A deployment's settings for decisions. `roots` maps pinned keys to names. Times are in seconds.

    With `bind_agent` a call needs a token whose subject is the id of the proof's agent. `constraint_evaluators`
    evaluate extension constraints, by type (`policy.evaluators`). `server` is the name of the calls' server, if the
    store is shared with other servers: a challenge is valid for one server only. With `observes`, decisions are only
    recorded, and refuse nothing ([observe] of `policy.decide`). `quotas` apply to calls with proofs. `find_root` asks
    registries about other keys than the `roots`. `pins` are the keys pinned for the registries, with names.
    """

    verifier_id: str
    roots: Mapping[HybridPublicKey, str]
    catalog: Catalog
    vocabulary: Collection[str]
    binding_required: bool = False
    freshness_seconds: int = 30
    challenge_seconds: int = 60
    bind_agent: bool = False
    cert_cache: CertificateCache
    constraint_evaluators: Mapping[str, Evaluator] = OWN_EVALUATORS
    server: str = ""
    observes: bool = False
    quotas: Quotas = Quotas()
    pins: Mapping[HybridPublicKey, str] = {}
    find_root: RootFinder | None = None

    @property
    def binding(self) -> str:
        """How proofs must be bound to calls, in the configuration's words."""
        return "required" if self.binding_required else "optional"

    def may_trust(self, root: HybridPublicKey) -> bool:
        """Return whether a chain may end in this key: it is one of the roots, or a registry may know it."""
        return self.find_root is not None or root in self.roots


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
    find: RootFinder


Look = Callable[[FindDefinition], Awaitable[str | None]]
"""Answers a `FindDefinition`."""


_OfPorts = IsRevoked | LookAtChallenge | SpendChallenge | IssueChallenge | CountUses | TakeUse | FindRoom | FindTask
Need = FindDefinition | FindRoot | _OfPorts


class Authority(Struct, frozen=True, kw_only=True):
    """The authority by which a call is allowed. `granted_scope` is what all certificates of the chain grant.

    `chain` holds these certificates, leaf first. `token_subject` is the subject of the call's token. `judged_at` is the
    time for which the proof was judged, in unix seconds. `proof` has the data that the agent signed; no gateway accepts
    it after `fresh_until`. `request_hash` is that of the request to which it is bound, b"" if it is not bound.
    """

    principal_id: str
    principal_name: str
    agent_id: str
    granted_scope: tuple[str, ...]
    cert_ids: tuple[str, ...]
    bound: bool
    chain: tuple[DelegationCert, ...] = ()
    token_subject: str | None = None
    judged_at: int | None = None
    proof: KeptProof | None = None
    fresh_until: int = 0
    request_hash: bytes = b""


class Decision(Struct, frozen=True):
    """The verdict: allowed if there is no `refusal`. `authority` is None for a list without a proof.

    `proved` is the authority of a proof with valid signatures, even if the call is refused. `fault` is what prevented a
    decision, for the program's log only. `task` is the task that the call is about. If a decision is not `enforced`,
    its `refusal` is only recorded: the call is not refused.
    """

    call: GuardedCall
    entry: Entry | None
    authority: Authority | None = None
    refusal: ProofRefused | None = None
    fault: Exception | None = None
    proved: Authority | None = None
    task: Task | None = None
    enforced: bool = True


CONSTRAINT_REFUSALS = frozenset(
    {
        IdentityStatus.CONSTRAINT_DENIED,
        IdentityStatus.CONSTRAINT_UNVERIFIABLE,
        IdentityStatus.CONSTRAINT_UNKNOWN,
    }
)
"""Statuses of the verifier whose reasons quote the call's arguments."""


class Flow(NamedTuple):
    """Says that a request is a later leg of a multi-round-trip call: the name that all legs of the call share, and the
    leg's number, from 1."""

    name: str
    round: int


FlowOf = Callable[[str, str], Flow | None]
"""Returns the `Flow` in the sealed state that this request brings back, given the ids of a principal and an agent.
Raises `SealError` if the state was not sealed for them."""


def find_root(bundle: ProofBundle, policy: Policy) -> Generator[Need, object, tuple[HybridPublicKey, str] | None]:
    """Return the trusted root of a proof's chain with its person's name, or None ([pinned] and [registry])."""
    root = bundle.delegations[-1].issuer_pub_key if bundle.delegations else None
    if root is None:
        return None
    name: object = policy.roots.get(root)
    if name is None and policy.find_root is not None:
        name = yield FindRoot(root, policy.find_root)
    return (root, name) if isinstance(name, str) else None


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
