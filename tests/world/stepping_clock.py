"""`accredit`, with a clock that is wrong and steps: `python -m tests.world.stepping_clock SEED ARGUMENTS`.

What is replaced is what a program sees of its machine's time, as if somebody set it again and again; the monotonic
clock goes on. No I/O of its own.
"""

import random
import sys
import time
from collections.abc import Callable

DAY_NS = 86_400_000_000_000
STEP_ONCE_IN = 20
"""Looks at the clock."""


def stepping(seed: int, true_ns: Callable[[], int]) -> Callable[[], int]:
    """A clock that is up to two days ahead or behind, and now and then another."""
    dice = random.Random(seed)
    ahead = 0

    def now_ns() -> int:
        nonlocal ahead
        if dice.randrange(STEP_ONCE_IN) == 0:
            ahead = dice.randrange(-2 * DAY_NS, 2 * DAY_NS)
        return true_ns() + ahead

    return now_ns


def main() -> int:
    """Runs the command."""
    now_ns = stepping(int(sys.argv.pop(1)), time.time_ns)
    time.time_ns = now_ns
    time.time = lambda: now_ns() / 1e9

    # Whoever takes the clock by name takes this one; and its stores wait where the machine stalls.
    from tests.world.patient_stores import main as accredit  # noqa: PLC0415

    return accredit()


if __name__ == "__main__":
    sys.exit(main())
