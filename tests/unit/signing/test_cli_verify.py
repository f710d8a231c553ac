"""`accredit verify`: proofs are judged offline, step by step."""

import base64
import hashlib
import json
from pathlib import Path

import pytest
import rfc8785
from msgspec.structs import replace
from tests.world.delegations import DAY, NOW, World, prove, tampered
from tests.world.in_process import Done, Refused, Run, Save

from accredit.base.clock import unix_seconds
from accredit.consent.call import CallTerms
from accredit.keys import KeyKind, make_key, write_key
from accredit.ratify import issue_revocation_list
from accredit.ratify.constraints import MaxAmount, MaxRate, ResourcePath

pytestmark = [pytest.mark.holds("signing/verify"), pytest.mark.holds("cli/commands/calls")]

ROOT = ("--root", "owner.key.pub")
AT = ("--now", str(NOW))


def failed(done: Done) -> tuple[int, int | None, str]:
    """Step, certificate and reason of a negative answer."""
    assert done.code == 1
    assert done.json["valid"] is False
    return done.json["failed_step"], done.json["failed_certificate"], done.json["error_reason"]


@pytest.fixture
def proof(world: World, save: Save) -> str:
    return save(prove(world.chain(), world.sub), name="proof.json")


def test_a_proof_that_verifies(run: Run, proof: str, world: World) -> None:
    done = run("verify", proof, *ROOT, *AT, "--scope", "comms:email:send")
    assert done.code == 0
    assert f"verified: Owner ({world.owner.id}) lets agent {world.sub.id} use comms:email:send" in done.words
    assert "failed" not in done.out
    assert "15 the scope is granted by every certificate ok" in done.words
    assert "nothing was revoked (no list was given with --revoked)" in done.words


def test_for_programs_it_is_json(run: Run, proof: str, world: World) -> None:
    done = run("verify", proof, *ROOT, *AT, "--json")
    assert done.code == 0
    answer = done.json
    assert (answer["valid"], answer["identity_status"], answer["error_reason"]) == (True, "authorized_agent", "")
    assert (answer["principal_id"], answer["agent_id"]) == (world.owner.id, world.sub.id)
    assert answer["granted_scope"] == ["comms:email:send"]
    assert answer["root_checked"] is True
    assert (answer["failed_step"], answer["failed_certificate"]) == (None, None)
    assert [step["number"] for step in answer["steps"]] == [*range(12), *range(11, 17)]
    assert set(answer["steps"][0]) == {"number", "what", "outcome", "certificate"}


def test_this_machines_clock_is_the_default(run: Run, save: Save, world: World) -> None:
    now = unix_seconds()
    cert = world.grant("files:read", begins=now - 60, ends=now + 60)
    assert run("verify", save(prove((cert,), world.agent, now - 5), name="proof.json"), *ROOT).code == 0
    assert failed(run("verify", "proof.json", *ROOT, "--now", str(now + 400), "--json"))[0] == 11


def test_the_walk_says_where_it_failed(run: Run, proof: str) -> None:
    done = run("verify", proof, *ROOT, *AT, "--scope", "comms:email:read")
    assert done.code == 1
    assert "14 the challenge is spent now not checked" in done.words
    assert "15 the scope is granted by every certificate failed" in done.words
    assert "16 the chain begins with a trusted human not reached" in done.words
    assert "does not verify (scope_denied): required scope" in done.words


def test_an_expired_certificate_is_named_with_its_time(run: Run, proof: str) -> None:
    done = run("verify", proof, *ROOT, "--now", str(NOW + 4 * DAY))
    assert done.code == 1
    assert "11 certificate 0: scopes, time, revocation, signatures, constraints, issuer failed" in done.words
    assert "certificate 0 expired 3 days ago (2027-01-16T08:00:00Z)" in done.words


def test_any_root_will_do(run: Run, proof: str, folder: Path) -> None:
    write_key(folder / "friend.key", World().owner)
    friend = ("--root", "friend.key.pub")
    assert run("verify", proof, *friend, *ROOT, *AT).code == 0
    step, _, reason = failed(run("verify", proof, *friend, *AT, "--json"))
    assert (step, reason) == (16, "untrusted_root: the chain's root is not trusted")


@pytest.mark.parametrize("kind", ["agent", "gateway"])
def test_the_key_of_no_person_is_a_root__it_would_allow_what_no_gateway_takes(
    kind: KeyKind, refused: Refused, save: Save, folder: Path, world: World
) -> None:
    own = make_key(kind, "Own", NOW)
    write_key(folder / "own.key", own)
    proof = save(prove((world.grant("files:read", issuer=own),), world.agent), name="proof.json")
    what, remedy = refused("verify", proof, "--root", "own.key.pub", *AT)
    assert what == f"error: own.key.pub is a key of kind '{kind}'"
    assert remedy == "help: name the public key of the person who grants, as a root"


def test_a_root_that_only_claims_the_owners_id(run: Run, save: Save, world: World) -> None:
    cert = tampered(world.grant("files:read", issuer=world.sub), issuer_id=world.owner.id)
    name = save(prove((cert,), world.agent), name="proof.json")
    assert failed(run("verify", name, *ROOT, *AT, "--json"))[0] == 10


def test_a_changed_certificate(run: Run, save: Save, world: World) -> None:
    leaf, parent = world.chain()
    bundle = prove((leaf, tampered(parent, expires_at=NOW + 99 * DAY)), world.sub)
    step, certificate, reason = failed(run("verify", save(bundle, name="proof.json"), *ROOT, *AT, "--json"))
    assert (step, certificate) == (11, 1)
    assert reason == "bad_signature: cert 1: Ed25519 signature invalid"


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"null", b"\xff", b"[" * 100_000, b'{"a": 1, "a": 1}', b" " * 131_073, b'{"delegations": []}'],
)
def test_what_is_no_proof_does_not_verify(content: bytes, run: Run, folder: Path) -> None:
    (folder / "proof.json").write_bytes(content)
    done = run("verify", "proof.json", *ROOT, "--json")
    step, _, reason = failed(done)
    assert (step, done.json["identity_status"]) == (0, "invalid")
    assert reason.startswith("invalid: wire: ")
    assert "0 the proof is well-formed failed" in run("verify", "proof.json", *ROOT).words


def test_a_delegation_in_a_proofs_place_is_told(refused: Refused, save: Save, world: World) -> None:
    what, remedy = refused("verify", save(world.grant("files:read")), *ROOT)
    assert "is a delegation, and a proof is asked for" in what
    assert "accredit inspect" in remedy


def test_scopes_of_a_catalog_are_taken_for_granted_and_said(run: Run, save: Save, world: World) -> None:
    name = save(prove((world.grant("email:send", "email:read"),), world.agent), name="proof.json")
    done = run("verify", name, *ROOT, *AT, "--scope", "email:send")
    assert done.code == 0
    assert "the gateway's catalog names email:read, email:send" in done.words


def test_scopes_that_no_catalog_can_name_are_not(run: Run, save: Save, world: World) -> None:
    cert = tampered(world.grant("files:read"), scope=("nonsense",))
    done = run("verify", save(prove((cert,), world.agent), name="proof.json"), *ROOT, *AT, "--json")
    assert failed(done)[0] == 11
    assert done.json["identity_status"] == "invalid_scope"


def test_constraints_are_held_against_the_facts_of_the_call(run: Run, save: Save, world: World) -> None:
    constraints = (MaxAmount(currency="USD", max_amount=500), ResourcePath(resource_id="shop", path_prefix="/a"))
    name = save(prove((world.grant("payments:send", constraints=constraints),), world.agent), name="proof.json")

    def status(*facts: str) -> str:
        options = [word for fact in facts for word in ("--fact", fact)]
        done = run("verify", name, *ROOT, *AT, "--json", *options)
        assert done.code == (0 if done.json["valid"] else 1)
        return str(done.json["identity_status"])

    assert status() == "constraint_unverifiable"
    assert status("amount=500", "currency=USD") == "constraint_unverifiable"
    shop = ("resource_id=shop", "requested_path=/a/b")
    assert status("amount=500", "currency=USD", *shop) == "authorized_agent"
    assert status("amount=500.01", "currency=USD", *shop) == "constraint_denied"
    assert status("amount=500", "currency=usd", *shop) == "constraint_denied"
    assert status("amount=1", "currency=USD", "resource_id=shop", "requested_path=/b") == "constraint_denied"


def test_a_constraint_on_one_call_is_held_against_its_params_and_gateway(
    run: Run, refused: Refused, save: Save, world: World, folder: Path
) -> None:
    params: dict[str, object] = {"name": "send_email", "arguments": {"to": "ada"}}
    digest = hashlib.sha256(rfc8785.dumps(params)).hexdigest()  # pyright: ignore[reportArgumentType]
    terms = CallTerms(gateway="mail", method="tools/call", target=("send_email",), params_sha256=digest)
    cert = world.grant("files:read", constraints=(terms.constraint(),))
    bundle = save(prove((cert,), world.agent), name="once.json")
    (folder / "params.json").write_text(json.dumps({**params, "_meta": {"x": 1}, "requestState": "s"}), "utf-8")
    (folder / "other.json").write_text(json.dumps({**params, "arguments": {"to": "eve"}}), "utf-8")
    (folder / "list.json").write_text("[]", "utf-8")
    question = ("verify", bundle, *ROOT, *AT, "--gateway-id", "mail", "--params")
    assert run(*question, "params.json").code == 0
    assert "for a call with other params" in run(*question, "other.json").words
    assert "for another method" in run(*question, "params.json", "--method", "prompts/get").words
    elsewhere = run("verify", bundle, *ROOT, *AT, "--gateway-id", "bank", "--params", "params.json")
    assert (elsewhere.code, "for another gateway" in elsewhere.words) == (1, True)
    assert "the call is not known" in run("verify", bundle, *ROOT, *AT).words
    for arguments in (
        ("--params", "list.json"),
        ("--gateway-id", "mail"),
        ("--params", "params.json", "--method", "x"),
    ):
        refused("verify", bundle, *ROOT, *AT, *arguments)


def test_a_rate_can_not_be_judged_offline(run: Run, save: Save, world: World) -> None:
    cert = world.grant("files:read", constraints=(MaxRate(count=1, window_s=60),))
    done = run("verify", save(prove((cert,), world.agent), name="proof.json"), *ROOT, *AT, "--json")
    assert done.json["identity_status"] == "constraint_unverifiable"


def test_the_status_is_said_once_and_the_reason_stays_whole_for_programs(run: Run, save: Save, world: World) -> None:
    cert = world.grant("files:read", constraints=(MaxRate(count=1, window_s=60),))
    name = save(prove((cert,), world.agent), name="proof.json")
    assert (
        "does not verify (constraint_unverifiable): cert 0: constraint[0] (max_rate): no rate counter in context\n"
        in run("verify", name, *ROOT, *AT).out
    )
    assert failed(run("verify", name, *ROOT, *AT, "--json"))[2] == (
        "constraint_unverifiable: cert 0: constraint[0] (max_rate): constraint_unverifiable: no rate counter in context"
    )


def test_a_bound_proof_needs_what_it_is_bound_to(run: Run, save: Save, world: World) -> None:
    context = bytes(range(32))
    name = save(prove(world.chain(), world.sub, session_context=context), name="proof.json")
    right, wrong = (base64.b64encode(each).decode() for each in (context, bytes(32)))
    assert run("verify", name, *ROOT, *AT, "--session-context", right).code == 0
    assert "mismatch" in failed(run("verify", name, *ROOT, *AT, "--session-context", wrong, "--json"))[2]
    assert failed(run("verify", name, *ROOT, *AT, "--json"))[0] == 5


def test_a_revoked_certificate(run: Run, save: Save, world: World) -> None:
    chain = world.chain()
    name = save(prove(chain, world.sub), name="proof.json")
    revoked = save(issue_revocation_list(world.owner.signer(), [chain[1].cert_id], NOW), name="revoked.json")
    other = save(issue_revocation_list(world.agent.signer(), ["something else"], NOW), name="other.json")
    assert run("verify", name, *ROOT, *AT, "--revoked", other).code == 0
    done = run("verify", name, *ROOT, *AT, "--revoked", other, "--revoked", revoked, "--json")
    assert failed(done) == (11, 1, "delegation certificate has been revoked")
    assert done.json["notes"] == []
    done = run("verify", name, *ROOT, *AT, "--revoked", revoked)
    assert "does not verify (revoked)" in done.words


def test_an_issuer_in_the_chain_may_revoke_what_it_passed_on(run: Run, save: Save, world: World) -> None:
    chain = world.chain()
    name = save(prove(chain, world.sub), name="proof.json")
    revoked = save(issue_revocation_list(world.agent.signer(), [chain[0].cert_id], NOW), name="revoked.json")
    assert failed(run("verify", name, *ROOT, *AT, "--revoked", revoked, "--json"))[:2] == (11, 0)


def test_a_list_that_can_not_be_trusted_is_no_list(refused: Refused, proof: str, save: Save, world: World) -> None:
    honest = issue_revocation_list(world.owner.signer(), ["one"], NOW)
    save(replace(honest, revoked_certs=()), name="changed.json")
    save(issue_revocation_list(world.sub.signer(), ["one"], NOW), name="stranger.json")
    save(replace(honest, issuer_id=world.agent.id), name="claimed.json")
    assert "signature invalid" in refused("verify", proof, *ROOT, *AT, "--revoked", "changed.json")[0]
    assert "no root and no issuer" in refused("verify", proof, *ROOT, *AT, "--revoked", "stranger.json")[0]
    assert "claimed.json" in refused("verify", proof, *ROOT, *AT, "--revoked", "claimed.json")[0]
    assert "not a revocation list" in refused("verify", proof, *ROOT, *AT, "--revoked", proof)[0]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("proof.json",), "--root"),
        (ROOT, "BUNDLE"),
        (("missing.json", *ROOT), "missing.json"),
        (("proof.json", "--root", "missing.pub"), "missing.pub"),
        (("proof.json", "--root", "owner.key"), "private key"),
        (("proof.json", "--root", "proof.json"), "more than 16384 bytes"),
        (("proof.json", *ROOT, "--now", "yesterday"), "--now"),
        (("proof.json", *ROOT, "--fact", "x"), "--fact"),
        (("proof.json", *ROOT, "--session-context", "x"), "--session-context"),
        (("proof.json", *ROOT, "--revoked", "missing.json"), "missing.json"),
    ],
)
def test_wrong_use(arguments: tuple[str, ...], word: str, refused: Refused, proof: str) -> None:
    assert proof == "proof.json"
    assert word in refused("verify", *arguments)[0]
