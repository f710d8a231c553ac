"""All servers behind one gateway, each at `/mcp/NAME`, as a user sets it up: `init` and `add` ask the real servers. The
gateway demands proofs, holds every definition to the lock and records every call.

I/O: processes on free ports of 127.0.0.1, files in the folder of the run.
"""

import json
import re
import shutil
import threading
from collections.abc import Iterable
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Self

from tests.interop.cells import Cell, read, record
from tests.interop.compare import Transcript
from tests.interop.environments import Environments
from tests.interop.servers import Server
from tests.interop.ways import (
    COMMAND_SECONDS,
    DATA,
    Endpoint,
    Place,
    Process,
    connecting,
    delegate,
    gateway_in,
    ran,
    server_over_http,
)
from tests.world.command import accredit
from tests.world.recorded import records_of

WAY, ALL = "connect to one of many", "connect to all as one"
"""What these ways are called beside the others (`ways.py`): `/mcp/NAME`, and `/mcp`, where all are merged."""


class OneGateway:
    """`with OneGateway(run, environments, servers) as gateway`: a gateway before these servers.

    What a server has on the disk is made anew for each cell, so that the cells of one server are played one after the
    other; those of the others meanwhile, at the same gateway. A session with all servers starts all that are commands,
    and each has a few seconds to answer: there is one such cell at a time.
    """

    def __init__(self, run: Path, environments: Environments, servers: Iterable[Server]) -> None:
        self.folder = run / "one-gateway"
        self.run = run
        self._environments = environments
        self._running = ExitStack()
        self._servers = {server.name: server for server in servers}
        self._turns = {name: threading.Lock() for name in self._servers}
        self._all = threading.Lock()
        self._processes: dict[str, Process] = {}
        self._url = ""

    def __enter__(self) -> Self:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        with ExitStack() as stack:
            upstreams = {name: self._start(name, stack) for name in self._servers}
            self._configure(upstreams)
            self._url, _ = stack.enter_context(gateway_in(self.folder))
            self._running = stack.pop_all()
        return self

    def __exit__(self, *raised: object) -> None:
        self._running.close()

    def play(self, cell: Cell, way: str = WAY) -> Transcript:
        """The transcript of a cell's client at its server. One that is there whole is taken as it is."""
        name, folder = cell.server.name, cell.folder(self.run, way)
        with self._turns[name], self._all if way == ALL else nullcontext():
            if not cell.played(self.run, way):
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
                place = self._place(name, folder)
                _fill(place)
                url = self._url if way == ALL else f"{self._url}/{name}"
                endpoint = Endpoint(
                    {"command": connecting(url, self.folder, folder)}, merged=name if way == ALL else ""
                )
                if name in self._processes:
                    endpoint.parts = {"server": self._processes[name]}
                record(cell.client, place, endpoint)
        return read(folder)

    def faults(self) -> list[str]:
        """What is wrong at the end: a server that is not as it was pinned, and calls that went on without the pinned
        definition, or another server's, in their record."""
        checked = json.loads(accredit("check", "--json", folder=self.folder, patience=COMMAND_SECONDS).stdout)
        found = [
            f"{name}: {finding['text']}"
            for name, server in checked["servers"].items()
            for finding in server["findings"]
            if finding["problem"].endswith("_definition")
        ]
        lock = json.loads((self.folder / "accredit.lock").read_text("utf-8"))["servers"]
        for each in records_of(self.folder / "accredit.db"):
            call = each.call
            if call.method == "tools/call" and each.decision is not None and each.decision.verdict == "allow":
                pinned = lock[call.server]["tools"][(call.target or "").removeprefix(f"{call.server}__")]["sha256"]
                if call.definition != pinned:
                    found.append(f"{call.server}: {call.target} was called as {call.definition}")
        return found

    def _place(self, name: str, folder: Path) -> Place:
        return Place(self._servers[name], self._environments, folder, self.folder, self.folder / name / DATA)

    def _start(self, name: str, stack: ExitStack) -> list[str] | str:
        """Starts a server that speaks HTTP; gives its URL, or the command that the gateway is to start."""
        place = self._place(name, self.folder / name)
        place.data.mkdir(parents=True)
        _fill(place)
        if place.server.http is None:
            return place.stdio()
        url, self._processes[name] = stack.enter_context(server_over_http(place))
        return url

    def _configure(self, upstreams: dict[str, list[str] | str]) -> None:
        """Adds each server, which the commands ask, to one configuration and one lock; grants all scopes."""
        for name, upstream in upstreams.items():
            first = not (self.folder / "accredit.toml").exists()
            named = ["init", "--server", name] if first else ["add", name]
            ran(self.folder, *named, *([upstream] if isinstance(upstream, str) else ["--", *upstream]))
        file = self.folder / "accredit.toml"
        text = file.read_text("utf-8").replace("[gateway]\n", "[gateway]\nmerge = true\n")
        file.write_text(text, "utf-8")
        delegate(self.folder, re.findall(r'^scope = "([^"]+)"', text, re.MULTILINE))


def _fill(place: Place) -> None:
    """Makes the server's folder as it is before anybody calls. The folder itself stays: the server runs in it."""
    for each in place.data.iterdir():
        if each.is_dir():
            shutil.rmtree(each)
        else:
            each.unlink()
    place.server.prepare(place.data)
