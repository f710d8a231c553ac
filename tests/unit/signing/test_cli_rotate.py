"""`accredit keys rotate`, run in this process: the published package reads the statement."""

import json
import sys
from pathlib import Path

import pytest

from accredit.cli.application import main
from accredit.keys import make_key, write_key
from accredit.ratify import HybridPublicKey
from accredit.ratify.extras.statements import KeyRotationStatement, key_rotation_fault

pytestmark = [pytest.mark.holds("signing/rotate"), pytest.mark.holds("cli/commands/keys")]

OLD, NEW, AGENT = (make_key(kind, name, 1) for kind, name in (("human", "Owner"), ("human", "Next"), ("agent", "A")))  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, key in (("old.key", OLD), ("new.key", NEW), ("agent.key", AGENT)):
        write_key(tmp_path / name, key)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def rotate(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["accredit", "keys", "rotate", *arguments])
    return main()


@pytest.mark.holds("signing/rotate", "statement", "grants")
def test_a_statement_is_signed_with_both_keys_and_says_what_ends(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("old.key", "--to", "new.key", "--out", "rotation.json", "--reason", "device_lost")
    assert rotate(monkeypatch, *asked) == 0
    assert "every delegation that the old key signed ends" in capsys.readouterr().err
    statement = KeyRotationStatement.decode((folder / "rotation.json").read_bytes())
    assert key_rotation_fault(statement) is None
    assert (statement.old_id, statement.new_id, statement.reason) == (OLD.id, NEW.id, "device_lost")
    assert rotate(monkeypatch, *asked) == 2  # nothing is overwritten
    assert rotate(monkeypatch, "old.key", "--to", "new.key", "--out", "again.json", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "old": OLD.id, "new": NEW.id, "reason": "routine", "sign_again": []
    }  # fmt: skip


@pytest.mark.holds("signing/rotate", "statement", "grants")
def test_on_stdout_is_the_statement_alone_and_what_to_sign_again_is_told_beside_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    standing = {"certificate": "c" * 32, "agent": AGENT.id, "ends": "2026-12-07"}

    def grants_of(_key: HybridPublicKey) -> list[dict[str, str]]:
        return [standing]

    monkeypatch.setattr("accredit.signing.rotate._grants_of", grants_of)
    assert rotate(monkeypatch, "old.key", "--to", "new.key", "--out", "-") == 0
    told = capfdbinary.readouterr()
    assert key_rotation_fault(KeyRotationStatement.decode(told.out)) is None
    assert b"sign again" in told.err
    assert rotate(monkeypatch, "old.key", "--to", "new.key", "--out", "-", "--json") == 2  # both want stdout


@pytest.mark.holds("signing/rotate", "people")
@pytest.mark.parametrize("arguments", [("old.key", "--to", "agent.key"), ("old.key", "--to", "old.key")])
def test_a_key_is_replaced_by_another_one_of_a_person(
    arguments: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rotate(monkeypatch, *arguments, "--out", "rotation.json") == 2
    assert not (folder / "rotation.json").exists()
