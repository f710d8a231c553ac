"""`accredit connect` as a host sees it: a process with lines on its stdin and stdout. I/O: processes, files."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any, Self

from tests.world.calls import compact
from tests.world.command import COMMAND, environment
from tests.world.raw_server import PATIENCE
from tests.world.warm import Warm


class Connected:
    """`with Connected(folder, url, OPTIONS...) as host`. What is left of it at the end is killed."""

    def __init__(self, folder: Path, url: str, *options: str, **env: str) -> None:
        self._stderr = folder / f"connect-{id(self)}.stderr"
        with self._stderr.open("wb") as stderr:
            self.process = Warm(
                [*COMMAND, "connect", url, *options],
                cwd=folder, env=environment(env), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
            )  # fmt: skip
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._stdin, self._stdout = self.process.stdin, self.process.stdout
        self.read = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        self._stdin.close()
        self._stdout.close()

    @property
    def stderr(self) -> str:
        """What it has written to stderr."""
        return self._stderr.read_text("utf-8")

    def write(self, line: bytes) -> None:
        """Writes a line, whatever is in it."""
        self._stdin.write(line + b"\n")
        self._stdin.flush()

    def say(self, **message: Any) -> None:
        """Sends a message."""
        self.write(compact({"jsonrpc": "2.0", **message}))

    def hear(self) -> Any:
        """The next message."""
        line = self._stdout.readline()
        self.read += line
        assert line, f"it has ended: {self.stderr}"
        return json.loads(line)

    def ask(self, method: str, params: dict[str, Any] | None = None, *, id: int | str = 7) -> Any:
        """Sends a request; gives the response, which is the next message."""
        self.say(id=id, method=method, params=params or {})
        return self.hear()

    def initialize(self, revision: str = "2025-11-25") -> Any:
        """Begins a legacy session."""
        info = {"name": "host", "version": "1"}
        params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": info}
        told = self.ask("initialize", params, id="init")
        assert "result" in told, told
        assert told["result"]["protocolVersion"] == revision
        self.say(method="notifications/initialized")
        return told

    def close_input(self) -> None:
        """The host closes its side."""
        self._stdin.close()

    def rest(self) -> bytes:
        """All that it still writes, to the end."""
        return self._stdout.read()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Sends it a signal."""
        self.process.send_signal(number)

    def wait(self) -> int:
        """Waits for its end; gives the exit code."""
        return self.process.wait(PATIENCE)
