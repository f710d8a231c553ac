"""Signatures that hold more than their bytes, as those of sigstore: kept, exported, verified by their key, and not for
the gateway's own."""

import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from securesystemslib.dsse import Envelope as PeerEnvelope
from tests.world.notary import KIND, Notary, NotaryKey, notary_registered
from tests.world.record_signers import key_pair
from tests.world.records import gateway
from tests.world.signed_log import configure, record, verified

from accredit.attest import Envelope, LogReport, Signature, Stored, decode_envelope, encode_envelope, verify_envelope
from accredit.attest.dsse import MAX_SIGNATURE_MEMBERS_BYTES
from accredit.cli import main
from accredit.config.attest import build_records
from accredit.config.load import load
from accredit.errors import AttestationError, ConfigurationError, StoreUnavailable
from accredit.keys import make_key, write_key
from accredit.keys.record_signers import load_record_key, load_record_signer
from accredit.ops.log_place import public_keys
from accredit.stores.audit_log.reader import LogFile
from accredit.stores.sqlite.schema import SCHEMA

KEYS = ("gateway.key.pub", "notary.json")

# A newer Python warns of any fork beside a thread, and a test runner has some.
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


@pytest.fixture
def notary() -> Iterator[Notary]:
    with notary_registered() as registered:
        yield registered


@pytest.fixture
def folder(tmp_path: Path, notary: Notary, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_key(tmp_path / "gateway.key", make_key("gateway", "Gate", 0))
    notary.write_key(tmp_path / "notary.json")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def log(folder: Path) -> Path:
    record(configure(folder, "testnotary:", "notary.json"), calls=3)
    with closing(sqlite3.connect(folder / "accredit.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return folder


def entries(path: Path) -> list[object]:
    with LogFile(path) as log_file:
        return [each.entry for each in log_file.entries()]


def records(path: Path) -> list[Envelope]:
    return [each.envelope for each in entries(path) if isinstance(each, Stored) and len(each.envelope.signatures) == 1]


def reason(report: LogReport) -> str:
    assert report.fault is not None
    return report.fault.reason


def test_a_bundle_is_kept_with_its_record_and_verified_by_its_key(log: Path, notary: Notary) -> None:
    found = verified(log, *KEYS)
    assert (found.valid, found.records) == (True, 6)
    for envelope in records(log / "accredit.db"):
        kept = json.loads(envelope.signatures[0].members)
        assert kept["entry"] == notary.members["entry"]
        assert kept["bundle"]["signature"] == envelope.signatures[0].data.hex()


def test_another_notarys_key_verifies_nothing(log: Path, notary: Notary) -> None:
    Notary().write_key(log / "other.json")
    assert reason(verified(log, "gateway.key.pub", "other.json")) == "the signature is not good"
    assert "not known here" in reason(verified(log, "gateway.key.pub"))


def test_a_stock_verifier_verifies_what_is_exported(log: Path) -> None:
    members = json.loads((log / "notary.json").read_text("utf-8"))
    key = NotaryKey.from_dict(members.pop("keyid"), members)
    for envelope in records(log / "accredit.db"):
        text = encode_envelope(envelope)
        assert PeerEnvelope.from_dict(json.loads(text)).verify([key], threshold=1)
        assert decode_envelope(json.dumps(json.loads(text), indent=2).encode()) == envelope


def accredit(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["accredit", *arguments])
    return main()


@pytest.mark.slow
def test_the_commands_export_verify_and_inspect_it(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trusted = ("--key", "gateway.key.pub", "--key", "notary.json")
    with LogFile(log / "accredit.db") as log_file:
        first = next(log_file.entries()).record()
    assert first is not None
    assert accredit(monkeypatch, "log", "export", "--out", "calls.jsonl") == 0
    assert accredit(monkeypatch, "log", "export", "--call", first.call.id, "--bundle", "--out", "call.json") == 0
    assert accredit(monkeypatch, "log", "verify") == 0  # by the configuration's own keys
    for file in ("calls.jsonl", "call.json"):
        assert accredit(monkeypatch, "log", "verify", file, *trusted) == 0
    assert accredit(monkeypatch, "log", "show", first.call.id, *trusted) == 0
    capsys.readouterr()
    assert accredit(monkeypatch, "inspect", "call.json", *trusted, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["signatures_good"] for each in told["statements"]] == [True, True, True]
    assert accredit(monkeypatch, "inspect", "call.json", "--key", "gateway.key.pub") == 1
    text = (log / "calls.jsonl").read_text("utf-8")
    at = text.index('"certificate":"') + len('"certificate":"')
    (log / "calls.jsonl").write_text(text[:at] + ("1" if text[at] == "0" else "0") + text[at + 1 :], "utf-8")
    assert accredit(monkeypatch, "log", "verify", "calls.jsonl", *trusted) == 1


def test_inspect_takes_a_key_in_pem_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    key_pair(folder / "records.pem")
    record(configure(folder))
    accredit(monkeypatch, "log", "export", "--out", "calls.jsonl")
    first = (folder / "calls.jsonl").read_text("utf-8").splitlines()[0]
    (folder / "one.json").write_text(first, "utf-8")
    capsys.readouterr()
    assert accredit(monkeypatch, "inspect", "one.json", "--key", "records.pem.pub") == 0
    assert "good" in capsys.readouterr().out
    key_pair(folder / "other.pem")
    assert accredit(monkeypatch, "inspect", "one.json", "--key", "other.pem.pub") == 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE log_entries SET members = NULL WHERE entry = 1",
        "UPDATE log_entries SET members = zeroblob(40) WHERE entry = 1",
        "UPDATE log_entries SET members = substr(members, 1, 32) WHERE entry = 1",
        "UPDATE log_entries SET members = CAST(members AS TEXT) WHERE entry = 1",
        "UPDATE log_entries SET members = 1 WHERE entry = 1",
        "UPDATE log_entries SET members = (SELECT members FROM log_entries WHERE entry = 2) WHERE entry = 1",
        "UPDATE log_entries SET ed25519 = zeroblob(64) WHERE entry = 1",
        "UPDATE log_entries SET members = (SELECT members FROM log_entries WHERE entry = 1) WHERE ml_dsa_65 <> ''",
    ],
)
def test_an_entry_whose_signature_was_changed_does_not_verify(log: Path, statement: str) -> None:
    with closing(sqlite3.connect(log / "accredit.db")) as connection, connection:
        assert connection.execute(statement).rowcount == 1
    assert not verified(log, *KEYS).valid


def test_what_was_pruned_takes_its_bundle_along(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundles = [envelope.signatures[0].members for envelope in records(log / "accredit.db")]
    assert accredit(monkeypatch, "log", "prune", "--before", "2099-01-01T00:00:00Z", "--key", "gateway.key") == 0
    found = verified(log, *KEYS)
    assert (found.valid, found.records, sum(each.pruned for each in found.writers)) == (True, 6, 6)
    left = (log / "accredit.db").read_bytes()
    assert not [bundle for bundle in bundles if bundle in left]


_OLD_COLUMNS = {
    "log_writers": "writer, name, records, head, checkpointed, turn, over",
    "log_keys": "key, id",
    "log_entries": "entry, writer, number, key, payload, ed25519, ml_dsa_65, digest",
}


def as_it_was_before(path: Path) -> None:
    """Makes of a log what an accredit without members would have made."""
    new = path.with_name("new.db")
    path.rename(new)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in (statement for step in SCHEMA[:2] for statement in step):
            connection.execute(statement)
        connection.execute("PRAGMA user_version = 2")
        connection.execute("ATTACH ? AS new", (str(new),))
        for table, columns in _OLD_COLUMNS.items():
            connection.execute(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM new.{table}")


@pytest.mark.slow
def test_a_file_of_an_older_version_is_read_as_it_is__and_brought_up_by_who_writes(folder: Path) -> None:
    key_pair(folder / "records.pem")
    record(configure(folder))
    as_it_was_before(folder / "accredit.db")
    assert verified(folder, "gateway.key.pub", "records.pem.pub").records == 2
    record(configure(folder, "testnotary:", "notary.json"))
    found = verified(folder, *KEYS, "records.pem.pub")
    assert (found.valid, found.records) == (True, 4)
    with closing(sqlite3.connect(folder / "accredit.db")) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(SCHEMA),)


@pytest.mark.parametrize(
    ("members", "word"),
    [
        ({"long": "x" * MAX_SIGNATURE_MEMBERS_BYTES}, "more than 65536 bytes"),
        ({"longer in its canonical form": [1e20] * 8_000}, "more than 65536 bytes"),
        ({"no": object()}, "not JSON"),
        ({"no": 10**400}, "not a JSON text"),
        ({"no": "\ud800"}, "not JSON"),
        ({"keyid": "another"}, "no object of other members"),
    ],
)
def test_what_can_not_be_kept_is_refused_when_it_is_made(
    folder: Path, notary: Notary, members: dict[str, Any], word: str
) -> None:
    signer = load_record_signer("testnotary:", folder / "notary.json", folder)
    assert signer.sign(b"said").members
    notary.members = members
    with pytest.raises(StoreUnavailable, match=word):
        signer.sign(b"said")


def test_a_key_of_the_usual_kinds_takes_nothing_beside_the_bytes__nobody_would_verify_it(folder: Path) -> None:
    key_pair(folder / "records.pem")
    record(configure(folder))
    key = load_record_key(folder / "records.pem.pub")
    envelope = records(folder / "accredit.db")[0]
    verify_envelope(envelope, [key])
    more = envelope.signatures[0]._replace(members=b'{"note":"by the owner"}')
    with pytest.raises(AttestationError, match="does not verify"):
        verify_envelope(envelope._replace(signatures=(more,)), [key])


def test_the_gateways_own_signatures_hold_nothing_else(folder: Path) -> None:
    key_pair(folder / "records.pem")
    record(configure(folder))
    trusted = public_keys([folder / KEYS[0]])
    checkpoint = next(
        each.envelope
        for each in entries(folder / "accredit.db")
        if isinstance(each, Stored) and len(each.envelope.signatures) == 2
    )
    verify_envelope(checkpoint, trusted)
    for number in range(2):
        signatures = list(checkpoint.signatures)
        signatures[number] = signatures[number]._replace(members=b'{"a":1}')
        with pytest.raises(AttestationError, match="nothing but its bytes"):
            verify_envelope(checkpoint._replace(signatures=tuple(signatures)), trusted)
    signer, key = gateway()
    signed = signer.record(checkpoint.payload)
    more = signed.signatures[0]._replace(members=b'{"a":1}')
    with pytest.raises(AttestationError, match="nothing but its bytes"):
        key.check_record(signed._replace(signatures=(more,)))


def test_a_key_tells_nothing_of_its_text__and_that_it_could_not_verify(folder: Path) -> None:
    key = load_record_key(folder / "notary.json")
    with pytest.raises(AttestationError, match=r"can't be verified \(KeyError\)") as failed:
        key.check(Signature(key.id, b"x", b'{"bundle":{}}'), b"said")
    assert "swordfish" not in str(failed.value)


@pytest.mark.holds("keys/record_signers", "json")
@pytest.mark.parametrize(
    "changes",
    [
        {"keyid": None},
        {"keyid": ""},
        {"keyid": 7},
        {"keytype": "unheard-of"},
        {"keytype": ["test-notary"]},
        {"scheme": None},
        {"keyval": None},
        {"keyval": "text"},
    ],
)
def test_what_is_no_key_is_refused(folder: Path, changes: dict[str, Any]) -> None:
    members = json.loads((folder / "notary.json").read_text("utf-8"))
    assert (members["keytype"], members["scheme"]) == KIND
    (folder / "bad.json").write_text(json.dumps({**members, **changes}), "utf-8")
    with pytest.raises(ConfigurationError, match="not a public key that signs"):
        load_record_key(folder / "bad.json")


@pytest.mark.parametrize("text", ["[]", "{", "null", '{"keyid": "a", "keyid": "b"}', "[" * 5_000])
def test_what_is_not_even_json_is_refused_too(folder: Path, text: str) -> None:
    (folder / "bad.json").write_text(text, "utf-8")
    with pytest.raises(ConfigurationError, match="not a public key that signs"):
        load_record_key(folder / "bad.json")


def test_a_signer_with_the_gateways_own_id_is_refused__its_log_would_not_verify(folder: Path) -> None:
    gate = json.loads((folder / "gateway.key.pub").read_text("utf-8"))["id"]
    members = json.loads((folder / "notary.json").read_text("utf-8"))
    (folder / "twin.json").write_text(json.dumps({**members, "keyid": gate}), "utf-8")
    with pytest.raises(ConfigurationError, match="gateway's own id"):
        build_records(load(configure(folder, "testnotary:", "twin.json"), {}, {}))


@pytest.mark.holds("keys/record_signers", "json")
def test_a_pem_key_may_come_as_json_with_an_id_of_its_own(folder: Path) -> None:
    key_pair(folder / "records.pem")
    pem = (folder / "records.pem.pub").read_text("utf-8")
    members = {"keyid": "ours", "keytype": "ecdsa", "scheme": "ecdsa-sha2-nistp256", "keyval": {"public": pem}}
    (folder / "records.json").write_text(json.dumps(members), "utf-8")
    record(configure(folder, public="records.json"))
    assert verified(folder, "gateway.key.pub", "records.json").valid
    assert {envelope.signatures[0].key_id for envelope in records(folder / "accredit.db")} == {"ours"}
