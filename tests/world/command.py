"""Runs the real `accredit` command as a process of its own. I/O: processes, files in the test's folder."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tests.world.raw_server import PATIENCE
from tests.world.warm import COMMAND, Warm


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without any configuration of ours, nor a desk of whoever runs the tests, and with
    `extra`."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("ACCREDIT_")}
    state = {} if "HOME" in (extra or {}) else {"XDG_STATE_HOME": os.devnull}
    return {**own, **state, "COLUMNS": "100", **(extra or {})}


def accredit(
    *arguments: str,
    folder: Path,
    env: Mapping[str, str] | None = None,
    patience: float = PATIENCE,
    command: Sequence[str] = COMMAND,
) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end in `folder`. `command` is who runs it."""
    with _start_of(command)(
        [*command, *arguments],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
        env=environment(env),
    ) as process:  # fmt: skip
        try:
            stdout, stderr = process.communicate(timeout=patience)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def _start_of(command: Sequence[str]) -> type[subprocess.Popen[Any]]:
    """What starts it: what changes limits or clocks has to come before all other imports."""
    return Warm if tuple(command) == COMMAND else subprocess.Popen


def wait_until(condition: Callable[[], bool]) -> None:
    """Waits until `condition` holds; fails after `PATIENCE`."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def accepts(port: int, host: str = "127.0.0.1") -> bool:
    """Whether something listens on a port."""
    with socket.socket() as client:
        client.settimeout(PATIENCE)
        return client.connect_ex((host, port)) == 0


class Serving:
    """`with Serving(...) as gateway`: `accredit serve --port 0 ARGUMENTS`, from its "listening" line on.

    It has a process group of its own. What is left of that at the end is killed. `command` is who serves; `cold` is how
    Python starts it, as slowly as always.
    """

    def __init__(
        self,
        *arguments: str,
        folder: Path,
        env: Mapping[str, str] | None = None,
        command: Sequence[str] = COMMAND,
        cold: bool = False,
    ) -> None:
        self._stderr = folder / f"stderr-{id(self)}"
        start = subprocess.Popen if cold else _start_of(command)
        with self._stderr.open("wb") as stderr:
            self.process = start(
                [*command, "serve", "--port", "0", *arguments],
                cwd=folder, env=environment(env), start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr,
            )  # fmt: skip

    def __enter__(self) -> Self:
        try:
            wait_until(lambda: self._listens() is not None or self.process.poll() is not None)
            found = self._listens()
            assert found, self.stderr
        except AssertionError:
            self._kill()
            raise
        self.url, self.port = found[1], int(found[2])
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()

    @property
    def stderr(self) -> str:
        """What it has written to stderr."""
        return self._stderr.read_text("utf-8")

    @property
    def workers(self) -> set[int]:
        """The process ids of its children."""
        pid = self.process.pid
        return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()}

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Sends it a signal."""
        self.process.send_signal(number)

    def wait(self) -> int:
        """Waits for its end; returns the exit code, negative for a signal."""
        return self.process.wait(PATIENCE)

    def _listens(self) -> re.Match[str] | None:
        return re.search(r"listening on (https?://\S+:(\d+)/\S*) ", self.stderr)

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):  # nobody of the group is left
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)


def with_nobody_to_ask(commands: str) -> str:
    """A page's commands as a program gives them: where there is no terminal, a person's key is to have no
    passphrase."""
    return commands.replace("--kind human", "--kind human --no-passphrase")
