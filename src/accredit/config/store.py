"""Builds the store that `[store]` names. Looks at files.

Checked in this order; each failure is a `ConfigurationError`, which never quotes a database's URL:

- the URL names a store of a kind that is known and installed. If it is a file, its folder exists;
- with a PostgreSQL database, `store.replicas` is set: it says whether a commit waits for another machine, which the
  operator must decide before a failover. Without a database, no key is set that only a database uses;
- nobody but its owner may read a file with a password.
"""

from msgspec.structs import replace

from accredit.config.load import Loaded, folder_of
from accredit.config.sources import secret_file
from accredit.errors import ConfigurationError
from accredit.limits import MAX_PASSWORD_BYTES, MAX_SPENT_IN_DATABASE
from accredit.stores import PostgresDatabase, StoreUrl, parse_store_url


def store_of(loaded: Loaded) -> StoreUrl:
    """Return the store that is configured. Raises `ConfigurationError`."""
    store = loaded.config.store
    url = parse_store_url(store.url, folder_of(loaded, ("store", "url")))
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


def _with_password(url: PostgresDatabase, loaded: Loaded) -> PostgresDatabase:
    password = loaded.config.store.password
    if password is None:
        return url
    path = folder_of(loaded, ("store", "password")) / password.file
    secret_file(path, "store.password", MAX_PASSWORD_BYTES)
    return replace(url, password_file=path)
