"""`accredit store migrate|status|restored`: the tables of a store in PostgreSQL."""

# ruff: noqa: PLC0415 - what asks a database is loaded when it runs: `accredit --help` is quick without it

from typing import Annotated

import typer

from accredit.cli.options import ConfigOption, JsonOption

store_app = typer.Typer(
    help="Looks after a store in PostgreSQL.",
    epilog="Example:  accredit store migrate --store postgresql://admin@db.example/accredit",
)
_StoreOption = Annotated[
    str | None,
    typer.Option("--store", metavar="URL", help="postgresql://USER@HOST/DATABASE; else the configuration's."),
]


@store_app.command()
def migrate(store: _StoreOption = None, config: ConfigOption = None, as_json: JsonOption = False) -> int:
    """Creates missing tables, and the roles accredit_gateway and accredit_admin; safe to repeat.

    If this user may not create roles or grant rights, the SQL for an administrator is printed.

    Example:

    accredit store migrate --store postgresql://admin@db.example/accredit
    """
    from accredit.cli.actions.store import migrate_store

    return migrate_store(store, config, as_json=as_json)


@store_app.command()
def status(store: _StoreOption = None, config: ConfigOption = None, as_json: JsonOption = False) -> int:
    """Tells whether the tables fit this version: exit code 0, else 1.

    Example:

    accredit store status --config accredit.toml
    """
    from accredit.cli.actions.store import show_status

    return show_status(store, config, as_json=as_json)


@store_app.command()
def restored(store: _StoreOption = None, config: ConfigOption = None, as_json: JsonOption = False) -> int:
    """To run after restoring a backup: refuses proofs for five minutes, as those used since the backup are valid
    again.

    Example:

    accredit store restored --store postgresql://admin@db.example/accredit
    """
    from accredit.cli.actions.store import mark_restored

    return mark_restored(store, config, as_json=as_json)
