"""The ways from a client to a server: directly, and through each form of the gateway.

I/O: processes on free ports of 127.0.0.1, files in the folder of the cell. Each way is a context manager that gives an
`Endpoint`; what it started is ended with it.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tomllib
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct
from tests.interop.environments import Environments
from tests.interop.servers import Server
from tests.world.command import COMMAND, accepts, accredit, environment, wait_until
from tests.world.ports import reserved_port
from tests.world.warm import Warm

COMMAND_SECONDS = 120.0
DATA = "data"
HELPER = b"reaper.py"
AUTHORITY = ("accredit.toml", "gateway.key", "gateway.key.pub", "owner.key.pub", "agent.key", "delegation.json")


class Place(Struct, frozen=True):
    """Where a cell runs: a server, the environments, and folders. `data` is the server's own.

    `served` is that folder where the server runs already, for several cells.
    """

    server: Server
    environments: Environments
    folder: Path
    authority: Path
    served: Path | None = None

    @property
    def data(self) -> Path:
        return self.served or self.folder / DATA

    def stdio(self) -> list[str]:
        """The server's command."""
        return self.server.stdio(self.environments, self.data)


class Process:
    """A server that listens on a port, in a process group of its own; it can be started again."""

    def __init__(self, command: list[str], port: int, log: Path, env: dict[str, str]) -> None:
        self._command, self._port, self._log, self._env = command, port, log, env
        self._process: Warm | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = Warm(
                self._command, env=environment(self._env), cwd=self._log.parent, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        process = self._process
        wait_until(lambda: accepts(self._port) or process.poll() is not None)
        assert process.poll() is None, self._log.read_text("utf-8", "replace")

    def end(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):  # nobody of the group is left
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def restart(self) -> None:
        self.end()
        self.start()

    def children(self) -> list[int]:
        """The process groups of what it has started, without the gateway's own helper."""
        assert self._process is not None
        pid = self._process.pid
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()
        return [int(child) for child in found if HELPER not in Path(f"/proc/{child}/cmdline").read_bytes()]


class Children:
    """The servers that a gateway has started. What is killed of them, the gateway starts again."""

    def __init__(self, gateway: Process) -> None:
        self._gateway = gateway

    def restart(self) -> None:
        for child in self._gateway.children():
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.killpg(child, signal.SIGKILL)


class Endpoint(Struct):
    """Where the client goes, as `programs/player.py` reads it; and what can be restarted meanwhile. `merged` is the
    server's name where it is one of several that are merged."""

    target: dict[str, Any]
    parts: dict[str, Process | Children] = {}
    merged: str = ""


@contextmanager
def _process(name: str, command: list[str], folder: Path, port: int) -> Generator[Process]:
    process = Process(command, port, folder / f"{name}.log", {"PORT": str(port)})
    try:
        process.start()
        yield process
    finally:
        process.end()


@contextmanager
def server_over_http(place: Place) -> Generator[tuple[str, Process]]:
    """The server over HTTP; gives its URL."""
    assert place.server.http is not None
    with reserved_port() as port:
        command = [part.replace("$PORT", str(port)) for part in place.server.http(place.environments, place.data)]
        with _process("server", command, place.folder, port) as process:
            yield f"http://127.0.0.1:{port}/mcp", process


@contextmanager
def gateway_in(folder: Path, *arguments: str) -> Generator[tuple[str, Process]]:
    """A gateway that runs in a folder; gives the URL of `/mcp`."""
    with reserved_port() as port:
        command = [*COMMAND, "serve", "--port", str(port), *arguments]
        with _process("gateway", command, folder, port) as process:
            yield f"http://127.0.0.1:{port}/mcp", process


@contextmanager
def direct_http(place: Place) -> Generator[Endpoint]:
    """The client speaks HTTP with the server."""
    with server_over_http(place) as (url, process):
        yield Endpoint({"url": url}, {"server": process})


@contextmanager
def direct_stdio(place: Place) -> Generator[Endpoint]:
    """The client starts the server."""
    yield Endpoint({"command": place.stdio()})


@contextmanager
def serve_url(place: Place) -> Generator[Endpoint]:
    """`accredit serve URL`."""
    with server_over_http(place) as (upstream, server), gateway_in(place.folder, upstream) as (url, gateway):
        yield Endpoint({"url": url}, {"server": server, "gateway": gateway})


@contextmanager
def serve_command(place: Place) -> Generator[Endpoint]:
    """`accredit serve -- COMMAND`."""
    with gateway_in(place.folder, "--", *place.stdio()) as (url, gateway):
        parts = {"server": Children(gateway), "gateway": gateway} if place.server.http is not None else {}
        yield Endpoint({"url": url}, parts)


@contextmanager
def wrap(place: Place) -> Generator[Endpoint]:
    """The client starts `accredit wrap -- COMMAND`."""
    yield Endpoint({"command": [*COMMAND, "wrap", "--", *place.stdio()]})


@contextmanager
def connect(place: Place) -> Generator[Endpoint]:
    """The client starts `accredit connect`, which signs each call for a gateway that demands proofs and records."""
    for name in AUTHORITY:
        shutil.copy(place.authority / name, place.folder)
    with contextlib.ExitStack() as stack:
        server: Process | None = None
        if place.server.http is None:
            upstream = f"command = {toml(place.stdio())}"
        else:
            url, server = stack.enter_context(server_over_http(place))
            upstream = f"url = {toml(url)}"
        configuration = place.folder / "accredit.toml"
        configuration.write_text(_with_upstream(configuration.read_text("utf-8"), upstream), "utf-8")
        url, gateway = stack.enter_context(gateway_in(place.folder, "--config", str(configuration)))
        parts = {"server": server or Children(gateway), "gateway": gateway}
        yield Endpoint({"command": connecting(url, place.folder, place.folder)}, parts)


def connecting(url: str, authority: Path, own: Path) -> list[str]:
    """The command of `accredit connect`, with the agent's key and delegation; what it remembers is in `own`."""
    files = ["--key", str(authority / "agent.key"), "--delegation", str(authority / "delegation.json")]
    return ["/usr/bin/env", f"XDG_CONFIG_HOME={own}", *COMMAND, "connect", url, *files]


def toml(value: str | list[str]) -> str:
    """A text or a list of texts as TOML has them."""
    quoted = [f"'{each}'" for each in ([value] if isinstance(value, str) else value)]
    return quoted[0] if isinstance(value, str) else f"[{', '.join(quoted)}]"


def _with_upstream(text: str, upstream: str) -> str:
    """The configuration for another place of the same server."""
    lines = text.splitlines()
    at = lines.index("[upstream]") + 1
    return "\n".join([*lines[:at], upstream, *lines[at + 1 :], ""])


def ran(folder: Path, *arguments: str) -> str:
    """What an `accredit` command prints that has to succeed."""
    done = accredit(*arguments, folder=folder, patience=COMMAND_SECONDS)
    assert done.returncode == 0, f"accredit {' '.join(arguments)}: {done.stderr}"
    return done.stdout


def delegate(folder: Path, scopes: Iterable[str]) -> None:
    """Keys of an owner and an agent, and a delegation of these scopes."""
    ran(folder, "keys", "new", "owner.key", "--kind", "human", "--name", "Owner", "--no-passphrase")
    ran(folder, "keys", "new", "agent.key", "--kind", "agent", "--name", "Agent")
    options = [part for scope in sorted(set(scopes)) for part in ("--scope", scope)]
    key = ("--issuer", "owner.key", "--agent", "agent.key.pub")
    ran(folder, "grant", *key, *options, "--yes", "--out", "delegation.json")


def authorize(place: Place) -> None:
    """What a user does once: `init`, keys, and a grant of every scope that the configuration names."""
    if place.server.http is None:
        ran(place.authority, "init", "--", *place.stdio())
    else:
        with server_over_http(place) as (url, _):
            ran(place.authority, "init", url)
    catalog = tomllib.loads((place.authority / "accredit.toml").read_text("utf-8"))
    entries = [*catalog.get("tools", {}).values(), catalog["resources"], catalog["prompts"]]
    delegate(place.authority, (entry["scope"] for entry in entries))


Way = Callable[[Place], AbstractContextManager[Endpoint]]
WAYS: dict[str, Way] = {
    "direct-http": direct_http,
    "direct-stdio": direct_stdio,
    "serve URL": serve_url,
    "serve -- COMMAND": serve_command,
    "wrap": wrap,
    "connect": connect,
}


def baselines(way: str, server: Server) -> list[str]:
    """The direct ways that a way is compared with: first the one by which the server is reached at its end.

    The second is for steps that the first has not: only over HTTP can a server be restarted while its client goes on.
    """
    if way.startswith("direct"):
        return []
    over_http, over_stdio = ["direct-http"] if server.http is not None else [], ["direct-stdio"]
    if way == "wrap":
        return over_stdio
    return over_stdio + over_http if way == "serve -- COMMAND" else over_http or over_stdio


def possible(way: str, server: Server) -> bool:
    """Whether the server can be reached so."""
    return server.http is not None or way not in ("direct-http", "serve URL")
