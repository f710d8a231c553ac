"""What runs where the manifests of `deploy/` say: another user's process, with files as Kubernetes and systemd mount
them. I/O: processes, files."""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from tests.world.raw_server import PATIENCE

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
USER = 65532
"""Whom the manifests name."""


def kustomized(overlay: str) -> dict[str, dict[str, Any]]:
    """What `kubectl apply -k deploy/kubernetes/OVERLAY` would send, by kind; skips the test without `kubectl`."""
    program = shutil.which("kubectl") or shutil.which("kustomize")
    if program is None:
        pytest.skip("neither kubectl nor kustomize is installed")
    command = [program, "kustomize" if program.endswith("kubectl") else "build", str(DEPLOY / "kubernetes" / overlay)]
    built = subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
    return {each["kind"]: each for each in cast("list[dict[str, Any]]", list(yaml.safe_load_all(built.stdout)))}


def as_user() -> list[str]:
    """What the command of another user's process begins with, where tests run as root."""
    return ["setpriv", "--clear-groups", f"--regid={USER}", f"--reuid={USER}"] if os.geteuid() == 0 else []


@cache
def command() -> tuple[str, ...]:
    """`accredit` as that user runs it; skips the test where no Python of this version is another user's to run."""
    # A gateway starts processes of its own with the same Python, as that user.
    again = "os.execv(sys.executable, [sys.executable, '-c', 'import sys; print(sys.version_info[:2])'])"
    for python in (sys.executable, "/usr/bin/python3"):
        probe = [*as_user(), python, "-c", f"import os, sys; {again}"]
        found = subprocess.run(probe, check=False, capture_output=True, text=True)
        if found.stdout.strip() == str(sys.version_info[:2]):
            return (*as_user(), python, "-m", "accredit")
    pytest.skip("no Python of this version that another user can run")


def environment(own: Mapping[str, str]) -> dict[str, str]:
    """Where that Python finds the package, and `own`."""
    packages = os.pathsep.join(
        [str(ROOT / "src"), *dict.fromkeys(sysconfig.get_paths()[key] for key in ("purelib", "platlib"))]
    )
    return {"PYTHONPATH": packages, **own}


def secret_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write them as a volume of secrets is mounted: root's, for the group to read, and behind links."""
    content = folder / "..2026_11_23"
    content.mkdir()
    (folder / "..data").symlink_to(content.name)
    for name, data in files.items():
        (content / name).write_bytes(data)
        (content / name).chmod(0o440 if os.geteuid() == 0 else 0o400)
        if os.geteuid() == 0:
            os.chown(content / name, 0, USER)
        (folder / name).symlink_to(f"..data/{name}")
    for each in (content, folder):
        each.chmod(0o755 if os.geteuid() == 0 else 0o500)


def state_folder(folder: Path) -> Path:
    """The one folder that the process may write into."""
    folder.mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(folder, USER, USER)
    return folder
