"""What stands for `python` and `accredit` where others start them: shells, hosts, a gateway. `warm` makes it a program.

It passes its standard streams and its words to the process that forks, stands for the process that this starts, and
ends as that does. What the other can't start, Python starts. I/O: a socket, processes, signals.
"""

import json
import os
import signal
import socket
import struct
import sys
from types import FrameType
from typing import NoReturn

FORKER, PYTHON = "{forker}", "{python}"
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main() -> NoReturn:
    """Starts it, waits for it, and ends like it."""
    words = ["-m", "accredit"] * (os.path.basename(sys.argv[0]) == "accredit") + sys.argv[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as channel:
        pid = _started(channel, words)
        if pid <= 0:
            os.execv(PYTHON, [PYTHON, *words])

        def pass_on(number: int, _frame: FrameType | None) -> None:
            os.kill(pid, number)

        for number in _PASSED_ON:
            signal.signal(number, pass_on)
        for descriptor in range(3):
            os.close(descriptor)  # who reads what the other writes is to see its end
        told = channel.recv(4)
        status = struct.unpack("i", told)[0] if told else signal.SIGKILL
    if os.WIFSIGNALED(status):
        if os.WTERMSIG(status) in _PASSED_ON:
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


def _started(channel: socket.socket, words: list[str]) -> int:
    """The id of the process; 0 where Python is to start it."""
    umask = os.umask(0)
    os.umask(umask)
    asked = {
        "words": words,
        "cwd": os.getcwd(),
        "env": dict(os.environ),
        "umask": umask,
        "session": True,
        "python": os.path.join(os.path.dirname(FORKER), "python"),
    }
    message = json.dumps(asked).encode()
    try:
        channel.connect(FORKER)
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, len(message) + 4096)
        socket.send_fds(channel, [message], [0, 1, 2])
        return struct.unpack("i", channel.recv(4))[0]
    except OSError:  # a stream is closed, or there is more to say than fits
        return 0


if __name__ == "__main__":
    main()
