"""Ids in the log's commands: whole, by how they begin, and with the names of those who are known."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.unit.ops.conftest import KEY, STORE, Folder
from tests.world.in_process import Run
from tests.world.recorded import records_at
from tests.world.records import decided

from accredit.attest import CallDecision
from accredit.base.text import one_line
from accredit.keys import PrivateKeyFile, make_key, write_key
from accredit.terminal.output import MAX_TOLD_CANDIDATES

pytestmark = pytest.mark.holds("ops/log_names")

OTHER = ("--store", "sqlite:///other.db")


def write_log(path: Path, calls: list[CallDecision]) -> None:
    async def make() -> None:
        records = records_at(path)
        for call in calls:
            await records.begin(call)
        await records.aclose()

    asyncio.run(make())


def with_id(call_id: str, agent_id: str) -> CallDecision:
    call = decided()
    assert call.authority is not None
    authority = replace(call.authority, agent_id=agent_id)
    return replace(call, call=replace(call.call, id=call_id), authority=authority)


@pytest.fixture
def agent(folder: Folder) -> PrivateKeyFile:
    """An agent with a key, who made two of three calls in another log."""
    key = make_key("agent", "Mail agent", 1_800_000_000)
    write_key(folder.path / "mail.key", key)
    calls = [("0a0a1" + "0" * 27, key.id), ("0a0a2" + "0" * 27, key.id), ("0b0b" + "0" * 28, "bb" * 16)]
    write_log(folder.path / "other.db", [with_id(*each) for each in calls])
    return key


def test_a_call_is_named_by_a_beginning_that_only_it_has(run: Run, agent: PrivateKeyFile) -> None:
    assert agent.kind == "agent"
    shown = run("log", "show", "0b0b", *OTHER)
    assert shown.code == 0
    assert f"call.id {'0b0b' + '0' * 28}" in shown.words
    for more in ((), ("--bundle",)):
        done = run("log", "export", "--call", "0a0a1", *more, *OTHER)
        assert (done.code, done.err) == (0, "")
    whole = run("log", "export", "--call", "0a0a1" + "0" * 27, "--bundle", *OTHER).json
    assert whole == run("log", "export", "--call", "0a0a1", "--bundle", *OTHER).json


def test_a_beginning_that_several_calls_have_is_a_no_with_all_of_them(run: Run, agent: PrivateKeyFile) -> None:
    assert agent.kind == "agent"
    for command in (("show", "0a0a"), ("export", "--call", "0a0a"), ("export", "--call", "0a0a", "--out", "call.json")):
        done = run("log", *command, *OTHER)
        assert (done.code, done.out) == (1, "")
        what, remedy, *candidates = done.err.splitlines()
        assert what == "error: the ids of 2 calls begin with 0a0a"
        assert remedy.startswith("help: ")
        assert [each.split()[0] for each in candidates] == ["0a0a1" + "0" * 27, "0a0a2" + "0" * 27]
        assert all("send_email" in each for each in candidates)
    assert not Path("call.json").exists()


def test_of_very_many_candidates_some_are_told(run: Run, folder: Folder) -> None:
    calls = [with_id(f"{number:032x}", "bb" * 16) for number in range(MAX_TOLD_CANDIDATES + 3)]
    write_log(folder.path / "other.db", calls)
    lines = run("log", "show", "0000", *OTHER).err.splitlines()
    assert lines[0] == f"error: the ids of more than {MAX_TOLD_CANDIDATES} calls begin with 0000"
    assert len(lines) == 2 + MAX_TOLD_CANDIDATES


@pytest.mark.parametrize("prefix", ["%%%%", "____", '"id":"', "send_email", "0a0a%", "0A0A", "0a0a1\x00", "\ud800abc"])
def test_what_is_in_a_record_but_begins_no_id_is_no_call(run: Run, agent: PrivateKeyFile, prefix: str) -> None:
    assert agent.kind == "agent"
    done = run("log", "show", prefix, *OTHER)
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines()[0] == "error: no record of call " + one_line(prefix)


@pytest.mark.parametrize("prefix", ["", "0", "0a0"])
def test_too_little_of_an_id_is_not_guessed_from(run: Run, agent: PrivateKeyFile, prefix: str) -> None:
    assert agent.kind == "agent"
    for words in (("show", prefix), ("export", "--call", prefix), ("list", "--agent", prefix)):
        done = run("log", *words, *OTHER)
        assert (done.code, done.out) == (2, "")
        assert "is too little of the id" in done.err


def test_calls_of_an_agent_are_found_by_how_its_id_begins(run: Run, agent: PrivateKeyFile) -> None:
    rows = run("log", "list", "--agent", agent.id[:6], *OTHER).out.splitlines()[1:]
    assert len(rows) == 2
    assert len(run("log", "list", "--principal", "aaaa", *OTHER).out.splitlines()) == 1 + 3
    none = run("log", "list", "--agent", "nobody", *OTHER)
    assert (none.code, none.out) == (1, "")
    assert none.err.startswith("error: no record of agent nobody\nhelp: ")


def test_an_id_is_completed_from_records_that_verify(run: Run, folder: Folder) -> None:
    with closing(sqlite3.connect("accredit.db")) as connection, connection:
        connection.execute(
            "INSERT INTO log_entries SELECT -9223372036854775808, writer, number, key, CAST(replace(CAST(payload AS"
            " TEXT), ?, ?) AS BLOB), zeroblob(64), ml_dsa_65, digest, members, proof FROM log_entries WHERE entry = 1",
            ("bb" * 16, "dd" * 16),
        )
    forged = run("log", "list", "--agent", "dddddddd", *STORE, *KEY)
    assert forged.code == 1
    assert "no record of agent" in forged.err


def test_an_agent_whose_key_is_known_has_its_name(run: Run, folder: Folder, agent: PrivateKeyFile) -> None:
    known = ("--known", "mail.key.pub")
    assert run("log", "list", *OTHER, *known).out.count(f"Mail agent ({agent.id})") == 2
    assert "Mail agent" not in run("log", "list", *OTHER).out  # what merely lies there is nobody's word
    rows = run("log", "list", *OTHER, *known, "--json").out
    assert rows.count('"agent_name": "Mail agent"') == 2
    assert rows.count('"agent_name": null') == 1
    assert f"authority.agent_id Mail agent ({agent.id})" in run("log", "show", "0a0a1", *OTHER, *known).words

    (folder.path / "accredit.toml").write_text('[store]\nurl = "sqlite:///other.db"\n')
    (folder.path / "token.pub").write_text("-----BEGIN PUBLIC KEY-----")
    assert run("log", "list", "--config", "accredit.toml").out.count(f"Mail agent ({agent.id})") == 2


def test_a_terminal_gets_ids_that_fit_and_that_every_command_takes(
    run: Run, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accredit.ops.log_list.sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "110")
    out = run("log", "list", *STORE).out
    shown = next(line.split()[1] for line in out.splitlines() if "list_" in line)
    assert folder.other.call.id.startswith(shown)
    assert len(shown) < 32
    assert "\u2026" not in out
    assert run("log", "show", shown, *STORE).code == 0
