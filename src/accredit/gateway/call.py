"""One message of a client on its way through the gateway, and what each step has found out about it. No I/O.

A `Call` is made empty in `front.endpoint`, which defines the order of the steps. Each step writes its own members, and
reads those of the steps before it. Nothing is copied from one object to the next.
"""

from collections.abc import Mapping

from msgspec import Struct, field

from accredit.errors import KeysUnavailable, MessageId, ProofRefused, RequestError, TokenError
from accredit.gateway.admission.held_answer import ClientReply
from accredit.gateway.admission.pinned_tools import UpstreamAccess
from accredit.gateway.recording.open_calls import OpenCalls
from accredit.jsonrpc.frames import Frame, Request
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.requests import Batch
from accredit.jsonrpc.responses import Edit
from accredit.policy.decision import Authority, Decision
from accredit.policy.guarded_call import GuardedCall
from accredit.policy.passing import CallerIdentity
from accredit.ports import Task
from accredit.telemetry.operations import Batched, Operation
from accredit.tokens.carried import FoundTokens
from accredit.tokens.claims import VerifiedToken

Refused = ProofRefused | TokenError | RequestError
"""An error with which a decision refuses a request."""


class Call(Struct):
    """A client's message, who sent it, what was decided about it, and what is forwarded of it."""

    message: Frame | Batch | None = None
    """The message; None until it is read."""
    session: str = ""
    """The id of the message's session, as the client knows it, or ""."""
    revision: str | None = None
    era: Era = Era.LEGACY
    members: list["Call"] = []
    """The calls of a batch's messages, once `each` has made them."""

    token: VerifiedToken | None = None
    """At first the verified token of the HTTP header. Later the token that decides on the message
    (`admission.bearer`)."""
    brought: FoundTokens | None = None
    """The credentials found in the message. None until the message is searched for them."""
    unknown: bool = False
    """Whether it is a guarded call without a token, a proof and a session, where OAuth clients are let in."""
    error: TokenError | KeysUnavailable | None = None
    """Why the message's token is refused, on stdio only: there the gate answers with this error."""
    reply: ClientReply | None = None
    """The answer to the request, if it can begin while the call waits for a person."""
    way: UpstreamAccess | None = None
    """How the gateway sends requests of its own to the server on behalf of this caller. None if it can't."""

    guarded: GuardedCall | None = None
    """What the request asks for, if that was judged (`admission.judge`)."""
    decision: Decision | None = None
    """The decision, where proofs are judged. The next four members follow from it (`decide`)."""
    authority: Authority | None = None
    """The authority that a proof gave the request, if any."""
    observed: ProofRefused | None = None
    """The refusal that is only observed, if there is one."""
    refusal: Refused | None = None
    """The refusal that is enforced: by the decision, for a state that does not open, or for what is enforced even
    though proofs are only observed."""
    task: Task | None = None
    """The task that the request is about. Without a decision, a token has decided about it."""
    flow: str = ""
    """The name of the call over all its rounds (`admission.request_state`); "" if there can be only one round."""
    round: int = 0
    """The number of the round, counted from 0."""
    id: str = ""
    """The call's id in its records, if a proof was bound to it; else one is drawn when it is recorded."""

    onward: Frame | Batch | None = None
    """What is forwarded of the message (`admission.gate`). None: nothing."""
    edit: Edit | None = None
    """The edit for the response to the request."""
    instead: bytes | None = None
    """The gateway's own response in place of a refusal: it says that a person has to be asked."""
    replies: tuple[bytes, ...] = ()
    """The gateway's own responses to requests that are not forwarded. Without these and `onward`, the message was a
    notification that was dropped."""
    open_calls: OpenCalls = field(default_factory=OpenCalls)
    """The calls whose decisions are on record. Code that takes a call out must settle it."""
    remembered: tuple[str, str] = ("", "")
    """Of a request to an agent: the task and the context in its answer whose owner is remembered by now."""
    tasks: tuple[str, ...] = ()
    """The ids of the tasks that the message names."""
    proved: bool = False
    """Whether a proof in the message was valid."""
    speaker: CallerIdentity | None = None
    """On whose authority a single request is forwarded."""

    began: float = 0.0
    """When the message came, if it is measured."""
    measured: Operation | Batched | None = None
    traceparent: bytes | None = None
    """The trace context of the HTTP request that brought the message."""

    def each(self) -> "list[Call]":
        """Return a call for each message of a batch, the same objects each time. For a single message, return the call
        itself.

        Each has the HTTP header's token until its message's own is known.
        """
        if not isinstance(self.message, Batch):
            return [self]
        if not self.members:
            session, revision, era, token = self.session, self.revision, self.era, self.token
            self.members = [Call(frame, session, revision, era, token=token) for frame in self.message.frames]
        return self.members

    @property
    def edits(self) -> Mapping[MessageId, Edit]:
        """The edits for the server's responses, by request id."""
        if self.members:
            return {id: edit for each in self.members for id, edit in each.edits.items()}
        return {self.onward.id: self.edit} if self.edit is not None and isinstance(self.onward, Request) else {}

    @property
    def answer(self) -> bytes:
        """The gateway's own responses, as one JSON-RPC message."""
        return b"[" + b",".join(self.replies) + b"]" if isinstance(self.message, Batch) else self.replies[0]

    def decide(self, decision: Decision) -> None:
        """Store the decision on the request, and what follows from it."""
        self.decision, self.authority, self.task = decision, decision.authority, decision.task
        if decision.enforced:
            self.refusal = decision.refusal
        else:
            self.observed = decision.refusal
