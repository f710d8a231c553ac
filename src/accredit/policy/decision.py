"""A decision's settings (`Policy`), and its result (`Decision`). No I/O.

The trusted root that a proof's chain begins with:

- [pinned] A root that the policy names is trusted, and no registry is asked about it.
- [registry] If there are registries, they are asked about any other key. Unless one names a person for it, the key is
  not a root.
"""

from collections.abc import Callable, Collection, Generator, Mapping
from typing import NamedTuple

from msgspec import Struct

from accredit.attest.canonical import KeptProof
from accredit.errors import ProofRefused
from accredit.policy.catalog import Catalog, Entry
from accredit.policy.evaluators import OWN_EVALUATORS
from accredit.policy.guarded_call import GuardedCall
from accredit.policy.needs import FindRoot, Need, RootFinder
from accredit.policy.quotas import Quotas
from accredit.ports import Task
from accredit.ratify import CertificateCache, DelegationCert, Evaluator, HybridPublicKey, IdentityStatus, ProofBundle


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


class Authority(Struct, frozen=True, kw_only=True):
    """The authority by which a call is allowed. `granted_scope` is what all certificates of the chain grant.

    `chain` holds these certificates, leaf first. `token_subject` is the subject of the call's token. `judged_at` is the
    time for which the proof was judged, in unix seconds. `proof` has the data that the agent signed; no gateway accepts
    it after `fresh_until`.
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
