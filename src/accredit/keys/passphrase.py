"""Private keys under a passphrase: Argon2id derives a key from it, and AES-256-GCM encrypts the seeds. No I/O.

- [cost] The cost of the derivation is bounded when a file is read (`formats`), against hostile files.
- [normalization] A passphrase is normalized to NFC and encoded as UTF-8. So it does not matter in which Unicode form it
  is typed.
- [sealing] Seeds are accepted only if they can be decrypted, and belong to the public key beside them. Both failures
  are the same error.

The passphrase and derived keys are wiped where Python allows it (bytearrays); copies inside libraries are not.
Passphrase, salt and nonce come from callers (`load`).
"""

import unicodedata
from typing import TYPE_CHECKING, cast

from accredit.base.deferred import Deferred
from accredit.errors import ConfigurationError, WireError, WrongPassphrase
from accredit.keys.formats import LockedKeyFile, PrivateKeyFile, SealedSeeds, Seeds
from accredit.ratify.hybrid import SEED_BYTES

if TYPE_CHECKING:
    from cryptography import exceptions
    from cryptography.hazmat.primitives.ciphers import aead
    from cryptography.hazmat.primitives.kdf import argon2
else:
    exceptions = Deferred("cryptography.exceptions")
    aead = Deferred("cryptography.hazmat.primitives.ciphers.aead")
    argon2 = Deferred("cryptography.hazmat.primitives.kdf.argon2")

ARGON2_MEMORY_KIB = 65_536
"""Memory that turning a passphrase into a key takes (RFC 9106 section 4, the second choice): each guess costs as
much."""
ARGON2_PASSES = 3
"""How many passes over that memory are made (RFC 9106): half a second in all."""
ARGON2_LANES = 4
"""How many threads compute it (RFC 9106)."""


_KEY_BYTES = 32


def passphrase_bytes(text: str) -> bytearray:
    """Return the normalized bytes of a passphrase ([normalization]). Raises `ConfigurationError` for an empty one."""
    if not text:
        raise ConfigurationError("the passphrase is empty", "type one; --no-passphrase makes a key without one")
    try:
        return bytearray(unicodedata.normalize("NFC", text).encode())
    except UnicodeEncodeError:
        raise ConfigurationError("the passphrase is not UTF-8", "see which characters the terminal sends") from None


def lock(key: PrivateKeyFile, passphrase: bytearray, salt: bytes, nonce: bytes) -> LockedKeyFile:
    """Encrypt a key with a passphrase. `salt` (16 bytes) and `nonce` (12) must be fresh and random."""
    sealed = SealedSeeds("argon2id", ARGON2_MEMORY_KIB, ARGON2_PASSES, ARGON2_LANES, salt, nonce, b"")
    plain = key.seed.ed25519 + key.seed.ml_dsa_65
    box = aead.AESGCM(_derive_key(passphrase, sealed)).encrypt(nonce, plain, None)
    sealed = SealedSeeds("argon2id", ARGON2_MEMORY_KIB, ARGON2_PASSES, ARGON2_LANES, salt, nonce, box)
    return LockedKeyFile(key.accredit_key, key.kind, key.name, key.id, key.created_at, key.public_key, sealed)


def unlock(key: LockedKeyFile, passphrase: bytearray) -> PrivateKeyFile:
    """Decrypt a key with a passphrase, which the caller wipes. Raises `WrongPassphrase`."""
    try:
        plain = aead.AESGCM(_derive_key(passphrase, key.seed)).decrypt(key.seed.nonce, key.seed.box, None)
        seeds = Seeds(plain[:SEED_BYTES], plain[SEED_BYTES:])
        opened = PrivateKeyFile(key.accredit_key, key.kind, key.name, key.id, key.created_at, key.public_key, seeds)
        opened.check("key", 1)
    except (exceptions.InvalidTag, WireError):
        raise WrongPassphrase(key.name, key.id) from None
    return opened


def wipe(passphrase: bytearray) -> None:
    """Overwrite a passphrase in memory."""
    passphrase[:] = bytes(len(passphrase))


def _derive_key(passphrase: bytearray, sealed: SealedSeeds) -> bytearray:
    key = bytearray(_KEY_BYTES)
    try:
        argon2.Argon2id(
            salt=sealed.salt,
            length=_KEY_BYTES,
            iterations=sealed.passes,
            lanes=sealed.lanes,
            memory_cost=sealed.memory_kib,
        ).derive_into(cast("bytes", passphrase), key)
    except (exceptions.UnsupportedAlgorithm, MemoryError, ValueError) as error:
        raise ConfigurationError(
            f"Argon2id can't be computed here ({type(error).__name__})",
            f"see that OpenSSL is 3.2 or newer, and {sealed.memory_kib // 1024} MiB of memory are free",
        ) from None
    return key
