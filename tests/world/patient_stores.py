"""`accredit`, whose stores wait where a machine stalls: `python -m tests.world.patient_stores ARGUMENTS`.

In a gateway a disk or a lock that takes two seconds is a refusal, which a test of what is recorded is not about.
Nothing else is replaced. No I/O of its own.
"""

import os
import sys
from pathlib import Path

from tests.world.patience import be_patient

be_patient()

COMMAND = (sys.executable, "-m", "tests.world.patient_stores")
_ROOT = Path(__file__).parents[2]
IMPORTS = {"PYTHONPATH": os.pathsep.join(map(str, (_ROOT, _ROOT / "src")))}
"""What the command has to find."""
EVERYWHERE = {"PYTHONPATH": os.pathsep.join(map(str, (_ROOT / "tests/world/patient", _ROOT, _ROOT / "src")))}
"""The same; the process that writes the log waits as well: it connects to a database by itself."""


def main() -> int:
    """Runs the command."""
    from accredit.cli import main as accredit  # noqa: PLC0415 - whoever takes the limits by name takes these

    return accredit()


if __name__ == "__main__":
    sys.exit(main())
