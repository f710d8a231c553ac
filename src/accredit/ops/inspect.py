"""Implements `accredit inspect`: describes a file, and verifies its signatures."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from accredit.attest import CallBundle
from accredit.base.clock import unix_seconds
from accredit.base.text import several
from accredit.keys import DelegationFile, KeyFile, LockedKeyFile, PrivateKeyFile, load_public_key, read_file, read_key
from accredit.limits import MAX_STATEMENT_BYTES
from accredit.ops.inspect_records import print_bundle
from accredit.ops.inspect_token import inspect_token, is_opaque, is_token, print_opaque
from accredit.ops.log_place import keys_by_kind
from accredit.policy.catalog import MCP_SCOPES
from accredit.ratify import (
    DelegationCert,
    ProofBundle,
    RevocationList,
    VerifyResult,
    challenge_sign_bytes,
    revocation_list_fault,
    verify_chain,
)
from accredit.ratify.hybrid import signature_fault
from accredit.ratify.structures import UNTIL_REVOKED
from accredit.ratify.verify import certificate_fault
from accredit.signing.documents import DelegationDocument, read_document
from accredit.signing.keys import key_facts, key_members
from accredit.signing.vocabulary import catalog_scopes
from accredit.terminal import wording as words
from accredit.terminal.output import BAD, GOOD, QUIET, Words, print_facts, print_result, say, tell


def inspect_file(*, file: Path, key: Sequence[Path]) -> int:
    """Describe a file; return the exit code. Raises `ConfigurationError`."""
    now = unix_seconds()
    data = read_file(file, MAX_STATEMENT_BYTES).data
    if is_token(data):
        return 1 if inspect_token(data, file, key, now) else 0
    if is_opaque(data):
        print_opaque()
        return 0
    document = read_document(file)
    if isinstance(document, CallBundle):
        return 1 if print_bundle(document, *keys_by_kind(key)) else 0
    known = {each.id: each for each in map(load_public_key, key)}
    if isinstance(document, KeyFile) and isinstance(read_key(file), PrivateKeyFile | LockedKeyFile):
        tell(f"note: {file} holds the private key as well, which is for its owner alone")
    return 1 if _print(document, known, now) else 0


def judge_chain(chain: Sequence[DelegationCert], now: int) -> VerifyResult:
    """Return what a chain grants at `now`. Scopes that only a catalog can define are accepted. Revocation and
    constraints are not checked."""
    scopes = [scope for cert in chain for scope in cert.scope]
    return verify_chain(chain, now=now, vocabulary=MCP_SCOPES | catalog_scopes(scopes))


def challenge_fault(bundle: ProofBundle) -> str | None:
    """Return why the proof was not made by the chain's agent, or None if it was."""
    if bundle.agent_pub_key != bundle.delegations[0].subject_pub_key:
        return "the agent's key is not the one that the delegation is for"
    message = challenge_sign_bytes(
        bundle.challenge, bundle.challenge_at, bundle.session_context, bundle.stream_id, bundle.stream_seq
    )
    return signature_fault(message, bundle.challenge_sig, bundle.agent_pub_key)


def _print(document: DelegationDocument, known: Mapping[str, KeyFile], now: int) -> bool:
    """Print a document. Return whether a signature is bad."""
    match document:
        case KeyFile():
            print_result({"type": "key", **key_members(document)})
            say(f"the public key of {document.name}")
            print_facts(key_facts(document, now))
            return False
        case RevocationList():
            return _print_revocations(document, known, now)
        case DelegationFile(delegations=chain):
            say(f"a delegation of {several(len(chain), 'certificate')}, leaf first")
            members, bad = _print_chain(chain, known, now)
            print_result({"type": "delegation", **members, "signatures_good": not bad})
            return bad
        case ProofBundle():
            return _print_proof(document, known, now)


def _print_chain(
    chain: Sequence[DelegationCert], known: Mapping[str, KeyFile], now: int
) -> tuple[dict[str, object], bool]:
    """Print a chain for people. Return it as JSON members, and whether a signature is bad."""
    certificates = [_certificate_members(chain, index) for index in range(len(chain))]
    for index, (cert, members) in enumerate(zip(chain, certificates, strict=True)):
        say("")
        print_facts(
            [
                (f"certificate {index}", cert.cert_id),
                ("from", _id_with_name(cert.issuer_id, known)),
                ("to", _id_with_name(cert.subject_id, known)),
                ("scopes", words.scopes(cert.scope)),
                ("constraints", words.constraints(cert.constraints)),
                ("begins", words.begins(cert, now)),
                ("ends", Words(words.ends(cert, now), BAD if cert.expires_at < now else "")),
                ("signatures", _verdict(members["fault"])),
            ]
        )
    say("")
    held = judge_chain(chain, now)
    grants = (
        Words(words.scopes(held.granted_scope), GOOD) if held.valid else Words(f"nothing: {held.error_reason}", BAD)
    )
    print_facts([("grants now", grants)])
    found: dict[str, object] = {
        "certificates": certificates,
        "granted_scope": held.granted_scope,
        "identity_status": held.identity_status,
        "error_reason": held.error_reason,
    }
    return found, any(each["fault"] for each in certificates)


def _certificate_members(chain: Sequence[DelegationCert], index: int) -> dict[str, object]:
    cert = chain[index]
    wire = cert.to_dict()
    return {
        **{name: wire[name] for name in ("cert_id", "issuer_id", "subject_id", "scope", "constraints")},
        "issued_at": words.date_time(cert.issued_at),
        "expires_at": words.date_time(cert.expires_at),
        "until_revoked": cert.expires_at == UNTIL_REVOKED,
        "fault": certificate_fault(chain, index),
    }


def _print_proof(bundle: ProofBundle, known: Mapping[str, KeyFile], now: int) -> bool:
    fault, made = challenge_fault(bundle), words.date_time(bundle.challenge_at)
    say(f"a proof over a delegation of {several(len(bundle.delegations), 'certificate')}, leaf first")
    print_facts(
        [
            ("agent", _id_with_name(bundle.agent_id, known)),
            ("made", f"{words.relative(bundle.challenge_at, now)} ({made})"),
            ("bound to a call", "yes" if bundle.session_context else "no"),
            ("turn of a stream", str(bundle.stream_seq) if bundle.stream_id else "no"),
            ("signatures", _verdict(fault)),
        ]
    )
    members, is_bad = _print_chain(bundle.delegations, known, now)
    own = {"agent_id": bundle.agent_id, "challenge_at": made, "bound": bool(bundle.session_context), "fault": fault}
    is_bad = is_bad or fault is not None
    print_result({"type": "proof", **own, **members, "signatures_good": not is_bad})
    return is_bad


def _print_revocations(revoked: RevocationList, known: Mapping[str, KeyFile], now: int) -> bool:
    issuer, updated = known.get(revoked.issuer_id), words.date_time(revoked.updated_at)
    fault = issuer and revocation_list_fault(revoked, issuer.public_key)
    members = {"issuer_id": revoked.issuer_id, "revoked_certs": list(revoked.revoked_certs), "updated_at": updated}
    print_result({"type": "revocation_list", **members, "signatures_good": fault is None if issuer else None})
    say(f"a list of {several(len(revoked.revoked_certs), 'revoked certificate')}")
    unchecked = Words("not checked: name the issuer's public key with --key", QUIET)
    print_facts(
        [
            ("from", _id_with_name(revoked.issuer_id, known)),
            ("as of", f"{words.relative(revoked.updated_at, now)} ({updated})"),
            ("signatures", _verdict(fault) if issuer else unchecked),
            *(("revoked", cert_id) for cert_id in revoked.revoked_certs),
        ]
    )
    return fault is not None


def _verdict(fault: object) -> Words:
    return Words(f"BAD: {fault}", BAD) if fault else Words("good", GOOD)


def _id_with_name(holder_id: str, known: Mapping[str, KeyFile]) -> str:
    return f"{known[holder_id].name} ({holder_id})" if holder_id in known else holder_id
