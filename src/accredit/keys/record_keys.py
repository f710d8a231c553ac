"""Public keys of other signers of records, in securesystemslib's formats. I/O: their files.

Imported only if such a key is configured, as securesystemslib loads slowly. A key has one of two forms:

- [pem] PEM. Its key id is the one that securesystemslib computes, so that stock verifiers find it.
- [json] securesystemslib's JSON, `Key.to_dict()` with its `keyid`. It is for keys without a PEM form, such as
  sigstore's (an identity and its issuer) and GnuPG's, and for schemes that PEM can't express.

A signature's extra members are passed to the key. Ordinary keys verify only the bytes, so a signature by one of these
may have no extra members.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from securesystemslib.exceptions import UnverifiedSignatureError, VerificationError
from securesystemslib.signer import (
    KEY_FOR_TYPE_AND_SCHEME,  # pyright: ignore[reportPrivateImportUsage]
    Key,  # pyright: ignore[reportPrivateImportUsage]
    SigstoreKey,  # pyright: ignore[reportPrivateImportUsage]
    SSlibKey,  # pyright: ignore[reportPrivateImportUsage]
)
from securesystemslib.signer import (
    Signature as PeerSignature,  # pyright: ignore[reportPrivateImportUsage]
)

from accredit.attest import RecordKey, Signature
from accredit.errors import AttestationError, ConfigurationError, WireError
from accredit.keys.files import read_file
from accredit.limits import MAX_PEM_BYTES
from accredit.ratify.strict_json import parse

_PEM_BEGINS = b"-----BEGIN"

FOREIGN_KEY_ERRORS = (ValueError, TypeError, KeyError, AttributeError, UnsupportedAlgorithm)
"""The exceptions of securesystemslib for invalid keys. A TypeError is for a private key with a password."""

_SIGSTORE = (SigstoreKey.DEFAULT_KEY_TYPE, SigstoreKey.DEFAULT_SCHEME)
"""Sigstore's key type and scheme. securesystemslib does not register them by default, as the format is new."""


def load_record_key(path: Path) -> RecordKey:
    """Return a signer's public key, to verify records with. Raises `ConfigurationError`."""
    key = load_peer_key(path)
    return RecordKey(key.keyid, partial(check_signature, key))


def load_peer_key(path: Path) -> Key:
    """Return the key as securesystemslib's type. Raises `ConfigurationError`."""
    data = read_file(path, MAX_PEM_BYTES).data
    try:
        return SSlibKey.from_crypto(load_pem_public_key(data)) if data.startswith(_PEM_BEGINS) else _from_json(data)
    except (WireError, *FOREIGN_KEY_ERRORS):
        raise ConfigurationError(
            f"{path} is not a public key that signs, neither in PEM nor as JSON of securesystemslib",
            "name one of Ed25519, ECDSA P-256 or the like in PEM, or what Key.to_dict() says, with its keyid",
        ) from None


def keeps_members(key: Key) -> bool:
    """Return whether a key also verifies a signature's extra members. Ordinary keys verify only the bytes."""
    return type(key) is not SSlibKey


def check_signature(key: Key, signature: Signature, message: bytes) -> None:
    """Check a signature with all its members. Raises `AttestationError`."""
    if signature.members and not keeps_members(key):
        raise AttestationError("the signature holds what its key does not verify")
    try:
        members = msgspec.json.decode(signature.members or b"{}")
        key.verify_signature(PeerSignature(key.keyid, signature.data.hex(), members), message)
    except Exception as error:  # a key may raise anything: its input is not trusted yet
        if isinstance(error, UnverifiedSignatureError) and not isinstance(error, VerificationError):
            raise AttestationError("the signature is not good") from None
        cause = error.__cause__ or error
        raise AttestationError(f"the signature can't be verified ({type(cause).__name__})") from None


def _from_json(data: bytes) -> Key:
    members = cast("dict[str, Any]", parse(data, MAX_PEM_BYTES))
    key_id = members.pop("keyid")
    if not isinstance(key_id, str) or not key_id:
        raise ValueError
    kinds = cast("Mapping[object, type[Key]]", {_SIGSTORE: SigstoreKey, **KEY_FOR_TYPE_AND_SCHEME})
    return kinds[members.get("keytype"), members.get("scheme")].from_dict(key_id, members)
