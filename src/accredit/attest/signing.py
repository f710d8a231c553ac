"""Signs the log's entries, and holds the keys that verify them. No I/O.

A record has one signature. It is made either by the gateway's key (Ed25519, with the gateway's id as its key id), or by
another signer, with that signer's key id. Only another signer's signature may have further members, which that signer's
key must verify.

Checkpoints and notes of pruning are always signed by the gateway's key, and have a second signature, ML-DSA-65. So the
log as a whole stays verifiable if Ed25519 is broken, and calls don't have to wait for the slower signature.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from accredit.attest.dsse import Envelope, Signature, signed_bytes
from accredit.base.caching import CachedProperty
from accredit.base.deferred import Deferred
from accredit.base.ed25519 import is_signed, public_key, signing
from accredit.errors import AttestationError

if TYPE_CHECKING:
    from cryptography import exceptions
    from cryptography.hazmat.primitives.asymmetric import mldsa
else:
    exceptions = Deferred("cryptography.exceptions")
    mldsa = Deferred("cryptography.hazmat.primitives.asymmetric.mldsa")

ML_DSA_65_SUFFIX = "/ml-dsa-65"
"""The suffix of the second signature's key id, after the gateway's id."""


class RecordSigner(Struct, frozen=True):
    """A signer that signs records instead of the gateway's key. `sign` may block, and raises `StoreUnavailable`.
    `check` verifies this signer's signatures (see `RecordKey`)."""

    id: str
    sign: Callable[[bytes], Signature]
    check: Callable[[Signature, bytes], None]

    def __repr__(self) -> str:
        return f"<RecordSigner {self.id}>"


class LogSigner(Struct, frozen=True, dict=True):
    """A gateway's key: its id, and two seeds of 32 bytes each, which its `repr` does not show.

    `records`, if given, is another signer, which signs records instead of this key.
    """

    id: str
    ed25519: bytes
    ml_dsa_65: bytes
    records: RecordSigner | None = None

    def __repr__(self) -> str:
        return f"<LogSigner {self.id}>"

    @CachedProperty
    def keys(self) -> "tuple[LogKey | RecordKey, ...]":
        """The public keys that verify what this signer signs."""
        own = LogKey(self.id, public_key(self.ed25519), self._ml_dsa_65.public_key().public_bytes_raw())
        return (own,) if self.records is None else (own, RecordKey(self.records.id, self.records.check))

    def record(self, payload: bytes) -> Envelope:
        """Return a record in its signed envelope. Raises `StoreUnavailable` if another signer is used and fails."""
        message = signed_bytes(payload)
        if self.records is not None:
            return Envelope(payload, (self.records.sign(message),))
        return Envelope(payload, (Signature(self.id, self._sign(message)),))

    def summary(self, payload: bytes) -> Envelope:
        """Return a checkpoint or a note of pruning in its signed envelope."""
        message = signed_bytes(payload)
        second = Signature(self.id + ML_DSA_65_SUFFIX, self._ml_dsa_65.sign(message))
        return Envelope(payload, (Signature(self.id, self._sign(message)), second))

    @CachedProperty
    def _sign(self) -> Callable[[bytes], bytes]:
        return signing(self.ed25519)

    @CachedProperty
    def _ml_dsa_65(self) -> "mldsa.MLDSA65PrivateKey":
        return mldsa.MLDSA65PrivateKey.from_seed_bytes(self.ml_dsa_65)


class LogKey(Struct, frozen=True, dict=True):
    """A gateway's public key, as raw bytes: 32 of Ed25519, and 1952 of ML-DSA-65."""

    id: str
    ed25519: bytes
    ml_dsa_65: bytes

    @CachedProperty
    def _ml_dsa_65(self) -> "mldsa.MLDSA65PublicKey":
        return mldsa.MLDSA65PublicKey.from_public_bytes(self.ml_dsa_65)

    def check_record(self, envelope: Envelope) -> None:
        """Check that there is exactly one signature, by this key. Raises `AttestationError`."""
        _check_single(envelope)
        self._check_first(envelope)

    def check_summary(self, envelope: Envelope) -> None:
        """Check that there are exactly two signatures, by this key. Raises `AttestationError`."""
        if len(envelope.signatures) != 2:
            raise AttestationError("a checkpoint or note has two signatures")
        self._check_first(envelope)
        second = envelope.signatures[1]
        if second.key_id != self.id + ML_DSA_65_SUFFIX:
            raise AttestationError("the second signature is another key's")
        try:
            self._ml_dsa_65.verify(second.data, signed_bytes(envelope.payload))
        except (exceptions.InvalidSignature, ValueError):
            raise AttestationError("the ML-DSA-65 signature is not good") from None

    def _check_first(self, envelope: Envelope) -> None:
        if any(signature.members for signature in envelope.signatures):
            raise AttestationError("a signature of the gateway's key holds nothing but its bytes")
        if not is_signed(signed_bytes(envelope.payload), envelope.signatures[0].data, self.ed25519):
            raise AttestationError("the Ed25519 signature is not good")


class RecordKey(Struct, frozen=True):
    """The public key of another signer of records.

    `check` takes a signature, with all its members, and the signed bytes; it raises `AttestationError`.
    """

    id: str
    check: Callable[[Signature, bytes], None]

    def check_record(self, envelope: Envelope) -> None:
        """Check that there is exactly one signature, by this key. Raises `AttestationError`."""
        _check_single(envelope)
        self.check(envelope.signatures[0], signed_bytes(envelope.payload))

    def check_summary(self, envelope: Envelope) -> None:
        """Raise `AttestationError`: this key may sign only records."""
        raise AttestationError("a checkpoint or note is signed by a key that is for records alone")


def _check_single(envelope: Envelope) -> None:
    if len(envelope.signatures) != 1:
        raise AttestationError("a record has one signature")
