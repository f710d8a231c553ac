"""Installs the script that `accredit completion` prints, and for bash and zsh a line in the file that the shell reads
when it starts. I/O: those files, stdout.

A line that is there already is not added again, and nothing else in that file is touched.
"""

import os
import shlex
from pathlib import Path

from accredit.base.files import SHARED_FOLDER, make_folder
from accredit.hosts.edit import MAX_HOST_FILE_BYTES
from accredit.keys import read_file, replace_file, write_file
from accredit.keys.places import config_folder, home_folder
from accredit.terminal.output import say


def install_completion(shell: str, script: str) -> int:
    """Write `script` for `shell`, and make the shell read it; return the exit code. Raises `ConfigurationError`."""
    own = config_folder(os.environ)
    file = own.parent / "fish/completions/accredit.fish" if shell == "fish" else own / f"completion.{shell}"
    make_folder(file.parent, SHARED_FOLDER)
    write_file(file, script.encode(), replace=True)
    say(f"wrote {file}")
    if shell != "fish":  # which looks there by itself
        home = home_folder(os.environ)
        startup = home / ".bashrc" if shell == "bash" else Path(os.environ.get("ZDOTDIR") or home) / ".zshrc"
        line = f". {shlex.quote(str(file))}"
        say(f"added to {startup}: {line}" if _add_line(startup, line) else f"{startup} reads it already")
    say(f"open a new {shell}, type accredit and a space, and press the tab key")
    return 0


def _add_line(file: Path, line: str) -> bool:
    """Add a line at the end of a file, which is made if it is missing. Return whether the line is new."""
    if not file.exists():
        write_file(file, f"{line}\n".encode())
        return True
    old = read_file(file, MAX_HOST_FILE_BYTES).data
    if line.encode() in old.splitlines():
        return False
    gap = b"" if not old or old.endswith(b"\n") else b"\n"
    replace_file(file, b"".join((old, gap, line.encode(), b"\n")), old=old)
    return True
