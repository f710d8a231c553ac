"""The process that writes the log finds the database's password where its gateway does, and shows it to nobody."""

import os
from collections.abc import Generator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.world.children import children
from tests.world.logs import place_in
from tests.world.postgres import Cluster
from tests.world.records import gateway

from accredit.errors import StoreUnavailable
from accredit.stores.audit_log.process import LogProcess
from accredit.stores.audit_log.requests import Begin
from accredit.stores.lasting import PostgresDatabase

pytestmark = [pytest.mark.slow, pytest.mark.holds("stores/audit_log/process")]

PASSWORD = "hunter2-7f3a"
WRITER = "ab" * 16


@pytest.fixture
def guarded(server: Cluster, database: PostgresDatabase) -> Generator[PostgresDatabase]:
    """The database, for a user who needs a password."""
    rules = server.folder / "data" / "pg_hba.conf"
    before = rules.read_text()
    server.run(f"CREATE ROLE careful LOGIN PASSWORD '{PASSWORD}' IN ROLE accredit_gateway")
    rules.write_text(f"local all careful scram-sha-256\n{before}")
    server.run("SELECT pg_reload_conf()")
    yield replace(database, user="careful")
    rules.write_text(before)
    server.run("SELECT pg_reload_conf()", "DROP ROLE careful")


@pytest.mark.parametrize("where", ["file", "PGPASSWORD", "PGPASSFILE", "nowhere"])
async def test_a_password_is_found_in_each_place_that_has_one__and_is_in_no_argument(
    guarded: PostgresDatabase, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PGPASSWORD", "PGPASSFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / "password"
    file.write_text(f"*:*:*:*:{PASSWORD}\n" if where == "PGPASSFILE" else f"{PASSWORD}\n")
    file.chmod(0o600)
    if where.startswith("PG"):
        monkeypatch.setenv(where, PASSWORD if where == "PGPASSWORD" else str(file))
    place = place_in(replace(guarded, password_file=file if where == "file" else None))

    each = LogProcess(place, gateway()[0])
    try:
        if where == "nowhere":
            with pytest.raises(StoreUnavailable) as refused:
                await each.run(Begin(WRITER))
            assert PASSWORD not in str(refused.value)
        else:
            await each.run(Begin(WRITER))
        (process,) = [Path(f"/proc/{pid}") for pid in children()]
        assert PASSWORD.encode() not in (process / "cmdline").read_bytes()
        if where != "PGPASSWORD":  # that is the operator's own choice
            assert PASSWORD.encode() not in (process / "environ").read_bytes()
        assert os.environ.get("PGPASSWORD") == (PASSWORD if where == "PGPASSWORD" else None)
    finally:
        await each.aclose()
