"""`python -m tests.vectors.generate`: makes the project's own fixtures again, in the protocol's schema.

They cover what the published fixtures don't, and keep a clone without those honest. Our code makes them; the
published package must then read, sign and judge each proof as we do, or nothing is written. ML-DSA signatures are
randomized, so two runs differ in them and in nothing else.
"""

import base64
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ratify_protocol as published
from tests.differential.peer import Question, our_answer, read_by_them, their_answer
from tests.unit.ratify.world import (
    CHALLENGE,
    CONTEXT,
    HOLDERS,
    HOUR,
    NOW,
    STREAM,
    certificate,
    chain,
    constraint,
    proof,
)
from tests.vectors.fixtures import OWN, Fixture

from accredit.ratify import (
    HybridPrivateKey,
    ProofBundle,
    challenge_sign_bytes,
    delegation_sign_bytes,
    issue_revocation_list,
    verify_bundle,
)
from accredit.ratify.extras.sessions import (
    StreamedTurn,
    issue_session_token,
    session_token_sign_bytes,
    verify_streamed_turn,
)
from accredit.ratify.extras.statements import (
    issue_key_rotation,
    issue_witness_entry,
    key_rotation_sign_bytes,
    witness_entry_sign_bytes,
)
from accredit.ratify.extras.transactions import (
    ReceiptParty,
    TransactionReceipt,
    sign_transaction_receipt,
    transaction_receipt_sign_bytes,
)
from accredit.ratify.revocation import issue_revocation_push, revocation_push_sign_bytes, revocation_sign_bytes

SECRET = b"\x5a" * 32


def main() -> int:
    OWN.mkdir(exist_ok=True)
    for old in OWN.glob("*.json"):
        old.unlink()
    for name, make in MAKERS.items():
        write(OWN / f"{name}.json", {"name": name, "protocol_version": 1} | make())
    return 0


def write(path: Path, fixture: Fixture) -> None:
    path.write_text(json.dumps(fixture, ensure_ascii=False, separators=(",", ":")) + "\n", "utf-8")


def entity(role: str, number: int) -> dict[str, Any]:
    """The holder with this number in the tests' world, and the seeds that its key is made from."""
    seed = 101 + number
    key = HOLDERS[number]
    return {
        "role": role,
        "ed25519_seed_hex": bytes([seed]).hex() * 32,
        "ml_dsa_65_seed_hex": bytes([255 - seed]).hex() * 32,
        "public_key": public_members(key),
        "id": key.id,
    }


def public_members(key: HybridPrivateKey) -> dict[str, str]:
    return {
        "ed25519": text(key.public_key.ed25519),
        "ml_dsa_65": text(key.public_key.ml_dsa_65),
    }


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def verify(bundle: ProofBundle, facts: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    """A fixture of kind `verify`; the published package must agree, unless an id is not its key's."""
    facts = facts or {}
    asked = Question(now=NOW, facts=facts, **options)
    status, reason, human, agent, scopes = ours = our_answer(bundle, asked)
    theirs = read_by_them(bundle.encode())
    signables = [delegation_sign_bytes(cert) for cert in bundle.delegations]
    assert signables == [published.delegation_sign_bytes(cert) for cert in theirs.delegations]
    assert their_answer(theirs, asked) == ours or reason.startswith("id_derivation: ")
    wanted: dict[str, Any] = {"now": NOW}
    if asked.required_scope:
        wanted["required_scope"] = asked.required_scope
    if asked.session_context:
        wanted["session_context"] = text(asked.session_context)
    if asked.stream:
        wanted["stream"] = {"stream_id": text(asked.stream[0]), "last_seen_seq": asked.stream[1]}
    signed = challenge_sign_bytes(
        bundle.challenge, bundle.challenge_at, bundle.session_context, bundle.stream_id, bundle.stream_seq
    )
    members = bundle.to_dict()
    return {
        "kind": "verify",
        "cert_chain": members["delegations"],
        "bundle": members,
        "verifier_context": facts,
        "expected": {
            "delegation_sign_bytes_hex": [signable.hex() for signable in signables],
            "challenge_sign_bytes_hex": signed.hex(),
            "verify_options": wanted,
            "verify_result": {
                "valid": not reason,
                "identity_status": status,
                "human_id": human,
                "agent_id": agent,
                "granted_scope": scopes,
                "error_reason": reason,
            },
        },
    }


def constrained(facts: dict[str, Any], *constraints: dict[str, Any]) -> dict[str, Any]:
    found = tuple(constraint(**each) for each in constraints)
    return verify(proof([certificate(constraints=found)]), facts)


def bound_depth_2() -> dict[str, Any]:
    bundle = proof(chain(2), session_context=CONTEXT, stream_id=STREAM, stream_seq=3)
    return verify(bundle, required_scope="files:read", session_context=CONTEXT, stream=(STREAM, 2))


def revoked() -> dict[str, Any]:
    return verify(proof(chain(2)), revoked=frozenset({"cert-0"}))


def numbers() -> dict[str, Any]:
    here = {"current_lat": 0.0001, "current_lon": -122.4194}
    circle = {"type": "geo_circle", "lat": 0.00012, "lon": -122.4194155, "radius_m": 4503599627370495.5}
    box = {"type": "geo_bbox", "min_lat": -90.0, "max_lat": 9007199254740991.0, "min_lon": -180, "max_lon": 1 / 3}
    return constrained(here, circle, box)


def characters() -> dict[str, Any]:
    resource = 'git:é€😀"\\\n\u2028\u2029\x7f<&>/'
    path = {"type": "resource_path", "resource_id": resource, "path_prefix": "/<&>/ü"}
    return constrained({"requested_resource_id": resource, "requested_path": "/<&>/ü/\u2028"}, path)


def altitude() -> dict[str, Any]:
    box = {"type": "geo_bbox", "min_lat": 1, "max_lat": 2, "min_lon": 1, "max_lon": 2, "min_alt_m": -5, "max_alt_m": 0}
    return constrained({"current_lat": 1, "current_lon": 1}, box)


def rate() -> dict[str, Any]:
    return constrained({}, {"type": "max_rate", "count": 1, "window_s": 60})


def self_made_root() -> dict[str, Any]:
    return verify(proof([certificate(HOLDERS[5], issuer_id=HOLDERS[0].id)]))


def version() -> dict[str, Any]:
    return verify(proof([certificate(version=2)]))


def revocation() -> dict[str, Any]:
    found = issue_revocation_list(HOLDERS[0], ["b", "a", "é\u2028"], NOW)
    return {
        "kind": "revocation",
        "entities": [entity("human_root", 0)],
        "revocation_list": found.to_dict(),
        "expected": {"revocation_sign_bytes_hex": revocation_sign_bytes(found).hex()},
    }


def push() -> dict[str, Any]:
    found = issue_revocation_push(HOLDERS[0], 1, [], NOW)
    return {
        "kind": "revocation_push",
        "entities": [entity("human_root", 0)],
        "revocation_push": found.to_dict(),
        "expected": {"revocation_push_sign_bytes_hex": revocation_push_sign_bytes(found).hex()},
    }


def rotation() -> dict[str, Any]:
    found = issue_key_rotation(HOLDERS[0], HOLDERS[1], "recovery", NOW)
    return {
        "kind": "key_rotation",
        "entities": [entity("old_root", 0), entity("new_root", 1)],
        "key_rotation": found.to_dict(),
        "expected": {
            "key_rotation_sign_bytes_hex": key_rotation_sign_bytes(found).hex(),
            "key_rotation_verify_ok": True,
        },
    }


def witness() -> dict[str, Any]:
    found = issue_witness_entry(HOLDERS[0], b"", NOW, b"\x01" * 32)
    return {
        "kind": "witness_entry",
        "entities": [entity("witness", 0)],
        "witness_entry": found.to_dict(),
        "expected": {"witness_entry_sign_bytes_hex": witness_entry_sign_bytes(found).hex()},
    }


def session_token() -> dict[str, Any]:
    bundle = proof([certificate(scope=("meeting:*", "files:read"))])
    token = issue_session_token(bundle, verify_bundle(bundle, now=NOW), "session", NOW, NOW + HOUR, SECRET)
    turn = StreamedTurn(challenge=CHALLENGE, challenge_at=NOW, challenge_sig=bundle.challenge_sig)
    found = verify_streamed_turn(token, SECRET, turn, now=NOW + 300)
    return {
        "kind": "session_token",
        "session_token": {
            "session_secret_hex": SECRET.hex(),
            "token": token.to_dict(),
            "challenge": text(CHALLENGE),
            "challenge_at": NOW,
            "challenge_sig": bundle.to_dict()["challenge_sig"],
            "verify_now": NOW + 300,
        },
        "expected": {
            "session_token_sign_bytes_hex": session_token_sign_bytes(token).hex(),
            "session_token_mac_hex": token.mac.hex(),
            "streamed_turn": {
                "valid": True,
                "identity_status": "authorized_agent",
                "human_id": found.human_id,
                "agent_id": found.agent_id,
                "granted_scope": found.granted_scope,
            },
        },
    }


def transaction() -> dict[str, Any]:
    agents = {"zeta": HOLDERS[1], "alpha": HOLDERS[2]}
    parties = tuple(
        ReceiptParty(name, "any", key.id, key.public_key, proof([certificate(subject=key.public_key)], key))
        for name, key in agents.items()
    )
    unsigned = TransactionReceipt(1, "tx", NOW, "schema:x", b"{}", parties, ())
    signatures = tuple(sign_transaction_receipt(unsigned, name, key) for name, key in agents.items())
    found = TransactionReceipt(1, "tx", NOW, "schema:x", b"{}", parties, signatures)
    return {
        "kind": "transaction_receipt",
        "timestamps": {"verifier_now": NOW},
        "transaction_receipt": found.to_dict(),
        "expected": {"receipt_sign_bytes_hex": transaction_receipt_sign_bytes(found).hex(), "receipt_valid": True},
    }


MAKERS: dict[str, Callable[[], dict[str, Any]]] = {
    "bound_depth_2": bound_depth_2,
    "revoked": revoked,
    "numbers": numbers,
    "characters": characters,
    "altitude_unverifiable": altitude,
    "rate_unverifiable": rate,
    "reject_self_made_root": self_made_root,
    "reject_version": version,
    "revocation_list": revocation,
    "revocation_push": push,
    "key_rotation": rotation,
    "witness_entry": witness,
    "session_token": session_token,
    "transaction_receipt": transaction,
}

if __name__ == "__main__":
    sys.exit(main())
