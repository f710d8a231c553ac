"""The image of `deploy/Containerfile`, built, and run as a pod may: its user, a root that can't be written, no rights.
I/O: processes, a mirror of Debian, the registry that this machine's pip asks."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.world.deployed import DEPLOY, ROOT, USER

IN_A_CONTAINER = r"""
root=$1 configuration=$2 state=$3; shift 3
mount --make-rprivate /
mount --bind "$root" "$root"
mkdir -p "$root/var/lib/accredit"
mount -o remount,bind,ro "$root"
mount -t proc -o nosuid,noexec,nodev proc "$root/proc"
mount -t tmpfs -o nosuid,mode=755,size=1m tmpfs "$root/dev"
for device in null zero urandom random; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"
mount --bind "$configuration" "$root/etc/accredit"
mount -o remount,bind,ro "$root/etc/accredit"
mount --bind "$state" "$root/var/lib/accredit"
exec chroot "$root" env -i -C /etc/accredit PATH=/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 \
    ACCREDIT_GATEWAY__HOST="$ACCREDIT_GATEWAY__HOST" \
    ACCREDIT_GATEWAY__ALLOWED_HOSTS="$ACCREDIT_GATEWAY__ALLOWED_HOSTS" \
    ACCREDIT_ADMIN__HOST="$ACCREDIT_ADMIN__HOST" ACCREDIT_ADMIN__PORT="$ACCREDIT_ADMIN__PORT" \
    setpriv --reuid=UID --regid=UID --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all "$@"
""".replace("UID", str(USER))


class Image(NamedTuple):
    """Its files, and how it is to be run."""

    files: Path
    settings: dict[str, Any]

    def command(self, configuration: Path, state: Path) -> list[str | Path]:
        """What runs its entry point."""
        inside = [self.files, configuration, state, *self.settings["Entrypoint"]]
        return ["unshare", "--mount", "sh", "-euc", IN_A_CONTAINER, "sh", *inside]


@contextmanager
def built_image(buildah: str, debootstrap: str) -> Generator[Image]:
    """The image, from the sources that are tested. Only root can do that."""
    with tempfile.TemporaryDirectory(prefix="accredit-image-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        kept = ["--root", folder / "store", "--runroot", folder / "run", "--storage-driver", "vfs"]

        def done(*words: str | Path, where: Path = folder) -> str:
            ran = subprocess.run(words, cwd=where, capture_output=True, text=True, check=False)
            assert ran.returncode == 0, f"{words}: {ran.stdout[-4000:]}{ran.stderr[-4000:]}"
            return ran.stdout.strip()

        def built(*words: str | Path) -> str:
            return done(buildah, *kept, *words)

        _base(done, debootstrap, folder / "base")
        done("tar", "-C", folder / "base", "-cf", folder / "base.tar", ".")
        begun = built("from", "scratch")
        built("add", "-q", begun, folder / "base.tar", "/")
        built("commit", "-q", "--rm", begun, "base:local")
        done(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder / "dist", where=ROOT)
        for each in (ROOT / "requirements/gateway.txt", DEPLOY / "Containerfile"):
            shutil.copy(each, folder / "dist")  # as `make dist` does
        ways = ["--isolation=chroot", "--network=host", "--pull-never", "--build-arg=PYTHON=localhost/base:local"]
        built("build", *ways, "-t", "accredit:built", folder / "dist")
        settings = json.loads(built("inspect", "--type", "image", "localhost/accredit:built"))["OCIv1"]["config"]
        container = built("from", "--pull-never", "localhost/accredit:built")
        try:
            yield Image(Path(built("mount", container)), settings)
        finally:
            built("umount", container)


def _base(done: Callable[..., str], debootstrap: str, files: Path) -> None:
    """Makes a Debian of the release that the image begins with, which has Python and nothing to build with; and lets
    its pip reach what this machine's pip reaches."""
    (release,) = re.findall(
        r"^ARG PYTHON=python:[\d.]+-slim-(\w+)$", (DEPLOY / "Containerfile").read_text(), re.MULTILINE
    )
    done(debootstrap, "--variant=minbase", "--include=python3,python3-venv,ca-certificates", release, files)
    shutil.copy("/etc/ssl/certs/ca-certificates.crt", files / "etc/ssl/certs/ca-certificates.crt")
    index = os.environ.get("PIP_INDEX_URL")
    settings = ["[global]", "cert = /etc/ssl/certs/ca-certificates.crt", *([f"index-url = {index}"] if index else [])]
    (files / "etc/pip.conf").write_text("\n".join([*settings, ""]))
