"""Twenty hostile callers and five hostile servers: a gateway and its log writer keep to the memory that is promised.

What they ask for, and are answered with, becomes as much as it may: lists of millions, lists that are edited, results,
events and errors of 16 MiB, bodies of 4 MiB, all at once, by callers who have proved something and strangers, of whom
some read slowly or not at all. Where tools are pinned, the gateway asks for their lists itself besides.
"""

import asyncio
import contextlib
import itertools
import json
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from tests.world.asgi import Told
from tests.world.authorization import GATEWAY, Signed, Trust
from tests.world.calls import Posted, post
from tests.world.command import Serving, accredit
from tests.world.heavy_bodies import bodies
from tests.world.patient_stores import COMMAND, IMPORTS
from tests.world.raw_client import CutOff, RawClient
from tests.world.running import run
from tests.world.siege import HONEST, TOOL

from accredit.gateway import GatewaySettings, HttpUpstream, create_app
from accredit.jsonrpc.methods import Era
from accredit.keys import write_key
from accredit.pins.definitions import Definition, Definitions, digest_of
from accredit.pins.lock import write_lock

pytestmark = pytest.mark.slow

HOSTILE = 5
CALLERS = 20
CALLS = 30
"""Calls of each of three honest callers at the honest server."""
MOST_MIB = 384
"""What a gateway and its log writer stay under, says docs/reference/limits.md."""
HEAVY = ("members that pass", "texts", "objects that sort otherwise", "marks in a name", "escapes")

_CONFIGURATION = """
[gateway]
id = "{id}"
merge = true
[proofs]
mode = "required"
default_tool_scope = "mcp:tool"
[[proofs.roots]]
name = "Owner"
public_key_file = "owner.key.pub"
[attest]
mode = "durable"
key_file = "gateway.key"
[store]
url = "sqlite:///accredit.db"
"""


class Besieged:
    """The gateway's process, the servers, and calls."""

    def __init__(
        self, folder: Path, command: tuple[str, ...] = COMMAND, *, pins: bool = False, trust: Trust | None = None
    ) -> None:
        """With `pins` the servers' tools are pinned, and it is those that are called."""
        self.folder = folder
        self.trust = trust or Trust()
        self.pins = pins
        self._chain = self.trust.chain("mcp:resource", "mcp:tool")
        self._command = command
        self.latencies: list[float] = []

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        async with contextlib.AsyncExitStack() as stack:
            # Two processes: what the hostile ones cost must not be taken from the honest one.
            urls = await _served(stack, "siege", f"{HONEST}0") + await _served(stack, "greedy", str(HOSTILE))
            names = ["honest", *(f"greedy-{number}" for number in range(HOSTILE))]
            assert accredit("keys", "new", "gateway.key", "--kind", "gateway", folder=self.folder).returncode == 0
            write_key(self.folder / "owner.key", self.trust.owner)
            tables = "".join(f'[servers.{name}]\nurl = "{url}"\n' for name, url in zip(names, urls, strict=True))
            (self.folder / "accredit.toml").write_text(_CONFIGURATION.format(id=GATEWAY) + tables, "utf-8")
            if self.pins:
                tool = Definition("echo", digest_of(TOOL), TOOL)
                lock = write_lock({name: Definitions({"echo": tool}) for name in names})
                (self.folder / "accredit.lock").write_bytes(lock)
            config = ("--config", str(self.folder / "accredit.toml"))
            with Serving(*config, folder=self.folder, command=self._command, env=IMPORTS) as self.gateway:
                self.port = self.gateway.port
                yield

    def peak_mib(self) -> dict[str, float]:
        """The highest that each process of the gateway has been at."""
        found: dict[str, float] = {}
        for pid in {self.gateway.process.pid, *self.gateway.workers}:
            lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
            found[str(pid)] = int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) / 1024
        return found

    def call(self, server: str, what: str, era: Era = Era.MODERN) -> Posted:
        """A call with a proof: of a tool that is pinned, as by a client of its own, so that its list is asked for."""
        method, params, scope, meta = "resources/read", {"uri": f"test://{what}"}, "mcp:resource", {}
        if self.pins:
            method, params, scope = "tools/call", {"name": "echo", "arguments": {}}, "mcp:tool"
            meta = {"tests/caller": what}
        proof = self.trust.proof(self._chain, method, params, Signed(gateway=f"{GATEWAY}/{server}", scope=scope))
        return post(era, method, {**params, "_meta": {**meta, "ratify_proof": proof}}, id=7)

    async def honest(self, caller: int, calls: int = CALLS) -> None:
        """Calls one after the other at the honest server: each is answered."""
        async with RawClient(self.port) as client:
            for number in range(calls):
                await self.asked(client, self.call("honest", f"{caller}/{number}"))

    async def asked(self, client: RawClient, posted: Posted) -> None:
        """One call at the honest server: it is answered."""
        began = time.perf_counter()
        await client.ask("POST", "/mcp/honest", posted.headers, posted.body)
        answer = json.loads((await client.answer()).body)
        self.latencies.append(time.perf_counter() - began)
        assert "result" in answer, answer

    async def besiege(self, caller: int) -> None:
        """One hostile caller, for ever."""
        for number in itertools.count(caller):
            path, posted = self._hostile(caller, number)
            with contextlib.suppress(ConnectionError, CutOff, TimeoutError, asyncio.IncompleteReadError):
                async with RawClient(self.port, buffer=1 << 16) as client:
                    await client.ask("POST", path, [*posted.headers, ("Accept-Encoding", "br")], posted.body)
                    await self._listen(client, slow=number % 4 == 0)

    async def _listen(self, client: RawClient, *, slow: bool) -> None:
        await client.head()
        if slow:  # what is not read has to be kept
            await asyncio.sleep(1)
            return
        while await client.piece():
            pass

    def _hostile(self, caller: int, number: int) -> tuple[str, Posted]:
        server = f"greedy-{number % HOSTILE}"
        era = Era.MODERN if number % 2 else Era.LEGACY
        match caller % 5:
            case 0:
                return f"/mcp/{server}", post(era, ("tools/list", "prompts/list")[number % 2], {}, id=7)
            case 1:
                return f"/mcp/{server}", self.call(server, f"hostile/{caller}/{number}", era)
            case 2:
                return "/mcp", post(Era.MODERN, ("tools/list", "prompts/list")[number % 2], {}, id=7)
            case 3:
                body = bodies()[HEAVY[number % len(HEAVY)]].encode()
                return f"/mcp/{server}", Posted(post(Era.LEGACY, "tools/call", {}, id=7).headers, body)
            case _:
                return f"/mcp/{server}", post(era, "resources/list", {}, id=7)


async def _served(stack: contextlib.AsyncExitStack, module: str, *words: str) -> list[str]:
    """The URLs of servers in a process of their own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", f"tests.world.{module}", *words,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    stack.push_async_callback(process.wait)
    stack.callback(process.kill)
    assert process.stdout is not None
    return json.loads(await process.stdout.readline())


@contextlib.asynccontextmanager
async def under_siege(besieged: Besieged) -> AsyncGenerator[None]:
    tasks = [asyncio.create_task(besieged.besiege(caller)) for caller in range(CALLERS)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert not [each for each in ended if not isinstance(each, asyncio.CancelledError)]


@pytest.mark.holds("gateway/upstream/large_answers")
@pytest.mark.parametrize("pins", [False, True])
def test_twenty_hostile_callers_and_five_hostile_servers_take_no_more_memory_than_is_promised(
    pins: bool, tmp_path: Path
) -> None:
    besieged = Besieged(tmp_path, pins=pins)

    async def main() -> dict[str, float]:
        async with besieged.running(), under_siege(besieged):
            await asyncio.gather(*(besieged.honest(caller) for caller in range(3)))
            return besieged.peak_mib()

    peaks = run(main())
    assert len(peaks) == 2
    assert sum(peaks.values()) < MOST_MIB, peaks


@pytest.mark.parametrize("method", ["tools/list", "tools/call"])
def test_a_request_for_which_no_memory_is_left_is_answered_with_an_error_of_ours__not_with_a_traceback(
    method: str,
) -> None:
    class Starved(Told):
        async def receive(self) -> dict[str, Any]:
            raise MemoryError

    async def main() -> Starved:
        app = create_app(GatewaySettings(HttpUpstream("http://127.0.0.1:9/mcp")))
        posted = post(Era.MODERN, method, {"name": "t"}, id=7)
        headers = [("Host", "127.0.0.1"), *posted.headers]
        told = Starved("POST", [(name.lower().encode(), value.encode()) for name, value in headers], posted.body)
        await app(told.scope, told.receive, told.send)
        await app.aclose()
        return told

    told = run(main())
    assert told.status == 503
    assert dict(told.headers)[b"retry-after"] == b"1"
    assert json.loads(told.body)["error"]["message"] == "Too little memory for this at the moment"
