"""Whatever is changed, taken away, added or exchanged in what proves one call: `accredit log verify call.json --root`
says no, and what is wrong; and what a record says that nothing proves is listed here, so that no member is forgotten.

Who changes it has no key (then the gateway's record names something else), or the gateway's own: then the record is
signed anew to match. One thing is changed at a time.
"""

import base64
import binascii
import json
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields
from tests.unit.policy.test_evidence import CERTIFICATES, CHANGED_CERTIFICATES, CHANGED_PROOFS, GOOD, PROOF
from tests.unit.ratify.world import HOLDERS, HOUR, HUMAN, NOW, STRANGER, certificate, chain
from tests.world.signed_calls import PARAMS, SignedCall, judged, lied, said, signed_call

from accredit.attest import (
    Call,
    CallBundle,
    CallRecord,
    RecordedAuthority,
    Times,
    encode_call_bundle,
    encode_statement,
    timestamp,
)
from accredit.base.standard import printing_json
from accredit.keys import PrivateKeyFile, log_signer, make_key, write_key
from accredit.keys.formats import KEY_FILE_VERSION, KeyFile
from accredit.ops.log_verify import ProofRequirements, verify_file

pytestmark = pytest.mark.holds("policy/evidence")

Tree = Any
GATEWAY_KEY = make_key("gateway", "Mail gateway", NOW)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What an auditor has: the public keys of the gateway, of the person, and of somebody else."""
    folder = tmp_path_factory.mktemp("audit")
    write_key(folder / "gateway.key", GATEWAY_KEY)
    for name, key in (("owner", HUMAN), ("stranger", STRANGER)):
        about = KeyFile(KEY_FILE_VERSION, "human", name.title(), key.id, 1, key.public_key)
        (folder / f"{name}.key.pub").write_bytes(about.text())
    return folder


def audit(folder: Path, call: SignedCall, root: str = "owner") -> tuple[int, dict[str, Any]]:
    """What the command says of the call's bundle, whose record this gateway has signed; and its exit code."""
    assert isinstance(GATEWAY_KEY, PrivateKeyFile)
    envelope = log_signer(GATEWAY_KEY).record(encode_statement(call.decision))
    bundle = CallBundle((envelope,), call.certificates, proof=call.proof)
    (folder / "call.json").write_bytes(encode_call_bundle(bundle))
    with redirect_stdout(StringIO()) as printed, printing_json():
        code = verify_file(
            folder / "call.json", [folder / "gateway.key.pub"], [], ProofRequirements([folder / f"{root}.key.pub"]),
            config=None,
        )  # fmt: skip
    return code, json.loads(printed.getvalue())


def named(folder: Path, call: SignedCall, part: str, root: str = "owner") -> str:
    """Why this part is bad, as the command says it: it says no, and its first reason is this part's."""
    code, told = audit(folder, call, root)
    assert (code, told["valid"], told[part]["verified"]) == (1, False, False), told
    assert told[part]["why"]
    assert told["reason"]
    return str(told[part]["why"])


def test_the_honest_call_is_proved(folder: Path) -> None:
    code, told = audit(folder, GOOD)
    assert (code, [told[part]["verified"] for part in ("allowed", "signed", "recorded")]) == (0, [True, True, True])


# Reasons by what was changed: of a certificate, and of a proof. The rest can't be read, or is not what was signed.
OF_CERTIFICATES = {
    "gone": ("can't be read", "somebody else", "bad_signature", "delegation_not_authorized"),
    "twice": ("broken_chain", "bad_signature"),
    "order": ("broken_chain", "bad_signature"),
    "more": ("can't be read", "bad_signature"),
    "ed25519": ("Ed25519 signature invalid", "id_derivation"),
    "ml_dsa_65": ("ML-DSA-65 signature invalid", "id_derivation"),
    "_id'": ("id_derivation", "bad_signature"),
    "_at'": ("bad_signature",),
    "scope": ("bad_signature", "delegation_not_authorized"),
    "version": ("version_mismatch",),
}
OF_PROOFS = {
    "gone": ("not a proof of a call", "bound to no call", "not what was signed"),
    "more": ("not a proof of a call",),
    "challenge_sig', 'ed25519": ("Ed25519 signature invalid",),
    "challenge_sig', 'ml_dsa_65": ("ML-DSA-65 signature invalid",),
    "agent_pub_key": ("another agent",),
    "('challenge": ("signature over the call is not good",),
    "context": ("not what was signed",),
}


def more_members(tree: Tree, path: tuple[Any, ...] = ()) -> Iterator[tuple[str, Tree]]:
    """The tree with one member more in one of its objects."""
    if isinstance(tree, dict):
        yield f"{path} more", tree | {"more": 1}
        for name, value in tree.items():
            for what, changed in more_members(value, (*path, name)):
                yield what, tree | {name: changed}
    elif isinstance(tree, list):
        for at, value in enumerate(tree):
            for what, changed in more_members(value, (*path, at)):
                yield what, [*tree[:at], changed, *tree[at + 1 :]]


def reasons(of: dict[str, tuple[str, ...]], what: str) -> tuple[str, ...]:
    """The reasons that may be given for a change."""
    return next(reasons for word, reasons in of.items() if word in what)


ALL_CERTIFICATES = CHANGED_CERTIFICATES | dict(more_members(CERTIFICATES))
ALL_PROOFS = CHANGED_PROOFS | dict(more_members(PROOF))


@pytest.mark.slow
def test_whatever_is_changed_in_the_chain_or_the_proof_is_named__whoever_changed_it(folder: Path) -> None:
    assert (len(ALL_CERTIFICATES), len(ALL_PROOFS)) >= (80, 40)
    for what, changed in ALL_CERTIFICATES.items():
        why = named(folder, lied(GOOD, certificates=changed), "allowed")
        assert any(word in why for word in reasons(OF_CERTIFICATES, what)), (what, why)
        unsigned = GOOD._replace(certificates=json.dumps(changed).encode())
        assert judged(unsigned).allowed.verified is False, what  # as in a whole log, where no bundle is compared
        code, told = audit(folder, unsigned)
        assert (code, told["reason"]) == (1, "the certificates are not those of the decision"), what
    for what, changed in ALL_PROOFS.items():
        why = named(folder, lied(GOOD, proof=changed), "signed")
        assert any(word in why for word in reasons(OF_PROOFS, what)), (what, why)
        unsigned = GOOD._replace(proof=json.dumps(changed).encode())
        assert judged(unsigned).signed.verified is False, what
        code, told = audit(folder, unsigned)
        assert (code, told["reason"]) == (1, "the proof is not that of the decision"), what


def test_what_was_taken_away_is_named_or_said_not_to_be_proved(folder: Path) -> None:
    assert "is not there" in named(folder, GOOD._replace(proof=None), "signed")
    code, told = audit(folder, GOOD._replace(certificates=None))
    assert (code, told["allowed"]["verified"]) == (0, None)
    assert "not there" in told["allowed"]["why"]


EXCHANGED: dict[str, tuple[Callable[[], SignedCall], str]] = {
    "another call of the same agent": (partial(signed_call, payload_digest=bytes(32)), "params"),
    "another tool's call": (partial(signed_call, resource_id="write_file"), "target"),
    "another method's": (partial(signed_call, operation="resources/read"), "method"),
    "the same call at another gateway": (partial(signed_call, verifier_id="other-gateway"), "gateway"),
    "the same call at a server of another name": (partial(signed_call, verifier_id="mail-gateway/other"), "gateway"),
    "the same call in another session": (partial(signed_call, session_id="s-2"), "session"),
    "the same call in no session": (partial(signed_call, session_id=""), "session"),
    "another scope's": (partial(signed_call, required_scope="files:write"), "scope"),
    "another agent's": (
        lambda: signed_call((certificate(HOLDERS[1], HOLDERS[5].public_key), chain(2)[1]), HOLDERS[5]), "agent",
    ),
    "one that the agent made for another": (partial(signed_call, agent_id=STRANGER.id), "agent"),
    "one over members that this protocol has not": (partial(signed_call, requested_path="/"), "protocol"),
    "one of another protocol": (partial(signed_call, workspace_id="accredit/http/v1"), "protocol"),
    "one that names an invocation": (partial(signed_call, invocation_id="1"), "protocol"),
    "one that is too old": (partial(signed_call, challenge_at=NOW - 301), "another time"),
    "one from the future": (partial(signed_call, challenge_at=NOW + 301), "another time"),
}  # fmt: skip


@pytest.mark.parametrize("what", EXCHANGED)
def test_a_proof_of_something_else_is_named__whoever_put_it_there(what: str, folder: Path) -> None:
    make, word = EXCHANGED[what]
    other = make()
    assert other.proof is not None
    assert word in named(folder, lied(GOOD, proof=json.loads(other.proof)), "signed")
    assert audit(folder, GOOD._replace(proof=other.proof))[0] == 1


def test_another_chain__or_a_root_that_the_auditor_does_not_name__is_named(folder: Path) -> None:
    theirs = signed_call((certificate(STRANGER, HOLDERS[2].public_key),), HOLDERS[2])
    assert theirs.certificates is not None
    why = named(folder, lied(GOOD, certificates=json.loads(theirs.certificates)), "allowed")
    assert "somebody else" in why
    assert "none of the keys" in named(folder, theirs, "allowed")
    assert "none of the keys" in named(folder, GOOD, "allowed", "stranger")
    assert audit(folder, theirs, "stranger")[0] == 0


# What a gateway that lies may say of a call, member by member: a value, the part that is bad then, and a word of the
# reason; or that nothing but its own word is there for it.
GATEWAYS_WORD = "the gateway's word"
LESS = "less is claimed: nobody is said to have signed it"
SAID: dict[type, dict[str, tuple[Any, str, str] | str]] = {
    CallRecord: {
        "gateway": ("other-gateway", "signed", "gateway"),
        **dict.fromkeys(("phase", "decision", "outcome", "log", "token", "policy"), GATEWAYS_WORD),
        **dict.fromkeys(("call", "times", "authority"), "below"),
    },
    Call: {
        "protocol": ("http", "signed", "another target"),
        "client": ("https://app.example/client", "signed", "another protocol"),
        "method": ("resources/read", "signed", "method"),
        "target": ("write_file", "signed", "target"),
        "session": ("s-2", "signed", "session"),
        **dict.fromkeys(("id", "revision", "flow", "round", "params", "trace"), GATEWAYS_WORD),
        **dict.fromkeys(("definition", "server"), GATEWAYS_WORD),
    },
    Times: {
        "received": (timestamp((NOW + HOUR + 1) * 1000), "allowed", "expired"),
        "recorded": GATEWAYS_WORD,
    },
    RecordedAuthority: {
        "principal_id": (STRANGER.id, "allowed", "somebody else"),
        "agent_id": (STRANGER.id, "allowed", "somebody else"),
        "cert_ids": (("cert-1",), "allowed", "other ids"),
        "chain_sha256": ("ab" * 32, "", "certificates"),
        "scope": ("files:write", "signed", "scope"),
        "granted_scope": ("files:write", "allowed", "does not cover"),
        "proof_sha256": ("ab" * 32, "", "proof"),
        "verifier_id": ("other-gateway", "signed", "gateway"),
        "request_sha256": ("ab" * 32, "signed", "request"),
        "call_sha256": ("ab" * 32, "signed", "params"),
        **dict.fromkeys(("bound", "proof"), LESS),
        "principal_name": GATEWAYS_WORD,
    },
}


def test_no_member_of_a_record_is_forgotten_here() -> None:
    """A new one is proved by something, or it is the gateway's word: then it belongs on this list."""
    for of, members in SAID.items():
        assert {field.name for field in fields(of)} == set(members), of


@pytest.mark.parametrize(
    ("member", "value", "part", "word"),
    [(name, *each) for members in SAID.values() for name, each in members.items() if isinstance(each, tuple)],
)
def test_what_a_record_says_otherwise_is_named(member: str, value: Any, part: str, word: str, folder: Path) -> None:
    call = said(GOOD, **{member: value})
    if part:
        assert word in named(folder, call, part)
    else:  # the bundle is of something else then
        code, told = audit(folder, call)
        assert (code, word in told["reason"]) == (1, True)


def test_other_arguments_than_were_signed_are_named(folder: Path) -> None:
    assert "params" in named(folder, said(GOOD, subject="ab" * 32), "signed")
    assert "params" in named(folder, said(GOOD, subject="ab" * 32, call_sha256="ab" * 32), "signed")
    assert PARAMS.hex() != "ab" * 32


def test_who_says_less_of_a_proof_has_less_proved(folder: Path) -> None:
    unbound = {"bound": False, "proof": "digest", "verifier_id": None, "request_sha256": None, "call_sha256": None}
    for call in (said(GOOD._replace(proof=None), **unbound), said(GOOD._replace(proof=None), proof="digest")):
        code, told = audit(folder, call)
        assert (code, told["allowed"]["verified"], told["signed"]["verified"]) == (0, True, None)


def leaves(tree: Tree, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values in it."""
    if isinstance(tree, dict | list):
        for name, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from leaves(value, (*path, name))
    else:
        yield path


def with_other(tree: Tree, path: tuple[Any, ...], change: Callable[[Any], Any]) -> Tree:
    """The tree with another value at a path."""
    if not path:
        return change(tree)
    copy = dict(tree) if isinstance(tree, dict) else list(tree)
    copy[path[0]] = with_other(tree[path[0]], path[1:], change)
    return copy


@st.composite
def other_values(draw: st.DrawFn, value: Any) -> Any:
    """Another value of the same kind: a bit of what base64 holds, a character, a number."""
    if isinstance(value, int):
        return draw(st.integers(-(2**53) + 1, 2**53 - 1).filter(lambda other: other != value))
    try:
        data = bytearray(base64.b64decode(value, validate=True))
    except (binascii.Error, ValueError):
        data = bytearray()
    if len(data) >= 32:
        at = draw(st.integers(0, 8 * len(data) - 1))
        data[at // 8] ^= 1 << at % 8
        return base64.b64encode(data).decode()
    at = draw(st.integers(0, len(value)))
    changed = value[:at] + draw(st.text("ab:-*/ \u0430", max_size=2)) + value[at + draw(st.integers(0, 1)) :]
    return changed if changed != value else f"{value}x"


@pytest.mark.holds("policy/evidence", "chain", "proof", "context")
@given(st.data())
def test_no_bit_of_what_is_kept_can_be_another_one(data: st.DataObject) -> None:
    """Though the gateway signs for it."""
    tree, is_chain = data.draw(st.sampled_from([(CERTIFICATES, True), (PROOF, False)]))
    path = data.draw(st.sampled_from(sorted(leaves(tree), key=str)))
    changed = with_other(tree, path, lambda value: data.draw(other_values(value)))
    found = judged(lied(GOOD, certificates=changed)) if is_chain else judged(lied(GOOD, proof=changed))
    part = found.allowed if is_chain else found.signed
    assert (part.verified, bool(part.why)) == (False, True), (path, part)
