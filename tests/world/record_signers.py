"""Keys in PEM, and a KMS in memory, which can fail: a signer that securesystemslib finds by its URI. I/O: files."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from securesystemslib.signer import (
    SIGNER_FOR_URI_SCHEME,  # pyright: ignore[reportPrivateImportUsage]
    CryptoSigner,  # pyright: ignore[reportPrivateImportUsage]
    Key,  # pyright: ignore[reportPrivateImportUsage]
    Signature,  # pyright: ignore[reportPrivateImportUsage]
    Signer,  # pyright: ignore[reportPrivateImportUsage]
)

KINDS = ("ed25519", "ecdsa-p256")


def key_pair(path: Path, kind: str = "ecdsa-p256") -> None:
    """Writes a new key to `path`, mode 0600, and its public half to `path.pub`, both in PEM."""
    key = Ed25519PrivateKey.generate() if kind == "ed25519" else generate_private_key(SECP256R1())
    path.touch(0o600)
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    path.with_name(f"{path.name}.pub").write_bytes(public)


class Kms:
    """What is behind `testkms:` URIs: one P-256 key. While there is a `fault`, signing fails with it; a `deed` is done
    before, and `members` go into each signature."""

    def __init__(self) -> None:
        self.key: EllipticCurvePrivateKey | None = None
        self.fault: str | None = None
        self.deed: Callable[[], None] | None = None
        self.messages: list[bytes] = []
        self.members: dict[str, Any] = {}
        self.secrets: list[str] = []

    def add(self, path: Path) -> None:
        """Takes in a private key from its file, which goes: from now on only the KMS has it."""
        key = load_pem_private_key(path.read_bytes(), None)
        assert isinstance(key, EllipticCurvePrivateKey)
        self.key = key
        path.unlink()

    @property
    def signed(self) -> int:
        """How often it has signed in this process."""
        return len(self.messages)

    def sign(self, public_key: Key, payload: bytes) -> Signature:
        if self.deed is not None:
            self.deed()
        if self.fault is not None:
            raise OSError(self.fault)
        assert self.key is not None
        signature = CryptoSigner(self.key).sign(payload)
        self.messages.append(payload)
        return Signature(public_key.keyid, signature.signature, self.members)


@contextmanager
def kms_registered() -> Generator[Kms]:
    """`testkms:key`; `testkms:pin` asks for a secret; `testkms:broken` can't be opened."""
    kms = Kms()

    class KmsSigner(Signer):
        def __init__(self, public_key: Key) -> None:
            self._public_key = public_key

        @property
        def public_key(self) -> Key:
            return self._public_key

        @classmethod
        def from_priv_key_uri(
            cls, priv_key_uri: str, public_key: Key, secrets_handler: Callable[[str], str] | None = None
        ) -> "KmsSigner":
            if priv_key_uri == "testkms:broken":
                raise OSError("no such key, and swordfish is not the PIN")
            if priv_key_uri == "testkms:pin":
                assert secrets_handler is not None
                kms.secrets.append(secrets_handler("PIN"))
            return cls(public_key)

        def sign(self, payload: bytes) -> Signature:
            return kms.sign(self._public_key, payload)

    schemes = cast("dict[str, Any]", SIGNER_FOR_URI_SCHEME)
    schemes["testkms"] = KmsSigner
    try:
        yield kms
    finally:
        del schemes["testkms"]
