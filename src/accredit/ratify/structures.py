"""Delegation certificates and proof bundles, and the bytes that are signed for a certificate (Ratify sections 2 and 4).
No I/O.

`ProofBundle.decode` defines what a bundle is. `decode_proof_bundle` recognises texts for which `msgspec` alone gives
the same result, and reads these in half the time. A text within the allowed size is one of these if:

- [backslash] it has no backslash, so every string is spelled literally, and no surrogate stands alone;
- [repetition] it has no more colons than its members and strings account for, so no member occurs twice;
- [zero] no integer in it is 0, so none can be written "-0"; the other integers are bounded by `Integer`;
- [base64] every "=" follows a character with which canonical base64 can end;
- [constraints] each of its certificates with constraints was read strictly.

Any other text is read strictly, which also produces the errors. A certificate whose exact text was read before is not
read again; its signatures are still checked by the verifier.
"""

import hashlib
from typing import Annotated, ClassVar, NoReturn

import msgspec
from msgspec import Meta, Raw, Struct

from accredit.base.caching import CachedProperty, RecentlyUsed
from accredit.base.values import decodable
from accredit.canonical import base64_is_canonical
from accredit.errors import WireError
from accredit.limits import (
    MAX_IDENTIFIER_LENGTH_BYTES,
    MAX_PROOF_BUNDLE_BYTES,
    MAX_SCOPE_LENGTH_BYTES,
    MAX_SCOPES_PER_CERT,
)
from accredit.ratify.canonical import canonical
from accredit.ratify.constraints import Constraint, Extension, ResourcePath
from accredit.ratify.hybrid import HybridPublicKey, HybridSignature, length_fault
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
        """The SHA-256 of everything that is signed, and of both signatures. No two certificates have the same one.

        If a signature or the issuer's key has a wrong length, two could. So the digest is then empty.
        """
        if length_fault(self.signature, self.issuer_pub_key):
            return b""
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


@decodable
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


@decodable
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


MAX_GLIMPSED_TEXTS = 4_096
"""How many certificates' texts that were seen once are remembered, each by its first bytes, in some 250 bytes."""
MAX_REMEMBERED_TEXTS = 256
"""How many certificates' texts that were seen twice are remembered, each with the decoded certificate."""
MAX_REMEMBERED_TEXT_BYTES = 16_384
"""The most bytes of such a remembered text. A certificate with a few scopes has 11 KB. With the decoded object and two
loaded keys, of 11 KiB each (measured), 256 of them take at most 14 MiB."""


_LEVEL_IN_BUNDLE = 3
"""The level of nesting at which a certificate is in a bundle."""

_BUNDLE_MEMBERS = 10
"""How many members a bundle without session and stream has. Those of its key and signature are counted, those of its
certificates are not."""

_CERT_MEMBERS = 17
"""How many members a certificate without constraints has. Those of its keys and signature are counted."""

_LOOKUP_BYTES = 96
"""How many bytes of a certificate's text are used as its lookup key. They include the whole `cert_id` if that comes
first."""


class _Envelope(Presentation, frozen=True, kw_only=True):
    delegations: tuple[Raw, ...]


class _Read(Struct, frozen=True):
    """A certificate, its exact text, and the number of colons in that text."""

    text: Raw
    cert: DelegationCert
    colons: int


def _not_plain(_kind: type, _value: object) -> NoReturn:
    raise ValueError("constraints are read strictly")


_read_envelope = msgspec.json.Decoder(_Envelope).decode
_read_certificate = msgspec.json.Decoder(DelegationCert, dec_hook=_not_plain).decode
_seen_once = RecentlyUsed[bytes, bool](MAX_GLIMPSED_TEXTS)
_remembered = RecentlyUsed[bytes, _Read](MAX_REMEMBERED_TEXTS)


def decode_proof_bundle(data: bytes | str) -> ProofBundle:
    """Read a proof bundle's JSON text, at most 131,072 bytes. Raises `WireError`."""
    plain = _plain(data) if isinstance(data, bytes) else None
    return plain or ProofBundle.decode(data)


def _plain(data: bytes) -> ProofBundle | None:
    """Return the bundle if the text may be read quickly; None if the text must be read strictly."""
    if len(data) > MAX_PROOF_BUNDLE_BYTES or b"\\" in data:
        return None
    try:
        envelope = _read_envelope(data)
        read = [_certificate(raw) for raw in envelope.delegations]
        envelope.check("", 1)
    except (msgspec.MsgspecError, ValueError, RecursionError, WireError):
        return None
    if not read or not _nothing_else(data, envelope, read):
        return None
    for each, text in zip(read, envelope.delegations, strict=True):
        if each.text is text:  # of a remembered one the text is a copy
            _remember(each)
    return ProofBundle(
        agent_id=envelope.agent_id,
        agent_pub_key=envelope.agent_pub_key,
        challenge=envelope.challenge,
        challenge_at=envelope.challenge_at,
        challenge_sig=envelope.challenge_sig,
        session_context=envelope.session_context,
        stream_id=envelope.stream_id,
        stream_seq=envelope.stream_seq,
        delegations=tuple([each.cert for each in read]),
    )


def _certificate(text: Raw) -> _Read:
    """Read one certificate. Raises `WireError` or what `msgspec` raises."""
    known = _remembered.get(_lookup_key(text))
    if known is not None and known.text == text:
        return known
    try:
        cert = _read_certificate(text)
    except msgspec.ValidationError:
        cert = None
    if cert is None or not (cert.version and cert.issued_at and cert.expires_at):
        cert = DelegationCert.decode(bytes(text))
        colons = _colons(bytes(text))
    else:
        colons = _CERT_MEMBERS + "".join((cert.cert_id, cert.issuer_id, cert.subject_id, *cert.scope)).count(":")
    cert.check("", _LEVEL_IN_BUNDLE)
    return _Read(text, cert, colons)


def _lookup_key(text: Raw) -> bytes:
    return bytes(memoryview(text)[:_LOOKUP_BYTES])


def _nothing_else(data: bytes, envelope: _Envelope, read: list[_Read]) -> bool:
    """Check the rules from [repetition] to [base64] for the whole text."""
    members = _BUNDLE_MEMBERS + bool(envelope.session_context) + 2 * bool(envelope.stream_id)
    colons = members + envelope.agent_id.count(":") + sum([each.colons for each in read])
    return envelope.challenge_at != 0 and _colons(data) == colons and base64_is_canonical(data)


def _colons(data: bytes) -> int:
    return len(data) - len(data.replace(b":", b""))  # faster than counting them


def _remember(read: _Read) -> None:
    """Cache a text when it is seen for the second time. Most texts are seen once, and would only fill the memory.

    A certificate whose constraints have parameters is not cached: these are mutable, so a caller could change them.
    """
    name = _lookup_key(read.text)
    if not _seen_once.get(name):
        _seen_once.put(name, True)
    elif len(memoryview(read.text)) <= MAX_REMEMBERED_TEXT_BYTES and not _has_parameters(read.cert):
        _remembered.put(name, _Read(read.text.copy(), read.cert, read.colons))


def _has_parameters(cert: DelegationCert) -> bool:
    return any(isinstance(constraint, Extension) for constraint in cert.constraints)
