"""Paths of the user's files (XDG Base Directory Specification). Reads no file.

`environ` is the process's environment. As the specification says, a variable that is empty, or not an absolute path,
counts as unset. Without `HOME` the user database gives the home folder.
"""

import os
import pwd
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from accredit.errors import ConfigurationError

OWN_FOLDER = "accredit"
"""The name of our folder in each of the user's folders."""
JOURNAL = "journal.jsonl"
"""The name of the desk's journal."""
KNOWN_GATEWAYS = "known_gateways.json"
"""The name of the file, beside the agent's key, of the gateways that `connect` has met."""
DELEGATION = "delegation.json"
"""The name of an agent's delegation, beside its key."""
MAX_AGENT_FOLDERS = 100
"""How many folders of adopted agents are looked at."""
APPS = "apps"
"""The folder within the person's own that holds what they have signed for apps that can only log in."""
AGENTS = "agents"
"""The folder within the person's own that holds the agents of hosts, one for each host whose servers were adopted."""


def home_folder(environ: Mapping[str, str]) -> Path:
    """Return the person's home folder. Raises `ConfigurationError` for a user without one."""
    home = _absolute(environ, "HOME")
    if home is not None:
        return home
    try:  # `Path.home` would take an empty HOME for `/`, and a relative one as it is
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        raise ConfigurationError("this user has no home folder", "set HOME to an absolute path") from None


def config_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of keys, delegations, `desk.toml` and the person's names for others."""
    return (_absolute(environ, "XDG_CONFIG_HOME") or home_folder(environ) / ".config") / OWN_FOLDER


def agent_folders(folder: Path) -> list[Path]:
    """Return the folders of agents' keys within the person's own: itself, and one for each adopted host, as far as they
    can be read."""
    with suppress(OSError):
        return [folder, *sorted((folder / AGENTS).glob("*/"))[:MAX_AGENT_FOLDERS]]
    return [folder]


def state_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder to which the desk writes its journal."""
    return (_absolute(environ, "XDG_STATE_HOME") or home_folder(environ) / ".local" / "state") / OWN_FOLDER


def entry_mark(state: Path, words: Sequence[str]) -> Path:
    """Return the path of the file that marks a host's entry with this command as not started. It is written with the
    entry, and removed when `connect` first runs with them. Entries with the same words share it."""
    told = words[words.index("connect") :] if "connect" in words else words
    return state / f"{sha256(ascii([*told]).encode()).hexdigest()[:32]}.unstarted"


def desk_journal(environ: Mapping[str, str]) -> Path:
    """Return the path of the desk's journal. The file exists once a desk has run."""
    return state_folder(environ) / JOURNAL


def runtime_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of sockets. If the system has no such folder for each user, as macOS, it is the state folder.
    A folder that only a variable such as `TMPDIR` names would be hidden from programs that hosts start."""
    runtime = _absolute(environ, "XDG_RUNTIME_DIR")
    return runtime / OWN_FOLDER if runtime is not None else state_folder(environ)


def desk_socket(environ: Mapping[str, str]) -> Path:
    """Return the path of the desk's socket."""
    return _absolute(environ, "ACCREDIT_DESK_SOCKET") or runtime_folder(environ) / "desk.sock"


def desk_log(environ: Mapping[str, str]) -> Path:
    """Return the path of the log file of a desk that has no terminal."""
    return state_folder(environ) / "desk.log"


def user_runtime_folder(user: int) -> Path:
    """Return the path of a user's folder of sockets, on systems that have one for each user (systemd, elogind)."""
    return Path(f"/run/user/{user}")


def desk_sockets(environ: Mapping[str, str], user: int) -> tuple[Path, ...]:
    """Return the paths where a user's desk may have its socket, likeliest first. Official SDKs start programs with only
    `HOME` and `PATH`. Such a program may have started the desk with its socket elsewhere."""
    if _absolute(environ, "ACCREDIT_DESK_SOCKET"):
        return (desk_socket(environ),)
    is_told = runtime_folder(environ) != state_folder(environ)
    runtime = runtime_folder(environ) if is_told else user_runtime_folder(user) / OWN_FOLDER
    return tuple(folder / "desk.sock" for folder in (runtime, state_folder(environ)))


def _absolute(environ: Mapping[str, str], name: str) -> Path | None:
    path = Path(environ.get(name) or ".")
    return path if path.is_absolute() else None
