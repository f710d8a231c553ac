"""Builds what processes and gateways share: the store of `[store]`, and the keys of `[rounds]` and `[cluster]`, which
seal `requestState` and sessions' ids. Looks at files, and reads that of the keys once, at the start.

Checked in this order; each failure is a `ConfigurationError`, which never quotes a database's URL or a file:

- the URL names a store of a kind that is known and installed. If it is a file, its folder exists;
- with a PostgreSQL database, `store.replicas` is set: it says whether a commit waits for another machine, which the
  operator must decide before a failover. Without a database, no key is set that only a database uses;
- nobody but its owner may read a file with a password, or with keys; keys are valid (`rounds.sealing.parse_keys`);
- `cluster.keys_file` and its old name, `rounds.keys_file`, are not both set. If several machines share the store, one
  of the two is set: without shared keys, no gateway could open another's states and session ids. If none is set, a key
  is made that lives as long as this process and its forks.
"""

import shlex
from pathlib import Path

from msgspec.structs import replace

from accredit import stores
from accredit.config.load import Loaded
from accredit.config.sources import secret_file
from accredit.errors import ConfigurationError
from accredit.gateway.settings import RoundsSettings
from accredit.keys import is_there
from accredit.limits import MAX_KEY_FILE_BYTES, MAX_PASSWORD_BYTES, MAX_SPENT_IN_DATABASE
from accredit.rounds import KeyRing, parse_keys
from accredit.stores import parse_store_url


def store_of(loaded: Loaded) -> "stores.StoreUrl":
    """Return the store that is configured. Raises `ConfigurationError`."""
    store = loaded.config.store
    url = parse_store_url(store.url, loaded.folder_of(("store", "url")))
    database = url.as_database
    if database is None:
        only = next((key for key in ("replicas", "max_spent", "password") if getattr(store, key) is not None), None)
        if only is not None:
            raise ConfigurationError(
                f"store.{only} is set, and store.url is no PostgreSQL database", f"take store.{only} out"
            )
        return url
    if store.replicas is None:
        raise ConfigurationError(
            "store.url is a PostgreSQL database, and store.replicas is not set: what may a failover lose?",
            'set store.replicas = "required" if it has a synchronous standby, else "none"',
        )
    return replace(
        _with_password(database, loaded), replicas=store.replicas, max_spent=store.max_spent or MAX_SPENT_IN_DATABASE
    )


def check_workers_share(loaded: Loaded, workers: int, what: str) -> None:
    """Check that there is one worker, or a store that all share. `what` says what several stores would do. Raises
    `ConfigurationError`."""
    if workers > 1 and store_of(loaded).lasting is None:
        raise ConfigurationError(
            f"store.url is memory:, and {workers} workers with one each would {what} {workers} times",
            'set store.url = "sqlite:///accredit.db", or leave out --workers',
        )


def _with_password(url: "stores.PostgresDatabase", loaded: Loaded) -> "stores.PostgresDatabase":
    password = loaded.config.store.password
    if password is None:
        return url
    path = Path(password.file)
    secret_file(path, "store.password", MAX_PASSWORD_BYTES)
    return replace(url, password_file=path)


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
