"""Starts the person's desk on behalf of a program that a host has started. I/O: a process, a file.

The desk is the process that holds the person's key, and asks the person about refused calls.

- [once] A desk is started only if none answers, and at most once in `DESK_RESTART_SECONDS`. If several are started at
  once, all but one exit by themselves.
- [detached] The desk has a session of its own and none of this process's descriptors. So it outlives the host, and
  delays nobody who waits for this process to end. When the desk exits, it is reaped.
- [environment] The desk gets only the environment variables by which the person's files, programs and screen are found.
  A host's configuration may have put secrets into the environment that are meant for this process alone.
- [no-terminal] The desk has no terminal: it logs to `desk.log`, beside its journal. If the host passes on the display,
  the desk opens a browser, and asks for the passphrase by pinentry. Otherwise a person uses `accredit desk open`,
  `accredit desk unlock` and `accredit approve`.
"""

import contextlib
import io
import logging
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from accredit.base.files import make_folder
from accredit.errors import ConfigurationError
from accredit.keys.places import desk_log, user_runtime_folder

DESK_RESTART_SECONDS = 60.0
"""How long after one start no other desk is started. Without this, each call would start a process if desks exit at
once."""
MAX_DESK_LOG_BYTES = 1_048_576
"""If `desk.log` has more bytes than this, starting a desk truncates it."""


_log = logging.getLogger("accredit.client")

_COMMAND = (sys.executable, "-P", "-m", "accredit", "desk")
_HANDED_ON = frozenset(
    {"HOME", "PATH", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "BROWSER", "DISPLAY", "WAYLAND_DISPLAY"}
    | {"XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS", "ACCREDIT_DESK_SOCKET"}
)
_HANDED_ON_PREFIXES = ("LC_", "XDG_")


class DeskStarter:
    """Starts the desk of this process's user. `environ` is this process's environment."""

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        command: Sequence[str] = _COMMAND,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._environ = desk_environment(environ, os.geteuid())
        self._command = command
        self._clock = clock
        self._at = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> subprocess.Popen[bytes] | None:
        """Start a desk, and return its process. Within `DESK_RESTART_SECONDS` of the last start, return that process.
        Return None if no desk can be started."""
        now = self._clock()
        last = self._process
        if last is not None and (last.poll() is None or now - self._at < DESK_RESTART_SECONDS):
            return last
        log = desk_log(self._environ)
        try:
            with _open_log(log) as output:
                self._process = process = subprocess.Popen(  # noqa: S603 - our own program
                    self._command, cwd="/", env=self._environ, start_new_session=True,
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=output,
                )  # fmt: skip
                output.write(f"started by accredit connect: `kill {process.pid}` ends it\n".encode())
        except (OSError, ConfigurationError) as error:
            _log.warning("the desk can't be started: %s", error)
            return None
        self._at = now
        with contextlib.suppress(RuntimeError):  # no thread can start: the next start reaps it
            threading.Thread(target=process.wait, daemon=True).start()
        _log.info("the desk is started; what it says is in %s", log)
        return process


def desk_environment(environ: Mapping[str, str], user: int) -> dict[str, str]:
    """Return the environment for a desk ([environment]). If the host has removed the variable that names the folder of
    the user's sockets, it is added again: the desk must listen where the person's commands look first."""
    kept = {
        name: value for name, value in environ.items() if name in _HANDED_ON or name.startswith(_HANDED_ON_PREFIXES)
    }
    folder = user_runtime_folder(user)
    if not kept.get("XDG_RUNTIME_DIR") and sys.platform == "linux" and _is_private(folder, user):
        kept["XDG_RUNTIME_DIR"] = str(folder)
    return kept


def _is_private(folder: Path, user: int) -> bool:
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == user and not found.st_mode & 0o077


def _open_log(path: Path) -> io.FileIO:
    make_folder(path.parent)
    # Non-blocking: opening a pipe in the file's place would wait for its reader.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    output = io.FileIO(os.open(path, flags, 0o600), "ab")
    os.fchmod(output.fileno(), 0o600)  # it holds links that sign in
    if os.fstat(output.fileno()).st_size > MAX_DESK_LOG_BYTES:
        output.truncate(0)
    return output
