"""Ed25519 (RFC 8032) by libsodium, for proofs, certificates and records. No I/O.

It takes half of OpenSSL's time, and refuses every signature that OpenSSL refuses. It also refuses a public key, or a
signature's R, that has small order or is not in its canonical form.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from accredit.base.deferred import Deferred

if TYPE_CHECKING:
    from nacl import bindings, exceptions
else:
    bindings = Deferred("nacl.bindings")
    exceptions = Deferred("nacl.exceptions")

KEY_BYTES = 32
SIGNATURE_BYTES = 64


def is_signed(message: bytes, signature: bytes, key: bytes) -> bool:
    """Return whether a signature of a message is valid by a public key. It is not if one of them has a wrong length."""
    # libsodium gets both in one text, so the length says where the signature ends.
    if len(signature) != SIGNATURE_BYTES or len(key) != KEY_BYTES:
        return False
    try:
        bindings.crypto_sign_open(signature + message, key)
    except exceptions.BadSignatureError:
        return False
    return True


def public_key(seed: bytes) -> bytes:
    """Return the public key to a private key's seed. Raises `ValueError` for a seed that is not 32 bytes long."""
    return _pair(seed)[0]


def signing(seed: bytes) -> Callable[[bytes], bytes]:
    """Return the function that signs a message by a private key's seed. Raises `ValueError` as `public_key` does."""
    secret = _pair(seed)[1]
    return lambda message: bindings.crypto_sign(message, secret)[:SIGNATURE_BYTES]


def _pair(seed: bytes) -> tuple[bytes, bytes]:
    if len(seed) != KEY_BYTES:
        raise ValueError(f"a seed has {KEY_BYTES} bytes")
    return bindings.crypto_sign_seed_keypair(seed)
