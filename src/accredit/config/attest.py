"""From `[attest]` to what is recorded, and who the gateway is. Reads the gateway's key.

In this order; each failure is a `ConfigurationError` that names its key:

1. a key that signs, of a gateway: where calls are recorded, `attest.key_file` names it;
2. a store that is a file: a log in memory would show nothing later;
3. the gateway's id: `[gateway] id`, else that of its key, which is `attest.key_file` or `gateway.key` beside the file.
"""

import shlex
from pathlib import Path

from accredit.config.load import Loaded
from accredit.config.problems import one_line
from accredit.errors import ConfigurationError
from accredit.gateway.settings import RecordSettings
from accredit.keys import load_log_signer, load_signing_key

GATEWAY_KEY_FILE = "gateway.key"
"""The gateway's own key, in the configuration's folder (contract, section 10)."""


def build_records(loaded: Loaded) -> RecordSettings | None:
    """What is recorded, or None where nothing is. Raises `ConfigurationError`."""
    attest = loaded.config.attest
    if attest.mode == "off":
        return None
    load_log_signer(log_key_file(loaded))
    if loaded.config.store.url == "memory:":
        raise ConfigurationError(
            f'attest.mode is "{attest.mode}" and store.url is memory:, where no record outlives the process',
            'set store.url = "sqlite:///accredit.db", or attest.mode = "off"',
        )
    return RecordSettings(gateway_id(loaded), full=attest.arguments == "full")


def log_key_file(loaded: Loaded) -> Path:
    """The key that signs the log. Raises `ConfigurationError` where none is named, or there."""
    name = loaded.config.attest.key_file
    if name is None:
        raise ConfigurationError(
            f'attest.mode is "{loaded.config.attest.mode}" and attest.key_file is not set: who signs the records?',
            f'accredit keys new {GATEWAY_KEY_FILE} --kind gateway, and set attest.key_file = "{GATEWAY_KEY_FILE}"',
        )
    if not Path(name).exists():
        raise ConfigurationError(
            one_line(f"attest.key_file: there is no {name}"),
            one_line(f"accredit keys new {shlex.quote(name)} --kind gateway makes it"),
        )
    return Path(name)


def gateway_id(loaded: Loaded) -> str:
    """Rule 3. Raises `ConfigurationError`."""
    if loaded.config.gateway.id is not None:
        return loaded.config.gateway.id
    named = loaded.config.attest.key_file
    path = Path(named) if named is not None else _folder(loaded) / GATEWAY_KEY_FILE
    if not path.exists():
        raise ConfigurationError(
            one_line(f"gateway.id is not set, and there is no {path} to take it from: proofs are made out to it"),
            f"accredit keys new {GATEWAY_KEY_FILE} --kind gateway, or set gateway.id to a name that is used once",
        )
    key = load_signing_key(path).about
    if key.kind != "gateway":
        raise ConfigurationError(
            one_line(f"{path} is the key of {key.name}, which is of kind {key.kind}"),
            f"move it away, and make the gateway's: accredit keys new {GATEWAY_KEY_FILE} --kind gateway",
        )
    return key.id


def _folder(loaded: Loaded) -> Path:
    return loaded.file.parent if loaded.file else Path.cwd()
