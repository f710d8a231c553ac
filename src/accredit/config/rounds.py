"""Builds the keys that seal `requestState` and sessions' ids, from `[rounds]` and `[cluster]`. Reads the file of keys,
once, at the start.

- Nobody but the file's owner has any permission on it.
- It holds valid keys (`accredit.rounds.sealing.parse_keys`).
- `cluster.keys_file` and its old name, `rounds.keys_file`, are not both set. If several machines share the store, one
  of the two is set: without shared keys, no gateway could open another's states and session ids.

If no file is set, a key is made that lives as long as this process and its forks.
"""

import shlex
from pathlib import Path

from accredit.config.load import Loaded
from accredit.config.sources import secret_file
from accredit.config.store import store_of
from accredit.errors import ConfigurationError
from accredit.gateway.settings import RoundsSettings
from accredit.keys import is_there
from accredit.limits import MAX_KEY_FILE_BYTES
from accredit.rounds import KeyRing, parse_keys


def build_rounds(loaded: Loaded, own: KeyRing | None = None) -> RoundsSettings:
    """Return how `requestState` is sealed: with the keys in the configured file, else with `own` if given, else with a
    new key. Raises `ConfigurationError`, which does not quote the file."""
    rounds, cluster = loaded.config.rounds, loaded.config.cluster
    if rounds.keys_file is not None and cluster.keys_file is not None:
        raise ConfigurationError(
            "cluster.keys_file and rounds.keys_file are both set, and mean the same", "take rounds.keys_file out"
        )
    name = cluster.keys_file or rounds.keys_file
    if name is not None:
        key = "cluster.keys_file" if cluster.keys_file is not None else "rounds.keys_file"
        return RoundsSettings(_ring(Path(name), key), rounds.state_seconds, shared=True)
    if store_of(loaded).is_shared:
        raise ConfigurationError(
            "store.url is for many gateways, and cluster.keys_file is not set: none could go on for another",
            "(umask 077; openssl rand -base64 32 > cluster.keys), give it to each gateway, and set cluster.keys_file",
        )
    if own is not None:
        return RoundsSettings(own, rounds.state_seconds)
    return RoundsSettings(state_seconds=rounds.state_seconds)


def _ring(path: Path, key: str) -> KeyRing:
    if not is_there(path):
        raise ConfigurationError(
            f"{key}: there is no {path}",
            f"(umask 077; openssl rand -base64 32 > {shlex.quote(str(path))}) makes it",
        )
    return parse_keys(secret_file(path, key, MAX_KEY_FILE_BYTES).decode("utf-8", "replace"), key)
