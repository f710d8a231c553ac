"""A damaged store is told alike by `doctor`, `serve` and `log verify`, wherever in the file the damage is."""

import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.world.command import accredit

from accredit.keys import make_key, write_key
from accredit.stores.sqlite.database import Database
from accredit.stores.sqlite.untouched import find_damage

pytestmark = [pytest.mark.slow, pytest.mark.holds("stores/sqlite/untouched")]

PAGE = 4096
REMEDY = "restore it from a backup; or begin a new one, and keep this: what was recorded is in it"
CONFIGURATION = """
[upstream]
url = "http://127.0.0.1:9/mcp"
[gateway]
port = 0
[attest]
mode = "durable"
key_file = "gateway.key"
[store]
url = "sqlite:///accredit.db"
"""


def make_store(folder: Path) -> Path:
    """A store whose middle is a table that holds no record."""
    path = folder / "accredit.db"
    database = Database(path)
    database.look(lambda connection: connection.execute("SELECT 1"))
    database.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE ballast (text TEXT)")
        connection.executemany("INSERT INTO ballast VALUES (?)", [("x" * 500,) for _ in range(2_000)])
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    write_key(folder / "gateway.key", make_key("gateway", "gateway", 0))
    (folder / "accredit.toml").write_text(CONFIGURATION, "utf-8")
    return path


def damage(path: Path, where: str) -> None:
    data = bytearray(path.read_bytes())
    at = {"head": 0, "middle": len(data) // 2 // PAGE * PAGE}[where]
    data[at : at + PAGE] = b"\xff" * PAGE
    path.write_bytes(data)


def test_a_good_store_verifies(tmp_path: Path) -> None:
    path = make_store(tmp_path)
    assert find_damage(path) is None
    assert find_damage(tmp_path / "none.db") is None
    done = accredit("log", "verify", folder=tmp_path)
    assert (done.returncode, done.stdout.startswith("ok: 0 records")) == (0, True), done


@pytest.mark.parametrize("where", ["head", "middle"])
def test_a_damaged_store_is_told_alike(where: str, tmp_path: Path) -> None:
    path = make_store(tmp_path)
    damage(path, where)
    found = find_damage(path)
    assert found is not None
    what = f"{path} can't be read: {found}"
    aside = shlex.join(["mv", str(path), f"{path}.damaged"])
    served = accredit("serve", "--config", "accredit.toml", folder=tmp_path)
    assert (served.returncode, served.stderr.splitlines()[-2:]) == (
        2,
        [f"error: {what}", f"help: {REMEDY}: {aside}"],
    )
    doctor = accredit("doctor", "--config", "accredit.toml", folder=tmp_path)
    assert (doctor.returncode, what in " ".join(doctor.stdout.split())) == (1, True), doctor
    assert REMEDY in " ".join(doctor.stdout.split())
    verified = accredit("log", "verify", folder=tmp_path)
    assert verified.returncode in (1, 2)
    assert what in verified.stdout + verified.stderr
    assert f"{REMEDY}: {aside}" in verified.stdout + verified.stderr
    assert "ok" not in verified.stdout
