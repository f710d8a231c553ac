"""The commands, run in this process, in a folder with a gateway's key and a log of four calls."""

import asyncio
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.world.in_process import Run, runs
from tests.world.recorded import thread
from tests.world.records import DENY, NOW_MS, OK, POLICY, allowed_by_a_person, decided

from accredit.attest import CallDecision
from accredit.keys import PrivateKeyFile, log_signer, make_key, write_key
from accredit.stores.audit_log.queue import QueuedRecords

STORE = ("--store", "sqlite:///accredit.db")
KEY = ("--key", "gateway.key.pub")


class Folder(NamedTuple):
    """Where it is, and its calls: one that ended well, one that was denied, one that is open, another tool's."""

    path: Path
    done: CallDecision
    denied: CallDecision
    cut_off: CallDecision
    other: CallDecision


@pytest.fixture(scope="session")
def gateway_key() -> PrivateKeyFile:
    return make_key("gateway", "Mail gateway", 1_800_000_000)


@pytest.fixture
def folder(gateway_key: PrivateKeyFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    write_key(tmp_path / "gateway.key", gateway_key)
    monkeypatch.chdir(tmp_path)
    calls = [
        allowed_by_a_person(),
        decided(decision=DENY, received_ms=NOW_MS + 1_000),
        allowed_by_a_person(received_ms=NOW_MS + 2_000),
        allowed_by_a_person("list_\x1b[31minbox", received_ms=NOW_MS + 3_000),
    ]

    async def make() -> None:
        path = tmp_path / "accredit.db"
        records = QueuedRecords(
            thread(path, log_signer(gateway_key)),
            durable=True,
            policy_digest=POLICY,
            on_problem=pytest.fail,
            clock=lambda: NOW_MS,
        )
        for call in calls:
            await records.begin(call)
        for call in (calls[0], calls[3]):
            await records.finish(call, OK)
        await records.aclose()

    asyncio.run(make())
    return Folder(tmp_path, *calls)


@pytest.fixture
def run(folder: Folder, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """`run("log", ...)` as `accredit log ...` in the folder."""
    assert folder.path.is_dir()
    return runs(monkeypatch, capfdbinary)
