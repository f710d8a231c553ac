"""`accredit`, whose logs take a silent writer for dead after a second: `python -m tests.world.hasty_logs ARGUMENTS`.

Its stores wait where a machine stalls (`patient_stores`). Nothing else is replaced. No I/O of its own.
"""

import sys

from tests.world.patience import be_patient, change_limits

be_patient()
change_limits(
    {
        "accredit.stores.audit_log.places.LOG_SILENT_SECONDS": 1.0,
        "accredit.stores.audit_log.queue.LOG_LOOK_SECONDS": 0.1,
    }
)

COMMAND = (sys.executable, "-m", "tests.world.hasty_logs")


def main() -> int:
    """Runs the command."""
    from accredit.cli import main as accredit  # noqa: PLC0415 - whoever takes the limits by name takes these

    return accredit()


if __name__ == "__main__":
    sys.exit(main())
