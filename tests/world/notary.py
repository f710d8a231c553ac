"""A notary as sigstore is one, in memory: a signer whose signatures hold a bundle, and its kind of key. I/O: a file.

Each signature is made with a new key, which a certificate in the bundle binds to an identity. Verification looks at the
bundle alone, and not at all of it, as it may be with any other key than ours.
"""

import base64
import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from securesystemslib.exceptions import UnverifiedSignatureError, VerificationError
from securesystemslib.signer import (
    KEY_FOR_TYPE_AND_SCHEME,  # pyright: ignore[reportPrivateImportUsage]
    SIGNER_FOR_URI_SCHEME,  # pyright: ignore[reportPrivateImportUsage]
    Key,  # pyright: ignore[reportPrivateImportUsage]
    Signature,  # pyright: ignore[reportPrivateImportUsage]
    Signer,  # pyright: ignore[reportPrivateImportUsage]
)

KIND = ("test-notary", "identity")
IDENTITY = "https://ci.example/gateway"


class NotaryKey(Key):
    """An identity, and the notary's own public key."""

    @classmethod
    def from_dict(cls, keyid: str, key_dict: dict[str, Any]) -> "NotaryKey":
        keytype, scheme, keyval = cls._from_dict(key_dict)
        return cls(keyid, keytype, scheme, keyval, key_dict)

    def to_dict(self) -> dict[str, Any]:
        return self._to_dict()

    def verify_signature(self, signature: Signature, data: bytes) -> None:
        try:
            bundle = signature.unrecognized_fields["bundle"]
            certificate = bytes.fromhex(bundle["certificate"])
            root = Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.keyval["root"]))
            root.verify(bytes.fromhex(bundle["issued"]), certificate + self.keyval["identity"].encode())
            Ed25519PublicKey.from_public_bytes(certificate).verify(bytes.fromhex(bundle["signature"]), data)
        except InvalidSignature as error:
            raise UnverifiedSignatureError(f"not by {self.keyid}") from error
        except Exception as error:
            raise VerificationError("the bundle can't be read, and swordfish is the PIN") from error


class Notary:
    """What is behind `testnotary:`. `members` go into each signature as well."""

    def __init__(self) -> None:
        self.root = Ed25519PrivateKey.generate()
        self.members: dict[str, Any] = {"entry": {"index": 7, "tree": ["ü", 0.5, None]}}

    def write_key(self, path: Path) -> None:
        """Writes the public key as securesystemslib's JSON."""
        keyval = {"identity": IDENTITY, "root": self.root.public_key().public_bytes_raw().hex()}
        key = NotaryKey("notary-1", *KIND, keyval)
        path.write_text(json.dumps({"keyid": key.keyid, **key.to_dict()}, indent=1), "utf-8")

    def sign(self, public_key: Key, payload: bytes) -> Signature:
        once = Ed25519PrivateKey.generate()
        certificate, signature = once.public_key().public_bytes_raw(), once.sign(payload)
        bundle = {
            "certificate": certificate.hex(),
            "issued": self.root.sign(certificate + IDENTITY.encode()).hex(),
            "signature": signature.hex(),
        }
        members = {"bundle": bundle, **self.members}
        return Signature(public_key.keyid, base64.b64encode(signature).decode(), members)


@contextmanager
def notary_registered() -> Generator[Notary]:
    """securesystemslib knows the signer and its kind of key meanwhile."""
    notary = Notary()

    class NotarySigner(Signer):
        def __init__(self, public_key: Key) -> None:
            self._public_key = public_key

        @property
        def public_key(self) -> Key:
            return self._public_key

        @classmethod
        def from_priv_key_uri(
            cls, priv_key_uri: str, public_key: Key, secrets_handler: Callable[[str], str] | None = None
        ) -> "NotarySigner":
            return cls(public_key)

        def sign(self, payload: bytes) -> Signature:
            return notary.sign(self._public_key, payload)

    schemes, kinds = cast("dict[Any, Any]", SIGNER_FOR_URI_SCHEME), cast("dict[Any, Any]", KEY_FOR_TYPE_AND_SCHEME)
    schemes["testnotary"], kinds[KIND] = NotarySigner, NotaryKey
    try:
        yield notary
    finally:
        del schemes["testnotary"], kinds[KIND]
