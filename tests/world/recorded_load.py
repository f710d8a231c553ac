"""Many calls at once through a gateway that records them, and what must hold of its log whatever happens meanwhile.

I/O: loopback, the log's file, processes.
"""

import asyncio
import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.world.calls import http, post, response
from tests.world.command import Serving, accredit
from tests.world.patient_stores import COMMAND, IMPORTS
from tests.world.raw_client import CutOff, RawClient
from tests.world.raw_server import Connection
from tests.world.recorded import calls_of

from accredit.jsonrpc.methods import Era

LONG = 60.0
"""Seconds for a command that reads all of a long log, on a machine that has other work."""


def configure(folder: Path, upstream: str, *, mode: str = "durable", db: Path | None = None) -> Path:
    """A key and a configuration that records calls; gives the log's file: `db`, or one in the folder."""
    if not (folder / "gateway.key").exists():
        assert accredit("keys", "new", "gateway.key", "--kind", "gateway", folder=folder).returncode == 0
    db = db or folder / "accredit.db"
    (folder / "accredit.toml").write_text(
        f'[upstream]\n{upstream}\n[attest]\nmode = "{mode}"\nkey_file = "gateway.key"\n[store]\nurl = "sqlite:///{db}"\n'
    )
    return db


def verify(folder: Path, *options: str) -> dict[str, Any]:
    """What `accredit log verify` says of the log in a folder, with the key there."""
    where = ("--store", "sqlite:///accredit.db", "--key", "gateway.key.pub")
    done = accredit("log", "verify", "--json", *where, *options, folder=folder, patience=LONG)
    found = json.loads(done.stdout)
    assert done.returncode == 0, found
    return found


def serving(folder: Path, *arguments: str, within: Sequence[str] = ()) -> Serving:
    """A gateway of the folder, whose store waits where the machine stalls; it is started `within` what comes first."""
    return Serving(*arguments, folder=folder, command=(*within, *COMMAND), env=IMPORTS)


class Upstream:
    """Answers calls, and notes their targets. While `held` is not set, it lets them wait."""

    def __init__(self) -> None:
        self.called: list[str] = []
        self.held = asyncio.Event()
        self.held.set()

    async def __call__(self, connection: Connection) -> None:
        while (request := await connection.request()) is not None:
            message = json.loads(request.body)
            self.called.append(message["params"]["name"])
            await self.held.wait()
            await connection.send(http(response(message["id"])))


async def ask(client: RawClient, tool: str) -> Any:
    """Calls a tool; gives the response."""
    posted = post(Era.MODERN, "tools/call", {"name": tool, "arguments": {}})
    await client.ask("POST", "/mcp", posted.headers, posted.body)
    return json.loads((await client.answer()).body)


async def readiness(port: int) -> tuple[int, Any]:
    """What `/readyz` says: the status, and the body."""
    async with RawClient(port) as client:
        await client.ask("GET", "/readyz")
        answer = await client.answer()
        return answer.status, json.loads(answer.body)


class Load:
    """Clients that call and call, each call with a target of its own; by their answers, the targets."""

    def __init__(self) -> None:
        self.answered: list[str] = []
        self.refused: list[str] = []
        """Not forwarded, as the gateway says: their decision could not be recorded."""
        self.withheld: list[str] = []
        """Forwarded; but their outcome could not be recorded."""

    async def work(self, port: int, prefix: str, clients: int) -> None:
        """Calls until the gateway is gone."""
        await asyncio.gather(*(self._client(port, f"{prefix}-c{each}") for each in range(clients)))

    async def _client(self, port: int, prefix: str) -> None:
        with contextlib.suppress(OSError, CutOff):
            async with RawClient(port) as client:
                for number in range(1_000_000):
                    target = f"{prefix}-{number}"
                    self._note(target, await ask(client, target))

    def _note(self, target: str, said: Any) -> None:
        if "result" in said:
            self.answered.append(target)
            return
        assert said["error"]["code"] == -31006, said
        (self.withheld if said["error"]["data"]["forwarded"] else self.refused).append(target)

    def check(self, db: Path, called: list[str]) -> dict[str, dict[str, Any]]:
        """What must hold, when all writers have ended and been closed; gives the log's calls by their targets."""
        found = {call["target"]: call for call in calls_of(db)}
        assert len(called) == len(set(called))
        assert [target for target in called if target not in found] == [], "forwarded without a record"
        assert [target for target in self.answered if found[target]["status"] != "ok"] == [], "answered without one"
        assert set(self.refused).isdisjoint(called), "forwarded, though the client was told otherwise"
        assert set(self.withheld) <= set(called)
        assert {call["verdict"] for call in found.values()} == {"allow"}
        # A decision that was too late for its call may be on record all the same, as one that was not forwarded.
        late = {target for target, call in found.items() if call["status"] == "error"}
        assert late.isdisjoint(called), "forwarded, though the record says otherwise"
        assert [each for each in found if found[each]["status"] not in ("ok", "unknown", "error")] == [], "left open"
        return found
