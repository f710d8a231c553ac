"""A gateway as operators run it, while somebody without a key writes where its log is: it signs nothing for them, goes
on, and tells it; in a file, and in a database with the gateways' role."""

import asyncio
import contextlib
import json
import re
import urllib.request
from collections.abc import Generator
from functools import partial
from pathlib import Path

import pytest
from tests.integration.test_postgres_gateways import url_of
from tests.world.command import Serving, accredit
from tests.world.hasty_logs import COMMAND
from tests.world.logs import read
from tests.world.patient_stores import COMMAND as PATIENT
from tests.world.patient_stores import EVERYWHERE
from tests.world.postgres import database_for
from tests.world.raw_client import RawClient
from tests.world.raw_server import RawServer, until
from tests.world.recorded_load import Upstream, ask, readiness
from tests.world.records import NOW_MS, decided
from tests.world.thief import Thief

from accredit.attest import Checkpoint, Place, Stored, decision_payload, verify_envelope
from accredit.attest.statements import GENESIS
from accredit.errors import AttestationError
from accredit.keys import load_public_key, log_key, make_key, write_key

pytestmark = [pytest.mark.slow, pytest.mark.holds("stores/audit_log/closing", "verification")]

DEAD = "f0" * 16


@pytest.fixture(params=["file", "database"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[str]:
    """Where the log is."""
    with contextlib.ExitStack() as stack:
        if request.param == "file":
            yield 'url = "sqlite:///accredit.db"'
        else:
            database = stack.enter_context(database_for(tmp_path))
            (tmp_path / "cluster.keys").write_text("YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE=\n")
            (tmp_path / "cluster.keys").chmod(0o600)
            yield f'url = "{url_of(database)}"\nreplicas = "none"\n[cluster]\nkeys_file = "cluster.keys"'


def left_open(gateway: Serving) -> str:
    (port,) = re.findall(r"metrics and health at http://127.0.0.1:(\d+)", gateway.stderr)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        shown = answer.read().decode()
    return next(line.partition(" ")[2] for line in shown.splitlines() if line.startswith("accredit_log_left_open "))


async def test_while_somebody_writes_into_its_log_a_gateway_signs_nothing_of_theirs__goes_on_and_tells_it(
    tmp_path: Path, store: str
) -> None:
    write_key(tmp_path / "gateway.key", make_key("gateway", "mail", 1))
    key, path = log_key(load_public_key(tmp_path / "gateway.key.pub")), tmp_path / "accredit.db"

    def signed() -> list[tuple[str, int, str]]:
        found: list[tuple[str, int, str]] = []
        with read(path) as log:
            for each in log.entries():
                with contextlib.suppress(AttestationError):
                    assert isinstance(each.entry, Stored)
                    said = verify_envelope(each.entry.envelope, [key])
                    if isinstance(said.predicate, Checkpoint):
                        found.append((said.predicate.writer, said.predicate.count, said.sha256))
        return found

    upstream = Upstream()
    async with RawServer(upstream) as server:
        (tmp_path / "accredit.toml").write_text(
            f'[gateway]\nid = "mail-gateway"\n[upstream]\nurl = "{server.url}"\n[attest]\nmode = "durable"\n'
            f'key_file = "gateway.key"\n[admin]\nport = 0\n[store]\n{store}\n'
        )
        serving = Serving("--config", "accredit.toml", folder=tmp_path, command=COMMAND, env=EVERYWHERE)
        with contextlib.ExitStack() as stack:
            gateway = stack.enter_context(await asyncio.to_thread(serving.__enter__))
            async with RawClient(gateway.port) as client:
                assert "result" in await ask(client, "ended"), gateway.stderr
                with read(path) as log:
                    (ended,) = {each.call.id for one in log.newest_first() if (each := one.record()) is not None}
                    (head,) = log.heads()
                thief, call = Thief(path), decided("wire_money")
                payload = decision_payload(call, Place(writer=DEAD, sequence=1, previous=GENESIS), NOW_MS)
                with thief.at_once():  # a writer that has nothing open yet would be ended
                    thief.add_writer(DEAD)
                    thief.add_entry(DEAD, 1, payload, key.id)
                    thief.open(call.call.id, DEAD, DEAD, 1)
                    thief.open(ended, DEAD, head.writer, 1)
                    thief.set(DEAD, records=501, head="ab" * 32)
                thief.set(head.writer, records=700, head="cd" * 32)
                for number in range(3):
                    assert "result" in await ask(client, f"after-{number}"), gateway.stderr

            async def is_told() -> bool:
                status, said = await readiness(gateway.port)
                return (status, said["records"], said.get("log")) == (200, True, False)

            async with asyncio.timeout(60):
                while not await is_told():
                    await asyncio.sleep(0.05)
            await until(lambda: "does not verify" in gateway.stderr)
            async with asyncio.timeout(60):
                while await asyncio.to_thread(left_open, gateway) not in ("1.0", "2.0"):
                    await asyncio.sleep(0.05)
            gateway.stop()
            assert await asyncio.to_thread(gateway.wait) == 0
            told = [json.loads(line) for line in gateway.stderr.splitlines() if '"checkpoint"' in line]
            assert all(each["count"] < 500 and each["writer"] != DEAD for each in told)
    assert upstream.called == ["ended", "after-0", "after-1", "after-2"]
    assert all(writer != DEAD and count < 500 for writer, count, _ in signed())
    asked = partial(accredit, "log", folder=tmp_path, command=PATIENT, env=EVERYWHERE)
    found = await asyncio.to_thread(asked, "list", "--json", "--config", "accredit.toml")
    assert found.returncode == 0, found.stderr
    shown = {each["call"]: each for each in map(json.loads, found.stdout.splitlines())}
    assert shown[ended]["outcome"] == "ok"
    assert shown[call.call.id]["outcome"] == "open"
    assert sorted(each["outcome"] for each in shown.values()) == ["ok"] * 4 + ["open"]
    verified = await asyncio.to_thread(asked, "verify", "--config", "accredit.toml")
    assert (verified.returncode, "BAD" in verified.stdout) == (1, True)
