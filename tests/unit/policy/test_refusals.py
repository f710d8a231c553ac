"""Every refusal, to the member: what programs and people are told, and that it is nothing that they did not know."""

import base64
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.ratify.world import AGENT, HOUR, HUMAN, NOW, STRANGER, SUB_AGENT, certificate, constraint
from tests.world.decisions import (
    GRANT,
    ISSUED,
    VERIFIER,
    Deployment,
    but,
    call,
    granted,
    passed_down,
    policy,
    prove,
    proven,
    script,
    with_proof,
)

from accredit.errors import ChallengesFull, ProofRefused, StoreUnavailable
from accredit.policy.catalog import Catalog, Entry
from accredit.policy.guarded_call import GuardedCall
from accredit.ports import Spending
from accredit.ratify import encode_proof_bundle
from accredit.refusals import OAUTH_ONLY

INBOX: dict[str, object] = {
    "method": "tools/call",
    "target": "list_inbox",
    "tool": "list_inbox",
    "required_scope": "email:read",
    "_meta": {},
}
"""What every refusal of a call to this tool says."""
WANTED = {"ratify_verifier": VERIFIER, "ratify_binding": "optional"}
"""How a proof is to be made."""
LIST: dict[str, object] = {"method": "tools/list", "target": "", "_meta": {}}
NOBODY: dict[str, object] = {"granted_scope": [], "principal_id": None, "agent_id": None}


def refused(asked: GuardedCall, deployment: Deployment | None = None, now: int = NOW) -> ProofRefused:
    decision = (deployment or Deployment()).decides(asked, now)
    assert decision.refusal is not None
    assert decision.authority is None
    return decision.refusal


def says(refusal: ProofRefused, code: int, text: str, data: dict[str, object]) -> None:
    """Fails unless the refusal is this one, whole."""
    assert (refusal.code, refusal.message, refusal.data) == (code, f"{data['error']}: {text}", data)
    assert str(refusal) == refusal.message


def test_no_proof() -> None:
    text = f"list_inbox needs a proof in _meta.ratify_proof; {OAUTH_ONLY}"
    says(refused(call()), -31001, text, INBOX | {"error": "missing_ratify_proof", "_meta": WANTED})


@pytest.mark.parametrize(("binding_required", "binding"), [(False, "optional"), (True, "required")])
def test_a_challenge_is_required(binding_required: bool, binding: str) -> None:
    decision, _ = script(call("wipe"), policy(binding_required=binding_required))
    assert decision.refusal is not None
    challenge = {
        "challenge": base64.b64encode(ISSUED.challenge).decode(),
        "expires_at": NOW + 60,
        "verifier_id": VERIFIER,
        "binding": binding,
    }
    wipe = INBOX | {"target": "wipe", "tool": "wipe", "required_scope": "comms:email:delete"}
    data = wipe | {"error": "ratify_challenge_required", "_meta": {"ratify_challenge": challenge}}
    says(
        decision.refusal,
        -31002,
        f"wipe needs a proof over the challenge in data._meta.ratify_challenge; {OAUTH_ONLY}",
        data,
    )


def test_a_scope_that_is_not_granted_as_the_contract_shows_it() -> None:
    refusal = refused(proven(call("send_email"), granted("email:read")))
    data: dict[str, object] = {
        "error": "ratify_scope_denied",
        "identity_status": "scope_denied",
        "method": "tools/call",
        "target": "send_email",
        "tool": "send_email",
        "required_scope": "email:send",
        "granted_scope": ["email:read"],
        "principal_id": HUMAN.id,
        "agent_id": AGENT.id,
        "reason": 'scope_denied: required scope "email:send" not in effective delegation scope',
        "_meta": {},
    }
    says(refusal, -31003, "this delegation covers email:read; send_email needs email:send", data)


def test_a_chain_that_grants_nothing_in_common_covers_nothing() -> None:
    leaf = certificate(AGENT, SUB_AGENT.public_key, scope=("email:read",))
    root = certificate(scope=("email:send", "identity:delegate"))
    refusal = refused(proven(call("send_email"), (leaf, root)))
    assert refusal.message == "ratify_scope_denied: this delegation covers nothing; send_email needs email:send"
    assert refusal.data["granted_scope"] == []


@pytest.mark.parametrize(
    ("changes", "error", "text", "reason"),
    [
        (
            {"issued_at": NOW - 9, "expires_at": NOW - 1},
            "ratify_expired",
            "the delegation has expired",
            "delegation certificate has expired",
        ),
        (
            {"issued_at": NOW + 1},
            "ratify_invalid",
            "not_yet_valid: cert 0 is not yet valid",
            "not_yet_valid: cert 0 is not yet valid",
        ),
        (
            {"constraints": (constraint(type="org.example.moon"),)},
            "ratify_constraint_unknown",
            "this delegation has a condition that this gateway can't judge (org.example.moon); ask for one without it",
            "constraint_unknown: cert 0: constraint[0] (org.example.moon): ",
        ),
        (
            {"constraints": (constraint(type="max_amount", currency="EUR", max_amount=5),)},
            "ratify_constraint_unverifiable",
            "this delegation has a condition (max_amount), and the gateway does not know the amount and currency of"
            ' this call: its [tools.list_inbox] has to say facts = { amount = "/amount", currency = "/currency" }',
            "constraint_unverifiable: cert 0: constraint[0] (max_amount): ",
        ),
        (
            {"constraints": (constraint(type="time_window", start="00:00", end="00:01", tz="Mars/Base"),)},
            "ratify_constraint_denied",
            'no call can meet a condition of this delegation (unknown timezone "Mars/Base"); ask for another one',
            "constraint_denied: cert 0: constraint[0] (time_window): unknown timezone",
        ),
        (
            {"scope": ("email:reed",)},
            "ratify_invalid_scope",
            *['invalid_scope: cert 0: unknown scope "email:reed": not in canonical vocabulary'] * 2,
        ),
    ],
)
def test_each_verdict_has_its_own_word(changes: dict[str, Any], error: str, text: str, reason: str) -> None:
    scope = changes.get("scope", GRANT)
    refusal = refused(proven(call(), granted(*scope, **{k: v for k, v in changes.items() if k != "scope"})))
    said = str(refusal.data["reason"])
    named = {"principal_id": HUMAN.id, "agent_id": AGENT.id} if error == "ratify_expired" else {}
    assert refusal.code == -31003
    assert said.startswith(reason)
    assert refusal.message.startswith(f"{error}: {text}")
    data = INBOX | NOBODY | {"error": error, "identity_status": error.removeprefix("ratify_"), "reason": said}
    assert refusal.data == data | named


def test_a_delegation_that_was_not_its_holders_to_give() -> None:
    leaf = certificate(AGENT, SUB_AGENT.public_key, scope=GRANT)
    refusal = refused(proven(call(), (leaf, certificate(scope=("email:read",)))))
    reason = (
        'delegation_not_authorized: cert 0 issued by a subject whose parent cert 1 did not grant "identity:delegate"'
    )
    data = INBOX | NOBODY | {"error": "ratify_delegation_not_authorized", "reason": reason}
    says(refusal, -31003, reason, data | {"identity_status": "delegation_not_authorized"})


def test_a_revoked_certificate_names_whose_it_was() -> None:
    deployment = Deployment()
    deployment.known.revoked.add("cert-1")
    refusal = refused(proven(call(), passed_down(3)), deployment)
    reason = "delegation certificate has been revoked"
    data = INBOX | {"error": "ratify_revoked", "identity_status": "revoked", "reason": reason, "granted_scope": []}
    agent = prove(passed_down(3)).agent_id
    says(refusal, -31003, "the delegation has been revoked", data | {"principal_id": HUMAN.id, "agent_id": agent})


@pytest.mark.parametrize(
    ("proof", "reason"),
    [
        (b"{}", "invalid: wire: "),
        (b"7", "invalid: wire: ProofBundle: "),
        (b'"text"', "invalid: wire: ProofBundle: "),
        (b"null", "invalid: wire: ProofBundle: "),
        (b"[]", "invalid: wire: ProofBundle: "),
        (b"{" + b" " * 131_071 + b"}", "invalid: the proof has more than 131072 bytes"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_what_is_no_proof_is_invalid(proof: bytes, reason: str) -> None:
    refusal = refused(with_proof(call(), proof))
    said = str(refusal.data["reason"])
    assert said.startswith(reason)
    data = INBOX | NOBODY | {"error": "ratify_invalid", "identity_status": "invalid", "reason": said}
    says(refusal, -31003, said, data)


def test_a_proof_is_refused_one_byte_above_its_bound_whatever_it_says() -> None:
    text = encode_proof_bundle(prove())
    at_bound, above = text + b" " * (131_072 - len(text)), text + b" " * (131_073 - len(text))
    assert Deployment().error(with_proof(call(), at_bound)) == ""
    assert refused(with_proof(call(), above)).data["reason"] == "invalid: the proof has more than 131072 bytes"


def test_an_untrusted_root() -> None:
    mine = (certificate(STRANGER, AGENT.public_key, scope=GRANT),)
    data = INBOX | {"error": "ratify_untrusted_root", "identity_status": "invalid"}
    says(refused(proven(call(), mine)), -31004, "the delegation comes from nobody whom this gateway trusts", data)


def test_a_replay() -> None:
    deployment, asked = Deployment(), proven(call())
    assert deployment.error(asked) == ""
    data = INBOX | {"error": "ratify_replayed", "identity_status": "invalid"}
    says(refused(asked, deployment), -31005, "this proof was used before; each call needs a fresh one", data)


def test_too_many_challenges() -> None:
    decision, _ = script(call("wipe"), policy(challenge_seconds=45), but(IssueChallenge=ChallengesFull("full")))
    wipe = INBOX | {"target": "wipe", "tool": "wipe", "required_scope": "comms:email:delete"}
    data = wipe | {"error": "too_many_challenges", "retry_after_seconds": 45}
    assert decision.refusal is not None
    says(decision.refusal, -31007, "too many challenges are pending; try again in 45 s", data)


def test_a_store_that_does_not_answer() -> None:
    decision, _ = script(proven(call()), policy(), but(IsRevoked=StoreUnavailable("/var/lib/secret.db is locked")))
    reason = "store_unavailable: the decision could not be made"
    data = INBOX | NOBODY | {"error": "ratify_invalid", "identity_status": "invalid", "reason": reason}
    assert decision.refusal is not None
    says(decision.refusal, -31003, reason, data)


def test_an_unknown_tool() -> None:
    data: dict[str, object] = {
        "error": "unknown_tool",
        "method": "tools/call",
        "target": "wi\npe\u00e9",
        "tool": "wi\npe\u00e9",
        "_meta": {},
    }
    says(refused(call("wi\npe\u00e9")), -32602, "wi?pe? is not in the catalog", data)
    long = refused(call("x" * 5000))
    assert long.message == f"unknown_tool: {'x' * 100} is not in the catalog"


def test_a_resource_whose_scope_is_not_certain() -> None:
    asked = call("file:///home/../etc/passwd", method="resources/read")
    data: dict[str, object] = {
        "error": "unknown_resource",
        "method": "resources/read",
        "target": "file:///home/../etc/passwd",
        "_meta": {},
    }
    text = "file:///home/../etc/passwd is not spelled so that its scope is certain"
    says(refused(asked), -32602, text, data)


def test_resources_and_prompts_name_no_tool() -> None:
    for method, target, scope in (
        ("resources/read", "notes:1", "mcp:resource"),
        ("prompts/get", "hello", "mcp:prompt"),
    ):
        data: dict[str, object] = {
            "error": "missing_ratify_proof",
            "method": method,
            "target": target,
            "required_scope": scope,
            "_meta": WANTED,
        }
        says(
            refused(call(target, method=method)),
            -31001,
            f"{target} needs a proof in _meta.ratify_proof; {OAUTH_ONLY}",
            data,
        )


def test_a_list_with_a_bad_proof_asks_for_no_scope() -> None:
    asked = call("", method="tools/list")
    refusal = refused(proven(asked, granted("email:read", issued_at=NOW - 9, expires_at=NOW - 1)))
    assert "required_scope" not in refusal.data
    assert "tool" not in refusal.data
    assert refusal.data["error"] == "ratify_expired"
    mine = (certificate(STRANGER, AGENT.public_key, scope=GRANT),)
    text = "the delegation comes from nobody whom this gateway trusts"
    says(
        refused(proven(asked, mine)),
        -31004,
        text,
        LIST | {"error": "ratify_untrusted_root", "identity_status": "invalid"},
    )


MARK = "c0ffee-marked-secret"


def marked() -> dict[str, GuardedCall]:
    """Calls that are refused, each in its own way, with marks in their arguments and all over their proofs."""
    arguments = {"amount": MARK, "currency": MARK, "note": MARK, MARK: 1}
    asked = call("pay", arguments)
    chain = granted(cert_id=MARK, issued_at=NOW - HOUR)
    good = prove(chain)
    text = encode_proof_bundle(good)
    old = granted(cert_id=MARK, issued_at=NOW - 9, expires_at=NOW - 1)
    return {
        "missing": asked,
        "challenge": replace(asked, target="wipe"),
        "expired": proven(asked, old),
        "scope": proven(asked, granted("email:read", cert_id=MARK)),
        "stale": proven(asked, chain, at=NOW - 31),
        "unverifiable": proven(
            asked, granted(constraints=(constraint(type="max_amount", currency=MARK, max_amount=1),))
        ),
        "mismatch": with_proof(asked, prove(chain, to=call("pay"))),
        "forged": with_proof(asked, replace(good, challenge_at=NOW - 1)),
        "stranger": proven(asked, (certificate(STRANGER, AGENT.public_key, cert_id=MARK),)),
        "cut": with_proof(asked, text[:-1]),
        "twice": with_proof(asked, b'{"challenge":"' + MARK.encode() + b'",' + text[1:]),
        "typed": with_proof(asked, text.replace(b'"cert_id":"' + MARK.encode(), b'"cert_id":7,"x":"' + MARK.encode())),
    }


@pytest.mark.parametrize("name", marked())
def test_a_refusal_quotes_nothing_of_proof_arguments_or_keys(name: str) -> None:
    asked = marked()[name]
    refusal = refused(asked)
    told = repr(refusal.data) + refusal.message + repr(refusal)
    bundle = prove()
    secrets = [bundle.challenge_sig.ed25519, bundle.agent_pub_key.ed25519, HUMAN.public_key.ed25519, bundle.challenge]
    assert MARK not in told
    for secret in secrets:
        assert secret.hex() not in told
        assert base64.b64encode(secret).decode() not in told
        assert repr(secret) not in told


def test_a_replay_and_a_busy_store_quote_nothing_either() -> None:
    asked = proven(call("pay", {"note": MARK}), granted(cert_id=MARK))
    for answers in (but(LookAtChallenge=Spending.SPENT), but(SpendChallenge=OSError(MARK))):
        decision, _ = script(asked, policy(), answers)
        assert decision.refusal is not None
        assert MARK not in repr(decision.refusal.data) + decision.refusal.message


def test_names_of_tools_are_printed_as_plain_text_to_people() -> None:
    name = "évil\x1b[31m\nratify_ok: " + "x" * 200
    catalog = Catalog(tools={name: Entry(scope="email:read")})
    refusal = refused(call(name), Deployment(catalog=catalog))
    assert refusal.message.startswith("missing_ratify_proof: ?vil?[31m?ratify_ok: xxx")
    assert len(refusal.message) < 200 + len(f"; {OAUTH_ONLY}")
    assert refusal.data["tool"] == name
