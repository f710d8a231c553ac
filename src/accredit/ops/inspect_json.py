"""Prints the output of `accredit inspect --json`. I/O: stdout."""

from collections.abc import Mapping, Sequence

from accredit.keys import DelegationFile, KeyFile
from accredit.ratify import DelegationCert, ProofBundle, RevocationList, revocation_list_fault
from accredit.ratify.structures import UNTIL_REVOKED
from accredit.ratify.verify import certificate_fault
from accredit.signing.chain import challenge_fault, judge_chain
from accredit.signing.documents import DelegationDocument
from accredit.signing.keys import key_members
from accredit.terminal import wording as words
from accredit.terminal.output import print_result


def print_members(document: DelegationDocument, known: Mapping[str, KeyFile], now: int) -> None:
    """Print a document for programs."""
    match document:
        case KeyFile():
            print_result({"type": "key", **key_members(document)})
        case RevocationList():
            issuer = known.get(document.issuer_id)
            good = revocation_list_fault(document, issuer.public_key) is None if issuer else None
            members = {"issuer_id": document.issuer_id, "revoked_certs": list(document.revoked_certs)}
            print_result({"type": "revocation_list", **members, "updated_at": words.timestamp(document.updated_at),
                        "signatures_good": good})  # fmt: skip
        case DelegationFile(delegations=chain):
            members, bad = _chain_members(chain, now)
            print_result({"type": "delegation", **members, "signatures_good": not bad})
        case ProofBundle():
            members, bad = _chain_members(document.delegations, now)
            fault = challenge_fault(document)
            print_result(
                {
                    "type": "proof",
                    "agent_id": document.agent_id,
                    "challenge_at": words.timestamp(document.challenge_at),
                    "bound": bool(document.session_context),
                    "fault": fault,
                    **members,
                    "signatures_good": not bad and fault is None,
                }
            )


def _chain_members(chain: Sequence[DelegationCert], now: int) -> tuple[dict[str, object], bool]:
    certificates = [_certificate_members(chain, index) for index in range(len(chain))]
    held = judge_chain(chain, now)
    members: dict[str, object] = {
        "certificates": certificates,
        "granted_scope": held.granted_scope,
        "identity_status": held.identity_status,
        "error_reason": held.error_reason,
    }
    return members, any(each["fault"] for each in certificates)


def _certificate_members(chain: Sequence[DelegationCert], index: int) -> dict[str, object]:
    cert = chain[index]
    wire = cert.to_dict()
    return {
        **{name: wire[name] for name in ("cert_id", "issuer_id", "subject_id", "scope", "constraints")},
        "issued_at": words.timestamp(cert.issued_at),
        "expires_at": words.timestamp(cert.expires_at),
        "until_revoked": cert.expires_at == UNTIL_REVOKED,
        "fault": certificate_fault(chain, index),
    }
