"""The commands, run in this process, in a folder that holds an owner's, an agent's and a sub-agent's keys."""

from pathlib import Path

import pytest
from tests.world.delegations import World
from tests.world.in_process import Refused, Run, Save, runs

from accredit.keys import DelegationFile, write_key
from accredit.ratify import DelegationCert, ProofBundle, RevocationList


@pytest.fixture(scope="session")
def world() -> World:
    return World()


@pytest.fixture
def folder(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, key in (("owner", world.owner), ("agent", world.agent), ("sub", world.sub)):
        write_key(tmp_path / f"{name}.key", key)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("grant", ...)` as `accredit grant ...` in the folder."""
    assert folder.is_dir()
    return runs(monkeypatch, capsys)


@pytest.fixture
def refused(run: Run, folder: Path) -> Refused:
    """Runs a command that must refuse: exit code 2, nothing on stdout, no file made; returns what and remedy."""

    def call(*arguments: str) -> tuple[str, str]:
        before = {path: path.read_bytes() for path in folder.iterdir()}
        done = run(*arguments)
        assert (done.code, done.out) == (2, ""), done
        what, remedy = done.err.splitlines()
        assert what.startswith("error: ")
        assert remedy.startswith("help: ")
        assert {path: path.read_bytes() for path in folder.iterdir()} == before
        return what, remedy

    return call


@pytest.fixture
def save(folder: Path) -> Save:
    """Writes a chain as `grant` would, or a proof or a list; returns the file's name."""

    def write(*what: DelegationCert | ProofBundle | RevocationList, name: str = "delegation.json") -> str:
        chain = tuple(each for each in what if isinstance(each, DelegationCert))
        (folder / name).write_bytes((DelegationFile(chain) if chain else what[0]).text())
        return name

    return write
