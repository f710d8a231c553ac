"""A desk as a person runs it: the real process, its files in the test's folder, and an agent that asks it."""

import contextlib
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from tests.world.command import environment, wait_until
from tests.world.raw_server import PATIENCE
from tests.world.warm import COMMAND, Warm

from accredit.consent.asks import Ask, AskedGateway, AskedRefusal, Asker, ServerWords
from accredit.keys import PrivateKeyFile, lock_key, make_key, write_key

GATEWAY = "9f0c2d11aabbccdd"
PASSPHRASE = "correct horse battery staple"
CALL: dict[str, Any] = {"name": "send_email", "arguments": {"to": "ada@example.org", "subject": "Hello"}}
_LINK = re.compile(r"desk: (http://127\.0\.0\.1:(\d+))(/\S*)?#k=(\S+)")


def write_locked(config: Path, owner: PrivateKeyFile) -> None:
    """A person's key under `PASSPHRASE`, where a desk looks for it."""
    config.mkdir(parents=True, exist_ok=True)
    write_key(config / "owner.key", lock_key(owner, bytearray(PASSPHRASE.encode())))


class Desk:
    """`with Desk(folder) as desk`: `accredit desk --port 0`, from its first line on; with a browser if `env` names
    one (`BROWSER`)."""

    def __init__(
        self, folder: Path, *arguments: str, owner: PrivateKeyFile | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        self.config = folder / "config" / "accredit"
        self.config.mkdir(parents=True, exist_ok=True)
        self.owner = owner or make_key("human", "Ada", int(time.time()))
        if not (self.config / "owner.key").exists():
            write_key(self.config / "owner.key", self.owner)
        self.socket = folder / "run" / "accredit" / "desk.sock"
        self.env = {
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_RUNTIME_DIR": str(folder / "run"),
            **(env or {}),
        }
        self._arguments = arguments
        self._stderr = folder / f"desk-stderr-{secrets.token_hex(4)}"

    def __enter__(self) -> Self:
        no_browser = () if "BROWSER" in self.env else ("--no-browser",)
        with self._stderr.open("wb") as stderr:
            self.process = Warm(
                [*COMMAND, "desk", "--port", "0", *no_browser, *self._arguments],
                cwd=self.folder, env=environment(self.env), start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr,
            )  # fmt: skip
        try:
            wait_until(lambda: bool(_LINK.search(self.stderr)) or self.process.poll() is not None)
            found = _LINK.search(self.stderr)
            assert found, self.stderr
        except AssertionError:
            self.kill()
            raise
        self.url, self.port = found[1], int(found[2])
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def stderr(self) -> str:
        """What it has written to stderr."""
        return self._stderr.read_text("utf-8")

    @property
    def journal(self) -> str:
        """Its journal's text."""
        return (self.folder / "state" / "accredit" / "journal.jsonl").read_text("utf-8")

    def link(self) -> str:
        """The latest link that it has printed."""
        found = _LINK.findall(self.stderr)[-1]
        return f"{found[0]}{found[2]}#k={found[3]}"

    def new_link(self) -> str:
        """A link that nobody has used, as `accredit desk open` has it printed."""
        before = len(_LINK.findall(self.stderr))
        assert self.tell({"open": True}) == {"opened": "terminal"}
        wait_until(lambda: len(_LINK.findall(self.stderr)) > before)
        return self.link()

    def page(self, context: Any, path: str = "/") -> Any:
        """A new page of a browser's context, signed in and at a path."""
        page = context.new_page()
        page.goto(self.new_link())
        page.wait_for_selector("nav a")
        if path != "/":
            page.goto(self.url + path)
        return page

    def asked(self, ask: Ask) -> "Line":
        """The line on which an agent waits for the answer to this ask."""
        line = Line(self.socket)
        assert line.tell({"ask": ask.to_dict()})["state"] == "pending"
        return line

    def tell(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """Says one thing over the socket; the first line of the answer."""
        with Line(self.socket) as line:
            return line.tell(said)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Sends it a signal; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        """Ends it at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)


class Line:
    """A connection to a desk's socket."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(PATIENCE)
        self._socket.connect(str(path))
        self._file = self._socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Sends bytes as they are."""
        self._socket.sendall(data)

    def tell(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """Says one thing; the next line."""
        self.send(json.dumps(said).encode() + b"\n")
        return self.next()

    def next(self) -> dict[str, Any]:
        """The next line; {} at the end."""
        line = self._file.readline()
        return json.loads(line) if line else {}


class Agent:
    """An agent that asks."""

    def __init__(self, name: str = "Assistant") -> None:
        self.name = name
        self.key = make_key("agent", "Agent", int(time.time()))

    def ask(self, params: Mapping[str, Any] = CALL, **changes: Any) -> Ask:
        """A signed ask for a call, made now."""
        now = int(time.time())
        members: dict[str, Any] = {
            "accredit_ask": 1,
            "id": secrets.token_hex(16),
            "asked_at": now,
            "expires_at": now + 600,
            "agent": Asker(self.name, self.key.public_key),
            "gateway": AskedGateway(GATEWAY, "http://127.0.0.1:8484/mcp"),
            "principals": (),
            "method": "tools/call",
            "target": str(params.get("name")),
            "params": dict(params),
            "refusal": AskedRefusal("ratify_scope_denied", "custom:mail:send_email", ("mcp:tool",)),
            "server_says": ServerWords("", "Sends a message.", {"destructiveHint": True}),
        }
        return Ask(**members | changes).signed(self.key.signer())
