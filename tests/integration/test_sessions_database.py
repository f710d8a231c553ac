"""A call that begins at one gateway and is answered at another one, with a database that both have: real processes, as
a user of the gateways' role."""

import asyncio
import contextlib
import json
from pathlib import Path

import pytest
from tests.world.calls import Posted, chunk, event, initialize, post, response
from tests.world.command import Serving, accredit
from tests.world.cut_streams import CutStreams
from tests.world.logs import records_in
from tests.world.patient_stores import COMMAND, EVERYWHERE
from tests.world.postgres import a_user, database_for
from tests.world.raw_client import RawAnswer, RawClient
from tests.world.raw_server import RawServer
from tests.world.running import run

from accredit.jsonrpc.methods import Era
from accredit.keys import make_key, write_key
from accredit.stores.lasting import PostgresDatabase

pytestmark = [pytest.mark.slow, pytest.mark.holds("gateway/recording/resumable_calls")]

CONFIGURATION = """
[gateway]
id = "mail-gateway"
[upstream]
url = "{upstream}"
[attest]
mode = "durable"
key_file = "gateway.key"
[cluster]
keys_file = "cluster.keys"
[store]
url = "postgresql://{user}@/{database}?host={host}"
replicas = "none"
"""
EVENTS = ("Accept", "text/event-stream")


def configure(folder: Path, database: PostgresDatabase, user: str, upstream: str) -> None:
    write_key(folder / "gateway.key", make_key("gateway", "gateway", 0))
    (folder / "cluster.keys").write_text("YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE=\n")
    (folder / "cluster.keys").chmod(0o600)
    host = database.hosts[0].name
    told = CONFIGURATION.format(upstream=upstream, user=user, database=database.database, host=host)
    (folder / "accredit.toml").write_text(told)


async def ask(port: int, posted: Posted, session: str = "") -> RawAnswer:
    named = [("Mcp-Session-Id", session)] if session else []
    async with RawClient(port) as client:
        headers = [*posted.without_header("Mcp-Session-Id").headers, *named]
        await client.ask("POST", "/mcp", headers, posted.body)
        return await client.answer()


def test_a_stream_that_is_cut_off_is_resumed_at_another_gateway__and_its_outcome_is_in_that_ones_chain(
    tmp_path: Path,
) -> None:
    upstream = CutStreams()
    call = post(Era.LEGACY, "tools/call", {"name": "a", "arguments": {}})

    def found() -> list[str | None]:
        return [each.outcome and each.outcome.status for each in records_in(tmp_path / "no.db")]

    async def main(database: PostgresDatabase) -> None:
        async with RawServer(upstream) as server:
            configure(tmp_path, database, a_user("IN ROLE accredit_gateway"), server.url)
            with contextlib.ExitStack() as stack:
                serving = [Serving("--config", "accredit.toml", folder=tmp_path, command=COMMAND, env=EVERYWHERE)
                           for _ in "12"]  # fmt: skip
                first, second = [stack.enter_context(await asyncio.to_thread(each.__enter__)) for each in serving]
                session = (await ask(first.port, initialize())).header("mcp-session-id") or ""
                assert b'"error"' not in (await ask(first.port, call, session)).body
                assert found() == [None]
                async with RawClient(second.port) as client:
                    headers = [EVENTS, ("Mcp-Session-Id", session), ("Last-Event-ID", "1")]
                    await client.ask("GET", "/mcp", headers)
                    assert (await client.head())[0] == 200
                    await upstream.resumed[-1].send(chunk(event(response(), id="2")))
                    came = await client.event()
                    assert came is not None
                    assert "result" in json.loads(came.data or b"")
                    assert found() == [None, "ok"]

    with database_for(tmp_path) as database:
        run(main(database))
        decision, outcome = records_in(tmp_path / "no.db")
        assert decision.log.writer != outcome.log.writer
        assert decision.call == outcome.call
        assert (decision.call.session or "").startswith("sha256:")
        done = accredit("log", "verify", "--config", "accredit.toml", folder=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
