"""The client's connection to the person's desk: a Unix socket, one JSON object a line. I/O: a socket.

The desk is the process that holds the person's key, and asks the person about refused calls.

A socket is used only if it belongs to this user, and so does the process that listens there, according to the operating
system. So nobody else learns what an agent asks. The desk's messages are bounded. Only texts are taken from them, and
an answer that `asking` checks.
"""

import asyncio
import json
import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from accredit.base.peers import is_own, socket_peer
from accredit.base.values import text_of
from accredit.limits import MAX_CONSENT_ANSWER_BYTES

DESK_ANSWER_SECONDS = 5.0
"""How long a desk may take to accept a connection: it runs on the same machine."""


class DeskGone(Exception):
    """There is no desk, or its messages are unreadable."""


class DeskLine(Struct, frozen=True):
    """A line of the desk. It says who is asked and where, or carries an answer, or says why the desk does not accept an
    ask."""

    state: str = ""
    url: str = ""
    person: str = ""
    answer: dict[str, Any] | None = None
    error: str = ""


class DeskConnection:
    """A connection to the desk."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, paths: Iterable[Path]) -> "DeskConnection":
        """Connect to the first socket that is this user's alone. Raises `DeskGone`."""
        for path in filter(_is_own, paths):
            with suppress(OSError):
                reader, writer = await asyncio.open_unix_connection(str(path), limit=2 * MAX_CONSENT_ANSWER_BYTES)
                if is_own(socket_peer(writer.get_extra_info("socket"))):
                    return cls(reader, writer)
                writer.close()
        raise DeskGone

    def say(self, value: Mapping[str, object]) -> None:
        """Send a line, without waiting for it to be read."""
        self._writer.write(json.dumps(value, ensure_ascii=False).encode() + b"\n")

    async def hear(self) -> DeskLine:
        """Return the next line. Raises `DeskGone`."""
        try:
            line = await self._reader.readuntil(b"\n")
            return _read_line(line)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            raise DeskGone from None

    def close(self) -> None:
        """Close the connection."""
        with suppress(OSError):
            self._writer.close()


def _read_line(line: bytes) -> DeskLine:
    try:
        members: object = json.loads(line)
    except (ValueError, RecursionError):
        raise DeskGone from None
    if not isinstance(members, dict):
        raise DeskGone
    said = cast("dict[str, object]", members)
    person, answer = said.get("person"), said.get("answer")
    if isinstance(person, dict):  # in a pong
        person = cast("dict[str, object]", person).get("name")
    return DeskLine(
        state=text_of(said.get("state")),
        url=text_of(said.get("url")),
        person=text_of(person),
        answer=cast("dict[str, Any]", answer) if isinstance(answer, dict) else None,
        error=text_of(said.get("error")),
    )


def _is_own(path: Path) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISSOCK(found.st_mode) and found.st_uid == os.geteuid()
