"""An auditor's script without a line of ours verifies what we export, and notices a change."""

import base64
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.contract.test_record_log_file import make_log, pruned
from tests.world.logs import Log
from tests.world.records import NOW_MS, gateway
from tests.world.running import run

from accredit.attest import Stored, encode_envelope
from accredit.stores.audit_log.reader import LogFile

PAGE = (Path(__file__).parents[2] / "docs/how-to/verify-without-accredit.md").read_text("utf-8")


@pytest.fixture
def export(tmp_path: Path) -> list[bytes]:
    make_log(tmp_path / "accredit.db", 5)
    return exported(tmp_path / "accredit.db")


def exported(path: Path) -> list[bytes]:
    with LogFile(path) as log_file:
        return [encode_envelope(each.entry.envelope) for each in log_file.entries() if isinstance(each.entry, Stored)]


def verified_by_the_script(folder: Path, lines: list[bytes]) -> subprocess.CompletedProcess[str]:
    found = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert found
    assert "accredit" not in [word for line in found[1].splitlines() for word in line.split() if "import" in line]
    (folder / "verify.py").write_text(found[1], "utf-8")
    (folder / "calls.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    _, key = gateway()
    (folder / "gateway.key.pub").write_bytes(key_file(key.id, key.ed25519))
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-I", "verify.py", "calls.jsonl", "gateway.key.pub"],
        check=False, capture_output=True, text=True, cwd=folder, timeout=30,
    )  # fmt: skip


def key_file(key_id: str, ed25519: bytes) -> bytes:
    encoded = base64.b64encode(ed25519).decode()
    return f'{{"id": "{key_id}", "public_key": {{"ed25519": "{encoded}"}}}}'.encode()


def test_a_script_with_securesystemslib_alone_verifies_an_export(tmp_path: Path, export: list[bytes]) -> None:
    done = verified_by_the_script(tmp_path, export)
    assert (done.returncode, done.stdout) == (0, "ok: 10 records\n"), done.stderr


def test_that_script_notices_a_record_that_is_missing(tmp_path: Path, export: list[bytes]) -> None:
    done = verified_by_the_script(tmp_path, [*export[:3], *export[4:]])
    assert done.returncode == 1
    assert "broken at" in done.stderr


def test_that_script_goes_on_from_a_note_of_pruning__and_takes_one_at_the_beginning_only(tmp_path: Path) -> None:
    now = [NOW_MS]

    async def main() -> None:
        async with Log(tmp_path / "accredit.db", clock=lambda: now[0]) as each:
            await each.call()
            now[0] += 1_000
            await each.call()
            await each.call()

    run(main())
    assert pruned(tmp_path / "accredit.db", NOW_MS + 500) == 2
    note, *records = exported(tmp_path / "accredit.db")
    done = verified_by_the_script(tmp_path, [note, *records])
    assert (done.returncode, done.stdout) == (0, "ok: 6 records\n"), done.stderr
    for lines in ([note, *records[1:]], [*records, note], [note, *records[:2], note, *records[2:]], records):
        done = verified_by_the_script(tmp_path, lines)
        assert (done.returncode, "broken at" in done.stderr) == (1, True)
