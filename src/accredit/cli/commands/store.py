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
    """Makes the tables that are missing, and the roles accredit_gateway and accredit_admin; repeats nothing.

    Where this user may not make roles or give rights, the SQL for somebody who may is printed.

    Example:

    accredit store migrate --store postgresql://admin@db.example/accredit
    """
    from accredit.cli.actions.store import migrate_store

    return migrate_store(store, config, as_json=as_json)


@store_app.command()
def status(store: _StoreOption = None, config: ConfigOption = None, as_json: JsonOption = False) -> int:
    """Says whether the tables are those that this version knows: exit code 0, else 1.

    Example:

    accredit store status --config accredit.toml
    """
    from accredit.cli.actions.store import show_status

    return show_status(store, config, as_json=as_json)


@store_app.command()
def restored(store: _StoreOption = None, config: ConfigOption = None, as_json: JsonOption = False) -> int:
    """After a backup was restored: proofs are refused for five minutes, as what was spent since is good again.

    Example:

    accredit store restored --store postgresql://admin@db.example/accredit
    """
    from accredit.cli.actions.store import mark_restored

    return mark_restored(store, config, as_json=as_json)
