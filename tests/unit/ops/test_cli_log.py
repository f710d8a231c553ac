"""`accredit log`: what happened, whether it is true, and what can be shown to others."""

import base64
import hashlib
import json
import os
import sqlite3
import stat
from contextlib import closing
from typing import Any, get_args

import pytest
from tests.unit.ops.conftest import KEY, STORE, Folder
from tests.unit.ratify.world import AGENT, HUMAN
from tests.world.in_process import Run
from tests.world.records import SECRET

from accredit.attest.statements import OutcomeStatus
from accredit.cli.commands.log import ENDINGS

pytestmark = [
    pytest.mark.holds("ops/log_export"),
    pytest.mark.holds("ops/log_list"),
    pytest.mark.holds("ops/log_place"),
    pytest.mark.holds("ops/log_prune"),
    pytest.mark.holds("ops/log_record"),
    pytest.mark.holds("ops/log_show"),
    pytest.mark.holds("ops/log_verify"),
    pytest.mark.holds("cli/commands/log"),
    pytest.mark.holds("ops/inspect_records"),
    pytest.mark.holds("stores/audit_log/calls"),
    pytest.mark.holds("terminal/output"),
]

WRITTEN = ("log", "verify", *STORE, *KEY)


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_calls_are_listed_newest_first(run: Run, folder: Folder) -> None:
    rows = lines(run("log", "list", *STORE, "--json").out)
    assert [row["call"] for row in rows] == [
        call.call.id for call in (folder.other, folder.cut_off, folder.denied, folder.done)
    ]
    assert [row["outcome"] for row in rows] == ["ok", "unknown", None, "ok"]
    assert rows[2]["error"] == "ratify_scope_denied"


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("--tool", "send_email"), ["cut_off", "denied", "done"]),
        (("--decision", "deny"), ["denied"]),
        (("--outcome", "unknown"), ["cut_off"]),
        (("--outcome", "open"), []),
        (("--agent", AGENT.id, "--limit", "1"), ["other"]),
        (("--agent", "ab" * 16), []),
        (("--principal", HUMAN.id, "-n", "2"), ["other", "cut_off"]),
        (("-n", "9" * 20), ["other", "cut_off", "denied", "done"]),
        (("--after", "2027-01-15T08:00:02Z"), ["other", "cut_off"]),
        (("--before", "2027-01-15T09:00:01+01:00"), ["done"]),
        (("--after", "1s"), []),
    ],
)
def test_filters_leave_what_was_asked_for(
    run: Run, folder: Folder, options: tuple[str, ...], found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accredit.ops.log_place.unix_ms", lambda: 1_900_000_000_000)
    rows = lines(run("log", "list", *STORE, "--json", *options).out)
    assert [row["call"] for row in rows] == [getattr(folder, name).call.id for name in found]


def test_a_status_that_no_call_can_have_is_wrong_use(run: Run) -> None:
    assert (*get_args(OutcomeStatus), "open") == ENDINGS
    done = run("log", "list", *STORE, "--outcome", "faild")
    assert (done.code, done.out) == (2, "")
    assert "'upstream_invalid'" in done.err


def test_a_tools_name_can_not_steer_the_terminal(run: Run, folder: Folder) -> None:
    for arguments in (("list",), ("show", folder.other.call.id)):
        done = run("log", *arguments, *STORE)
        assert done.code == 0
        assert "\x1b" not in done.out
        assert "list_\\x1b[31minbox" in done.out


def test_following_prints_calls_as_they_end(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("accredit.ops.log_list.time.sleep", interrupt)
    for extra in ((), ("--json",)):
        done = run("log", "list", "-f", *STORE, *extra)
        assert (done.code, len(done.out.splitlines())) == (0, 4 + (not extra))


def test_a_call_is_shown_with_both_records_and_no_secret(run: Run, folder: Folder) -> None:
    done = run("log", "show", folder.done.call.id, *STORE, *KEY)
    assert done.code == 0
    assert "decision.verdict allow" in done.words
    assert "outcome.status ok" in done.words
    assert "signature good" in done.words
    assert SECRET not in done.out
    shown = run("log", "show", folder.done.call.id, *STORE, "--json").json
    assert shown["call"] == folder.done.call.id
    assert [each["statement"]["predicate"]["phase"] for each in shown["statements"]] == ["decision", "outcome"]
    assert [each["signatures_good"] for each in shown["statements"]] == [None, None]


def test_a_call_that_is_not_there_is_a_no(run: Run) -> None:
    call = ("--call", "ab" * 16)
    for command in (("show", "ab" * 16), ("export", *call), ("export", *call, "--bundle", "--out", "call.json")):
        done = run("log", *command, *STORE)
        assert (done.code, done.out) == (1, "")
        what, remedy = done.err.splitlines()
        assert what == f"error: no record of call {'ab' * 16}"
        assert remedy.startswith("help: `accredit log list`")


def test_an_id_that_would_steer_a_terminal_is_told_in_its_two_lines(run: Run) -> None:
    assert run("log", "show", "\x1b[31m\nx", *STORE).err.splitlines()[0] == r"error: no record of call \x1b[31m\nx"


def test_a_log_without_any_record_says_so_and_what_to_do(run: Run, folder: Folder) -> None:
    with closing(sqlite3.connect(folder.path / "accredit.db")) as log, log:
        log.execute("DELETE FROM log_entries")
        log.execute("DELETE FROM log_writers")
    for command, says in (("export", "the log is empty"), ("checkpoint", "the log holds no checkpoint")):
        done = run("log", command, *STORE)
        assert (done.code, done.out) == (1, "")
        what, remedy = done.err.splitlines()
        assert what == f"error: {says}"
        assert remedy.startswith("help: see that [attest] mode is not off")


def test_a_list_without_calls_says_so(run: Run, folder: Folder) -> None:
    """A row of headings alone was read as a command that does not work."""
    assert "no call on record passes these filters" in run("log", "list", *STORE, "--tool", "nothing").err
    with closing(sqlite3.connect(folder.path / "accredit.db")) as log, log:
        log.execute("DELETE FROM log_entries")
        log.execute("DELETE FROM log_writers")
    assert "no call is on record yet" in run("log", "list", *STORE).err


def test_a_record_that_was_forged_is_shown_as_bad(run: Run, folder: Folder) -> None:
    with closing(sqlite3.connect("accredit.db")) as connection, connection:
        connection.execute("UPDATE log_entries SET ed25519 = zeroblob(64) WHERE entry = 1")
    done = run("log", "show", folder.done.call.id, *STORE, *KEY)
    assert done.code == 1
    assert "BAD: the Ed25519 signature is not good" in done.out


def test_a_call_that_somebody_put_in_is_listed_as_bad(run: Run, folder: Folder) -> None:
    with closing(sqlite3.connect("accredit.db")) as connection, connection:
        connection.execute(
            "INSERT INTO log_entries SELECT -9223372036854775808, writer, number, key, CAST(replace(replace(CAST("
            "payload AS TEXT), 'send_email', 'wire_money'), ?, ?) AS BLOB), zeroblob(64), ml_dsa_65, digest, members,"
            " proof FROM log_entries WHERE entry = 1",
            (folder.done.call.id, "d" * 32),
        )
    rows = [json.loads(line) for line in run("log", "list", "--json", *STORE, *KEY).out.splitlines()]
    assert {each["target"]: each["verified"] for each in rows if each["call"] != folder.other.call.id} == {
        "send_email": True,
        "wire_money": False,
    }
    assert [row["verified"] for row in rows].count(True) == 4
    listed = run("log", "list", *STORE, *KEY)
    (bad,) = (line for line in listed.out.splitlines() if "BAD" in line)
    assert "wire_money" in bad
    assert "not good; it says allow" in bad
    assert listed.err == ""
    unchecked = run("log", "list", *STORE)
    assert "nothing of this is verified" in unchecked.err
    assert {json.loads(line)["verified"] for line in run("log", "list", "--json", *STORE).out.splitlines()} == {None}
    (folder.path / "accredit.toml").write_text('[store]\nurl = "sqlite:///accredit.db"\n')
    assert "BAD" in run("log", "list").out, "by the key that lies beside the configuration"
    assert run("log", "show", "d" * 32).code == 1


@pytest.mark.slow
def test_a_good_log_verifies(run: Run) -> None:
    done = run(*WRITTEN)
    assert (done.code, done.out.splitlines()[0]) == (0, "ok: 7 records of 1 writer verify")
    assert "a cut at the end would not be noticed" in done.out
    report = run(*WRITTEN, "--json").json
    assert (report["valid"], report["records"], report["not_in_a_checkpoint"]) == (True, 7, 0)


def test_an_open_call_that_does_not_verify_is_bad__with_its_id_and_the_reason(run: Run, folder: Folder) -> None:
    with closing(sqlite3.connect("accredit.db")) as connection, connection:
        connection.execute("INSERT INTO log_open (call, writer, entry) VALUES (?, 1, 1)", (folder.done.call.id,))
    done = run(*WRITTEN)
    assert done.code == 1
    assert done.out.startswith(f"BAD: open call {folder.done.call.id}: nobody has it to close: its writer has ended")


@pytest.mark.slow
def test_the_first_bad_record_is_named_by_writer_and_sequence(run: Run) -> None:
    writer = run(*WRITTEN, "--json").json["writers"][0]["writer"]
    with closing(sqlite3.connect("accredit.db")) as connection, connection:
        connection.execute("DELETE FROM log_entries WHERE entry = 3")
    done = run(*WRITTEN)
    assert done.code == 1
    assert done.out.startswith(f"BAD: {writer}/4: ")
    assert run(*WRITTEN, "--json").json["fault"]["place"] == f"{writer}/4"


@pytest.mark.slow
def test_a_tail_that_was_cut_is_noticed_with_a_kept_checkpoint(run: Run) -> None:
    assert run("log", "checkpoint", *STORE, "--out", "kept").code == 0
    assert run(*WRITTEN, "--since", "kept").code == 0
    with closing(sqlite3.connect("accredit.db")) as connection, connection:
        connection.execute("DELETE FROM log_entries WHERE entry > 5")
    assert run(*WRITTEN).code == 1
    with closing(sqlite3.connect("accredit.db")) as connection, connection:
        ((number, payload),) = connection.execute("SELECT number, payload FROM log_entries WHERE entry = 5").fetchall()
        head = hashlib.sha256(payload).hexdigest()
        connection.execute("UPDATE log_writers SET records = ?, head = ?", (number, head))
    assert run(*WRITTEN).code == 0
    done = run(*WRITTEN, "--since", "kept")
    assert done.code == 1
    assert "the log ends before it" in done.out


@pytest.mark.slow
def test_an_export_verifies_on_another_machine(run: Run) -> None:
    assert run("log", "export", *STORE, "--out", "calls.jsonl").code == 0
    assert len(lines(run("log", "export", *STORE).out)) == 8
    assert run("log", "verify", "calls.jsonl", *KEY).code == 0
    with open("calls.jsonl", "r+b") as file:
        data = bytearray(file.read())
        data[100] ^= 1
        file.seek(0)
        file.write(data)
    assert run("log", "verify", "calls.jsonl", *KEY).code == 1


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
@pytest.mark.parametrize("of", ["all", "call", "bundle", "checkpoint"])
def test_what_is_written_out_of_a_log_is_nobody_else_s_to_read_or_change(
    of: str, umask: int, run: Run, folder: Folder
) -> None:
    call = ("--call", folder.denied.call.id)
    more = {"call": call, "bundle": (*call, "--bundle")}.get(of, ())
    before = os.umask(umask)
    try:
        done = run("log", "checkpoint" if of == "checkpoint" else "export", *STORE, *more, "--out", "out")
    finally:
        os.umask(before)
    assert done.code == 0
    assert stat.S_IMODE((folder.path / "out").stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["", ".", "/", ".."])
def test_an_export_to_what_names_no_file_says_so(run: Run, name: str) -> None:
    done = run("log", "export", *STORE, "--out", name)
    assert (done.code, "names no file" in done.err) == (2, True)


@pytest.mark.slow
def test_the_log_is_the_one_of_the_configuration(run: Run, folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder.path / "accredit.toml").write_text('[store]\nurl = "sqlite:///accredit.db"\n', "utf-8")
    elsewhere = folder.path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert run("log", "verify", "--config", "../accredit.toml", "--key", "../gateway.key.pub").code == 0


def test_a_calls_bundle_verifies_on_another_machine(run: Run, folder: Folder) -> None:
    arguments = ("log", "export", *STORE, "--call", folder.denied.call.id)
    assert len(lines(run(*arguments).out)) == 1
    assert run(*arguments, "--bundle", "--out", "call.json").code == 0
    done = run("log", "verify", "call.json", *KEY)
    assert done.code == 0
    assert "ok: the records of this call verify" in done.out
    assert run("log", "verify", "call.json", *KEY, "--json").json["call"] == folder.denied.call.id
    bundle = json.loads((folder.path / "call.json").read_text("utf-8"))
    assert set(bundle) == {"envelopes", "certificates", "checkpoint", "proof"}
    bundle["certificates"] = [{"cert_id": "another"}]
    (folder.path / "forged.json").write_text(json.dumps(bundle, indent=1), "utf-8")
    assert run("log", "verify", "forged.json", *KEY).code == 1
    assert run("log", "verify", "forged.json", *KEY, "--json").json["valid"] is False


def test_a_writer_of_whom_no_checkpoint_is_written_is_told__a_row_may_say_that_there_is_none(
    run: Run, folder: Folder
) -> None:
    assert run("log", "checkpoint", *STORE, "--out", "before.jsonl").err == ""
    with closing(sqlite3.connect(folder.path / "accredit.db")) as connection, connection:
        ((name,),) = connection.execute("SELECT name FROM log_writers").fetchall()
        connection.execute("UPDATE log_writers SET checkpointed = 0")
    done = run("log", "checkpoint", *STORE)
    assert (done.code, done.out) == (1, "")
    assert f"none of writer {name}, which has" in done.err


def test_one_calls_bundle_in_the_place_of_a_log_passes_no_checkpoint_that_was_kept(run: Run, folder: Folder) -> None:
    """Whoever may write the file of a log that was shipped could put one there, which verifies."""
    run("log", "checkpoint", *STORE, "--out", "kept.jsonl")
    run("log", "export", *STORE, "--call", folder.done.call.id, "--bundle", "--out", "shipped.jsonl")
    for more in ((), ("--json",)):
        done = run("log", "verify", "shipped.jsonl", *KEY, "--since", "kept.jsonl", *more)
        assert (done.code, done.out) == (2, "")
        assert "is the bundle of one call, and no log" in " ".join(done.err.split())
    assert run("log", "verify", "shipped.jsonl", *KEY).code == 0


@pytest.mark.slow
def test_the_configurations_key_is_trusted_where_none_is_named__and_no_key_that_merely_lies_there(
    run: Run, folder: Folder
) -> None:
    assert run("log", "verify", *STORE).code == 2
    (folder.path / "accredit.toml").write_text('[store]\nurl = "sqlite:///accredit.db"\n')
    assert run("log", "verify").code == 0
    (folder.path / "gateway.key.pub").unlink()
    assert run("log", "verify").code == 2


def test_an_attestation_can_be_inspected(run: Run, folder: Folder) -> None:
    run("log", "export", *STORE, "--call", folder.done.call.id, "--bundle", "--out", "call.json")
    run("log", "export", *STORE, "--call", folder.denied.call.id, "--out", "one.json")
    done = run("inspect", "call.json", *KEY)
    assert done.code == 0
    assert "outcome.status ok" in done.words
    assert "a checkpoint or a note of pruning" in done.words
    assert done.words.count("good") == 3
    assert "not checked" in run("inspect", "one.json").words
    shown = run("inspect", "one.json", *KEY, "--json").json
    assert [each["signatures_good"] for each in shown["statements"]] == [True]


def test_a_forged_attestation_is_told(run: Run, folder: Folder) -> None:
    run("log", "export", *STORE, "--call", folder.denied.call.id, "--out", "one.json")
    envelope = json.loads((folder.path / "one.json").read_text("utf-8"))
    for name, payload in (("signature", envelope["payload"]), ("payload", "e30=")):
        sig = base64.b64encode(bytes(64)).decode()
        forged = {**envelope, "payload": payload, "signatures": [{**envelope["signatures"][0], "sig": sig}]}
        (folder.path / name).write_text(json.dumps(forged), "utf-8")
        assert run("inspect", name, *KEY).code == 1
        assert run("inspect", name, *KEY, "--json").code == 1
    (folder.path / "rubbish").write_text('{"payloadType": 1}', "utf-8")
    assert run("inspect", "rubbish").code == 2


@pytest.mark.slow
def test_what_a_gateway_s_own_log_tells_is_a_kept_checkpoint_as_well(run: Run, folder: Folder) -> None:
    (writer,) = run(*WRITTEN, "--json").json["writers"]
    told = {"event": "checkpoint", "writer": writer["writer"], "count": 5, "head": ""}
    with closing(sqlite3.connect("accredit.db")) as connection:
        rows = connection.execute("SELECT payload FROM log_entries WHERE number IN (4, 5) ORDER BY entry").fetchall()
    before, told["head"] = (hashlib.sha256(payload).hexdigest() for (payload,) in rows)
    gateway_log = folder.path / "gateway.log"
    other = {"ts": "2026-08-01T12:00:00.000Z", "level": "info", "event": "call_denied"}
    lines = [json.dumps(line) for line in (other, {"ts": "2026-08-01T12:00:00.000Z", **told}, other)]
    gateway_log.write_text("\n".join(["accredit: listening", *lines]) + "\n", "utf-8")
    done = run(*WRITTEN, "--since", "gateway.log", "--json")
    assert (done.code, done.json["kept_checkpoints"]) == (0, 1)
    with closing(sqlite3.connect("accredit.db")) as connection, connection:
        connection.execute("DELETE FROM log_entries WHERE number > 4")
        connection.execute("UPDATE log_writers SET records = 4, head = ?", (before,))  # as who cuts it would
    done = run(*WRITTEN, "--since", "gateway.log")
    assert (done.code, f"{writer['writer']}/5: it was there" in done.out) == (1, True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"ts": "2026-08-01T12:00:00.000Z", "event": "call_denied"}\n',
        "{}\n",
        f'{{"ts": "", "detail": {"[" * 5_000}{"]" * 5_000}}}\n',
    ],
    ids=["nothing", "another line", "an object", "a nest"],
)
def test_a_file_without_a_checkpoint_is_not_taken_for_one(run: Run, folder: Folder, text: str) -> None:
    (folder.path / "kept").write_text(text, "utf-8")
    assert run(*WRITTEN, "--since", "kept").code == 2


def test_what_was_pruned_is_gone_and_the_log_verifies(run: Run, folder: Folder) -> None:
    assert run("log", "checkpoint", *STORE, "--out", "kept").code == 0
    done = run("log", "prune", *STORE, "--before", "2027-06-01T00:00:00Z", "--key", "gateway.key", "--json")
    assert done.json == {"pruned": 7, "overwritten": True, "before": "2027-06-01T00:00:00.000Z"}
    assert run(*WRITTEN, "--since", "kept").code == 0
    assert run("log", "show", folder.done.call.id, *STORE).code == 1
    assert run("log", "list", *STORE, "--json").out == ""
    again = run("log", "prune", *STORE, "--before", "2027-06-01T00:00:00Z", "--key", "gateway.key")
    assert again.out.startswith("pruned 0 records")
    assert again.code == 0


def test_whose_key_is_missing_is_said_where_another_gateways_key_is_to_prune(run: Run, folder: Folder) -> None:
    owner = json.loads((folder.path / "gateway.key.pub").read_bytes())["id"]
    assert run("keys", "new", "other.key", "--kind", "gateway").code == 0
    done = run("log", "prune", *STORE, "--before", "2027-06-01T00:00:00Z", "--key", "other.key")
    what, remedy = done.err.splitlines()
    assert done.code == 2
    assert what.endswith(f"it is signed by a key that is not known here: {owner}")
    assert "--key" in remedy
    assert run(*WRITTEN).code == 0


def test_that_what_was_pruned_is_still_on_the_disk_is_a_no(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accredit.stores.audit_log.pruning.EMPTY_LOG_SECONDS", 0.05)
    with closing(sqlite3.connect("accredit.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM log_entries").fetchone()
        done = run("log", "prune", *STORE, "--before", "2027-06-01T00:00:00Z", "--key", "gateway.key")
    assert (done.code, done.out.startswith("pruned 7 records")) == (1, True)
    assert "accredit.db-wal" in done.err


def files(folder: Folder) -> set[str]:
    """But for those that SQLite itself makes where a log is read."""
    return {path.name for path in folder.path.iterdir() if not path.name.endswith(("-shm", "-wal"))}


@pytest.mark.parametrize(
    "arguments",
    [
        ("log", "verify", *KEY),
        ("log", "verify", *STORE),
        ("log", "verify", *STORE, "--key", "gateway.key"),
        ("log", "verify", *STORE, *KEY, "--since", "gateway.key.pub"),
        ("log", "verify", "nothing.jsonl", *KEY),
        ("log", "verify", "--store", "sqlite:///nothing.db", *KEY),
        ("log", "verify", "--store", "memory:", *KEY),
        ("log", "list", "--store", "redis://x"),
        ("log", "list", "--store", "sqlite:///gateway.key"),
        ("log", "list", *STORE, "--after", "yesterday"),
        ("log", "list", *STORE, "--after", "2027-01-15T08:00:02"),
        ("log", "list", *STORE, "--outcome", "fine"),
        ("log", "export", *STORE, "--bundle"),
        ("log", "export", *STORE, "--out", "gateway.key"),
        ("log", "export", *STORE, "--out", "nowhere/x"),
        ("log", "prune", *STORE, "--before", "7d", "--key", "gateway.key.pub"),
        ("log", "prune", "--store", "sqlite:///nothing.db", "--before", "7d", "--key", "gateway.key"),
    ],
)
def test_wrong_use_is_told_and_makes_nothing(run: Run, folder: Folder, arguments: tuple[str, ...]) -> None:
    before = files(folder)
    done = run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert files(folder) == before


@pytest.mark.parametrize("command", [("list",), ("show", "ab" * 16), ("export",), ("checkpoint",), ("verify", *KEY)])
def test_whoever_names_no_log_is_told_what_to_name(run: Run, command: tuple[str, ...]) -> None:
    missing = run("log", *command, "--store", "sqlite:///nothing.db")
    assert "no call is on record yet: " in missing.err
    assert "--store" in missing.err.splitlines()[1]


def test_what_was_written_is_told(run: Run) -> None:
    assert run("log", "export", *STORE, "--out", "calls.jsonl").out == "wrote calls.jsonl\n"
    assert run("log", "checkpoint", *STORE, "--out", "kept.jsonl").out == "wrote kept.jsonl\n"
