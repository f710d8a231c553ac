"""Proofs as they are kept: what an agent signed for one call, and what of the call it signed. No I/O.

A proof's text is the RFC 8785 form of its members; a record names it by the SHA-256 of that. It holds the agent's key,
so that it can be judged by itself. A store keeps it packed: without base64, and without that key, which the leaf of the
call's chain has. Of a proof that is bound to no call, `session_context` and `context` are left out.

Nothing is judged here: `policy.evidence` does that.
"""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from accredit.attest.canonical import canonical
from accredit.errors import AttestationError
from accredit.limits import MAX_SAFE_INTEGER

_Bytes32 = Annotated[bytes, Meta(min_length=32, max_length=32)]


# Members are in the order of RFC 8785, in which they are written.
class Halves(Struct, frozen=True, forbid_unknown_fields=True):
    """Both keys, or both signatures, of a hybrid one."""

    ed25519: bytes
    ml_dsa_65: bytes


class SignedContext(Struct, frozen=True, forbid_unknown_fields=True):
    """What of a call a bound proof covers, by Ratify's names: "" where there is nothing to say. `payload_digest` has 32
    bytes, or none."""

    agent_id: str
    invocation_id: str
    operation: str
    payload_digest: bytes
    requested_path: str
    required_scope: str
    resource_id: str
    session_id: str
    verifier_id: str
    workspace_id: str


class KeptProof(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A proof without its certificates. `challenge_at` is in unix seconds."""

    agent_pub_key: Halves
    challenge: _Bytes32
    challenge_at: Annotated[int, Meta(ge=-MAX_SAFE_INTEGER, le=MAX_SAFE_INTEGER)]
    challenge_sig: Halves
    context: SignedContext | None = None
    session_context: bytes = b""

    def text(self) -> bytes:
        """Return the proof's text."""
        return _encode(self)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(KeptProof).decode


def decode_proof(text: bytes) -> KeptProof:
    """Read a proof's text, in whatever order and with whatever blanks it is written. Raises `AttestationError`."""
    try:
        proof = _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise AttestationError("not a proof of a call") from None
    if proof.text() != canonical(text):  # base64 that others read otherwise, a member twice
        raise AttestationError("a proof that is not written as it was signed")
    return proof
