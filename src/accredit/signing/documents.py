"""Reads files that are given to commands. Raises `ConfigurationError` for a file of the wrong kind."""

from pathlib import Path
from typing import TypeVar, cast

from accredit.attest import CallBundle, decode_call_bundle, decode_envelope
from accredit.errors import AttestationError, ConfigurationError, WireError
from accredit.keys import DelegationFile, KeyFile, read_file, read_key
from accredit.limits import MAX_STATEMENT_BYTES
from accredit.ratify import DelegationCert, ProofBundle, RevocationList
from accredit.ratify.strict_json import parse
from accredit.ratify.wire import WireObject

DelegationDocument = KeyFile | DelegationFile | ProofBundle | RevocationList
_Document = DelegationDocument | CallBundle
_Kind = TypeVar("_Kind", bound=WireObject)

_NAMES: dict[type[WireObject], str] = {
    DelegationFile: "a delegation",
    ProofBundle: "a proof",
    RevocationList: "a revocation list",
    DelegationCert: "a delegation certificate",
}


def read_document(path: Path) -> _Document:
    """Read a file of any kind; its members show which kind it is. A single certificate is read as a chain of one."""
    data = read_file(path, MAX_STATEMENT_BYTES).data
    try:
        tree = parse(data, MAX_STATEMENT_BYTES)
    except WireError as error:
        raise ConfigurationError(f"{path} is not JSON: {error.reason}", _WHAT_CAN_BE_READ) from None
    members = cast("dict[str, object]", tree) if isinstance(tree, dict) else {}
    if "accredit_key" in members:
        return read_key(path).public()
    if "challenge" in members:
        return _decode(path, data, ProofBundle)
    if "delegations" in members:
        return _decode(path, data, DelegationFile)
    if "payloadType" in members or "envelopes" in members:
        return _decode_attestation(path, data, bundle="envelopes" in members)
    if "revoked_certs" in members:
        return _decode(path, data, RevocationList)
    if "cert_id" in members:
        return DelegationFile((_decode(path, data, DelegationCert),))
    raise ConfigurationError(f"{path} holds nothing that accredit knows", _WHAT_CAN_BE_READ)


_WHAT_CAN_BE_READ = (
    "name a key, a delegation, a proof, a token, a revocation list or an attestation"
    " (`accredit log verify` reads what `accredit log export` wrote, `accredit token verify` a token's key)"
)


def _decode_attestation(path: Path, data: bytes, *, bundle: bool) -> CallBundle:
    """Read an attestation. A single envelope is read as a bundle of one."""
    try:
        return decode_call_bundle(data) if bundle else CallBundle((decode_envelope(data),))
    except AttestationError as error:
        raise ConfigurationError(
            f"{path} is no attestation: {error}", "name a file that `accredit log export` wrote"
        ) from None


def read_delegations(path: Path) -> tuple[DelegationCert, ...]:
    """Return the chain in a delegation file, leaf first. Nothing in it is verified here."""
    return _read(path, DelegationFile).delegations


def read_revocations(path: Path) -> RevocationList:
    """Return a revocation list. Its signature is not verified here."""
    return _read(path, RevocationList)


def _read(path: Path, kind: type[_Kind]) -> _Kind:
    return _decode(path, read_file(path, MAX_STATEMENT_BYTES).data, kind)


def _decode(path: Path, data: bytes, kind: type[_Kind]) -> _Kind:
    try:
        return kind.decode(data)
    except WireError as error:
        what = str(error).removeprefix("wire: ")
        raise ConfigurationError(
            f"{path} is not {_NAMES[kind]}: {what}", f"name a file that holds {_NAMES[kind]}"
        ) from None
