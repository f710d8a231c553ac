"""`accredit`, with a clock that a test puts forward: `python -m tests.world.told_clock FILE ARGUMENTS`.

The file says by how many seconds; none is none. The monotonic clock goes on as it does. I/O: the file.
"""

import sys
import time
from pathlib import Path

from accredit.cli import main as accredit


def main() -> int:
    """Runs the command."""
    file, true_ns = Path(sys.argv.pop(1)), time.time_ns

    def now_ns() -> int:
        return true_ns() + 1_000_000_000 * (int(file.read_text("ascii")) if file.exists() else 0)

    time.time_ns = now_ns
    time.time = lambda: now_ns() / 1e9
    return accredit()


if __name__ == "__main__":
    sys.exit(main())
