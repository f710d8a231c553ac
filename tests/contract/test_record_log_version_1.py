"""A log that an older accredit wrote, whose records are of version 1: it is read and verified for ever, it goes on, and
it can be pruned. What is in `tests/vectors/log_v1` was made by the last version that wrote such records."""

import json
import sqlite3
from collections import Counter
from contextlib import closing
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from tests.world.in_process import Run, runs
from tests.world.logs import Log, records_in
from tests.world.records import GATEWAY, NOW_MS, POLICY, gateway
from tests.world.running import run as run_loop

from accredit.attest import CallRecord, LogSigner, Stored, decode_envelope, decode_statement
from accredit.attest.statements import CALL_TYPE, CALL_TYPE_V1
from accredit.errors import AttestationError
from accredit.keys import load_public_key, log_key
from accredit.stores.audit_log.places import FileLog
from accredit.stores.audit_log.pruning import prune
from accredit.stores.audit_log.reader import LogFile
from accredit.stores.audit_log.requests import LogExecutor
from accredit.stores.audit_log.writer import LogThread

VECTORS = Path(__file__).parents[1] / "vectors" / "log_v1"
KEY = ("--key", str(VECTORS / "gateway.key.pub"))
OLD = log_key(load_public_key(VECTORS / "gateway.key.pub"))
STORE = ("--store", "sqlite:///accredit.db")
OPEN_CALL = "e30df4a0db6c1c60d81d603b21725d2f"
CALLED = "1b4f73eae11c47fcf621cda6317dcd75"
EXPORT = (VECTORS / "calls.jsonl").read_bytes().splitlines()
SCHEMA: dict[str, Any] = json.loads(files("accredit.attest").joinpath("tool-call.v1.schema.json").read_text("utf-8"))


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The old store's file, in the current folder."""
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect(tmp_path / "accredit.db")) as connection:
        connection.executescript((VECTORS / "log.sql").read_text("utf-8"))
    return tmp_path / "accredit.db"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """`run("log", ...)` as `accredit log ...`."""
    return runs(monkeypatch, capfdbinary)


def old_payloads() -> list[bytes]:
    payloads = [decode_envelope(line).payload for line in EXPORT]
    return [payload for payload in payloads if CALL_TYPE_V1.encode() in payload]


def types_in(path: Path) -> Counter[str]:
    with LogFile(path) as log:
        entries = [each.entry for each in log.entries()]
    said = [msgspec.json.decode(entry.envelope.payload) for entry in entries if isinstance(entry, Stored)]
    return Counter(each["predicateType"] for each in said)


def is_good(path: Path) -> bool:
    with LogFile(path) as log:
        return log.verify([log_key(load_public_key(VECTORS / "gateway.key.pub")), gateway()[1]]).valid


def test_a_log_of_version_1_verifies_for_ever(run: Run, path: Path) -> None:
    for where in (STORE, (str(VECTORS / "calls.jsonl"),)):
        done = run("log", "verify", *where, *KEY, "--since", str(VECTORS / "kept.checkpoint"), "--json")
        found = json.loads(done.out)
        assert (done.code, found["valid"], found["records"], found["pruned"]) == (0, True, 25, 4)
    bundle = str(VECTORS / "call.bundle.json")
    found = json.loads(run("log", "verify", bundle, *KEY, "--json").out)
    assert (found["valid"], found["call"], found["records"]) == (True, CALLED, 2)
    assert [found[part]["verified"] for part in ("allowed", "signed", "recorded")] == [None, None, True]
    inspected = run("inspect", bundle, *KEY)
    assert (inspected.code, "BAD" in inspected.out) == (0, False)


def test_a_log_of_version_1_is_listed_shown_and_exported(run: Run, path: Path) -> None:
    rows = [json.loads(line) for line in run("log", "list", *STORE, "--json").out.splitlines()]
    assert [row["outcome"] for row in rows] == [
        "open", "ok", None, None, "unknown", "cancelled", "timeout", "upstream_invalid", "input_required", "error",
        "tool_error", "ok",
    ]  # fmt: skip
    assert [row["error"] for row in rows if row["decision"] == "deny"] == [
        "ratify_scope_denied", "ratify_challenge_required",
    ]  # fmt: skip
    shown = run("log", "show", CALLED, *STORE, *KEY)
    assert (shown.code, "enforced" in shown.out, "outcome.status" in shown.out) == (0, False, True)
    assert run("log", "export", *STORE).out.encode().splitlines() == EXPORT
    exported = json.loads(run("log", "export", *STORE, "--call", CALLED, "--bundle").out)
    assert exported == {**json.loads((VECTORS / "call.bundle.json").read_bytes()), "proof": None}


def test_records_of_version_1_have_what_their_schema_says__and_nothing_of_version_2() -> None:
    for payload in old_payloads():
        statement = json.loads(payload)
        jsonschema.Draft202012Validator(SCHEMA).validate(statement["predicate"])
        assert isinstance(decode_statement(payload).predicate, CallRecord)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("policy", {"digest": POLICY}),
        ("call.trace", "0a" * 16),
        ("call.definition", "0a" * 32),
        ("call.server", "mail"),
        ("decision.enforced", True),
        ("decision.enforced", False),
        ("decision.verdict", "challenge"),
        ("outcome.status", "task"),
    ],
)
def test_what_version_2_brought_is_refused_in_version_1__a_reader_of_old_would_not_see_it(
    path: str, value: object
) -> None:
    phase = 1 if path.startswith("outcome") else 0
    statement = json.loads(old_payloads()[phase])
    *parents, last = path.split(".")
    place = statement["predicate"]
    for name in parents:
        place = place[name]
    place[last] = value
    with pytest.raises(AttestationError, match="members of its version"):
        decode_statement(json.dumps(statement).encode())


def who_trusts_the_old_key(path: Path, signer: LogSigner, durable: bool) -> LogExecutor:
    """The gateway has another key meanwhile."""
    return LogThread(FileLog(path, "FULL", GATEWAY, (OLD,)), signer)


def test_a_log_of_version_1_goes_on_in_version_2__and_its_open_call_is_closed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = types_in(path)
    monkeypatch.setattr(Log, "executors", staticmethod(who_trusts_the_old_key))

    async def writing() -> None:
        async with Log(path) as each:
            await each.call()

    run_loop(writing())
    assert is_good(path)
    after = types_in(path)
    assert (after[CALL_TYPE_V1], before[CALL_TYPE]) == (before[CALL_TYPE_V1], 0)
    assert after[CALL_TYPE] == 3
    closed = next(each for each in records_in(path) if each.call.id == OPEN_CALL and each.outcome is not None)
    assert closed.outcome is not None
    assert closed.outcome.status == "unknown"
    assert closed.policy is not None
    assert closed.policy.digest == POLICY  # that of who closes it: version 1 does not say by which it was decided


def test_a_log_of_both_versions_is_pruned_across_them(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Log, "executors", staticmethod(who_trusts_the_old_key))

    async def writing() -> None:
        async with Log(path, clock=lambda: NOW_MS + 60_000) as each:
            await each.call()

    run_loop(writing())
    signer = gateway()[0]
    pruned = partial(prune, path, signer, before_ms=NOW_MS + 50_000, now_ms=NOW_MS + 70_000, on_progress=print)
    with pytest.raises(AttestationError, match="a key that is not known"):
        pruned()
    report = pruned(trusted=[OLD])
    assert report.records > 0
    assert types_in(path)[CALL_TYPE_V1] == 0
    assert is_good(path)
