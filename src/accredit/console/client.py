"""The other side of the desk's socket, for commands: one line out, one line in. I/O: blocking, with a time limit.

Before anything is sent, the system says that whoever listens is the same user: another one's socket gets no passphrase
and no arguments.
"""

import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from accredit.console.peers import is_own, peer_of
from accredit.errors import ConfigurationError, DeskError
from accredit.limits import DESK_PATIENCE_SECONDS, MAX_DESK_LIST_BYTES

_CHUNK = 65_536


def tell_desk(path: Path, request: Mapping[str, object]) -> Mapping[str, Any]:
    """Send one request to the desk at `path`; return its answer. Raises `DeskError` for a refusal, and
    `ConfigurationError` if no desk answers."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(DESK_PATIENCE_SECONDS)
        try:
            connection.connect(str(path))
            if not is_own(peer_of(connection)):
                raise ConfigurationError(f"{path} is another user's", "set ACCREDIT_DESK_SOCKET to your own desk's")
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
