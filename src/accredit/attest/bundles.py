"""Everything that a log has about one call, as one JSON object that can be given to somebody else. No I/O.

`envelopes` are the call's records, the decision first. `certificates` are those of the chain of the call's proof, leaf
first. `proof` is the proof without these certificates. `checkpoint` is the first checkpoint of the same writer that
counts the decision. A bundle is valid if:

- [envelopes] each envelope verifies, and is a record of the same call, with the same subject;
- [order] the first is the decision, and at most one outcome follows;
- [digests] the decision holds the SHA-256 of the certificates, and of the proof;
- [checkpoint] the checkpoint verifies, and counts the decision.

Not checked here: whether the chain that the checkpoint covers contains these records (only the log can show that), and
the content of the certificates and the proof (`policy.evidence` judges that). Bundles of earlier versions have no
`proof`.
"""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Raw, Struct

from accredit.attest.canonical import canonical, sha256_hex
from accredit.attest.dsse import Envelope, decode_envelope, encode_envelope
from accredit.attest.signing import LogKey, RecordKey
from accredit.attest.statements import CallRecord, Checkpoint, Statement
from accredit.attest.verify import verify_envelope
from accredit.errors import AttestationError
from accredit.limits import MAX_ATTESTATION_BYTES


class CallBundle(Struct, frozen=True):
    """A call's envelopes and, if present, its certificates (a JSON array), its checkpoint and its proof (JSON)."""

    envelopes: tuple[Envelope, ...]
    certificates: bytes | None = None
    checkpoint: Envelope | None = None
    proof: bytes | None = None


_NULL = b"null"
_NO_PROOF = Raw()


class _Wire(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    envelopes: tuple[Raw, ...]
    certificates: Raw
    checkpoint: Raw
    proof: Raw = _NO_PROOF


_decode = msgspec.json.Decoder(_Wire).decode


def encode_call_bundle(bundle: CallBundle) -> bytes:
    """Return the bundle's JSON text: one line, without a line end."""
    envelopes = tuple(Raw(encode_envelope(envelope)) for envelope in bundle.envelopes)
    checkpoint = _NULL if bundle.checkpoint is None else encode_envelope(bundle.checkpoint)
    certificates = _NULL if bundle.certificates is None else bundle.certificates
    proof = _NULL if bundle.proof is None else bundle.proof
    return msgspec.json.encode(_Wire(envelopes, Raw(certificates), Raw(checkpoint), Raw(proof)))


def decode_call_bundle(text: bytes) -> CallBundle:
    """Read a bundle. Raises `AttestationError`."""
    if len(text) > MAX_ATTESTATION_BYTES:
        raise AttestationError(f"a bundle of more than {MAX_ATTESTATION_BYTES} bytes")
    try:
        wire = _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise AttestationError("not a bundle of a call") from None
    return CallBundle(
        tuple(decode_envelope(bytes(envelope)) for envelope in wire.envelopes),
        _present(wire.certificates),
        None if (checkpoint := _present(wire.checkpoint)) is None else decode_envelope(checkpoint),
        _present(wire.proof),
    )


def verify_call_bundle(bundle: CallBundle, keys: Iterable[LogKey | RecordKey]) -> tuple[CallRecord, ...]:
    """Check [envelopes] to [checkpoint] and return the call's records. Raises `AttestationError`."""
    keys = tuple(keys)
    statements = [verify_envelope(envelope, keys) for envelope in bundle.envelopes]
    records = _records(statements)
    decision = records[0]
    authority = decision.authority
    for text, sha256, what in (
        (bundle.certificates, authority and authority.chain_sha256, "certificates are not those"),
        (bundle.proof, authority and authority.proof_sha256, "proof is not that"),
    ):
        if text is not None and sha256_hex(canonical(text)) != sha256:
            raise AttestationError(f"the {what} of the decision")
    if bundle.checkpoint is not None:
        checkpoint = verify_envelope(bundle.checkpoint, keys).predicate
        if not isinstance(checkpoint, Checkpoint) or not _counts(checkpoint, decision):
            raise AttestationError("the checkpoint does not count the decision")
    return records


def _records(statements: Sequence[Statement]) -> tuple[CallRecord, ...]:
    records = tuple(each.predicate for each in statements if isinstance(each.predicate, CallRecord))
    if len(records) != len(statements) or [record.phase for record in records] not in (
        ["decision"],
        ["decision", "outcome"],
    ):
        raise AttestationError("a bundle has a decision, and at most one outcome")
    if len({record.call.id for record in records}) > 1 or len({each.sha256 for each in statements}) > 1:
        raise AttestationError("the records are of different calls")
    return records


def _counts(checkpoint: Checkpoint, record: CallRecord) -> bool:
    return checkpoint.writer == record.log.writer and checkpoint.count >= record.log.sequence


def _present(value: Raw) -> bytes | None:
    data = bytes(value)
    return None if data in (b"", _NULL) else data
