"""A process that ends a gateway's children when the gateway is gone, for whatever reason.

It is run by path with `python -I -S`, and imports nothing of the package. Its stdin is a pipe that only the gateway
holds. Lines `+PGID` and `-PGID` say which process groups exist. The end of the pipe means that the gateway is gone,
even by SIGKILL. Then every remaining group gets SIGTERM, a grace (the first argument, in seconds) and SIGKILL. The
reaper ignores signals: one that is sent to all of the gateway's processes at once would otherwise end it first.
"""

import os
import signal
import sys
import time
from collections.abc import Iterable

_POLL_SECONDS = 0.02


def main() -> None:
    """Read until the gateway is gone, then end its remaining groups."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin.buffer:
        if line.startswith(b"+"):
            groups.add(int(line[1:]))
        else:
            groups.discard(int(line[1:]))
    end(groups, float(sys.argv[1]))


def end(groups: Iterable[int], grace: float) -> None:
    """Ask the groups to end, wait at most `grace` seconds, and kill what remains."""
    left = [group for group in groups if send_signal(group, signal.SIGTERM)]
    deadline = time.monotonic() + grace
    while left and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        left = [group for group in left if send_signal(group, 0)]
    for group in left:
        send_signal(group, signal.SIGKILL)


def send_signal(group: int, number: int) -> bool:
    """Send a signal (0: none) to a group; return False if it has no members."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


if __name__ == "__main__":
    main()
