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
IMPORTS = {"PYTHONPATH": os.pathsep.join(map(str, (Path(__file__).parents[2], Path(__file__).parents[2] / "src")))}
"""What the command has to find."""


def main() -> int:
    """Runs the command."""
    from accredit.cli import main as accredit  # noqa: PLC0415 - whoever takes the limits by name takes these

    return accredit()


if __name__ == "__main__":
    sys.exit(main())
