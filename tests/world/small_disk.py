"""A disk that is soon full: a tmpfs in a mount namespace of its own, which is gone when the test is, however it ends.

I/O: a shell that holds the namespace, files. A program that is to see the disk is started `within`; here its files can
be copied only, as SQLite does not open them through `/proc/PID/root`.
"""

import contextlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import pytest
from tests.world.command import wait_until

_PAGE = 4_096


class SmallDisk:
    """`with SmallDisk(folder, megabytes) as disk`: an empty disk. Skips the test where mounting is not allowed."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        self.path = folder / "disk"
        self._megabytes = megabytes

    def __enter__(self) -> Self:
        self.path.mkdir()
        try:
            self._shell = subprocess.Popen(
                ["unshare", "--map-root-user", "--mount", "sh"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        except OSError:
            pytest.skip("there is no `unshare` to mount a small disk with")
        if not self._does(f"mount -t tmpfs -o size={self._megabytes}m,mode=0700 small '{self.path}'"):
            self.__exit__(None, None, None)
            pytest.skip("mounting is not allowed here: no small disk")
        namespaces = ("--user", "--mount", "--preserve-credentials")
        self.within: Sequence[str] = ("nsenter", "--target", str(self._shell.pid), *namespaces, "--")
        """What comes before a command that is to see it."""
        self._seen_from_here = Path(f"/proc/{self._shell.pid}/root{self.path}")
        return self

    def __exit__(self, *_: object) -> None:
        self._shell.communicate()

    def copy(self, folder: Path) -> Path:
        """Copies its files, in which nobody may write meanwhile, in place of earlier copies; gives the folder."""
        for file in folder.glob("*.db*"):
            file.unlink()  # the write-ahead log of an earlier copy would be played back into this one
        for file in self._seen_from_here.glob("*.db*"):
            if file.is_file():
                shutil.copy(file, folder)
        return folder

    def fill(self, *, but: int = 0) -> None:
        """Takes all the room that is left, but for so many pages."""
        with self._ballast.open("ab", buffering=0) as ballast:
            for size in (65_536, 4_096):
                with contextlib.suppress(OSError):
                    while ballast.write(bytes(size)) == size:
                        pass
            ballast.truncate(ballast.tell() - but * _PAGE)

    def make_room(self) -> None:
        """Gives it back."""
        self._ballast.unlink(missing_ok=True)

    def grow(self, megabytes: int) -> None:
        """Makes it a larger disk."""
        assert self._does(f"mount -o remount,size={megabytes}m '{self.path}'")

    def read_only(self, value: bool) -> None:
        """Makes it a disk that takes no writes, or one that does: once nobody has a file of it open for writing, such
        as the process that wrote the log of a gateway which has just ended."""
        wait_until(lambda: self._does(f"mount -o remount,{'ro' if value else 'rw'} '{self.path}'"))

    @property
    def _ballast(self) -> Path:
        return self._seen_from_here / "ballast"

    def _does(self, command: str) -> bool:
        """Runs a command in the namespace; whether it went well."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        try:
            self._shell.stdin.write(f"{command}; echo $?\n".encode())
            self._shell.stdin.flush()
        except BrokenPipeError:  # the namespace could not be made
            return False
        return self._shell.stdout.readline() == b"0\n"
