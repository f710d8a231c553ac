"""Python programs that begin where the imports are done: a process that has done them (`warm_forker`) forks for each.

What runs is the program as it is, in a process of its own, with its own descriptors, folder and environment: only the
second or two that Python takes to load it are saved. I/O: processes, sockets, a folder.

- `Warm` is a `subprocess.Popen` of this kind, for `python -m MODULE` and `python FILE.py`; what else it is asked for
  starts as usual.
- `programs()` is a folder with `python` and `accredit` for all who start programs themselves: shells, hosts, gateways.
  What they start stands for the process (`warm_stub`); its id is not that of the process which does the work.
"""

import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Any

from tests.world.warm_forker import MAX_REQUEST, can_become

COMMAND = (sys.executable, "-m", "accredit")
_FORKER = Path(__file__).with_name("warm_forker.py")
_STUB = Path(__file__).with_name("warm_stub.py")
_ASKING = 64
"""Stubs that may ask at one time."""


class _Forker:
    """The process that forks; it is started when it is first needed, and ends with this one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channel: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = Path()
        self._begun: set[int] = set()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def start(self, asked: dict[str, Any], descriptors: list[int]) -> int:
        """Forks; gives the new process' id."""
        with self._lock:
            channel = self._started()
            socket.send_fds(channel, [json.dumps(asked).encode()], descriptors)
            pid: int = struct.unpack("i", channel.recv(4))[0]
            self._begun.add(pid)
            return pid

    def children(self) -> set[int]:
        """Its children that this process asked for; others belong to whoever started a program of the folder."""
        if self.pid is None:
            return set()
        return self._begun & set(map(int, Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()))

    def ended(self, pid: int) -> None:
        """This child's id may be another's from now on."""
        self._begun.discard(pid)

    def programs(self) -> Path:
        """The folder of the programs that ask for a fork."""
        with self._lock:
            self._started()
            return self._folder

    def _started(self) -> socket.socket:
        if self._channel is None:
            self._folder = Path(tempfile.mkdtemp(prefix="accredit-warm-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
            self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MAX_REQUEST)
            with theirs, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stubs:
                _make_stubs(self._folder, stubs)
                handed_on = [theirs.fileno(), stubs.fileno()]
                self._process = subprocess.Popen(
                    [sys.executable, _FORKER, *map(str, handed_on)], pass_fds=handed_on, stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )  # fmt: skip
        return self._channel


_forker = _Forker()


def _make_stubs(folder: Path, listener: socket.socket) -> None:
    """The programs of `warm_stub`, and where they ask."""
    place = str(folder / "forker")
    listener.bind(place)
    listener.listen(_ASKING)
    text = _STUB.read_text("utf-8").replace("{forker}", place).replace("{python}", sys.executable)
    for name in ("python", "python3", "accredit"):
        stub = folder / name
        stub.write_text(f"#!{sys.executable} -IS\n{text}", "utf-8")
        stub.chmod(0o755)


def warm_children() -> set[int]:
    """The processes that `Warm` has started and that have not ended."""
    return _forker.children()


def programs() -> Path:
    """A folder with `python` and `accredit`, which start at once."""
    return _forker.programs()


def python() -> str:
    """What stands for `sys.executable` in a command that somebody else runs."""
    return str(programs() / "python")


def command() -> tuple[str, ...]:
    """`accredit`, for whoever runs it by `subprocess`."""
    return (str(programs() / "accredit"),)


def path() -> str:
    """`PATH`, with these programs before all others."""
    return f"{programs()}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def forker() -> int | None:
    """The process that forks, which is there to stay."""
    return _forker.pid


class Warm(subprocess.Popen[Any]):
    """`subprocess.Popen`; `python -m MODULE` and `python FILE.py` start at once."""

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
        ours = words[:1] == [sys.executable] and can_become(words[1:], own, os.environ)
        if not ours or not plain or pass_fds or sys.platform != "linux":
            getattr(super(), "_execute_child")(args, *more)  # noqa: B009 - a name that the type does not have
            return
        p2cread, _, _, c2pwrite, _, errwrite = pipes
        ends = [own if own >= 0 else number for number, own in enumerate((p2cread, c2pwrite, errwrite))]
        self._status, theirs = os.pipe()
        try:
            asked = {
                "words": words[1:],
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
        _forker.ended(self.pid)
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
