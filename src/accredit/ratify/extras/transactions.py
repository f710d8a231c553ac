"""Transaction receipts: several parties, each with a proof of its authority, sign the same terms (Ratify section 11).
No I/O.

A receipt is valid as a whole or not at all. First it is checked that the version, the members of the terms and the
parties' ids are valid, and that the signatures are those of the parties. Then for each party, in this order: the bundle
is its own, the bundle verifies, and the party has signed.
"""

from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from msgspec import Struct

from accredit.base.clock import unix_seconds
from accredit.base.values import decodable
from accredit.ratify.callbacks import verify_bundle
from accredit.ratify.canonical import canonical
from accredit.ratify.hybrid import HybridPublicKey, HybridSignature, HybridSigner, signature_fault
from accredit.ratify.results import VerifyResult
from accredit.ratify.structures import PROTOCOL_VERSION, ProofBundle
from accredit.ratify.wire import Integer, WireObject


class ReceiptParty(Struct, frozen=True, forbid_unknown_fields=True):
    """One party: its agent's id and key, and the proof of what that agent may do."""

    party_id: str
    role: str
    agent_id: str
    agent_pub_key: HybridPublicKey
    proof_bundle: ProofBundle


class PartySignature(Struct, frozen=True, forbid_unknown_fields=True):
    """The signature of one party's agent over the receipt."""

    party_id: str
    signature: HybridSignature


@decodable
class TransactionReceipt(WireObject, frozen=True):
    """The terms, the parties and their signatures. `created_at` is in unix seconds."""

    version: Integer
    transaction_id: str
    created_at: Integer
    terms_schema_uri: str
    terms_canonical_json: bytes
    parties: tuple[ReceiptParty, ...]
    party_signatures: tuple[PartySignature, ...]

    def check(self, path: str, level: int) -> None:
        """Check every party's bundle. Raises `WireError`."""
        for index, party in enumerate(self.parties):
            party.proof_bundle.check(f"{path}.parties[{index}].proof_bundle", level + 3)


class ReceiptResult(NamedTuple):
    """Whether a receipt is valid, otherwise why not; and the results of the parties' bundles that were verified."""

    valid: bool
    error_reason: str
    party_results: tuple[VerifyResult, ...]

    def __bool__(self) -> NoReturn:
        """Raise `TypeError`. As a tuple it would always be true, even for an invalid receipt."""
        raise TypeError("a ReceiptResult is neither true nor false: ask for result.valid")


def transaction_receipt_sign_bytes(receipt: TransactionReceipt) -> bytes:
    """Return the bytes that every party signs. They hold the parties without their bundles, sorted by id."""
    parties = sorted(receipt.parties, key=lambda party: party.party_id.encode())
    return canonical(
        {
            "created_at": receipt.created_at,
            "parties": [
                {
                    "agent_id": party.agent_id,
                    "agent_pub_key": party.agent_pub_key,
                    "party_id": party.party_id,
                    "role": party.role,
                }
                for party in parties
            ],
            "terms_canonical_json": receipt.terms_canonical_json,
            "terms_schema_uri": receipt.terms_schema_uri,
            "transaction_id": receipt.transaction_id,
            "version": receipt.version,
        }
    )


def sign_transaction_receipt(receipt: TransactionReceipt, party_id: str, agent: HybridSigner) -> PartySignature:
    """Return one party's signature. The caller adds it to the receipt's."""
    return PartySignature(party_id, agent.sign(transaction_receipt_sign_bytes(receipt)))


def verify_transaction_receipt(receipt: TransactionReceipt, *, now: int | None = None) -> ReceiptResult:
    """Verify a receipt as of `now` (unix seconds; by default, this machine's clock). Return a result; never raise for
    what the receipt holds."""
    results: list[VerifyResult] = []
    try:
        fault = next(_faults(receipt, unix_seconds() if now is None else now, results), "")
    except Exception as error:  # fail closed: a receipt that was not decoded can hold anything
        fault = f"the receipt can't be verified ({type(error).__name__})"
    return ReceiptResult(not fault, fault, tuple(results))


def _faults(receipt: TransactionReceipt, now: int, results: list[VerifyResult]) -> Iterator[str]:
    yield from _member_faults(receipt)
    yield from _signer_faults(receipt)
    message = transaction_receipt_sign_bytes(receipt)
    signatures = {signed.party_id: signed.signature for signed in receipt.party_signatures}
    for party in receipt.parties:
        name, bundle = f'party "{party.party_id}"', party.proof_bundle
        if party.agent_id != bundle.agent_id:
            yield f"party_agent_id_mismatch: {name} is not the agent of its bundle"
        if party.agent_pub_key != bundle.agent_pub_key:
            yield f"party_agent_key_mismatch: {name} has not the key of its bundle"
        result = verify_bundle(bundle, now=now)
        results.append(result)
        if not result.valid:
            yield f"party_bundle_invalid: {name}: {result.error_reason}"
        fault = signature_fault(message, signatures[party.party_id], party.agent_pub_key)
        if fault:
            yield f"party_signature_invalid: {name}: {fault}"


def _member_faults(receipt: TransactionReceipt) -> Iterator[str]:
    if receipt.version != PROTOCOL_VERSION:
        yield f"version_mismatch: unsupported version {receipt.version}"
    for name in ("transaction_id", "terms_schema_uri", "terms_canonical_json"):
        if not getattr(receipt, name):
            yield f"missing_{name}: {name} is required"
    if not receipt.parties:
        yield "no_parties: a receipt needs at least one party"
    seen: set[str] = set()
    for party in receipt.parties:
        if not party.party_id:
            yield "empty_party_id: a party has no id"
        if party.party_id in seen:
            yield f'duplicate_party_id: party "{party.party_id}" is there twice'
        seen.add(party.party_id)


def _signer_faults(receipt: TransactionReceipt) -> Iterator[str]:
    parties = [party.party_id for party in receipt.parties]
    signed: set[str] = set()
    for signature in receipt.party_signatures:
        if signature.party_id not in parties:
            yield f'unknown_party_signature: "{signature.party_id}" is no party'
        if signature.party_id in signed:
            yield f'duplicate_party_signature: party "{signature.party_id}" signed twice'
        signed.add(signature.party_id)
    for party_id in parties:
        if party_id not in signed:
            yield f'missing_party_signature: party "{party_id}" has no signature'
