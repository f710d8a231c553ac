"""A person's answer to an ask, and the conditions under which it allows the call. No I/O.

An answer that says *allow* is used only if all of these hold, checked in this order. So a false desk, or somebody who
forwards its answers, can only waste time.

- [decoding] The answer is at most `MAX_CONSENT_ANSWER_BYTES` of strict JSON with the members of `Answer`, and says
  *allow*.
- [ask] It answers this very ask.
- [chain] Its certificates, leaf first, are a chain whose signatures are valid now. The chain is for the key that asked,
  and from one of the people who were asked (if any were named).
- [gateway] The leaf names the gateway in the ask, and nothing in the chain certainly refuses the call there.
- [scope] The chain grants every scope that the call needs.

Not checked: facts that only the gateway knows (amounts, uses, revocation), and whether it trusts the person.
"""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from msgspec import Meta
from msgspec.structs import replace

from accredit.base.values import decodable
from accredit.consent.asks import Ask
from accredit.consent.call import CALL, Digest, evaluate_call
from accredit.errors import UnusableAnswer, WireError
from accredit.limits import MAX_CONSENT_ANSWER_BYTES, MAX_DELEGATION_CHAIN_DEPTH, MAX_TOLD_REASON_CHARS
from accredit.ratify import DelegationCert, Extension, IdentityStatus, verify_chain
from accredit.ratify.facts import CallFacts, VerifierContext
from accredit.ratify.terms import Terms
from accredit.ratify.verify import constraints_fault
from accredit.ratify.wire import WireObject

_LEVEL_OF_CERTIFICATE = 3


@decodable
class Answer(WireObject, frozen=True):
    """A person's answer. `ask` is the ask's digest in lower-case hex. `certificates` are a chain, leaf first, if the
    call is allowed. `reason` says why it is not allowed, or not yet."""

    max_bytes: ClassVar[int] = MAX_CONSENT_ANSWER_BYTES

    ask: Digest
    decision: Literal["allow", "deny", "later"]
    certificates: Annotated[tuple[DelegationCert, ...], Meta(max_length=MAX_DELEGATION_CHAIN_DEPTH)] = ()
    reason: Annotated[str, Meta(max_length=MAX_TOLD_REASON_CHARS)] = ""

    def check(self, path: str, level: int) -> None:
        """Check each certificate, and that there are certificates if the call is allowed, and none if it is not. Raises
        `WireError`."""
        if bool(self.certificates) is not (self.decision == "allow"):
            raise WireError(f"{path}.certificates", "there are some if the call is allowed, and only then")
        for index, cert in enumerate(self.certificates):
            cert.check(f"{path}.certificates[{index}]", level + _LEVEL_OF_CERTIFICATE - 1)


def read_answer(data: bytes) -> Answer:
    """Decode an answer. Raises `UnusableAnswer`."""
    try:
        return Answer.decode(data)
    except WireError as error:
        raise UnusableAnswer(f"not an answer: {error.path.removeprefix('Answer.')}: {error.reason}") from None


def chain_allowed(answer: Answer, ask: Ask, now: int) -> tuple[DelegationCert, ...]:
    """Check an answer ([decoding] to [scope]). Return its chain, leaf first, which allows the call asked about.

    `now` is in unix seconds. Raises `UnusableAnswer`, also for an answer that does not allow the call.
    """
    if answer.ask != ask.digest.hex():
        raise UnusableAnswer("the answer is to another ask")
    if answer.decision != "allow" or not answer.certificates:
        raise UnusableAnswer("the answer does not allow the call")
    chain = answer.certificates
    if chain[0].subject_pub_key != ask.agent.public_key:
        raise UnusableAnswer("the delegation is for another key")
    if ask.principals and chain[-1].issuer_id not in ask.principals:
        raise UnusableAnswer("the delegation comes from nobody who was asked")
    vocabulary = frozenset(scope for cert in chain for scope in cert.scope)
    result = verify_chain(chain, now=now, vocabulary=vocabulary)
    if not result.valid:
        raise UnusableAnswer(f"the delegation proves nothing: {result.error_reason}")
    fault = call_fault(chain, ask, now)
    if fault is not None:
        raise UnusableAnswer(fault)
    if not set(ask.refusal.scopes) <= set(result.granted_scope):
        raise UnusableAnswer("the delegation does not grant every scope that the call needs")
    return chain


def call_fault(chain: Sequence[DelegationCert], ask: Ask, now: int) -> str | None:
    """Return why a chain is certainly not for the call of an ask ([gateway]). Return None if nothing shows that."""
    if not any(isinstance(each, Extension) and each.name == CALL for each in chain[0].constraints):
        return "the delegation is not for certain calls at the gateway that was asked for"
    facts = CallFacts(
        verifier_id=ask.gateway.id,
        method=ask.method,
        target=ask.target,
        arguments=ask.params.get("arguments"),
        params_digest=lambda: bytes.fromhex(ask.params_sha256),
        definition=ask.refusal.definition or None,
    )
    return certain_refusal(chain, VerifierContext(call=facts), now)


def certain_refusal(chain: Sequence[DelegationCert], context: VerifierContext, now: int) -> str | None:
    """Return why a constraint of the chain refuses a call, regardless of any further facts that the gateway may know.
    Return None if none does.

    Each constraint is judged by itself: if one can't be judged here, the next ones still are.
    """
    for cert in chain:
        for each in cert.constraints:
            alone = (replace(cert, constraints=(each,)),)
            terms = Terms(now=now, context=context, constraint_evaluators={CALL: evaluate_call})
            refused = constraints_fault(alone, terms)
            if refused is not None and refused.identity_status is IdentityStatus.CONSTRAINT_DENIED:
                return f"the delegation is not for this call: {refused.error_reason}"
    return None
