"""`-` with real pipes, terminals and full disks: what comes in whole, what goes out, and how a command ends."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.world.command import environment
from tests.world.raw_server import PATIENCE
from tests.world.warm import COMMAND

from accredit.base.clock import unix_seconds
from accredit.keys import DelegationFile, make_key, write_key
from accredit.ratify import RevocationList

pytestmark = pytest.mark.slow

CERT = "0123456789abcdef" * 2


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, kind in (("owner", "human"), ("agent", "agent")):
        write_key(tmp_path / f"{name}.key", make_key(kind, name.title(), unix_seconds()))  # type: ignore[arg-type]
    return tmp_path


def run(folder: Path, *arguments: str, sent: bytes = b"", stdout: int = subprocess.PIPE) -> tuple[int, bytes, str]:
    done = subprocess.run(
        [*COMMAND, *arguments], input=sent, stdout=stdout, stderr=subprocess.PIPE, cwd=folder, env=environment(),
        timeout=PATIENCE, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout or b"", done.stderr.decode()


def test_a_key_comes_and_a_delegation_goes_through_pipes(folder: Path) -> None:
    key = (folder / "owner.key").read_bytes()
    files = set(folder.iterdir())
    grant = ("grant", "--agent", "agent.key.pub", "--scope", "comms:message:read", "--issuer", "-")
    code, out, err = run(folder, *grant, "--out", "-", sent=key)
    assert code == 0, err
    (cert,) = DelegationFile.decode(out).delegations
    assert cert.cert_id in err
    assert set(folder.iterdir()) == files
    code, said, err = run(folder, "inspect", "-", "--json", sent=out)
    assert (code, err) == (0, "")
    assert cert.cert_id.encode() in said
    code, _, err = run(folder, *grant, "--out", "-", "--json", sent=key)
    assert (code, err.splitlines()[0]) == (2, "error: --out - and --json both want stdout")


def test_a_revocation_list_goes_through_without_a_file(folder: Path) -> None:
    revoke = ("revoke", CERT, "--issuer", "owner.key", "--list", "-")
    code, first, err = run(folder, *revoke)
    assert code == 0, err
    assert RevocationList.decode(first).revoked_certs == (CERT,)
    code, second, err = run(folder, "revoke", "f" * 32, *revoke[2:], sent=first)
    assert RevocationList.decode(second).revoked_certs == (CERT, "f" * 32)
    code, out, err = run(folder, *revoke, sent=first[:-20])
    assert (code, out) == (2, b""), err


def test_a_private_key_is_never_written_to_a_stream(folder: Path) -> None:
    for name in ("-", "/dev/stdout"):
        for words in (("keys", "new", name, "--kind", "agent"), ("token", "keygen", name)):
            code, out, err = run(folder, *words)
            assert (code, out) == (2, b"")
            assert "a key is two files" in err


def test_a_reader_that_goes_away_is_no_answer_and_no_trace(folder: Path) -> None:
    for words in (("inspect", "agent.key.pub"), ("inspect", "agent.key.pub", "--json"), ("config", "schema")):
        reading, writing = os.pipe()
        os.close(reading)
        code, _, err = run(folder, *words, stdout=writing)
        os.close(writing)
        assert (code, err) == (141, ""), words


def test_a_full_disk_is_not_taken_for_success(folder: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        for words in (
            ("inspect", "agent.key.pub"), ("config", "schema"), ("config", "show", "--json"), ("completion", "bash"),
        ):  # fmt: skip
            code, _, err = run(folder, *words, stdout=full.fileno())
            assert code == 2
            assert "No space left" in err.splitlines()[0], words


def test_a_closed_stream_is_no_trace_and_nobody_s_yes(folder: Path) -> None:
    def closed(redirections: str, *words: str) -> tuple[int, str]:
        done = subprocess.run(
            ["/bin/sh", "-c", f'exec "$@" {redirections}', "sh", *COMMAND, *words], capture_output=True, text=True,
            cwd=folder, env=environment({"HOME": str(folder)}), timeout=PATIENCE, check=False,
        )  # fmt: skip
        return done.returncode, done.stderr

    own = folder / ".config/accredit"
    own.mkdir(parents=True)
    for file in folder.glob("agent.key*"):
        shutil.copy(file, own)  # else the entry would name no key, of which there is a word
    entry = ("install", "cursor", "--url", "http://127.0.0.1:9/mcp")
    code, err = closed("<&-", *entry)
    assert (code, err.splitlines()[0]) == (2, "error: there is nobody to ask whether this is wanted")
    assert not (folder / ".cursor").exists()
    code, err = closed("<&-", "keys", "show", "-")
    assert (code, err.splitlines()[0]) == (2, "error: stdin is closed")
    for words in ((*entry, "--yes"), ("install", "--list"), ("completion", "bash"), ("--version",)):
        assert closed("<&- >&-", *words) == (0, ""), words
    assert b"accredit" in (folder / ".cursor/mcp.json").read_bytes()
    assert closed("<&- >&- 2>&-", "config", "schema") == (0, "")


def test_a_file_of_this_very_name_is_meant_by_its_whole_path(folder: Path) -> None:
    (folder / "-").write_bytes((folder / "agent.key.pub").read_bytes())
    code, said, err = run(folder, "keys", "show", str(folder / "-"), "--json", sent=b"not a key")
    assert (code, err) == (0, "")
    assert b'"kind": "agent"' in said
    assert run(folder, "keys", "show", "-", sent=b"not a key")[0] == 2
