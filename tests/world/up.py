"""A person who runs `accredit up`: a home of their own, a folder to work in, and what is left of both. I/O: processes,
files in the test's folder."""

import contextlib
import os
import re
import secrets
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tests.world.command import accredit, environment, wait_until
from tests.world.connected import Connected
from tests.world.raw_server import PATIENCE
from tests.world.terminal import Terminal
from tests.world.warm import COMMAND, Warm

PASSPHRASE = "correct horse battery staple"
INBOX = {"name": "list_inbox", "arguments": {}}


class Newcomer:
    """Somebody without any file of `accredit`'s. `work` is the current folder, `own` that of keys."""

    def __init__(self, folder: Path, port: int) -> None:
        self.home, self.work, self.port = folder / "home", folder / "work", port
        self.own = self.home / ".config" / "accredit"
        for each in (self.home, self.work, folder / "run"):
            each.mkdir(parents=True)
        self.secret = folder / "secret"
        self.secret.write_text(PASSPHRASE)
        self.secret.chmod(0o600)
        self.env = {
            "HOME": str(self.home), "XDG_RUNTIME_DIR": str(folder / "run"), "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": "",
            "CLAUDE_CONFIG_DIR": "", "CODEX_HOME": "", "DISPLAY": "", "WAYLAND_DISPLAY": "", "BROWSER": "",
        }  # fmt: skip

    @property
    def url(self) -> str:
        """The gateway's endpoint."""
        return f"http://127.0.0.1:{self.port}/mcp"

    def words(self, *server: str, new: bool = True, secret: bool = True) -> list[str]:
        """The command line without the command; options before the server, whose command may follow `--`."""
        port = ["--port", str(self.port)] if new and not (self.work / "accredit.toml").exists() else []
        given = ["--passphrase-file", str(self.secret)] if secret else []
        return ["up", "--no-browser", *port, *given, *server]

    def run(self, *words: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end, in the folder."""
        return accredit(*words, folder=self.work, env={**self.env, **(env or {})})

    def up(self, *server: str, **more: Any) -> "Up":
        """`accredit up` without a terminal."""
        return Up(self, self.words(*server, **more))

    def terminal(self, *words: str) -> Terminal:
        """A command in a terminal."""
        return Terminal(*words, folder=self.work, env=self.env)

    def files(self) -> dict[str, tuple[bytes, int, int]]:
        """What is in all files but those of the processes that run, with mode and time of change."""
        found: dict[str, tuple[bytes, int, int]] = {}
        for folder in (self.home, self.work):
            for path in sorted(folder.rglob("*")):
                if path.is_file() and not re.search(r"accredit\.(db|pid)|journal|up\.lock|desk\.sock", str(path)):
                    status = path.stat()
                    found[str(path)] = (path.read_bytes(), status.st_mode, status.st_mtime_ns)
        return found

    def calls(self, tool: Mapping[str, Any] = INBOX) -> Any:
        """What an agent gets that a host starts: the result, or the error."""
        held = ("--key", str(self.own / "agent.key"), "--delegation", str(self.own / "delegation.json"))
        with Connected(self.home.parent, self.url, *held, "--ask", "off", **self.env) as host:
            host.initialize()
            host.ask("tools/list")
            told = host.ask("tools/call", dict(tool))
            return told.get("result") or told["error"]


class Up:
    """`with newcomer.up(URL) as up`: the process, from its last step on; `begun` waits for that."""

    def __init__(self, person: Newcomer, words: list[str], command: Sequence[str] = COMMAND) -> None:
        self._out = person.work.parent / f"up-{secrets.token_hex(4)}"
        with self._out.open("wb") as output:
            self.process = Warm(
                [*command, *words], cwd=person.work, env=environment(person.env), start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip

    @property
    def said(self) -> str:
        """What it and its children have written."""
        return self._out.read_text("utf-8")

    def __enter__(self) -> Self:
        try:
            assert self.is_up(), self.said
        except AssertionError:
            self.kill()
            raise
        return self

    def is_up(self) -> bool:
        """Waits until it has ended, or gateway and desk are there; whether they are."""
        wait_until(lambda: "up: http" in self.said or self.process.poll() is not None)
        return "up: http" in self.said

    def __exit__(self, *_: object) -> None:
        children = self.children()
        self.kill()
        wait_until(lambda: not any(map(runs, children)))

    def children(self) -> list[int]:
        """The processes that it has started."""
        with contextlib.suppress(OSError):
            return list(
                map(int, Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split())
            )
        return []

    def child(self, word: str) -> int:
        """The one that runs a command."""
        (found,) = [each for each in self.children() if f"\0{word}\0" in Path(f"/proc/{each}/cmdline").read_text()]
        return found

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Sends it a signal; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        """Ends it at once, and nobody but it."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)


def runs(pid: int) -> bool:
    """Whether a process runs; what has ended and was not reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
