"""A desk that does as it is told: what it answers, and when, a test says. I/O: a Unix socket, a thread."""

import contextlib
import json
import secrets
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from tests.world.raw_server import PATIENCE

from accredit.base.clock import unix_seconds
from accredit.consent.answers import Answer
from accredit.consent.asks import Ask, check_ask, read_ask
from accredit.consent.offers import offers_for
from accredit.keys import PrivateKeyFile
from accredit.ratify import issue_delegation

_STATES = {"deny": "denied", "show": "pending", "withdraw": "withdrawn"}

Script = Callable[[Ask], dict[str, Any] | None]
"""What a desk says to an ask beside that it waits: a line, or None for nothing (yet)."""


class ScriptedDesk:
    """`with ScriptedDesk(folder, script) as desk`. `asks` are all that came, whose signatures were good; `said` is all
    that was said. `script` may be replaced at any time."""

    def __init__(self, folder: Path, script: Script) -> None:
        self.path = folder / "desk.sock"
        self.env = {"ACCREDIT_DESK_SOCKET": str(self.path)}
        self.script = script
        self.person = "Ada"
        self.url = "http://127.0.0.1:8686"
        self.asks: list[Ask] = []
        self.said: list[dict[str, Any]] = []
        self._heard = threading.Condition()
        self._connections: list[socket.socket] = []
        self._by_ask: dict[bytes, socket.socket] = {}
        self._listener = socket.socket(socket.AF_UNIX)

    def __enter__(self) -> Self:
        self._listener.bind(str(self.path))
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Ends, as a desk does that is killed."""
        self.path.unlink(missing_ok=True)
        for each in (self._listener, *self._connections):
            with contextlib.suppress(OSError):  # it has ended already
                each.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def tell(self, ask: Ask, line: dict[str, Any] | None) -> None:
        """Says a line to whoever asks this, once more."""
        self._by_ask[ask.digest].sendall(json.dumps(line).encode() + b"\n")

    def tell_all(self, line: dict[str, Any]) -> None:
        """Says a line to everybody who is connected."""
        for each in self._connections:
            with contextlib.suppress(OSError):  # it has gone
                each.sendall(json.dumps(line).encode() + b"\n")

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Waits until what was heard makes the condition true."""
        with self._heard:
            assert self._heard.wait_for(condition, PATIENCE), "waited in vain"

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            threading.Thread(target=self._speak, args=(connection,), daemon=True).start()

    def _speak(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as lines:
            for line in lines:
                said = json.loads(line)
                answers = self._answers(said, connection)
                with contextlib.suppress(OSError):  # whoever asked may have gone: what they said before that is read
                    for answer in answers:
                        connection.sendall(json.dumps(answer).encode() + b"\n")
                with self._heard:
                    self.said.append(said)
                    self._heard.notify_all()

    def _answers(self, said: dict[str, Any], connection: socket.socket) -> list[dict[str, Any]]:
        if "ping" in said:
            return [{"pong": 1, "person": {"id": "0", "name": self.person}, "url": self.url}]
        if "ask" not in said:
            return [{"state": state} for word, state in _STATES.items() if word in said]
        ask = read_ask(json.dumps(said["ask"]).encode())
        check_ask(ask, unix_seconds())
        self.asks.append(ask)
        self._by_ask[ask.digest] = connection
        line = self.script(ask)
        if line is not None and "error" in line:
            return [line]
        page = f"{self.url}/a/{ask.code}"
        pending = {"state": "pending", "code": ask.code, "url": page, "person": self.person}
        return [pending, *([line] if line is not None else [])]


def waits(_ask: Ask) -> None:
    """The person has not decided."""


def says(decision: str) -> Script:
    """The person says no, or later."""
    return lambda ask: {"answer": {"ask": ask.digest.hex(), "decision": decision}}


def allows(owner: PrivateKeyFile, key: str = "once") -> Script:
    """The person allows it, as an offer has it."""

    def script(ask: Ask) -> dict[str, Any]:
        offer = next(each for each in offers_for(ask, is_new=False) if each.key == key)
        grant = offer.grant(ask, secrets.token_hex(16), unix_seconds())
        cert = issue_delegation(owner.signer(), grant, vocabulary=grant.scope)
        return {"answer": Answer(ask.digest.hex(), "allow", (cert,)).to_dict()}

    return script
