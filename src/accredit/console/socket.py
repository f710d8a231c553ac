"""The desk's Unix socket: asks, and commands of the same user. One UTF-8 JSON object a line each way.

These are checked in this order:

- [permissions] The socket is in a folder that only the user can enter (0700), and is itself 0600.
- [same-user] The operating system confirms that the peer is the same user. Any other peer is disconnected without an
  answer.
- [bounds] There are at most `MAX_DESK_CONNECTIONS` at one time, and lines of at most `MAX_DESK_LINE_BYTES`. A peer that
  has nothing to wait for, or does not read, may not be silent for long. Connections with asks leave room for commands.

The requests, each a member: `ping`, `ask`, `withdraw`, `list`, `show`, `deny`, `deliver`, `open`, `unlock`, `lock`.
There is no way to allow a call: `deliver` brings a certificate that the person's key has signed already. No answer
holds a key, a link to the page, or a nonce.
"""

import asyncio
import contextlib
import errno
import fcntl
import json
import os
import socket
import stat
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import to_builtins

from accredit.base.files import PRIVATE_FOLDER, make_folder
from accredit.base.peers import find_starter, is_own, socket_peer
from accredit.consent.answers import read_answer
from accredit.consent.asks import read_ask
from accredit.console.book import PendingAsk
from accredit.console.desk import Desk
from accredit.console.views import Circumstances
from accredit.errors import ConfigurationError, ConsentError, DeskError
from accredit.keys.places import OWN_FOLDER
from accredit.limits import MAX_PASSPHRASE_BYTES

MAX_DESK_LINE_BYTES = 131_072
"""The most bytes of a line on the desk's socket: an ask has at most 98,304, an answer with a chain of three some
32,000."""
MAX_DESK_CONNECTIONS = 128
"""How many connections to the desk's socket there may be, all of the same user. Each program that waits for a person's
decision holds one."""
MAX_ASKING_CONNECTIONS = 96
"""How many of these connections may have sent an ask. An agent that repeats a call many times at once must not crowd
out `accredit approve` and `deny`."""
DESK_IDLE_SECONDS = 60.0
"""How long a connection that has nothing to wait for may be silent."""


_SOCKET_MODE = 0o600
_WRONG = "this is not the passphrase of the desk's key: try again"
Said = Mapping[str, Any]


def listen(path: Path) -> socket.socket:
    """Listen at `path`. A stale socket there is replaced. Raises `ConfigurationError`."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        make_own_folder(path.parent)
        with _folder_lock(path.parent):  # of two that start now, the second finds the first
            if _answers(path):
                raise is_running(path)
            _remove_socket(path)
            before = os.umask(0o777 - _SOCKET_MODE)
            try:
                listener.bind(str(path))
            finally:
                os.umask(before)
            listener.listen(MAX_DESK_CONNECTIONS)
            listener.setblocking(False)
    except OSError as error:
        listener.close()
        what = "the path is too long" if "too long" in str(error) else (error.strerror or str(error))
        raise ConfigurationError(
            f"can't listen at {path}: {what}", "set ACCREDIT_DESK_SOCKET to another path"
        ) from None
    except ConfigurationError:
        listener.close()
        raise
    return listener


def make_own_folder(folder: Path) -> None:
    """Make a folder that only the user can enter. If one with our name exists, its permissions are changed to that. A
    folder with any other name is left alone: it may be the user's home, or shared. Raises `ConfigurationError` and
    `OSError`."""
    make_folder(folder)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise ConfigurationError(f"{folder} is not a folder of your own", "set ACCREDIT_DESK_SOCKET to another path")
    if folder.name == OWN_FOLDER:
        folder.chmod(PRIVATE_FOLDER)
    elif stat.S_IMODE(found.st_mode) & ~PRIVATE_FOLDER:
        raise ConfigurationError(
            f"{folder} can be entered by others", "set ACCREDIT_DESK_SOCKET to a path in a folder of yours alone (0700)"
        )


def is_running(path: object) -> ConfigurationError:
    """Return the error for starting a desk while another one runs."""
    return ConfigurationError(
        f"a desk is running already: it listens at {path}",
        "`accredit desk open` shows it; Ctrl-C in its terminal, or SIGTERM, ends it",
    )


@contextlib.contextmanager
def _folder_lock(folder: Path) -> Generator[None]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _remove_socket(path: Path) -> None:
    """Remove a stale socket; anything else at the path stays. Raises `ConfigurationError`."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ConfigurationError(f"{path} is no socket", "set ACCREDIT_DESK_SOCKET to another path")
        path.unlink()


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ECONNREFUSED):
                return False
            raise
    return True


class DeskSocket:
    """Serves the socket. `show` is called with each ask that the person has not seen. `open_page` opens the page of the
    ask with this code, or the first page (""). `address` is the page's URL."""

    def __init__(
        self,
        desk: Desk,
        address: str,
        *,
        circumstances: Callable[[PendingAsk], Circumstances],
        show: Callable[[PendingAsk], None],
        open_page: Callable[[str], Awaitable[str]],
        apps: Callable[[], Sequence[Said]] = tuple,
    ) -> None:
        self._desk = desk
        self._address = address
        self._circumstances = circumstances
        self._show = show
        self._open_page = open_page
        self._apps = apps
        self._connections: set[asyncio.Task[Any] | None] = set()
        self._asking = 0
        self._works: Mapping[str, Callable[[object, _Connection], Said | Awaitable[Said]]] = {
            "ping": self._pong,
            "ask": self._ask,
            "withdraw": self._withdraw,
            "list": self._list,
            "show": self._whole,
            "deny": self._deny,
            "deliver": self._deliver,
            "open": self._open,
            "unlock": self._unlock,
            "lock": self._lock,
        }

    async def serve(self, listener: socket.socket) -> asyncio.Server:
        """Start to accept connections."""
        return await asyncio.start_unix_server(self._connected, sock=listener, limit=MAX_DESK_LINE_BYTES)

    def close(self) -> None:
        """Cut off all connections."""
        for task in self._connections:
            if task is not None:
                task.cancel()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        peer = socket_peer(writer.get_extra_info("socket"))
        if is_own(peer) and len(self._connections) < MAX_DESK_CONNECTIONS:
            self._connections.add(task)
            connection = _Connection(self, reader, writer, peer.pid if peer is not None else 0)
            try:
                with contextlib.suppress(OSError, asyncio.CancelledError):
                    await connection.run()
            finally:  # however it ended, its place is free again
                self._connections.discard(task)
                self._asking -= connection.has_asked
        with contextlib.suppress(OSError):
            writer.close()

    async def answer(self, name: str, value: object, connection: "_Connection") -> Said:
        """Handle the request with this member name, and return the answer. Raises `DeskError`."""
        work = self._works.get(name)
        if work is None:
            raise DeskError("unknown", "the desk does not know this request")
        done = work(value, connection)
        return done if isinstance(done, Mapping) else await done

    def _pong(self, _value: object, _connection: "_Connection") -> Said:
        person = self._desk.person
        whose = {"id": person.id, "name": person.name}
        return {"pong": 1, "person": whose, "url": self._address, "wanted": self._desk.wanted_for}

    def _ask(self, raw: object, connection: "_Connection") -> Said:
        try:
            ask = read_ask(json.dumps(raw, ensure_ascii=False).encode("utf-8", "surrogatepass"))
        except ConsentError as error:
            raise DeskError("bad_ask", str(error)) from None
        if not connection.has_asked and self._asking >= MAX_ASKING_CONNECTIONS:
            raise DeskError("busy", "too many programs wait for an answer")
        asked, is_news = self._desk.take(ask, find_starter(connection.pid))
        if not connection.has_asked:
            connection.has_asked = True
            self._asking += 1
        connection.asks[asked.key] = asked
        if is_news:
            self._show(asked)
        code = asked.ask.code
        return {
            "state": asked.state,
            "code": code,
            "url": f"{self._address}/a/{code}",
            "person": self._desk.person.name,
        }

    def _withdraw(self, key: object, connection: "_Connection") -> Said:
        asked = connection.asks.get(key) if isinstance(key, str) else None
        if asked is None:
            raise DeskError("unknown", "this ask did not come from here")
        self._desk.withdraw(asked)
        return {"state": asked.state}

    def _list(self, _value: object, _connection: "_Connection") -> Said:
        self._desk.expire()
        return {"asks": [_summary(each) for each in self._desk.book.waiting(self._desk.now())] + [*self._apps()]}

    def _whole(self, code: object, _connection: "_Connection") -> Said:
        asked = self._desk.find(str(code))
        known = self._circumstances(asked)
        return {"ask": asked.ask.to_dict(), "state": asked.state, "known": to_builtins(known)}

    def _deny(self, code: object, _connection: "_Connection") -> Said:
        asked = self._desk.find(str(code))
        self._desk.deny(asked)
        return {"state": asked.state, "code": asked.ask.code}

    def _deliver(self, raw: object, _connection: "_Connection") -> Said:
        try:
            answer = read_answer(json.dumps(raw).encode())
        except ConsentError as error:
            raise DeskError("not_signed", str(error)) from None
        self._desk.deliver(answer)
        return {"state": "allowed"}

    async def _open(self, value: object, _connection: "_Connection") -> Said:
        """Open the page of the ask whose code is `value`, or the first page if it is no string."""
        code = self._desk.find(value).ask.code if isinstance(value, str) else ""
        return {"opened": await self._open_page(code)}

    def _lock(self, _value: object, _connection: "_Connection") -> Said:
        self._desk.keys.lock()
        return {"key": self._desk.keys.state}

    async def _unlock(self, said: object, _connection: "_Connection") -> Said:
        """Take a passphrase, with or without a description of the signature that the person was shown."""
        members = cast("Said", said) if isinstance(said, dict) else {"passphrase": said}
        passphrase, wanted_for = members.get("passphrase"), members.get("for")
        if not isinstance(passphrase, str) or len(passphrase) > MAX_PASSPHRASE_BYTES:
            raise DeskError("passphrase", _WRONG)
        try:
            await self._desk.unlock(passphrase, wanted_for if isinstance(wanted_for, str) else None)
        except ConfigurationError:
            raise DeskError("passphrase", _WRONG) from None
        return {"key": self._desk.keys.state}


class _Connection:
    """One connection: requests come in line by line, and answers go out. Decisions about its asks follow later."""

    def __init__(
        self, server: DeskSocket, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pid: int
    ) -> None:
        self.pid = pid
        self.asks: dict[str, PendingAsk] = {}
        self.has_asked = False
        self._server = server
        self._reader = reader
        self._writer = writer
        self._waiting: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Serve the connection until it ends. Its asks stay pending."""
        try:
            while line := await self._line():
                await self._tell(await self._answered(line))
                for key, asked in tuple(self.asks.items()):  # only after the peer was told the code
                    if key not in self._waiting:
                        self._waiting[key] = asyncio.ensure_future(self._tell_answer(asked))
        finally:
            for each in self._waiting.values():
                each.cancel()

    async def _line(self) -> bytes:
        waits = any(not asked.answered.is_set() for asked in self.asks.values())
        try:
            async with asyncio.timeout(None if waits else DESK_IDLE_SECONDS):
                return await self._reader.readuntil()
        except (TimeoutError, asyncio.IncompleteReadError):
            return b""
        except asyncio.LimitOverrunError:
            await self._tell({"error": "too_long", "reason": f"a line has at most {MAX_DESK_LINE_BYTES} bytes"})
            return b""

    async def _answered(self, line: bytes) -> Said:
        try:
            said: object = json.loads(line)
            if not isinstance(said, dict) or len(cast("Said", said)) != 1:
                raise DeskError("unknown", "a line holds one object with one member")
            ((name, value),) = cast("Said", said).items()
            return await self._server.answer(name, value, self)
        except DeskError as error:
            return {"error": error.error, "reason": error.reason}
        except (ValueError, RecursionError):
            return {"error": "unknown", "reason": "a line holds one JSON object"}

    async def _tell_answer(self, asked: PendingAsk) -> None:
        await asked.answered.wait()
        if asked.answer is not None:
            with contextlib.suppress(OSError):
                await self._tell({"answer": asked.answer.to_dict()})
        # Nothing is kept of it: there may be any number of such asks.
        self.asks.pop(asked.key, None)
        self._waiting.pop(asked.key, None)

    async def _tell(self, said: Said) -> None:
        self._writer.write(json.dumps(said, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        try:
            async with asyncio.timeout(DESK_IDLE_SECONDS):
                await self._writer.drain()
        except TimeoutError:  # a peer that does not read is dropped
            self._writer.transport.abort()
            raise


def _summary(asked: PendingAsk) -> Said:
    ask = asked.ask
    return {
        "code": ask.code,
        "state": asked.state,
        "agent": {"id": ask.agent_id, "name": ask.agent.name},
        "gateway": {"id": ask.gateway.id, "url": ask.gateway.url},
        "method": ask.method,
        "target": ask.target,
        "params": ask.params,
        "asked_at": ask.asked_at,
        "expires_at": asked.until,
    }
