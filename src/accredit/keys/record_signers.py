"""Signers of records through securesystemslib: PEM files, and by their URIs KMS, HSM and the like. I/O: theirs.

It is imported only where such a signer is named, as securesystemslib takes a while to load. In this order:

1. the public key is read: PEM; its key id is securesystemslib's own, so that stock verifiers find it;
2. a private key in a file (`file2:PATH`) is read by us: one that others can read is refused, and so is another key's;
3. any other scheme is securesystemslib's to open, with what it needs installed; a PIN comes from the environment.

Each signature is verified before it is used: a signer that was given another key breaks no log. Not supported are
GnuPG and sigstore, whose signatures are more than bytes.
"""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from securesystemslib.exceptions import UnsupportedLibraryError, UnverifiedSignatureError
from securesystemslib.signer import (
    SIGNER_FOR_URI_SCHEME,  # pyright: ignore[reportPrivateImportUsage]
    CryptoSigner,  # pyright: ignore[reportPrivateImportUsage]
    GPGSigner,  # pyright: ignore[reportPrivateImportUsage]
    Signature,  # pyright: ignore[reportPrivateImportUsage]
    Signer,  # pyright: ignore[reportPrivateImportUsage]
    SSlibKey,  # pyright: ignore[reportPrivateImportUsage]
)

from accredit.attest import RecordKey, RecordSigner
from accredit.errors import ConfigurationError, StoreUnavailable
from accredit.keys.files import read_file
from accredit.keys.load import check_private
from accredit.limits import MAX_PEM_BYTES

SECRET_VARIABLE = "ACCREDIT_SIGNER_SECRET"  # noqa: S105 - its name
"""The environment variable with the PIN or passphrase of a signer that asks for one."""

_FOREIGN_KEY_ERRORS = (ValueError, TypeError, UnsupportedAlgorithm)  # TypeError: it has a password


def load_record_key(path: Path) -> RecordKey:
    """A signer's public key, PEM, to verify records with. Raises `ConfigurationError`."""
    key = _public_key(path)
    return RecordKey(key.keyid, partial(_is_good, key))


def load_record_signer(uri: str, public_key_file: Path, folder: Path) -> RecordSigner:
    """The signer at a URI; a relative `file2:PATH` is in `folder`. Raises `ConfigurationError`.

    It is opened once to see that it can be, and again where it first signs: no connection is taken across a fork.
    """
    key = _public_key(public_key_file)
    opened = partial(_open, uri, key, folder)
    opened()
    return RecordSigner(key.keyid, _Signing(key, opened).sign)


class _Signing:
    """Signs in one thread at a time. After a failure the signer is opened anew."""

    def __init__(self, key: SSlibKey, opened: Callable[[], Signer]) -> None:
        self._key = key
        self._opened = opened
        self._signer: Signer | None = None

    def sign(self, message: bytes) -> bytes:
        """A signature that verifies. Raises `StoreUnavailable`."""
        signer, self._signer = self._signer, None
        try:
            signer = self._opened() if signer is None else signer
            signature = signer.sign(message)
            self._key.verify_signature(signature, message)
            data = bytes.fromhex(signature.signature)
        except Exception as error:  # a signer may raise anything, with anything in its text
            raise StoreUnavailable(f"the signer of records has failed ({type(error).__name__})") from None
        self._signer = signer
        return data


def _public_key(path: Path) -> SSlibKey:
    try:
        return SSlibKey.from_crypto(load_pem_public_key(read_file(path, MAX_PEM_BYTES).data))
    except _FOREIGN_KEY_ERRORS:
        raise ConfigurationError(
            f"{path} is not a public key in PEM that signs", "name one of Ed25519, ECDSA P-256 or the like"
        ) from None


def _is_good(key: SSlibKey, signature: bytes, message: bytes) -> bool:
    try:
        key.verify_signature(Signature(key.keyid, signature.hex()), message)
    except UnverifiedSignatureError:
        return False
    return True


def _open(uri: str, key: SSlibKey, folder: Path) -> Signer:
    scheme, _, place = uri.partition(":")
    if scheme == CryptoSigner.SCHEME:
        return _open_file(folder / place, key)
    known = SIGNER_FOR_URI_SCHEME.keys() - {GPGSigner.SCHEME}
    if scheme not in known:
        raise ConfigurationError(
            "attest.signer: its scheme is not known", f"name a URI of one of these: {', '.join(sorted(known))}"
        )
    try:
        return Signer.from_priv_key_uri(uri, key, _secret)
    except ConfigurationError:
        raise
    except UnsupportedLibraryError:
        raise ConfigurationError(
            f"attest.signer: what {scheme}: needs is not installed",
            "install the extra of securesystemslib that it belongs to, such as securesystemslib[hsm]",
        ) from None
    except Exception as error:  # a signer may raise anything, with anything in its text
        raise ConfigurationError(
            f"attest.signer: the {scheme}: signer can't be opened ({type(error).__name__})",
            "see that the URI and the public key belong together, and that the service can be reached",
        ) from None


def _open_file(path: Path, key: SSlibKey) -> Signer:
    content = read_file(path, MAX_PEM_BYTES)
    check_private(path, content)
    try:
        private = load_pem_private_key(content.data, password=None)
        found = SSlibKey.from_crypto(private.public_key())
        signer = CryptoSigner(private, found)
    except _FOREIGN_KEY_ERRORS:
        raise ConfigurationError(
            f"{path} is not a private key in PEM without a password", "name one of Ed25519 or ECDSA P-256"
        ) from None
    if found.keyid != key.keyid:
        raise ConfigurationError(
            f"{path} is not the private key of attest.signer_public_key_file", "name the two halves of one key"
        )
    return signer


def _secret(name: str) -> str:
    secret = os.environ.get(SECRET_VARIABLE)
    if secret is None:
        raise ConfigurationError(
            f"attest.signer asks for a secret, and {SECRET_VARIABLE} is not set", f"put it into {SECRET_VARIABLE}"
        )
    return secret
