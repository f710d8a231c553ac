"""An auditor's script without a line of ours verifies what we export, and notices a change."""

import base64
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.contract.test_record_log import make_log
from tests.world.records import gateway

from accredit.attest import Stored, encode_envelope
from accredit.stores.log_file import LogFile

PAGE = (Path(__file__).parents[2] / "docs/how-to/verify-without-accredit.md").read_text("utf-8")


@pytest.fixture
def export(tmp_path: Path) -> list[bytes]:
    make_log(tmp_path / "accredit.db", 5)
    with LogFile(tmp_path / "accredit.db") as log_file:
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
