"""The process that forks (`warm`): it has imported what programs of tests need, and becomes them.

`python warm_forker.py PARENT STUBS`: descriptors of the socket over which its parent asks, and of one at which the
programs of `warm_stub` do. Whoever asks is told the new process' id, or 0 where only Python can start it; and how it
ended. A stub that goes away before that takes the process along. I/O: processes, sockets.
"""

import contextlib
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import struct
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

MAX_REQUEST = 1 << 17
_AT_START = ("PYTHON", "LD_")
"""What the names begin with of variables that count when Python starts: a clock is faked by `LD_PRELOAD`."""
_HONOURED = {"PYTHONDONTWRITEBYTECODE", "PYTHONPATH"}
"""Those of these that count for a warm program as well."""
_LARGE = "fastmcp"
_LATE = ("accredit.__main__", f"accredit.server.{_LARGE}")
"""What nearly no command imports; the second takes long, and is imported when it is first wanted."""

_AT_RUN_TIME = (
    *("anyio._backends._asyncio", "cryptography.hazmat.backends.openssl.backend", "encodings.idna"),
    *("cryptography.hazmat.primitives.kdf.argon2", "importlib.readers", "rich._emoji_codes"),
    *("tzdata", "uvicorn.lifespan.on", "uvicorn.loops.uvloop"),
)
"""What most programs import only once they do something."""


def can_become(words: Sequence[str], env: Mapping[str, str], own: Mapping[str, str]) -> bool:
    """Whether what follows `python` is something that a process with `own` environment can become."""
    if any(env[name] != own.get(name) for name in env if name.startswith(_AT_START) and name not in _HONOURED):
        return False
    first, *rest = [*words, ""]
    return bool(rest[1:]) if first in ("-m", "-c") else first.endswith(".py") and not first.startswith("-")


class _Forker:
    """Serves its parent and the stubs."""

    def __init__(self, parent: socket.socket, stubs: socket.socket) -> None:
        self._parent = parent
        self._stubs = stubs
        self._asking: dict[int, socket.socket] = {}
        self._running: dict[int, socket.socket | int] = {}
        self._ended, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, _wake)

    def serve(self) -> None:
        """Until its parent has ended."""
        while True:
            ready, _, _ = select.select([self._parent, self._stubs, self._ended, *self._asking], [], [])
            if self._ended in ready:
                os.read(self._ended, 4096)
                self._tell_of_ends()
            if self._stubs in ready:
                channel = self._stubs.accept()[0]
                self._asking[channel.fileno()] = channel
            for descriptor in self._asking.keys() & set(ready):
                self._serve_stub(self._asking[descriptor])
            if self._parent in ready:
                message, descriptors, _, _ = socket.recv_fds(self._parent, MAX_REQUEST, 4)
                if not message:
                    return
                told = descriptors.pop()
                self._start(json.loads(message), descriptors, self._parent, told)

    def _serve_stub(self, channel: socket.socket) -> None:
        try:
            message, descriptors, _, _ = socket.recv_fds(channel, MAX_REQUEST, 3)
        except ConnectionResetError:
            message, descriptors = b"", list[int]()
        if not message:
            self._forget(channel)
            for pid in [pid for pid, told in self._running.items() if told is channel]:
                for kill in (os.killpg, os.kill):  # the first does nothing before the process has its own group
                    with contextlib.suppress(ProcessLookupError):
                        kill(pid, signal.SIGKILL)
            return
        asked = json.loads(message)
        if can_become(asked["words"], asked["env"], os.environ):
            self._start(asked, descriptors, channel, channel)
        else:
            _close(descriptors)
            channel.send(struct.pack("i", 0))

    def _start(
        self, asked: dict[str, Any], descriptors: list[int], asker: socket.socket, told: socket.socket | int
    ) -> None:
        if _LARGE not in sys.modules and _wants_large(asked):
            importlib.import_module(_LARGE)
            gc.freeze()
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            for each in (self._parent, self._stubs, *self._asking.values()):
                each.detach()
            _become(asked, descriptors)
        _close(descriptors)
        self._running[pid] = told
        with contextlib.suppress(BrokenPipeError):
            asker.send(struct.pack("i", pid))

    def _tell_of_ends(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                told = self._running.pop(found[0])
                status = struct.pack("i", found[1])
                with contextlib.suppress(BrokenPipeError, OSError):  # nobody wants to know
                    if isinstance(told, int):
                        os.write(told, status)
                    else:
                        told.send(status)
                if isinstance(told, int):
                    os.close(told)

    def _forget(self, channel: socket.socket) -> None:
        del self._asking[channel.fileno()]
        channel.close()


def _wants_large(asked: dict[str, Any]) -> bool:
    """Whether a program says that it is about the package that few need."""
    words: list[str] = asked["words"]
    with contextlib.suppress(OSError):
        return _LARGE in " ".join(words) or (
            words[0] != "-m" and _LARGE in Path(asked["cwd"], words[0]).read_text("utf-8")
        )
    return False


def _wake(_number: int, _frame: object) -> None:
    """What the signal does is to write to the pipe."""


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _become(asked: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """`python WORDS`, in the process that was forked."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if asked["session"]:
        os.setsid()
    if "umask" in asked:
        os.umask(asked["umask"])
    sys.executable = asked.get("python", sys.executable)  # what it starts begins at once, too
    for number, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, number)
    os.closerange(3, 256)
    os.chdir(asked["cwd"])
    paths = os.environ.get("PYTHONPATH")
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in asked["env"]
    if asked["env"].get("PYTHONPATH") not in (None, paths):
        sys.path[:0] = asked["env"]["PYTHONPATH"].split(os.pathsep)
    _set("stdin", io.TextIOWrapper(io.BufferedReader(io.FileIO(0, "rb", closefd=False)), encoding="utf-8"))
    for number, name, errors in ((1, "stdout", "strict"), (2, "stderr", "backslashreplace")):
        raw = io.BufferedWriter(io.FileIO(number, "wb", closefd=False))
        _set(name, io.TextIOWrapper(raw, encoding="utf-8", errors=errors, line_buffering=number == 2))
    _run(asked["words"])


def _run(words: list[str]) -> NoReturn:
    """What `python WORDS` runs."""
    if words[:2] == ["-m", "accredit"]:
        main = importlib.import_module("accredit.__main__")
        sys.argv = [main.__file__ or "", *words[2:]]
        sys.exit(importlib.import_module("accredit.cli").main())
    if words[0] == "-m":
        sys.argv = words[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        sys.path.insert(0, "")
        exec(words[1], {"__name__": "__main__", "__builtins__": __builtins__})
    else:
        sys.argv = words
        sys.path.insert(0, str(Path(words[0]).absolute().parent))
        runpy.run_path(words[0], run_name="__main__")
    sys.exit()


def _set(name: str, stream: io.TextIOWrapper) -> None:
    setattr(sys, name, stream)
    setattr(sys, f"__{name}__", stream)


def import_everything() -> None:
    """Imports all of accredit, and what it imports late."""
    package = importlib.import_module("accredit")
    for found in pkgutil.walk_packages(package.__path__, "accredit."):
        if found.name not in _LATE:
            importlib.import_module(found.name)
    for name in _AT_RUN_TIME:
        importlib.import_module(name)


def main(parent: int, stubs: int) -> None:
    """Imports, and serves."""
    del sys.path[0]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import_everything()
    assert threading.active_count() == 1
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=parent) as asks, socket.socket(fileno=stubs) as listener:
        _Forker(asks, listener).serve()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
