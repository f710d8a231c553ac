"""How long a test waits where the product would give up: a machine that stalls for seconds has no defect. No I/O.

In a gateway a disk or a lock that takes two seconds is a refusal. A test that is about such a refusal says itself, with
`monkeypatch`, how soon it comes.
"""

import sys
from collections.abc import Mapping
from importlib import import_module

SECONDS = {
    "accredit.limits.STORE_LOCK_SECONDS": 30.0,
    "accredit.limits.STORE_WAIT_SECONDS": 40.0,
    "accredit.stores.postgres.driver.STORE_CONNECT_SECONDS": 30.0,
    "accredit.stores.audit_log.queue.CLOSE_RECORDS_SECONDS": 30.0,
}


def be_patient() -> None:
    """Makes the stores of this process wait."""
    change_limits(SECONDS)


def change_limits(changed: Mapping[str, float]) -> None:
    """Gives limits of this process other values, whether the modules that use them are loaded or will be later."""
    for path, value in changed.items():
        home, _, name = path.rpartition(".")
        kind = type(getattr(import_module(home), name))
        for module in [found for path, found in sys.modules.items() if path.startswith("accredit.")]:
            if hasattr(module, name):
                setattr(module, name, kind(value))
