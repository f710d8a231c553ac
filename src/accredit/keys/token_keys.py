"""Keys of bearer tokens in files: the P-256 key that signs session tokens, and issuers' public keys.

The formats are those of JWT tools: PEM (PKCS #8 and SubjectPublicKeyInfo), and JWK sets. Uses the operating system's
randomness.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from accredit.base.deferred import Deferred
from accredit.errors import ConfigurationError, KeySetError
from accredit.keys.files import read_file
from accredit.keys.load import check_private, write_pair
from accredit.limits import MAX_KEY_SET_BYTES, MAX_PEM_BYTES

if TYPE_CHECKING:
    from cryptography import exceptions
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

    from accredit.tokens import key_sets
    from accredit.tokens.key_sets import KeySet
else:
    exceptions = Deferred("cryptography.exceptions")
    serialization = Deferred("cryptography.hazmat.primitives.serialization")
    ec = Deferred("cryptography.hazmat.primitives.asymmetric.ec")
    key_sets = Deferred("accredit.tokens.key_sets")


def make_token_key() -> "EllipticCurvePrivateKey":
    """Return a new key for signing session tokens."""
    return ec.generate_private_key(ec.SECP256R1())


def write_token_key(path: Path, key: "EllipticCurvePrivateKey", *, replace: bool = False) -> None:
    """Write the private key to `path`, and the public one to `path.pub`. Raises `ConfigurationError`; if one of the
    files exists, neither is written."""
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    write_pair(path, private, public, replace=replace)


def kept_token_key(path: Path) -> "EllipticCurvePrivateKey":
    """Return the key at `path`, making one if there is none yet. Raises `ConfigurationError`."""
    if not os.path.lexists(path):
        try:
            write_token_key(path, make_token_key())
        except ConfigurationError as error:
            if not os.path.lexists(path):  # otherwise another process made one at the same time: use that
                raise ConfigurationError(
                    error.what, f"make it there before, as who may write there: `accredit token keygen {path}`"
                ) from None
    return load_token_key(path)


def load_token_key(path: Path) -> "EllipticCurvePrivateKey":
    """Read a private P-256 key in PEM, without a password. Raises `ConfigurationError`."""
    content = read_file(path, MAX_PEM_BYTES)
    try:
        key = serialization.load_pem_private_key(content.data, password=None)
    except (ValueError, TypeError, exceptions.UnsupportedAlgorithm):  # TypeError: it has a password
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ConfigurationError(
            f"{path} is not a private P-256 key in PEM without a password",
            "name a file that `accredit token keygen` made",
        )
    check_private(path, content)
    return key


def load_key_set(path: Path) -> "KeySet":
    """Read the public keys of an issuer: one in PEM, or a JWK set. Raises `ConfigurationError`."""
    data = read_file(path, MAX_KEY_SET_BYTES).data
    try:
        keys = key_sets.read_key_set(data) if data.lstrip().startswith(b"{") else key_sets.read_public_key(data)
    except KeySetError as error:
        raise ConfigurationError(f"{path}: {error}", "name a public key in PEM, or a JWK set") from None
    if not keys.keys:
        raise ConfigurationError(f"{path}: no key in it can be used", "name a set with public keys for signatures")
    return keys
