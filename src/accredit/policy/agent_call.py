"""A request to an agent (A2A) as the decision sees it: what each method is about, and what a proof for it is bound to.
No I/O. `a2a.call` makes one from a request.
"""

from accredit.attest import CallRecord
from accredit.attest.canonical import WORKSPACES, SignedContext
from accredit.jsonrpc.methods import AGENT_CHANGES, AGENT_MESSAGES, TASKS
from accredit.policy.guarded_call import GuardedCall
from accredit.ratify.signable import build_session_context

GET_CARD = "GetAgentCard"
"""The operation to which a proof is bound that comes with a request for the public card. It is no method: the card is
fetched by GET."""
PROTOCOL = "a2a"
PROOF_MEMBER = "com.ratifyprotocol/proof"
"""The member of a request's `params.metadata` that may carry the proof."""


class AgentCall(GuardedCall, frozen=True, dict=True):
    """A request to an agent. `target` is the skill that a message names ("" for none), or the task's id.

    `continued` is the task that a message continues, `context` the conversation that it names; "" for none. `push_url`
    is where the agent is asked to push to.
    """

    continued: str = ""
    context: str = ""
    push_url: str | None = None

    @property
    def guarded(self) -> bool:
        """Whether the request needs a proof: each does, except one for the public card."""
        return self.method != GET_CARD

    @property
    def is_counted(self) -> bool:
        """Whether quotas count the request: they count messages."""
        return self.sends

    @property
    def proof_place(self) -> str:
        """Where a proof is sent."""
        return f"the header Ratify-Proof, or params.metadata[{PROOF_MEMBER!r}]"

    @property
    def word_to_hosts(self) -> str:
        """An addition to refusals, for people whose host can't make proofs. It is empty, as no host speaks A2A."""
        return ""

    @property
    def sends(self) -> bool:
        """Whether the request sends a message."""
        return self.method in AGENT_MESSAGES

    @property
    def about_tasks(self) -> bool:
        """Whether the request depends on who owns tasks, not on the catalog. A request for the extended card depends on
        neither."""
        return not self.sends

    @property
    def changes_task(self) -> bool:
        """Whether the request changes the task that it is about."""
        return self.method in AGENT_CHANGES

    @property
    def tasks(self) -> tuple[str, ...]:
        """The ids of the tasks that the request names."""
        one = self.one_task
        return self.subscribed if one is None else (*self.subscribed, one)

    @property
    def one_task(self) -> str | None:
        """The id of the one task that the request is about, or None. The message that created this task determines what
        the request needs."""
        if self.sends:
            return self.continued or None
        return self.target or None

    def signed_context(self, verifier_id: str, agent_id: str, scope: str) -> SignedContext:
        """Return the parts of this request that a proof covers ([binding])."""
        workspace = WORKSPACES[PROTOCOL]
        return SignedContext(agent_id, "", self.method, self.digest, "", scope, self.target, "", verifier_id, workspace)

    def _context(self, verifier_id: str, agent_id: str, request_hash: bytes) -> bytes:
        return build_session_context(verifier_id, WORKSPACES[PROTOCOL], agent_id, request_hash=request_hash)


def is_about_tasks(record: CallRecord) -> bool:
    """Return whether a recorded call was about tasks, not about a target in the catalog. Every request to an agent
    counts as such, except for messages."""
    call = record.call
    return call.method not in AGENT_MESSAGES if call.protocol == PROTOCOL else call.method in TASKS
