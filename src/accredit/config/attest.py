"""Builds the settings for recording calls, and the gateway's identity, from `[attest]`. Reads the keys.

Checked in this order; each failure is a `ConfigurationError` that names the setting at fault:

- where calls are recorded, the gateway has a private key (see below). Where they are not, `attest.key_file` may still
  name a key; that key must be readable by its owner only;
- where `attest.signer` is set, the signer of records exists, and so does its public key, whose id no other key has;
- `attest.public_key_files` are public keys of gateways;
- the store is a file or a database: a log in memory would have nothing to show later;
- the gateway has an id: `[gateway] id`, else that of its key. The key is `attest.key_file`, else `gateway.key` beside
  the configuration file.

Without a configuration file there is no key beside it: a key that happens to lie in the current folder is not used.
"""

import shlex
from pathlib import Path

from msgspec.structs import replace

from accredit.attest import LogKey, LogSigner, RecordSigner
from accredit.config.digest import policy_digest
from accredit.config.load import Loaded
from accredit.config.store import store_of
from accredit.errors import ConfigurationError
from accredit.gateway.settings import RecordSettings
from accredit.keys import is_there, load_log_signer, load_public_key, load_signing_key, log_key, read_key

GATEWAY_KEY_FILE = "gateway.key"
"""The gateway's own key, in the configuration's folder."""


def build_records(loaded: Loaded) -> RecordSettings | None:
    """Return what is recorded, or None if nothing is. Raises `ConfigurationError`."""
    attest = loaded.config.attest
    if attest.mode == "off":
        if attest.key_file is not None and is_there(Path(attest.key_file)):
            read_key(Path(attest.key_file))  # refuses a key that others can read, used or not
        return None
    build_log_signer(loaded)
    trusted_log_keys(loaded)
    if store_of(loaded).lasting is None:
        raise ConfigurationError(
            f'attest.mode is "{attest.mode}" and store.url is memory:, where no record outlives the process',
            'set store.url = "sqlite:///accredit.db", or attest.mode = "off"',
        )
    return RecordSettings(
        gateway_id(loaded),
        full=attest.arguments == "full",
        policy_digest=policy_digest(loaded),
        keeps_proofs=attest.proofs == "keep",
    )


def build_log_signer(loaded: Loaded) -> LogSigner:
    """Return the signer of the log. Processes forked from this one may use it, too. Raises `ConfigurationError`."""
    signer, records = load_log_signer(_log_key_file(loaded)), _record_signer(loaded)
    if records is not None and records.id == signer.id:
        raise ConfigurationError(
            "attest.signer_public_key_file: its keyid is the gateway's own id", "give the key a keyid of its own"
        )
    return replace(signer, records=records)


def trusted_log_keys(loaded: Loaded) -> tuple[LogKey, ...]:
    """Return the keys of other gateways that sign the same log. Raises `ConfigurationError`."""
    keys: list[LogKey] = []
    for name in loaded.config.attest.public_key_files:
        key = load_public_key(Path(name))
        if key.kind != "gateway":
            raise ConfigurationError(
                f"attest.public_key_files: {name} is of {key.name}, a {key.kind}: gateways sign the log",
                "name the public halves of gateways' keys, such as old.gateway.key.pub",
            )
        keys.append(log_key(key))
    return tuple(keys)


def try_record_signer(loaded: Loaded) -> None:
    """Have the signer of records, if there is one, sign once as a trial, in a forked process. Raises
    `ConfigurationError`."""
    named = _named_signer(loaded)
    if named is not None:
        from accredit.keys.record_signers import try_signer  # noqa: PLC0415 - securesystemslib is slow to load

        try_signer(*named)


def _record_signer(loaded: Loaded) -> RecordSigner | None:
    named = _named_signer(loaded)
    if named is None:
        return None
    from accredit.keys.record_signers import load_record_signer  # noqa: PLC0415 - securesystemslib is slow to load

    return load_record_signer(*named)


def _named_signer(loaded: Loaded) -> tuple[str, Path, Path] | None:
    attest = loaded.config.attest
    if attest.signer is None and attest.signer_public_key_file is None:
        return None
    if attest.signer is None or attest.signer_public_key_file is None:
        raise ConfigurationError(
            "attest.signer and attest.signer_public_key_file belong together, and one of them is not set",
            'set both, such as signer = "file2:records.pem" and signer_public_key_file = "records.pem.pub"',
        )
    return attest.signer, Path(attest.signer_public_key_file), loaded.folder_of(("attest", "signer"))


def _log_key_file(loaded: Loaded) -> Path:
    """Return the path of the key that signs the log. Raises `ConfigurationError` if none is configured, or if the file
    is missing."""
    name, path = loaded.config.attest.key_file, own_key_file(loaded)
    if path is not None and is_there(path):
        return path
    if name is None:
        raise ConfigurationError(
            f'attest.mode is "{loaded.config.attest.mode}" and attest.key_file is not set: who signs the records?',
            f'accredit keys new {GATEWAY_KEY_FILE} --kind gateway, and set attest.key_file = "{GATEWAY_KEY_FILE}"',
        )
    raise ConfigurationError(
        f"attest.key_file: there is no {name}",
        f"accredit keys new {shlex.quote(name)} --kind gateway makes it",
    )


def own_key_file(loaded: Loaded) -> Path | None:
    """Return the path of the gateway's key: `attest.key_file`, else `gateway.key` beside the configuration file."""
    named = loaded.config.attest.key_file
    return Path(named) if named is not None else loaded.beside(GATEWAY_KEY_FILE)


def verifier_id(loaded: Loaded) -> str:
    """Return the id that proofs are bound to: the gateway's or, for one of several servers, `GATEWAY/SERVER`. Raises
    `ConfigurationError`."""
    return f"{gateway_id(loaded)}/{loaded.server}" if loaded.server else gateway_id(loaded)


def gateway_id(loaded: Loaded) -> str:
    """Return the gateway's id. Raises `ConfigurationError`."""
    if loaded.config.gateway.id is not None:
        return loaded.config.gateway.id
    path = own_key_file(loaded)
    if path is None or not is_there(path):
        raise ConfigurationError(
            f"gateway.id is not set, and there is no {path or 'attest.key_file'} to take it from: proofs are made"
            " out to it",
            f"accredit keys new {GATEWAY_KEY_FILE} --kind gateway, or set gateway.id to a name that is used once",
        )
    key = load_signing_key(path).about
    if key.kind != "gateway":
        raise ConfigurationError(
            f"{path} is the key of {key.name}, which is of kind {key.kind}",
            f"move it away, and make the gateway's: accredit keys new {GATEWAY_KEY_FILE} --kind gateway",
        )
    return key.id
