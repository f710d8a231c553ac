"""Identifies the peer of a Unix socket. I/O: reads `/proc` where it exists.

The peer's user is certain. Its program is only a hint: it may have ended, or taken another name.
"""

import os
import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from accredit.base.text import excerpt

MAX_ANCESTORS = 8
"""How many ancestors of an asking process are looked at to say which program has started it."""


_LINUX = struct.Struct("3i")
"""The fields of `struct ucred`: process, user, group."""
_MAC = struct.Struct("2I")
"""The first fields of `struct xucred`: version, user."""
_SOL_LOCAL, _LOCAL_PEERCRED, _LOCAL_PEERPID = 0, 1, 2
_WRAPPERS = frozenset(
    {"accredit", "python", "python3", "sh", "bash", "dash", "zsh", "env", "uv", "uvx", "pipx", "node"}
)
"""Programs that only start others. A person would not recognize them, so their parents are named instead."""


class Peer(Struct, frozen=True):
    """A process and its user. `pid` is 0 if it is not known."""

    uid: int
    pid: int = 0


def socket_peer(connection: socket.socket) -> Peer | None:
    """Return the process at the other end of a Unix socket; None if the system doesn't tell."""
    with suppress(OSError, struct.error, AttributeError):  # the last: a system that has no such question
        if sys.platform == "darwin":
            version, uid = _MAC.unpack(connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _MAC.size))
            if version != 0:
                return None
            pid = connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID)
        else:
            pid, uid, _ = _LINUX.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _LINUX.size))
        return Peer(uid, pid)
    return None


def is_own(peer: Peer | None) -> bool:
    """Return whether the peer has this process's user."""
    return peer is not None and peer.uid == os.geteuid()


def find_starter(pid: int) -> str:
    """Return the program that started a process, such as `claude (process 4242)`; "" if unknown."""
    for _ in range(MAX_ANCESTORS):
        pid, name = _parent(pid)
        if pid <= 1:
            return ""
        if name.rstrip("0123456789.") not in _WRAPPERS:
            return f"{excerpt(name)} (process {pid})"
    return ""


def _parent(pid: int) -> tuple[int, str]:
    """Return a process's parent, and the parent's name."""
    with suppress(OSError, ValueError, IndexError):
        # The name, in parentheses, may contain anything: the last one ends it.
        parent = int(Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1])
        return parent, Path(f"/proc/{parent}/comm").read_text("utf-8", "replace").strip()
    return 0, ""
