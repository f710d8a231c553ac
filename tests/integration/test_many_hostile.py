"""Of twenty servers behind one gateway five do all the harm they can: the calls at the others notice nothing."""

import asyncio
import contextlib
import itertools
import json
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from tests.world.authorization import GATEWAY, Signed, Trust
from tests.world.calls import initialize, post
from tests.world.raw_client import RawClient
from tests.world.raw_server import PATIENCE, until
from tests.world.recorded import calls_of, records_at, verified
from tests.world.routes import messages_of
from tests.world.running import RunningGateway
from tests.world.siege import HONEST, KINDS, REFUSES
from tests.world.stdio_processes import raw_command

from accredit.gateway import Gateway, GatewaySettings, HttpUpstream, StdioUpstream, create_app
from accredit.gateway.merging import merged_settings
from accredit.gateway.settings import RecordSettings
from accredit.jsonrpc.methods import Era
from accredit.policy.catalog import Catalog, Entry
from accredit.stores import MemoryStore, RevocationLists

pytestmark = [pytest.mark.slow, pytest.mark.holds("gateway/server")]

HONEST_HTTP = [f"{HONEST}{number}" for number in range(12)]
HONEST_STDIO = [f"{HONEST}child-{number}" for number in range(3)]
CALLS = 6
"""Calls at each honest server."""
BESIEGERS = 6
"""Callers of each hostile server, all the time."""
SIEGES: dict[str, list[str]] = {
    "silent or gone": ["hangs", "drips", "crashes", REFUSES, "lies"],
    "too much": ["floods", "asks", "huge", "crosses", "hangs"],
    "children": ["stdio-endless", "stdio-notes", "stdio-die", "stdio-hang", "stdio-mute"],
}
STDIO_ARGUMENTS: dict[str, dict[str, Any]] = {"endless": {"mib": 40}, "notes": {"count": 30_000}}
_TOOLS = ("echo", *(word.partition("-")[2] for word in SIEGES["children"]))
CATALOG = Catalog(tools={name: Entry(scope="email:read") for name in _TOOLS})


def test_each_kind_of_harm_is_done() -> None:
    done = {word for siege in SIEGES.values() for word in siege}
    assert done >= {*KINDS, REFUSES}
    assert {len(set(siege)) for siege in SIEGES.values()} == {20 - len(HONEST_HTTP) - len(HONEST_STDIO)}


class Besieged:
    """The gateway, and all twenty servers, in an `async with`. With `merged` all calls
    are made at the endpoint of all servers as one."""

    def __init__(self, trust: Trust, kinds: list[str], log: Path, *, merged: bool) -> None:
        self._merged = merged
        self._trust = trust
        self.kinds = kinds
        self._log = log
        self._chain = trust.chain("email:read")
        self.told = 0
        """Bytes that the callers of hostile servers were told."""

    async def __aenter__(self) -> "Besieged":
        self._stack = contextlib.AsyncExitStack()
        of_http = [kind for kind in self.kinds if not kind.startswith("stdio")]
        # Two processes: what the hostile ones cost must not be taken from the honest ones.
        urls = {**await self._serve(HONEST_HTTP), **await self._serve(of_http)}
        names = [*HONEST_HTTP, *HONEST_STDIO, *self.kinds]
        settings = [self._settings(name, urls.get(name)) for name in names]
        if self._merged:
            settings.append(merged_settings(settings, path="/mcp", gateway_id=GATEWAY))
        app: Gateway = create_app(
            settings,
            store=MemoryStore(),
            revocations=RevocationLists((), {}),
            records=records_at(self._log),
        )
        self._gateway = await self._stack.enter_async_context(RunningGateway(app))
        self.port = self._gateway.port
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    async def call(self, name: str, nonce: str, client: RawClient) -> dict[str, Any]:
        """One call with a proof, and what came of it."""
        await self.ask(name, nonce, client)
        return messages_of(await client.answer())[-1]

    async def ask(self, name: str, nonce: str, client: RawClient, tool: str = "echo") -> None:
        """Send such a call."""
        called = f"{name}__{tool}" if self._merged else tool
        params = {"name": called, "arguments": {"nonce": nonce, **STDIO_ARGUMENTS.get(tool, {})}}
        signed = Signed(gateway=GATEWAY if self._merged else f"{GATEWAY}/{name}", scope="email:read")
        proof = self._trust.proof(self._chain, "tools/call", params, signed)
        posted = post(Era.MODERN, "tools/call", {**params, "_meta": {"ratify_proof": proof}}, id=7)
        await client.ask("POST", self._path(name), posted.headers, posted.body)

    async def besiege(self, kind: str) -> None:
        """Call a hostile server for ever, in both eras, and look through all that its callers are told."""
        for number in itertools.count():
            async with RawClient(self.port) as client:
                if number % 3:
                    await self.ask(kind, "besieger", client, kind.partition("-")[2] or "echo")
                else:
                    await client.ask("POST", self._path(kind), initialize().headers, initialize().body)
                await self._listen(client)

    async def _listen(self, client: RawClient) -> None:
        """Look through what comes within a second, or up to 4 MiB of it; wait longer as long as nobody was told
        anything."""
        came = b""
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(1 if self.told else PATIENCE):
                while len(came) < 4 << 20 and (piece := await client.reader.read(1 << 16)):
                    came += piece
                    self.told += len(piece)
                    if came.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5")):
                        break
        assert b"secret-" not in came, "an answer crossed"

    def _path(self, name: str) -> str:
        return "/mcp" if self._merged else f"/mcp/{name}"

    def _settings(self, name: str, url: str | None) -> GatewaySettings:
        policy = {"verifier_id": f"{GATEWAY}/{name}", "server": name, "catalog": CATALOG}
        upstream = HttpUpstream(url) if url is not None else StdioUpstream(raw_command())
        return self._trust.settings(
            upstream,
            policy=policy,
            server=name,
            path=f"/mcp/{name}",
            records=RecordSettings(GATEWAY),
            upstream_timeout_seconds=3.0 if name in self.kinds else 30.0,
        )

    async def _serve(self, words: list[str]) -> dict[str, str]:
        if not words:
            return {}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.world.siege", *words,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2],
        )  # fmt: skip

        async def end() -> None:
            assert process.stdin is not None
            process.stdin.close()
            process.kill()
            await process.wait()

        self._stack.push_async_callback(end)
        assert process.stdout is not None
        return dict(zip(words, json.loads(await process.stdout.readline()), strict=True))


@contextlib.asynccontextmanager
async def under_siege(besieged: Besieged) -> AsyncGenerator[None]:
    tasks = [asyncio.create_task(besieged.besiege(kind)) for kind in besieged.kinds for _ in range(BESIEGERS)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert not [each for each in ended if not isinstance(each, asyncio.CancelledError)]


@pytest.mark.parametrize(
    ("siege", "merged"),
    [
        pytest.param(siege, way == "merged", id=f"{siege}-{way}", marks=[] if way == usual else [pytest.mark.long])
        for siege, usual in zip(SIEGES, ("merged", "merged", "apart"), strict=True)
        for way in ("apart", "merged")
    ],
)
async def test_five_of_twenty_servers_do_all_the_harm_they_can_and_every_call_at_the_others_succeeds(
    siege: str, merged: bool, tmp_path: Path
) -> None:
    trust, log = Trust(), tmp_path / "log.db"
    names = [*HONEST_HTTP, *HONEST_STDIO]

    async def calls_at(besieged: Besieged, name: str) -> None:
        async with RawClient(besieged.port) as client:
            for number in range(CALLS):
                answer = await besieged.call(name, f"secret-{name}-{number}", client)
                assert "result" in answer, answer
                said = json.loads(answer["result"]["content"][0]["text"])
                own = {"nonce": f"secret-{name}-{number}"}
                assert said == own if name in HONEST_STDIO else {"server": name, **own}

    besieged = Besieged(trust, SIEGES[siege], log, merged=merged)
    async with besieged, under_siege(besieged):
        await until(lambda: besieged.told > 0)
        await asyncio.gather(*(calls_at(besieged, name) for name in names))
    allowed = [call for call in calls_of(log) if call["record"].call.server in names]
    assert {(call["verdict"], call["status"]) for call in allowed} == {("allow", "ok")}
    counted = [call["record"].call.server for call in allowed]
    assert sorted(counted) == sorted(names * CALLS)
    assert verified(log).valid
