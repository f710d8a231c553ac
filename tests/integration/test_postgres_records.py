"""Gateways that record their calls in a database, as operators run them: the real commands, a real PostgreSQL."""

import asyncio
import contextlib
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.world.authorization import Signed, Trust
from tests.world.besieged import Reading, asked
from tests.world.calls import Posted, http, post
from tests.world.children import children
from tests.world.command import Serving
from tests.world.hasty_logs import COMMAND
from tests.world.logs import away, disconnecting, records_in
from tests.world.patient_stores import IMPORTS
from tests.world.postgres import cluster, database_for
from tests.world.raw_client import RawClient
from tests.world.raw_server import Connection, RawServer, until

from accredit.jsonrpc.methods import Era
from accredit.keys import make_key, write_key
from accredit.stores.lasting import PostgresDatabase

pytestmark = [
    pytest.mark.slow,
    pytest.mark.holds("stores/postgres/log_tables"),
    pytest.mark.holds("stores/postgres/log_writer"),
]

_CONFIGURATION = """
[gateway]
id = "mail-gateway"
[upstream]
url = "{upstream}"
[proofs]
mode = "required"
[[proofs.roots]]
name = "Owner"
public_key_file = "owner.key.pub"
[attest]
mode = "{mode}"
key_file = "gateway.key"
[cluster]
keys_file = "cluster.keys"
[store]
url = "postgresql://{user}@/{database}?host={host}"
replicas = "none"
"""
RECORD_UNAVAILABLE = -31006


class Fleet:
    """The files of gateways with one log, and the calls that an agent makes. The test's own database is the store."""

    def __init__(self, folder: Path, database: PostgresDatabase, upstream: str, mode: str = "durable") -> None:
        self.folder, self.database = folder, database
        self.trust = Trust()
        self.chain = self.trust.chain("mcp:resource")
        write_key(folder / "owner.key", self.trust.owner)
        write_key(folder / "gateway.key", make_key("gateway", "gateway", 0))
        (folder / "cluster.keys").write_text("YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE=\n")
        (folder / "cluster.keys").chmod(0o600)
        text = _CONFIGURATION.format(
            upstream=upstream, mode=mode, user=database.user, database=database.database, host=database.hosts[0].name
        )
        (folder / "accredit.toml").write_text(text)

    async def serving(self, stack: contextlib.ExitStack) -> Serving:
        starting = Serving("--config", "accredit.toml", folder=self.folder, command=COMMAND, env=IMPORTS)
        return stack.enter_context(await asyncio.to_thread(starting.__enter__))

    def call(self, uri: str) -> Posted:
        params: dict[str, Any] = {"uri": uri}
        proof = self.trust.proof(self.chain, "resources/read", params, Signed())
        return post(Era.MODERN, "resources/read", {**params, "_meta": {"ratify_proof": proof}})

    async def said(self, port: int, uri: str) -> dict[str, Any]:
        async with RawClient(port) as client:
            return json.loads((await asked(client, self.call(uri))).body)

    def sql(self, statement: str) -> list[Any]:
        return cluster().run(statement, database=self.database.database)

    def statuses(self) -> dict[str, str]:
        """What came of each allowed call, by its target."""
        found: dict[str, str] = {}
        for record in records_in(self.folder / "no.db"):
            if record.outcome is not None:
                assert found[record.call.target or ""] == "open", "two outcomes"
                found[record.call.target or ""] = record.outcome.status
            elif record.decision is not None and record.decision.verdict == "allow":
                found[record.call.target or ""] = "open"
        return found


class Holding(Reading):
    """An upstream that answers a target with `slow` in it only when `let` is set."""

    def __init__(self) -> None:
        self.let = asyncio.Event()
        super().__init__(self._answer)

    async def _answer(self, connection: Connection, sound: Any) -> None:
        if "slow" in self.called[-1]:
            await self.let.wait()
        await connection.send(http(sound))


@pytest.mark.parametrize("mode", ["durable", "record"])
async def test_gateways_on_many_machines_have_one_log__a_chain_each(tmp_path: Path, mode: str) -> None:
    with database_for(tmp_path) as database:
        reading = Reading()
        async with RawServer(reading) as server:
            fleet = Fleet(tmp_path, database, server.url, mode)
            with contextlib.ExitStack() as stack:
                gateways = [await fleet.serving(stack) for _ in "12"]
                uris = [f"mail://{number}" for number in range(40)]
                answers = await asyncio.gather(
                    *(fleet.said(gateways[place % 2].port, uri) for place, uri in enumerate(uris))
                )
                assert all("result" in each for each in answers)
                for each in gateways:
                    each.stop()
                    assert await asyncio.to_thread(each.wait) == 0
                    assert "Traceback" not in each.stderr
        assert fleet.statuses() == dict.fromkeys(uris, "ok")
        chains = fleet.sql("SELECT records, checkpointed, over, gateway FROM log_writers WHERE records > 0")
        assert len(chains) == 2
        assert all(records == covered and over and id == "mail-gateway" for records, covered, over, id in chains)
        assert fleet.sql("SELECT count(*) FROM log_open")[0][0] == 0


async def test_a_gateway_that_is_killed_has_its_calls_closed_by_another_one_that_runs(tmp_path: Path) -> None:
    with database_for(tmp_path) as database:
        holding = Holding()
        async with RawServer(holding) as server:
            fleet = Fleet(tmp_path, database, server.url)
            with contextlib.ExitStack() as stack:
                one, other = await fleet.serving(stack), await fleet.serving(stack)
                lost = asyncio.create_task(fleet.said(one.port, "mail://slow"))
                assert "result" in await fleet.said(other.port, "mail://1")
                await until(lambda: "mail://slow" in holding.called)
                one.process.kill()
                await asyncio.wait([lost])
                assert lost.exception() is not None
                await until(lambda: fleet.statuses()["mail://slow"] == "unknown")
                assert "result" in await fleet.said(other.port, "mail://2")
                holding.let.set()
        assert fleet.statuses() == {"mail://slow": "unknown", "mail://1": "ok", "mail://2": "ok"}


async def test_the_answer_of_a_call_that_was_closed_meanwhile_is_withheld__and_the_gateway_goes_on(
    tmp_path: Path,
) -> None:
    """A gateway stood still, its connection was lost, and another one took it for dead."""

    with database_for(tmp_path) as database:
        holding = Holding()
        async with RawServer(holding) as server:
            fleet = Fleet(tmp_path, database, server.url)
            with contextlib.ExitStack() as stack:
                one, other = await fleet.serving(stack), await fleet.serving(stack)
                assert "result" in await fleet.said(other.port, "mail://1")
                late = asyncio.create_task(fleet.said(one.port, "mail://slow"))
                await until(lambda: fleet.statuses().get("mail://slow") == "open")
                ((writer,),) = fleet.sql("SELECT writer FROM log_open")
                stopped = [one.process.pid, *children(one.process.pid)]
                for each in stopped:
                    os.kill(each, signal.SIGSTOP)
                fleet.sql(*disconnecting(database))
                await until(lambda: fleet.statuses()["mail://slow"] == "unknown")
                for each in stopped:
                    os.kill(each, signal.SIGCONT)
                holding.let.set()
                refused = (await late)["error"]
                assert (refused["code"], refused["data"]["forwarded"]) == (RECORD_UNAVAILABLE, True)
                assert "result" in await fleet.said(one.port, "mail://2")
        assert fleet.statuses() == {"mail://slow": "unknown", "mail://1": "ok", "mail://2": "ok"}
        ((over, records),) = fleet.sql(f"SELECT over, records FROM log_writers WHERE writer = {writer}")
        assert (over, records) == (True, 1)


@pytest.mark.parametrize("mode", ["durable", "record"])
async def test_without_its_database_nothing_is_forwarded__and_it_needs_no_restart_when_that_is_back(
    tmp_path: Path, mode: str
) -> None:
    with database_for(tmp_path) as database:
        reading = Reading()
        async with RawServer(reading) as server:
            fleet = Fleet(tmp_path, database, server.url, mode)
            with contextlib.ExitStack() as stack:
                each = await fleet.serving(stack)
                assert "result" in await fleet.said(each.port, "mail://1")
                with away(database):
                    refused = await fleet.said(each.port, "mail://2")
                    assert refused["error"]["code"] in (-31003, RECORD_UNAVAILABLE)
                    async with RawClient(each.port) as client:
                        await client.ask("GET", "/readyz", [], b"")
                        ready = await client.answer()
                    assert (ready.status, json.loads(ready.body)["records"]) == (503, False)
                assert reading.called == ["mail://1"]

                async def answered() -> bool:
                    return "result" in await fleet.said(each.port, f"mail://{len(reading.called) + 2}")

                async with asyncio.timeout(60):
                    while not await answered():
                        await asyncio.sleep(0.05)
                each.stop()
                assert await asyncio.to_thread(each.wait) == 0
        assert "open" not in fleet.statuses().values()
        assert {target for target, status in fleet.statuses().items() if status == "ok"} == set(reading.called)
