"""The log's signers and their public keys, from key files. Reads one file.

A gateway signs each record with only the Ed25519 half of its key, which `HybridSigner` does not do.
"""

from pathlib import Path

from accredit.attest import LogKey, LogSigner
from accredit.errors import ConfigurationError
from accredit.keys.formats import KeyFile, PrivateKeyFile
from accredit.keys.load import read_key


def log_signer(key: PrivateKeyFile) -> LogSigner:
    """Return the signer of the log for a key."""
    return LogSigner(key.id, key.seed.ed25519, key.seed.ml_dsa_65)


def log_key(key: KeyFile) -> LogKey:
    """Return the key that verifies its holder's log."""
    return LogKey(key.id, key.public_key.ed25519, key.public_key.ml_dsa_65)


def load_log_signer(path: Path) -> LogSigner:
    """Read a gateway's private key file, ready to sign the log. Raises `ConfigurationError`."""
    key = read_key(path)
    if not isinstance(key, PrivateKeyFile):
        raise ConfigurationError(
            f"{path} is {key.name}'s public key, which can't sign",
            "name the private key: the same path without .pub",
        )
    if key.kind != "gateway":
        raise ConfigurationError(
            f"{path} is the key of {key.name}, a {key.kind}, and a gateway signs the log",
            "make one with `accredit keys new gateway.key --kind gateway`",
        )
    return log_signer(key)
