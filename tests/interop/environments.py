"""The environments of foreign clients and servers: installed once, from pinned requirements, into a cache.

I/O: files below `$XDG_CACHE_HOME/accredit-interop`, `pip` and `npm` with the machine's own settings. What belongs to a
pinned file lies under its digest: a changed pin is a new environment, and an old one is never touched.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import venv
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

from tests.conformance.node import NodeMissing, find_node

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROGRAMS = HERE / "programs"
REQUIREMENTS = ROOT / "requirements"
INSTALL_SECONDS = 900
OWN = "own"
"""This project's environment: the Python SDK 2.x and FastMCP 4, pinned in `requirements/dev.txt`."""
NODE = "node"
"""The one of all that is in TypeScript."""


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "accredit-interop"


@contextmanager
def _once(name: str, pinned: bytes, install: Callable[[Path], None]):
    """The folder for these pins, filled by `install` where it is not there whole."""
    folder = _cache() / f"{name}-{hashlib.sha256(pinned).hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / ".installed"
        if not done.exists():
            install(folder)
            done.touch()
        yield folder


def python(name: str) -> Path:
    """The `bin` folder of the Python environment that `requirements/interop-NAME.txt` pins."""
    if name == OWN:
        return Path(sys.executable).parent
    pinned = REQUIREMENTS / f"interop-{name}.txt"

    def install(folder: Path) -> None:
        venv.create(folder, with_pip=True, clear=False)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--require-hashes", "--no-deps", "-r", str(pinned)], check=True, timeout=INSTALL_SECONDS)

    with _once(f"python-{name}", pinned.read_bytes(), install) as folder:
        return folder / "bin"


def node_modules() -> Path:
    """The `node_modules` that `package-lock.json` pins."""
    pinned = [HERE / "package.json", HERE / "package-lock.json"]

    def install(folder: Path) -> None:
        for file in pinned:
            shutil.copy(file, folder)
        command = [*find_node().npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
        subprocess.run(command, cwd=folder, check=True, timeout=INSTALL_SECONDS, stdout=subprocess.DEVNULL)

    with _once(NODE, b"".join(file.read_bytes() for file in pinned), install) as folder:
        return folder / "node_modules"


def version(environment: str, package: str) -> str:
    """The version of a package that is pinned for an environment."""
    if environment == NODE:
        lock = json.loads((HERE / "package-lock.json").read_text("utf-8"))
        return lock["packages"][f"node_modules/{package}"]["version"]
    pinned = REQUIREMENTS / ("dev.txt" if environment == OWN else f"interop-{environment}.txt")
    found = re.search(rf"^{re.escape(package)}==(\S+)", pinned.read_text("utf-8"), re.MULTILINE)
    assert found is not None, f"{package} is not in {pinned}"
    return found[1]


class Environments:
    """Where programs run: each Python environment, and one Node with the modules of one folder.

    Node looks for modules beside a program, so that the programs are copied beside a link to them: at the start of each
    run, also where a folder is gone on with.
    """

    def __init__(self, folder: Path, modules: Callable[[], Path] = node_modules) -> None:
        self._folder = folder / "node"
        self._modules = modules
        self._ready = False
        self._lock = threading.Lock()

    def install(self, name: str) -> str:
        """Installs an environment, where it is not there; gives why it can't be had, "" if it can."""
        try:
            if name == NODE:
                self.node("")
            else:
                python(name)
        except (NodeMissing, subprocess.SubprocessError) as error:
            return f"{name}: {error}"
        return ""

    def python(self, name: str, program: str) -> list[str]:
        """The command of a program of ours in a Python environment."""
        return [str(python(name) / "python"), str(PROGRAMS / program)]

    def script(self, name: str, script: str) -> list[str]:
        """The command of a script that a Python package brought."""
        return [str(python(name) / script)]

    def node(self, program: str) -> list[str]:
        """The command of a program of ours, or of one that a module brings."""
        with self._lock:
            if not self._ready:
                self._folder.mkdir(parents=True, exist_ok=True)
                link = self._folder / "node_modules"
                link.unlink(missing_ok=True)
                link.symlink_to(self._modules())
                for file in PROGRAMS.glob("*.mjs"):
                    shutil.copy(file, self._folder)
                self._ready = True
        return [find_node().node, str(self._folder / program)]
