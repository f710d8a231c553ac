"""Hybrid keys and signatures: Ed25519 and ML-DSA-65 over the same bytes, both required (Ratify section 5). No I/O.

Ed25519 is from libsodium (`base.ed25519`), and ML-DSA from OpenSSL. ML-DSA signatures are hedged, with OpenSSL's
randomness. Nothing else here is random, as keys come from seeds.
"""

import hashlib
from typing import TYPE_CHECKING, Annotated, Protocol

from msgspec import Meta, Struct

from accredit.base.caching import CachedProperty
from accredit.base.deferred import Deferred
from accredit.base.ed25519 import KEY_BYTES, SIGNATURE_BYTES, is_signed, public_key, signing

if TYPE_CHECKING:
    from cryptography import exceptions
    from cryptography.hazmat.primitives.asymmetric import mldsa
else:
    exceptions = Deferred("cryptography.exceptions")
    mldsa = Deferred("cryptography.hazmat.primitives.asymmetric.mldsa")

ED25519_KEY_BYTES = KEY_BYTES
_ED25519_SIGNATURE_BYTES = SIGNATURE_BYTES
ML_DSA_65_KEY_BYTES = 1952
_ML_DSA_65_SIGNATURE_BYTES = 3309
SEED_BYTES = 32
"""The length of either private key's seed."""


class HybridPublicKey(Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """A holder's two public keys, as raw bytes: 32 of Ed25519, and 1952 of ML-DSA-65."""

    ed25519: Annotated[bytes, Meta(min_length=ED25519_KEY_BYTES, max_length=ED25519_KEY_BYTES)]
    ml_dsa_65: Annotated[bytes, Meta(min_length=ML_DSA_65_KEY_BYTES, max_length=ML_DSA_65_KEY_BYTES)]

    @CachedProperty
    def id(self) -> str:
        """The id derived from the key: 32 lower-case hex characters."""
        return hashlib.sha256(self.ed25519 + self.ml_dsa_65).hexdigest()[:32]

    @CachedProperty
    def loaded_ml_dsa_65(self) -> "mldsa.MLDSA65PublicKey":
        """The ML-DSA-65 key, ready to verify. Raises `ValueError` if the bytes are not a key."""
        return mldsa.MLDSA65PublicKey.from_public_bytes(self.ml_dsa_65)


class HybridSignature(Struct, frozen=True, forbid_unknown_fields=True):
    """Two signatures over the same bytes, as raw bytes: 64 of Ed25519, and 3309 of ML-DSA-65."""

    ed25519: Annotated[bytes, Meta(min_length=_ED25519_SIGNATURE_BYTES, max_length=_ED25519_SIGNATURE_BYTES)]
    ml_dsa_65: Annotated[bytes, Meta(min_length=_ML_DSA_65_SIGNATURE_BYTES, max_length=_ML_DSA_65_SIGNATURE_BYTES)]


UNSIGNED = HybridSignature(bytes(_ED25519_SIGNATURE_BYTES), bytes(_ML_DSA_65_SIGNATURE_BYTES))
"""A placeholder signature for an object that is not signed yet. It has the right lengths, and is never valid."""


def derive_id(key: HybridPublicKey) -> str:
    """Return the id derived from a key: 32 lower-case hex characters."""
    return key.id


class HybridSigner(Protocol):
    """A holder of both keys that signs: a private key, or a device that keeps one."""

    @property
    def id(self) -> str:
        """The id derived from the public key."""
        ...

    @property
    def public_key(self) -> HybridPublicKey:
        """Both public keys."""
        ...

    def sign(self, message: bytes) -> HybridSignature:
        """Sign a message with both keys."""
        ...


class HybridPrivateKey:
    """A holder's two private keys, made from two seeds of 32 bytes. No method or `repr` shows them."""

    __slots__ = ("_ml_dsa_65", "_sign_ed25519", "id", "public_key")

    def __init__(self, ed25519_seed: bytes, ml_dsa_65_seed: bytes) -> None:
        """Raise `ValueError` for a seed of another length."""
        if not len(ed25519_seed) == len(ml_dsa_65_seed) == SEED_BYTES:
            raise ValueError(f"a seed has {SEED_BYTES} bytes")
        self._sign_ed25519 = signing(ed25519_seed)
        self._ml_dsa_65 = mldsa.MLDSA65PrivateKey.from_seed_bytes(ml_dsa_65_seed)
        self.public_key = HybridPublicKey(public_key(ed25519_seed), self._ml_dsa_65.public_key().public_bytes_raw())
        self.id = self.public_key.id

    def __repr__(self) -> str:
        return f"<HybridPrivateKey {self.id}>"

    def sign(self, message: bytes) -> HybridSignature:
        """Sign a message with both keys. Two calls give different signatures."""
        return HybridSignature(self._sign_ed25519(message), self._ml_dsa_65.sign(message))


def signature_fault(message: bytes, signature: HybridSignature, key: HybridPublicKey) -> str | None:
    """Return why a signature is not valid, or None if both parts are. The lengths are checked first, then Ed25519, then
    ML-DSA-65."""
    fault = length_fault(signature, key)
    if fault:
        return fault
    if not is_signed(message, signature.ed25519, key.ed25519):
        return "Ed25519 signature invalid"
    try:
        key.loaded_ml_dsa_65.verify(signature.ml_dsa_65, message)
    except (exceptions.InvalidSignature, ValueError):
        return "ML-DSA-65 signature invalid"
    return None


def length_fault(signature: HybridSignature, key: HybridPublicKey) -> str | None:
    """Return which length of the two keys and the two signatures is wrong, or None. If they were decoded from a text,
    all lengths are right."""
    if len(key.ed25519) != ED25519_KEY_BYTES:
        return f"Ed25519 public key wrong length: {len(key.ed25519)}"
    if len(key.ml_dsa_65) != ML_DSA_65_KEY_BYTES:
        return f"ML-DSA-65 public key wrong length: {len(key.ml_dsa_65)}"
    if len(signature.ed25519) != _ED25519_SIGNATURE_BYTES:
        return f"Ed25519 signature wrong length: {len(signature.ed25519)}"
    if len(signature.ml_dsa_65) != _ML_DSA_65_SIGNATURE_BYTES:
        return f"ML-DSA-65 signature wrong length: {len(signature.ml_dsa_65)}"
    return None
