"""Implements `accredit store`: creates, checks and marks a database. Reads the configuration."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from accredit.base.standard import is_for_programs
from accredit.base.terminal import two_lines
from accredit.base.text import date_time
from accredit.config.load import load
from accredit.config.store import store_of
from accredit.errors import ConfigurationError, StoreUnavailable
from accredit.stores import PostgresDatabase, parse_store_url
from accredit.stores.postgres import migration
from accredit.stores.postgres.driver import LOCK_NOT_AVAILABLE
from accredit.stores.postgres.session import SchemaUnknown
from accredit.terminal.output import print_result, say, tell
from accredit.terminal.progress import Progress

_T = TypeVar("_T")
_REMEDY = "look whether it runs, and whether this user may do that: --store postgresql://ADMIN@HOST/DATABASE"
_LOCKED = "nothing is changed: try again once whoever holds a table is done (pg_dump, accredit log verify)"


def migrate_store(store: str | None, config: Path | None) -> int:
    """Create the tables and roles that are missing; return the exit code. Raises `ConfigurationError`."""
    database = _database(store, config)
    done = _run_on_database(migration.migrate, database, "making tables and indexes")
    if done.before is not None and done.before > done.known:
        raise ConfigurationError(
            f"{database.name} has tables of schema {done.before}, and {done.known} is the latest that is known here",
            "install the accredit that made them",
        )
    print_result({"before": done.before, "after": done.known, "left_over": list(done.left_over)})
    if done.before == done.known:
        say(f"{database.name} has schema {done.known}: no table is changed")
    else:
        say(f"{database.name} has schema {done.known} now")
    if done.left_over and not is_for_programs():
        tell("this user may not do all that is left: let somebody run these, who may")
        for statement in done.left_over:
            say(f"{statement};")
    return 0


def show_status(store: str | None, config: Path | None) -> int:
    """Print the schema's state; return the exit code, which is 1 as well if the database does not answer. Raises
    `ConfigurationError`."""
    database = _database(store, config)
    try:
        there = _run_on_database(migration.status, database, "asking the database")
    except ConfigurationError as error:
        click.echo(two_lines(error.what, error.remedy), err=True)
        return 1
    found, known, _ = there
    print_result({"schema": found, "known": known, "current": found == known, "serves": there.serves})
    if found == known:
        say(f"{database.name} has schema {found}, which is current")
    elif found is None:
        say(f"{database.name} has no tables of accredit: `accredit store migrate` makes them")
    elif there.serves:
        say(f"{database.name} has schema {found}: gateways of this version run on it. Once all are of this version,")
        say(f"`accredit store migrate` makes {known} of it")
    else:
        say(f"{database.name} has schema {found}, and {known} is the one that is known here")
    return 0 if found == known else 1


def mark_restored(store: str | None, config: Path | None) -> int:
    """Have gateways refuse proofs for some minutes, after the database was restored from a backup; return the exit
    code. Raises `ConfigurationError`."""
    database = _database(store, config)
    until = _run_on_database(migration.hold_after_restore, database, "asking the database")
    print_result({"not_before": until})
    say(f"{database.name}: proofs are refused until {date_time(until)}")
    return 0


def _database(store: str | None, config: Path | None) -> PostgresDatabase:
    url = store_of(load(config, os.environ, {})) if store is None else parse_store_url(store, Path.cwd())
    if url.as_database is None:
        raise ConfigurationError(
            "the store is no PostgreSQL database: it needs nothing of this",
            "name one with --store postgresql://USER@HOST/DATABASE, or its configuration with --config",
        )
    return url.as_database


def _run_on_database(action: Callable[[PostgresDatabase], _T], database: PostgresDatabase, what: str) -> _T:
    try:
        with Progress(what):
            return action(database)
    except SchemaUnknown as error:
        raise ConfigurationError(
            str(error), "restore a backup into an empty database; `accredit store migrate` makes tables in a new one"
        ) from None
    except StoreUnavailable as error:
        is_locked = getattr(error, "sqlstate", None) == LOCK_NOT_AVAILABLE
        raise ConfigurationError(str(error), _LOCKED if is_locked else _REMEDY) from None
