"""Processes of `accredit` that begin where the imports are done: a process that has done them forks for each.

What runs is the command as it is, in a process of its own, with its own descriptors, folder and environment: only the
second that Python takes to load it is saved. `Warm` is a `subprocess.Popen` of this kind; whatever is not plainly
`python -m accredit ARGUMENTS` starts as usual. I/O: processes, a socket pair.

Run as a program, it is the process that forks: `python warm.py DESCRIPTOR`.
"""

import contextlib
import gc
import importlib
import io
import json
import os
import pkgutil
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from typing import Any, NoReturn

COMMAND = (sys.executable, "-m", "accredit")
_HONOURED = {"PYTHONDONTWRITEBYTECODE"}
"""Of the variables that Python looks at when it starts."""
_MAX_REQUEST = 1 << 17
_LATE = ("accredit.__main__", "accredit.server.fastmcp")
"""What nearly no command imports, and takes long."""


class _Forker:
    """The process that forks; it is started when it is first needed, and ends with this one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channel: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def start(self, asked: dict[str, Any], descriptors: list[int]) -> int:
        """Forks; gives the new process' id."""
        with self._lock:
            if self._channel is None:
                self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                self._channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MAX_REQUEST)
                started = [sys.executable, __file__, str(theirs.fileno())]
                with theirs:
                    self._process = subprocess.Popen(
                        started, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=asked["env"],
                        start_new_session=True,
                    )  # fmt: skip
            socket.send_fds(self._channel, [json.dumps(asked).encode()], descriptors)
            return struct.unpack("i", self._channel.recv(4))[0]


_forker = _Forker()


def forker() -> int | None:
    """The process that forks, which is there to stay."""
    return _forker.pid


class Warm(subprocess.Popen[Any]):
    """`subprocess.Popen`; `python -m accredit` starts at once."""

    _status = -1

    def _execute_child(self, args: Any, *more: Any) -> None:
        (
            executable, preexec_fn, _close_fds, pass_fds, cwd, env, _startupinfo, _creationflags, shell,
            *pipes, _restore_signals, gid, gids, uid, umask, start_new_session, process_group,
        ) = more  # fmt: skip
        words = list(map(os.fspath, args)) if isinstance(args, list | tuple) else []
        plain = (executable, preexec_fn, shell, gid, gids, uid, umask, process_group) == (
            *(None, None, False, None, None, None, -1, -1),
        )
        own = os.environ if env is None else env
        pythonic = {name for name in own if name.startswith("PYTHON") and own[name] != os.environ.get(name)} - _HONOURED
        if tuple(words[:3]) != COMMAND or not plain or pass_fds or pythonic or sys.platform != "linux":
            getattr(super(), "_execute_child")(args, *more)  # noqa: B009 - a name that the type does not have
            return
        p2cread, _, _, c2pwrite, _, errwrite = pipes
        ends = [own if own >= 0 else number for number, own in enumerate((p2cread, c2pwrite, errwrite))]
        self._status, theirs = os.pipe()
        try:
            asked = {
                "arguments": words[3:],
                "cwd": os.path.abspath(cwd or "."),
                "env": dict(own),
                "session": bool(start_new_session),
            }
            self.pid = _forker.start(asked, [*ends, theirs])
        finally:
            os.close(theirs)
            getattr(self, "_close_pipe_fds")(*pipes)  # noqa: B009
        self._child_created = True

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if self._status < 0:
            return getattr(super(), "_try_wait")(wait_flags)  # noqa: B009
        if wait_flags & os.WNOHANG and not select.select([self._status], [], [], 0)[0]:
            return 0, 0
        told = os.read(self._status, 4)
        self._close_status()
        return self.pid, struct.unpack("i", told)[0] if told else signal.SIGKILL

    def _internal_poll(self, *ignored: Any, **also: Any) -> int | None:
        if self._status < 0:
            return getattr(super(), "_internal_poll")(*ignored, **also)  # noqa: B009
        if self.returncode is None:
            pid, status = self._try_wait(os.WNOHANG)
            if pid == self.pid:
                getattr(self, "_handle_exitstatus")(status)  # noqa: B009
        return self.returncode

    def _close_status(self) -> None:
        if self._status >= 0:
            os.close(self._status)
            self._status = -1

    def __del__(self, *ignored: Any) -> None:
        getattr(super(), "__del__")()  # noqa: B009
        self._close_status()


def _import_everything() -> None:
    package = importlib.import_module("accredit")
    for found in pkgutil.walk_packages(package.__path__, "accredit."):
        if found.name not in _LATE:
            importlib.import_module(found.name)


def _serve(channel: socket.socket) -> None:
    """Forks as it is asked, and tells of each end, until nobody can ask any more."""
    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, _wake)
    ends: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([channel, ended], [], [])
        if ended in ready:
            os.read(ended, 4096)
            _tell_of_ends(ends)
        if channel in ready:
            message, descriptors, _, _ = socket.recv_fds(channel, _MAX_REQUEST, 4)
            if not message:
                return
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                channel.detach()
                _become(json.loads(message), descriptors)
            ends[pid] = descriptors.pop()
            for descriptor in descriptors:
                os.close(descriptor)
            channel.send(struct.pack("i", pid))


def _wake(_number: int, _frame: object) -> None:
    """What the signal does is to write to the pipe."""


def _tell_of_ends(ends: dict[int, int]) -> None:
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            with contextlib.suppress(BrokenPipeError):  # nobody wants to know
                os.write(ends[found[0]], struct.pack("i", found[1]))
            os.close(ends.pop(found[0]))


def _become(asked: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """`python -m accredit ARGUMENTS`, in the process that was forked."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if asked["session"]:
        os.setsid()
    for number, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, number)
    os.closerange(3, 256)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in asked["env"]
    _set("stdin", io.TextIOWrapper(io.BufferedReader(io.FileIO(0, "rb", closefd=False)), encoding="utf-8"))
    for number, name, errors in ((1, "stdout", "strict"), (2, "stderr", "backslashreplace")):
        raw = io.BufferedWriter(io.FileIO(number, "wb", closefd=False))
        _set(name, io.TextIOWrapper(raw, encoding="utf-8", errors=errors, line_buffering=number == 2))
    main = importlib.import_module("accredit.__main__")
    sys.argv = [main.__file__ or "", *asked["arguments"]]
    sys.exit(importlib.import_module("accredit.cli").main())


def _set(name: str, stream: io.TextIOWrapper) -> None:
    setattr(sys, name, stream)
    setattr(sys, f"__{name}__", stream)


if __name__ == "__main__":
    del sys.path[0]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import_everything()
    assert threading.active_count() == 1
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        _serve(channel)
