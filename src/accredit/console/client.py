"""The client of the desk's socket, for commands: one line out, one line in. I/O: blocking, with a time limit.

Before anything is sent, the system confirms that the process listening there is the same user's. So no other user's
socket gets a passphrase or arguments.
"""

import contextlib
import json
import socket
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from accredit.base.peers import is_own, socket_peer
from accredit.errors import ConfigurationError, DeskError

MAX_DESK_LIST_BYTES = 8_388_608
"""The most bytes of a line of the desk. The longest is the list of all pending asks: 64 of 96 KiB."""
DESK_PATIENCE_SECONDS = 10.0
"""How many seconds a command waits for an answer that needs nobody's decision."""


_CHUNK = 65_536


def find_desk(paths: Iterable[Path]) -> socket.socket | None:
    """Connect to the first of these sockets that a desk of this user listens on; None if no desk does."""
    for path in paths:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(DESK_PATIENCE_SECONDS)
        with contextlib.suppress(OSError):
            connection.connect(str(path))
            if is_own(socket_peer(connection)):
                return connection
        connection.close()
    return None


def desk_runs(paths: Iterable[Path]) -> bool:
    """Return whether a desk of this user listens at one of these sockets."""
    connection = find_desk(paths)
    if connection is not None:
        connection.close()
    return connection is not None


def tell_desk(paths: Sequence[Path], request: Mapping[str, object]) -> Mapping[str, Any]:
    """Send a request to the first desk that listens at one of `paths`, and return its answer. Raises `DeskError` if the
    desk refuses, and `ConfigurationError` if no desk answers."""
    connection = find_desk(paths)
    if connection is None:
        where = " or ".join(map(str, paths))
        raise ConfigurationError(f"no desk of yours answers at {where}", "start one: accredit desk")
    path = connection.getpeername()
    with connection:
        try:
            connection.sendall(json.dumps(request).encode() + b"\n")
            line = _line(connection)
        except OSError as error:
            raise ConfigurationError(
                f"no desk answers at {path}: {error.strerror or error}", "start one: accredit desk"
            ) from None
    try:
        answer: object = json.loads(line)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise ConfigurationError(f"no desk answers at {path}: it closed the connection", "start one: accredit desk")
    members = cast("dict[str, Any]", answer)
    if "error" in members:
        raise DeskError(str(members["error"]), str(members.get("reason", "")))
    return members


def _line(connection: socket.socket) -> bytes:
    found = b""
    while not found.endswith(b"\n") and len(found) <= MAX_DESK_LIST_BYTES:
        chunk = connection.recv(_CHUNK)
        if not chunk:
            break
        found += chunk
    return found
