"""Signers of records through securesystemslib, and their public keys: PEM files and, by URI, KMS, HSM and the like.
I/O: files, and what the signers do.

Imported only if such a key or signer is configured, as securesystemslib loads slowly. A public key has one of two
forms:

- [pem] PEM. Its key id is the one that securesystemslib computes, so that stock verifiers find it.
- [json] securesystemslib's JSON, `Key.to_dict()` with its `keyid`. It is for keys without a PEM form, such as
  sigstore's (an identity and its issuer) and GnuPG's, and for schemes that PEM can't express.

A signature's extra members are passed to the key. Ordinary keys verify only the bytes, so a signature by one of these
may have no extra members. A signer is made in this order:

- [public-key] The public key is read.
- [file] A private key in a file (`file2:PATH`) is read here. It is refused if others can read it, or if it does not
  belong to the public key.
- [other-schemes] A signer with any other scheme is opened by securesystemslib, if the extra for it is installed. A PIN
  comes from the environment. The signer is opened only when it first signs, after any fork: connections and HSM modules
  don't survive one. Before that, a trial in a separate process shows whether it can sign. If the signer hangs or
  crashes there, the gateway doesn't.

Each signature is verified, as stored, before it is used: a signer with the wrong key can't break the log.
"""

import binascii
import multiprocessing
import os
import threading
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import metadata
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol, cast

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from securesystemslib.exceptions import UnsupportedLibraryError, UnverifiedSignatureError, VerificationError
from securesystemslib.signer import (
    KEY_FOR_TYPE_AND_SCHEME,  # pyright: ignore[reportPrivateImportUsage]
    SIGNER_FOR_URI_SCHEME,  # pyright: ignore[reportPrivateImportUsage]
    CryptoSigner,  # pyright: ignore[reportPrivateImportUsage]
    Key,  # pyright: ignore[reportPrivateImportUsage]
    Signer,  # pyright: ignore[reportPrivateImportUsage]
    SigstoreKey,  # pyright: ignore[reportPrivateImportUsage]
    SigstoreSigner,  # pyright: ignore[reportPrivateImportUsage]
    SSlibKey,  # pyright: ignore[reportPrivateImportUsage]
)
from securesystemslib.signer import (
    Signature as PeerSignature,  # pyright: ignore[reportPrivateImportUsage]
)

from accredit.attest import RecordKey, RecordSigner, Signature, signature_members
from accredit.errors import AttestationError, ConfigurationError, StoreUnavailable, WireError
from accredit.keys.files import read_file
from accredit.keys.load import check_private
from accredit.limits import MAX_PEM_BYTES
from accredit.ratify.strict_json import parse

_PEM_BEGINS = b"-----BEGIN"

_FOREIGN_KEY_ERRORS = (ValueError, TypeError, KeyError, AttributeError, UnsupportedAlgorithm)
"""The exceptions of securesystemslib for invalid keys. A TypeError is for a private key with a password."""

_SIGSTORE = (SigstoreKey.DEFAULT_KEY_TYPE, SigstoreKey.DEFAULT_SCHEME)
"""Sigstore's key type and scheme. securesystemslib does not register them by default, as the format is new."""

SIGNER_TRIAL_SECONDS = 30.0
"""How long a signer of records may take for its first signature, at the start. Connecting and signing in to a remote
service takes some seconds."""


SECRET_VARIABLE = "ACCREDIT_SIGNER_SECRET"  # noqa: S105 - its name
"""The environment variable with the PIN or passphrase of a signer that asks for one."""

_REACHABLE = "see that the service behind it can be reached, and that what it needs is installed as a whole"

TRIAL = b"accredit: a trial of the signer of records, which says nothing else"
"""The message of a trial signature. It can't be taken for a record: those begin with `DSSEv1`."""


def load_record_key(path: Path) -> RecordKey:
    """Return a signer's public key, to verify records with. Raises `ConfigurationError`."""
    key = _load_peer_key(path)
    return RecordKey(key.keyid, partial(_check_signature, key))


def _load_peer_key(path: Path) -> Key:
    """Return the key as securesystemslib's type. Raises `ConfigurationError`."""
    data = read_file(path, MAX_PEM_BYTES).data
    try:
        return SSlibKey.from_crypto(load_pem_public_key(data)) if data.startswith(_PEM_BEGINS) else _from_json(data)
    except (WireError, *_FOREIGN_KEY_ERRORS):
        raise ConfigurationError(
            f"{path} is not a public key that signs, neither in PEM nor as JSON of securesystemslib",
            "name one of Ed25519, ECDSA P-256 or the like in PEM, or what Key.to_dict() says, with its keyid",
        ) from None


def _keeps_members(key: Key) -> bool:
    """Return whether a key also verifies a signature's extra members. Ordinary keys verify only the bytes."""
    return type(key) is not SSlibKey


def _check_signature(key: Key, signature: Signature, message: bytes) -> None:
    """Check a signature with all its members. Raises `AttestationError`."""
    if signature.members and not _keeps_members(key):
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


class _Opens(Protocol):
    def from_priv_key_uri(
        self, priv_key_uri: str, public_key: Key, secrets_handler: Callable[[str], str] | None = None
    ) -> Signer: ...


def load_record_signer(uri: str, public_key_file: Path, folder: Path) -> RecordSigner:
    """Return the signer at a URI. A relative `file2:PATH` is a path within `folder`. Raises `ConfigurationError`.

    A key file is read now. Any other signer is opened when it first signs.
    """
    key, opened = _signer(uri, public_key_file, folder)
    return RecordSigner(key.keyid, _Signing(key, opened).sign, partial(_check_signature, key))


def sign_trial(uri: str, public_key_file: Path, folder: Path) -> None:
    """Open the signer and let it sign `TRIAL`. Raises `ConfigurationError`, which says why it can't be used."""
    key, opened = _signer(uri, public_key_file, folder)
    scheme, signer = uri.partition(":")[0], opened()
    try:
        _sign(signer, key, TRIAL)
    except AttestationError as error:
        raise ConfigurationError(
            f"attest.signer: what the {scheme}: signer signs does not verify: {error}",
            "see that attest.signer_public_key_file is the public key of attest.signer",
        ) from None
    except Exception as error:  # a signer may raise anything, with anything in its text
        raise ConfigurationError(
            f"attest.signer: the {scheme}: signer can be opened and does not sign ({type(error).__name__})",
            "see that the gateway is permitted to sign with this key, and that the service can be reached",
        ) from None


class _Signing:
    """Makes signatures, in one thread at a time. After a failure the signer is opened anew."""

    def __init__(self, key: Key, opened: Callable[[], Signer]) -> None:
        self._key = key
        self._opened = opened
        self._signer: Signer | None = None

    def sign(self, message: bytes) -> Signature:
        """Return a signature, after verifying it. Raises `StoreUnavailable`."""
        signer, self._signer = self._signer, None
        try:
            signer = self._opened() if signer is None else signer
            signature = _sign(signer, self._key, message)
        except AttestationError as error:
            raise StoreUnavailable(f"the signer of records has failed: {error}") from None
        except BaseException as error:  # a signer may raise anything, also what would end this thread
            raise StoreUnavailable(f"the signer of records has failed ({type(error).__name__})") from None
        self._signer = signer
        return signature


def _sign(signer: Signer, key: Key, message: bytes) -> Signature:
    made = signer.sign(message)
    members = signature_members(made.unrecognized_fields) if _keeps_members(key) else b""
    signature = Signature(key.keyid, _raw(made.signature), members)
    _check_signature(key, signature, message)
    return signature


def _raw(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:  # sigstore's signer gives base64
        return binascii.a2b_base64(text, strict_mode=True)


def _signer(uri: str, public_key_file: Path, folder: Path) -> tuple[Key, Callable[[], Signer]]:
    key = _load_peer_key(public_key_file)
    scheme, _, place = uri.partition(":")
    if scheme == CryptoSigner.SCHEME:
        signer = _open_file(folder / place, key)
        return key, lambda: signer
    # securesystemslib does not register sigstore's signer by default, as its format is new.
    known = cast("Mapping[str, _Opens]", {SigstoreSigner.SCHEME: SigstoreSigner, **SIGNER_FOR_URI_SCHEME})
    if scheme not in known:
        raise ConfigurationError(
            "attest.signer: its scheme is not known", f"name a URI of one of these: {', '.join(sorted(known))}"
        )
    return key, partial(_open, known[scheme], uri, key)


def _open(kind: _Opens, uri: str, key: Key) -> Signer:
    scheme = uri.partition(":")[0]
    try:
        return kind.from_priv_key_uri(uri, key, _secret)
    except ConfigurationError:
        raise
    except UnsupportedLibraryError:
        extras = ", ".join(metadata("securesystemslib").get_all("Provides-Extra") or ())
        raise ConfigurationError(
            f"attest.signer: what {scheme}: needs is not installed",
            f"install the extra of securesystemslib that it belongs to, such as securesystemslib[hsm]: {extras}",
        ) from None
    except Exception as error:  # a signer may raise anything, with anything in its text
        raise ConfigurationError(
            f"attest.signer: the {scheme}: signer can't be opened ({type(error).__name__})",
            "see that the URI and the public key belong together, and that the service can be reached",
        ) from None


def _open_file(path: Path, key: Key) -> Signer:
    content = read_file(path, MAX_PEM_BYTES)
    check_private(path, content)
    try:
        private = load_pem_private_key(content.data, password=None)
    except _FOREIGN_KEY_ERRORS:
        raise ConfigurationError(
            f"{path} is not a private key in PEM without a password", "name one of Ed25519 or ECDSA P-256"
        ) from None
    try:
        signer = CryptoSigner(private, key if isinstance(key, SSlibKey) else None)
        _sign(signer, key, TRIAL)
    except (AttestationError, *_FOREIGN_KEY_ERRORS):
        raise ConfigurationError(
            f"{path} is not the private key of attest.signer_public_key_file", "name the two halves of one key"
        ) from None
    return signer


def _secret(name: str) -> str:
    secret = os.environ.get(SECRET_VARIABLE)
    if secret is None:
        raise ConfigurationError(
            f"attest.signer asks for a secret, and {SECRET_VARIABLE} is not set", f"put it into {SECRET_VARIABLE}"
        )
    return secret


def try_signer(uri: str, public_key_file: Path, folder: Path) -> None:
    """Let the signer sign once, in another process, and verify the signature. Raises `ConfigurationError` with the
    reason if that fails."""
    # With other threads running, a fork would inherit their held locks.
    alone = threading.active_count() == 1
    context = multiprocessing.get_context("fork") if alone else multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_try, args=(theirs, uri, public_key_file, folder), daemon=True)
    process.start()
    theirs.close()
    scheme = uri.partition(":")[0]
    try:
        if not ours.poll(SIGNER_TRIAL_SECONDS):
            raise ConfigurationError(
                f"attest.signer: the {scheme}: signer has not signed in {SIGNER_TRIAL_SECONDS:g} s", _REACHABLE
            )
        fault: tuple[str, str] | None = ours.recv()
    except EOFError:
        raise ConfigurationError(f"attest.signer: the {scheme}: signer has crashed its process", _REACHABLE) from None
    finally:
        process.kill()
        process.join()
        ours.close()
    if fault is not None:
        raise ConfigurationError(*fault)


def _try(answer: Connection, uri: str, public_key_file: Path, folder: Path) -> None:
    os.dup2(2, 1)  # what it prints goes to stderr: stdout may be a conversation
    try:
        sign_trial(uri, public_key_file, folder)
    except ConfigurationError as error:
        answer.send((error.what, error.remedy))
    except BaseException:  # its text could hold anything, so it is not logged
        os._exit(1)
    else:
        answer.send(None)
