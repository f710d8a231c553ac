"""What `make dist` makes of a copy of the source, and environments into which it is installed without a network.

I/O: processes, files.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

from tests.world.command import environment
from tests.world.wheels import wheelhouse

ROOT = Path(__file__).parents[2]
SOURCES = ("src", "examples", "hatch_build.py", "README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE", "NOTICE")
OTHERS = ("pyproject.toml", "Makefile", ".gitignore", "deploy", "requirements", "scripts")
GIT = shutil.which("git")
WHO = {
    **{f"GIT_{who}_{what}": "test@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    **{f"GIT_{who}_DATE": "2026-01-02T03:04:05Z" for who in ("AUTHOR", "COMMITTER")},
    "GIT_CONFIG_GLOBAL": "/dev/null",
}  # fmt: skip


def run(*words: str | Path, folder: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    offline = {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_COMPILE": "1", "UV_OFFLINE": "1"}
    done = subprocess.run(
        words, cwd=folder, env=environment({**offline, **(env or {})}), capture_output=True, text=True, timeout=170
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def copied(folder: Path, mtime: int, mode: int) -> Path:
    """A copy of the source, with other times and modes, and as a checkout if there is git."""
    folder.mkdir(parents=True)
    for name in (*SOURCES, *OTHERS):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(ROOT / name, folder / name)
    for file in folder.rglob("*"):
        os.utime(file, (mtime, mtime))
        if file.is_file():
            file.chmod(mode)
    if GIT:
        for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "all")):
            run(GIT, *words, folder=folder, env=WHO)
    return folder


def made(folder: Path) -> Path:
    """What `make dist` leaves, by the real recipe with the packages of this environment."""
    run("make", "-o", ".venv/.ready-run", "dist", f"BIN={Path(sys.executable).parent}", folder=folder, env=WHO)
    return folder / "dist"


def build(base: Path) -> Path:
    """Return a folder with `one/dist`, `far/off/two/dist`, `wheels`, and `bare`, an environment with the wheel and what
    it needs. Test processes share it, so it is beside their own folders; one of them makes it."""
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "dist"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "bare").exists():
            made(copied(folder / "one", 1_000_000_000, 0o600))
            made(copied(folder / "far" / "off" / "two", 1_700_000_000, 0o664))
            wheel = next((folder / "one" / "dist").glob("*.whl"))
            wheelhouse([*metadata_of(wheel).get_all("Requires-Dist", ()), "hatchling"], folder / "wheels")
            environment_of(folder / "bare", wheel, folder / "wheels")
    return folder


def metadata_of(wheel: Path) -> Message:
    """What a wheel says of itself."""
    with zipfile.ZipFile(wheel) as packed:
        name = next(each for each in packed.namelist() if each.endswith(".dist-info/METADATA"))
        return message_from_bytes(packed.read(name))


def environment_of(folder: Path, package: Path, wheels: Path, *more: str) -> None:
    """A new environment with a package in it, by pip."""
    run(sys.executable, "-m", "venv", "--without-pip", folder, folder=wheels)
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python")
    run(*pip, "install", "-q", "--no-compile", "--find-links", wheels, *more, package, folder=wheels)
