"""Gateways that share a database, as operators run them: the real commands, a real PostgreSQL, real sockets."""

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from tests.world.authorization import Signed, Trust
from tests.world.besieged import Reading, asked
from tests.world.calls import Posted, post
from tests.world.command import Serving, accredit
from tests.world.patient_stores import COMMAND, EVERYWHERE
from tests.world.postgres import cluster, database_for
from tests.world.raw_client import RawClient
from tests.world.raw_server import RawServer

from accredit.jsonrpc.methods import Era
from accredit.keys import write_key
from accredit.stores.lasting import PostgresDatabase
from accredit.stores.postgres.schema import VERSION

pytestmark = [pytest.mark.slow, pytest.mark.holds("ops/store")]

ROUNDS, COPIES = 5, 12
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
[cluster]
keys_file = "cluster.keys"
[store]
url = "{store}"
replicas = "none"
password = {{ file = "password" }}
"""


def url_of(database: PostgresDatabase) -> str:
    return f"postgresql://{database.user}@/{database.database}?host={database.hosts[0].name}"


class Fleet:
    """The files of gateways, and the calls that an agent makes."""

    def __init__(self, folder: Path, store: str, upstream: str = "http://127.0.0.1:9/mcp") -> None:
        self.folder = folder
        self.trust = Trust()
        self.chain = self.trust.chain("mcp:resource")
        write_key(folder / "owner.key", self.trust.owner)
        for name, content in (
            ("cluster.keys", "YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE=\n"),
            ("password", "hunter2\n"),
        ):
            (folder / name).write_text(content)
            (folder / name).chmod(0o600)
        (folder / "accredit.toml").write_text(_CONFIGURATION.format(upstream=upstream, store=store))

    def serving(self) -> Serving:
        return Serving("--config", "accredit.toml", folder=self.folder, command=COMMAND, env=EVERYWHERE)

    def call(self, uri: str) -> Posted:
        params: dict[str, Any] = {"uri": uri}
        proof = self.trust.proof(self.chain, "resources/read", params, Signed())
        return post(Era.MODERN, "resources/read", {**params, "_meta": {"ratify_proof": proof}})


async def said(port: int, posted: Posted) -> dict[str, Any]:
    async with RawClient(port) as client:
        return json.loads((await asked(client, posted)).body)


async def test_a_proof_that_comes_to_two_gateways_at_once_reaches_the_server_once__and_one_that_was_taken_back_never(
    tmp_path: Path,
) -> None:
    with database_for(tmp_path) as database:
        reading = Reading()
        async with RawServer(reading) as server:
            fleet = Fleet(tmp_path, url_of(database), server.url)
            with contextlib.ExitStack() as stack:
                one, other = [stack.enter_context(await asyncio.to_thread(fleet.serving().__enter__)) for _ in "12"]
                for number in range(ROUNDS):
                    call = fleet.call(f"mail://{number}")
                    answers = await asyncio.gather(
                        *(said(gateway.port, call) for _ in range(COPIES) for gateway in (one, other))
                    )
                    assert sum("result" in each for each in answers) == 1
                    assert {each["error"]["code"] for each in answers if "error" in each} == {-31005}  # spent
                assert sorted(reading.called) == [f"mail://{number}" for number in range(ROUNDS)]
                done = await asyncio.to_thread(
                    accredit, "revoke", fleet.chain[0].cert_id, "--issuer", "owner.key", "--store", url_of(database),
                    folder=tmp_path,
                )  # fmt: skip
                assert done.returncode == 0, done.stderr
                async with asyncio.timeout(30):
                    number = 100
                    while "result" in await said(one.port, fleet.call(f"mail://{number}")):
                        number += 1
                    while "result" in await said(other.port, fleet.call(f"mail://{number}")):
                        number += 1
                for gateway in (one, other):
                    gateway.stop()
                    assert await asyncio.to_thread(gateway.wait) == 0
                    assert "Traceback" not in gateway.stderr
                    assert "hunter2" not in gateway.stderr


async def test_a_gateway_starts_without_its_database_and_refuses_until_it_is_there(tmp_path: Path) -> None:
    reading = Reading()
    async with RawServer(reading) as server:
        fleet = Fleet(tmp_path, "postgresql://gw@/db?host=/nowhere", server.url)
        with await asyncio.to_thread(fleet.serving().__enter__) as gateway:
            refused = await said(gateway.port, fleet.call("mail://1"))
            assert refused["error"]["code"] == -31003
            assert "store_unavailable" in json.dumps(refused)
            assert "/nowhere" not in json.dumps(refused)
            async with RawClient(gateway.port) as client:
                await client.ask("GET", "/readyz", [], b"")
                ready = await client.answer()
                assert ready.status == 503
                assert json.loads(ready.body)["store"] is False
    assert reading.called == []


def test_a_database_without_our_tables_stops_the_start_and_the_commands_make_them(tmp_path: Path) -> None:
    database = cluster().empty()
    url = url_of(database)
    Fleet(tmp_path, url)
    known = ("--store", url)
    done = accredit("serve", "--config", "accredit.toml", "--port", "0", folder=tmp_path)
    assert done.returncode == 2
    assert "accredit store migrate" in done.stderr
    assert accredit("store", "status", *known, folder=tmp_path).returncode == 1
    assert accredit("store", "restored", *known, folder=tmp_path).returncode == 2
    done = accredit("store", "migrate", *known, "--json", folder=tmp_path)
    assert (done.returncode, json.loads(done.stdout)) == (0, {"before": None, "after": VERSION, "left_over": []})
    status = accredit("store", "status", "--json", "--config", "accredit.toml", folder=tmp_path)
    assert (status.returncode, json.loads(status.stdout)) == (
        0,
        {"schema": VERSION, "known": VERSION, "current": True, "serves": True},
    )
    assert "no table is changed" in accredit("store", "migrate", *known, folder=tmp_path).stdout
    checked = accredit("config", "check", "--config", "accredit.toml", folder=tmp_path)
    assert checked.returncode in (0, 2), checked.stderr
    shown = accredit("config", "show", "--config", "accredit.toml", folder=tmp_path)
    assert "hunter2" not in shown.stdout + shown.stderr + checked.stdout + checked.stderr
    assert f'store.password = {{"file": "{tmp_path / "password"}"}}' in shown.stdout
    restored = accredit("store", "restored", *known, "--json", folder=tmp_path)
    assert json.loads(restored.stdout)["not_before"] > 1_700_000_000
    cluster().run(f"UPDATE accredit_schema SET version = {VERSION + 1}", database=database.database)
    for command in (("serve", "--config", "accredit.toml", "--port", "0"), ("store", "migrate", *known)):
        newer = accredit(*command, folder=tmp_path)
        assert newer.returncode == 2
        assert f"schema {VERSION + 1}" in newer.stderr
    cluster().run(f"INSERT INTO accredit_schema VALUES ({VERSION})", database=database.database)
    for command, code in (("status", 1), ("migrate", 2), ("restored", 2)):
        done = accredit("store", command, *known, folder=tmp_path)
        assert done.returncode == code
        assert "into an empty database" in done.stderr


@pytest.mark.parametrize("command", ["migrate", "status", "restored"])
def test_a_store_that_is_no_database__or_does_not_answer__is_said_in_two_lines(command: str, tmp_path: Path) -> None:
    silent = "postgresql://u@/db?host=/nowhere"
    for url in ("sqlite:///a.db", "memory:", silent, "postgresql://u:hunter2@h/db"):
        done = accredit("store", command, "--store", url, folder=tmp_path)
        assert done.returncode == (1 if command == "status" and url == silent else 2)
        assert len(done.stderr.splitlines()) == 2
        assert "hunter2" not in done.stderr
