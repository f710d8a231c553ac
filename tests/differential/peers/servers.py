"""Real servers for the corpus: each in a process of its own, with a file of what arrived and what ran. I/O: processes,
files, sockets on 127.0.0.1; npm, Go and the JDK where they are."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct
from tests.conformance.node import OLDEST_NODE, NodeMissing, find_node
from tests.world.command import environment

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
INSTALL_SECONDS = 300
BUILD_SECONDS = 300


class ProgramMissing(Exception):
    """What a server needs is not on this machine. The text says what."""


def _need(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            raise ProgramMissing(f"{program} is not installed")


def _python(kind: str) -> Callable[[Path], list[str]]:
    return lambda _: [sys.executable, "-m", "tests.differential.peers.python_peers", kind]


def _typescript(file: str) -> Callable[[Path], list[str]]:
    def command(_: Path) -> list[str]:
        try:
            node = find_node()
        except NodeMissing:
            raise ProgramMissing(f"Node {OLDEST_NODE} or newer with npm is not installed") from None
        with (HERE / "package.json").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes, and each may be the first
            done, wanted = HERE / "node_modules" / ".installed", (HERE / "package-lock.json").read_bytes()
            if not done.exists() or done.read_bytes() != wanted:
                install = [*node.npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
                subprocess.run(install, cwd=HERE, check=True, timeout=INSTALL_SECONDS, stdout=subprocess.DEVNULL)
                done.write_bytes(wanted)
        return [node.node, str(HERE / file)]

    return command


def _go(folder: Path) -> list[str]:
    _need("go")
    cache = {} if "GOCACHE" in os.environ or "HOME" in os.environ else {"GOCACHE": str(folder / "go-cache")}
    build = ["go", "build", "-o", str(folder / "peer"), str(HERE / "peer.go")]
    subprocess.run(build, check=True, timeout=BUILD_SECONDS, env={**os.environ, **cache})
    return [str(folder / "peer")]


def _java(folder: Path) -> list[str]:
    _need("java", "javac")
    subprocess.run(["javac", "-d", str(folder), str(HERE / "Peer.java")], check=True, timeout=BUILD_SECONDS)
    return ["java", "-cp", str(folder), "Peer"]


class Kind(Struct, frozen=True):
    """A kind of server: its command, whose making may build something in a folder and raises `ProgramMissing`; and the
    path that it serves."""

    command: Callable[[Path], list[str]]
    path: str = "/mcp"


KINDS = {
    "python-sdk": Kind(_python("sdk")),
    "fastmcp": Kind(_python("fastmcp")),
    "typescript-v1": Kind(_typescript("typescript_v1.mjs")),
    "typescript-v1-sse": Kind(_typescript("typescript_v1.mjs"), "/sse"),
    "typescript-v2": Kind(_typescript("typescript_v2.mjs")),
    "go": Kind(_go),
    "java": Kind(_java),
}
TASKS = Kind(_typescript("typescript_tasks.mjs"))


class Peer:
    """A server that runs."""

    def __init__(self, port: int, path: str, notes: Path) -> None:
        self.port = port
        self.path = path
        self._notes = notes
        self._seen: list[dict[str, Any]] = []
        self._read = 0

    @property
    def url(self) -> str:
        """Where it serves."""
        return f"http://127.0.0.1:{self.port}{self.path}"

    def noted(self) -> list[dict[str, Any]]:
        """What it noted down, in its order."""
        if self._notes.exists():
            with self._notes.open("rb") as file:
                file.seek(self._read)
                for line in file:
                    if line.endswith(b"\n"):
                        self._seen.append(json.loads(line))
                        self._read += len(line)
        return self._seen

    def arrived(self) -> int:
        """How many requests with a body have come."""
        return sum("arrived" in seen for seen in self.noted())

    def ran(self) -> list[dict[str, Any]]:
        """The runs of its tools: name and arguments, as the server read them."""
        return [seen for seen in self.noted() if "name" in seen]


@contextmanager
def running(command: list[str], path: str, folder: Path) -> Generator[Peer]:
    """The server of this command, which serves `path`, until the block is left."""
    notes = folder / "notes.jsonl"
    with (folder / "stderr").open("wb") as stderr:
        process = subprocess.Popen(
            [*command, str(notes)], cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=stderr, text=True
        )
    try:
        assert process.stdout is not None
        word, port = process.stdout.readline().split()
        assert word == "listening"
        yield Peer(int(port), path, notes)
    finally:
        process.kill()
        process.communicate()
