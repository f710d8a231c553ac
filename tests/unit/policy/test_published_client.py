"""A client that knows the published package and nothing of us: its proofs are served where binding is optional."""

import base64
from collections.abc import Sequence
from typing import Any

import pytest
import ratify_protocol as published
from tests.differential.peer import ours_key
from tests.unit.ratify.world import HOUR, NOW
from tests.world.decisions import VERIFIER, Deployment, call, with_proof

from accredit.policy.guarded_call import GuardedCall


class Page:
    """A human and an agent as the integration page has them, made by the published package alone."""

    def __init__(self, *scope: str, constraints: Sequence[Any] = ()) -> None:
        self.human, human_key = published.generate_human_root()
        self.agent, self.key = published.generate_agent("Mailer", "custom")
        self.cert = published.DelegationCert(
            cert_id="page-1",
            version=1,
            issuer_id=self.human.id,
            issuer_pub_key=self.human.public_key,
            subject_id=self.agent.id,
            subject_pub_key=self.agent.public_key,
            scope=list(scope),
            constraints=list(constraints),
            issued_at=NOW - HOUR,
            expires_at=NOW + HOUR,
            signature=published.HybridSignature(b"", b""),
        )
        published.issue_delegation(self.cert, human_key)
        self.deployment = Deployment(roots={ours_key(self.human.public_key): "Owner"})

    def proves(self, asked: GuardedCall, challenge: bytes | None = None, context: bytes = b"") -> GuardedCall:
        """The call with a proof over this challenge, or one of the client's own."""
        challenge = challenge or published.generate_challenge()
        bundle = published.ProofBundle(
            agent_id=self.agent.id,
            agent_pub_key=self.agent.public_key,
            delegations=[self.cert],
            challenge=challenge,
            challenge_at=NOW,
            challenge_sig=published.sign_challenge(challenge, NOW, self.key, context),
            session_context=context,
        )
        return with_proof(asked, published.encode_proof_bundle(bundle).encode())

    def context_of(self, asked: GuardedCall, scope: str) -> bytes:
        """What binds a proof to a call, as the published package builds it."""
        operation = published.OperationContext(
            required_scope=scope, operation=asked.method, resource_id=asked.target, payload_digest=asked.digest
        )
        inputs = published.SessionContextInputs(
            verifier_id=VERIFIER, agent_id=self.agent.id, request_hash=published.operation_context_hash(operation)
        )
        return published.build_session_context(inputs)


def test_an_unbound_proof_is_served_once_and_says_who_it_is_from() -> None:
    page = Page("comms:email:send")
    asked = page.proves(call("send_email", {"to": "Bob"}))
    decision = page.deployment.decides(asked)
    assert decision.refusal is None
    assert decision.authority is not None
    assert (decision.authority.principal_id, decision.authority.agent_id) == (page.human.id, page.agent.id)
    assert (decision.authority.bound, decision.authority.cert_ids) == (False, ("page-1",))
    assert page.deployment.error(asked) == "ratify_replayed"


def test_the_scopes_of_the_page_are_known_where_a_tool_declares_them() -> None:
    page = Page("email:send", "email:read", "mcp:resource", "mcp:prompt")
    for asked in (
        call("send_email"),
        call("list_inbox"),
        call("notes:1", method="resources/read"),
        call("hello", method="prompts/get"),
        call("", method="tools/list"),
    ):
        assert page.deployment.error(page.proves(asked)) == ""
    assert page.deployment.error(page.proves(call("pay"))) == "ratify_scope_denied"
    assert Page("email:forge").deployment.error(call("send_email")) == "missing_ratify_proof"


def test_a_challenge_of_ours_is_answered() -> None:
    page, asked = Page("custom:deploy"), call("deploy", {"env": "prod"})
    refusal = page.deployment.decides(page.proves(asked)).refusal
    assert refusal is not None
    assert refusal.error == "ratify_challenge_required"
    meta: Any = refusal.data["_meta"]
    challenge = base64.b64decode(meta["ratify_challenge"]["challenge"])
    assert page.deployment.error(page.proves(call("deploy", {"env": "dev"}), challenge)) == "ratify_challenge_required"
    assert page.deployment.error(page.proves(asked, challenge)) == ""
    assert page.deployment.error(page.proves(asked, challenge)) == "ratify_replayed"


def test_what_it_binds_is_bound_to_the_same_call() -> None:
    page, asked = Page("payments:send"), call("pay", {"amount": 5})
    page.deployment = Deployment(roots=page.deployment.policy.roots, binding_required=True)
    context = page.context_of(asked, "payments:send")
    assert page.deployment.error(page.proves(call("pay", {"amount": 6}), context=context)) == "ratify_invalid"
    assert page.deployment.error(page.proves(asked)) == "ratify_invalid"
    assert page.deployment.error(page.proves(asked, context=context)) == ""


@pytest.mark.parametrize(("amount", "expected"), [(5, ""), (6, "ratify_constraint_denied")])
def test_what_it_limits_is_limited(amount: int, expected: str) -> None:
    limit = published.Constraint(type="max_amount", currency="EUR", max_amount=5)
    page = Page("payments:send", constraints=[limit])
    assert page.deployment.error(page.proves(call("pay", {"amount": amount, "currency": "EUR"}))) == expected


def test_its_root_is_nobodys_unless_it_is_pinned() -> None:
    page = Page("email:read")
    assert Deployment().error(page.proves(call())) == "ratify_untrusted_root"
