"""Delegation certificates and proof bundles, and the bytes that are signed for a certificate (Ratify sections 2 and 4).
No I/O."""

import hashlib
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta, Raw, Struct

from accredit.base.caching import CachedProperty
from accredit.errors import WireError
from accredit.limits import (
    MAX_IDENTIFIER_LENGTH_BYTES,
    MAX_PROOF_BUNDLE_BYTES,
    MAX_SCOPE_LENGTH_BYTES,
    MAX_SCOPES_PER_CERT,
)
from accredit.ratify.canonical import canonical
from accredit.ratify.constraints import Constraint, Extension, ResourcePath
from accredit.ratify.hybrid import HybridPublicKey, HybridSignature
from accredit.ratify.wire import Bytes32, Integer, Positive, WireObject

MAX_CONSTRAINTS_PER_CERT = 32
"""The most constraints in one certificate (Ratify section 1)."""


PROTOCOL_VERSION = 1
UNTIL_REVOKED = 4_070_908_799
"""The value of `expires_at` for a delegation that ends only by revocation (Ratify section 1, NO_EXPIRY_SENTINEL)."""

_read_links = msgspec.json.Decoder(Annotated[list[Raw], Meta(min_length=1)]).decode


class DelegationCert(WireObject, frozen=True, dict=True):
    """An issuer's signed statement that a subject may use some scopes, under some constraints, for some time.

    Times are unix seconds, both ends included. `scope` is signed in the order that it has. Each id is derived from the
    key that is given with it.
    """

    max_bytes: ClassVar[int] = MAX_PROOF_BUNDLE_BYTES

    cert_id: str
    version: Integer
    issuer_id: str
    issuer_pub_key: HybridPublicKey
    subject_id: str
    subject_pub_key: HybridPublicKey
    scope: tuple[str, ...]
    constraints: tuple[Constraint, ...]
    issued_at: Integer
    expires_at: Integer
    signature: HybridSignature

    @CachedProperty
    def digest(self) -> bytes:
        """The SHA-256 of everything that is signed, and of both signatures.

        No two certificates have the same digest, provided that their keys and signatures have the right lengths.
        """
        signed = delegation_sign_bytes(self)
        return hashlib.sha256(signed + self.signature.ed25519 + self.signature.ml_dsa_65).digest()

    def check(self, path: str, level: int) -> None:
        """Check the counts, the lengths in bytes, and the nesting of parameters. Raises `WireError`."""
        fault = bounds_fault(self)
        if fault:
            raise WireError(path, fault)
        for index, constraint in enumerate(self.constraints):
            fault = constraint.params_fault(level + 2) if isinstance(constraint, Extension) else None
            if fault:
                raise WireError(f"{path}.constraints[{index}].params", fault)


def delegation_sign_bytes(cert: DelegationCert) -> bytes:
    """Return the bytes that an issuer signs (Ratify section 4). Raises `WireError` if a value has no canonical form."""
    return canonical(
        {
            "cert_id": cert.cert_id,
            "constraints": [constraint.members() for constraint in cert.constraints],
            "expires_at": cert.expires_at,
            "issued_at": cert.issued_at,
            "issuer_id": cert.issuer_id,
            "issuer_pub_key": cert.issuer_pub_key,
            "scope": cert.scope,
            "subject_id": cert.subject_id,
            "subject_pub_key": cert.subject_pub_key,
            "version": cert.version,
        }
    )


def bounds_fault(cert: DelegationCert) -> str | None:
    """Return which bound on counts and lengths a certificate exceeds (Ratify section 8, step 4), or None."""
    if len(cert.scope) > MAX_SCOPES_PER_CERT:
        return f"carries {len(cert.scope)} scopes, exceeding MAX_SCOPES_PER_CERT ({MAX_SCOPES_PER_CERT})"
    if len(cert.constraints) > MAX_CONSTRAINTS_PER_CERT:
        count = len(cert.constraints)
        return f"carries {count} constraints, exceeding MAX_CONSTRAINTS_PER_CERT ({MAX_CONSTRAINTS_PER_CERT})"
    for scope in cert.scope:
        size = len(scope.encode())
        if size > MAX_SCOPE_LENGTH_BYTES:
            return f"carries a scope of {size} bytes, exceeding MAX_SCOPE_LENGTH_BYTES ({MAX_SCOPE_LENGTH_BYTES})"
    for constraint in cert.constraints:
        size = len(constraint.resource_id.encode()) if isinstance(constraint, ResourcePath) else 0
        if size > MAX_IDENTIFIER_LENGTH_BYTES:
            return (
                f"constraint resource_id is {size} bytes,"
                f" exceeding MAX_IDENTIFIER_LENGTH_BYTES ({MAX_IDENTIFIER_LENGTH_BYTES})"
            )
    return None


class Presentation(WireObject, frozen=True):
    """A proof without its certificates: the agent, and its signature over a challenge."""

    max_bytes: ClassVar[int] = MAX_PROOF_BUNDLE_BYTES

    agent_id: str
    agent_pub_key: HybridPublicKey
    challenge: Bytes32
    challenge_at: Integer
    challenge_sig: HybridSignature
    session_context: Bytes32 = b""
    stream_id: Bytes32 = b""
    stream_seq: Positive = 0

    def check(self, path: str, level: int) -> None:
        """Check that a stream's members are all there, or none. Raises `WireError`."""
        if bool(self.stream_id) != bool(self.stream_seq):
            raise WireError(path, "stream_id and stream_seq go together")


class ProofBundle(Presentation, frozen=True, kw_only=True):
    """An agent's proof: its chain of certificates, leaf first, and its signature over a challenge.

    `challenge_at` is in unix seconds. A proof that is not bound to a session has an empty `session_context`; one that
    is not a turn of a stream has an empty `stream_id` and `stream_seq` 0.
    """

    delegations: Annotated[tuple[DelegationCert, ...], Meta(min_length=1)]

    def check(self, path: str, level: int) -> None:
        """Check each certificate, and the presentation. Raises `WireError`."""
        for index, cert in enumerate(self.delegations):
            cert.check(f"{path}.delegations[{index}]", level + 2)
        super().check(path, level)


class StreamContext(Struct, frozen=True):
    """What a verifier knows of a stream: its 32-byte id, and the number of the last accepted turn (0: none yet)."""

    stream_id: bytes
    last_seen_seq: int = 0


def encode_proof_bundle(bundle: ProofBundle) -> bytes:
    """Return a proof bundle's canonical JSON text. Raises `WireError` if `decode_proof_bundle` would refuse it."""
    return bundle.encode()


def decode_delegation_cert(data: bytes | str) -> DelegationCert:
    """Read a certificate's JSON text, at most 131,072 bytes. Raises `WireError`."""
    return DelegationCert.decode(data)


def decode_chain(text: bytes) -> tuple[DelegationCert, ...]:
    """Read a JSON array of certificates, as records and stores have it: at least one, in at most
    `MAX_PROOF_BUNDLE_BYTES`. Raises `WireError`."""
    if len(text) > MAX_PROOF_BUNDLE_BYTES:
        raise WireError("", "a chain is too long")
    try:
        return tuple(DelegationCert.decode(bytes(each)) for each in _read_links(text))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise WireError("", "a chain is an array of certificates") from None


def encode_delegation_cert(cert: DelegationCert) -> bytes:
    """Return a certificate's canonical JSON text. Raises `WireError` if `decode_delegation_cert` would refuse it."""
    return cert.encode()
