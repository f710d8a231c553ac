"""`accredit store migrate|status|restored`: the tables of a store in PostgreSQL."""

from accredit.cli.declare import Command, Group, option
from accredit.cli.options import CONFIG, JSON

_STORE = option("--store", metavar="URL", help="postgresql://USER@HOST/DATABASE; else the configuration's.")

_migrate = Command(
    "migrate",
    """Creates missing tables, and the roles accredit_gateway and accredit_admin; safe to repeat.

    If this user may not create roles or grant rights, the SQL for an administrator is printed.

    Example:

    accredit store migrate --store postgresql://admin@db.example/accredit
    """,
    [
        _STORE,
        CONFIG,
        JSON,
    ],
    run="accredit.ops.store:migrate_store",
)

_status = Command(
    "status",
    """Says whether the tables fit this version: exit code 0, else 1.

    Example:

    accredit store status --config accredit.toml
    """,
    [
        _STORE,
        CONFIG,
        JSON,
    ],
    run="accredit.ops.store:show_status",
)

_restored = Command(
    "restored",
    """Refuses proofs for five minutes. Run it after you have restored a backup: proofs that were used since would be
    valid again.

    Example:

    accredit store restored --store postgresql://admin@db.example/accredit
    """,
    [
        _STORE,
        CONFIG,
        JSON,
    ],
    run="accredit.ops.store:mark_restored",
)

store = Group(
    "store",
    "Looks after a store in PostgreSQL.",
    [_migrate, _status, _restored],
    example="accredit store migrate --store postgresql://admin@db.example/accredit",
)
