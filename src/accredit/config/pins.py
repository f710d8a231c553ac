"""Builds the definitions that the server's tools must have, from `[pins]` and `accredit.lock`. Reads the lock, once for
all servers (`keys.reading`).

- The lock is beside the configuration file. Without such a file no lock is looked for: somebody else may have put one
  into the current folder.
- If `pins.mode` is not set, definitions are enforced if there is a lock. If it is set to a mode that uses pins, there
  must be a lock. In both cases the lock must name the server: otherwise its definitions would go unchecked.
- The lock must be valid as a whole (`pins.lock`), or the gateway does not start.
"""

from pathlib import Path

from accredit.config.load import Loaded
from accredit.errors import ConfigurationError, LockError
from accredit.keys import is_there, read_file
from accredit.limits import MAX_LOCK_BYTES
from accredit.pins.definitions import Definitions, Pins
from accredit.pins.lock import LOCK_FILE, UPSTREAM, read_lock

_PIN = "`accredit pin` shows what the server says, and writes it"


def build_pins(loaded: Loaded) -> Pins | None:
    """Return the server's pins, or None if there are none. Raises `ConfigurationError`."""
    pins = loaded.config.pins
    if pins.mode == "off":
        return None
    path = lock_file(loaded)
    if path is None or not is_there(path):
        if pins.mode is None:
            return None
        what = (
            f"there is no {path}" if path is not None else f"{LOCK_FILE} is beside a configuration, and there is none"
        )
        raise ConfigurationError(f'pins.mode is "{pins.mode}", and {what}', _PIN)
    server = read_lock_file(path).get(lock_name(loaded))
    if server is None:
        raise ConfigurationError(f"{path} pins nothing of the server of [{loaded.place('upstream')}]", _PIN)
    return Pins(
        tools={name: tool.sha256 for name, tool in server.tools.items() if tool.sha256 is not None},
        instructions=server.instructions_sha256,
        enforced=pins.mode != "warn",
        fresh_seconds=pins.fresh_seconds,
    )


def read_pinned(loaded: Loaded) -> Definitions | None:
    """Return the server's pins in the lock, whatever `pins.mode` says; None if the lock or the server's pins are
    missing. Raises `ConfigurationError`."""
    path = lock_file(loaded)
    return read_lock_file(path).get(lock_name(loaded)) if path is not None and is_there(path) else None


def stale_pins(loaded: Loaded) -> dict[str, Definitions]:
    """Return the lock's pins of servers that the configuration does not have, by the servers' names. Raises
    `ConfigurationError`."""
    path = lock_file(loaded)
    if path is None or not is_there(path):
        return {}
    configured = frozenset(loaded.config.servers.by_name) or {UPSTREAM}
    return {name: pinned for name, pinned in read_lock_file(path).items() if name not in configured}


def lock_name(loaded: Loaded) -> str:
    """Return the server's name in the lock."""
    return loaded.server or UPSTREAM


def lock_file(loaded: Loaded) -> Path | None:
    """Return the path where the lock is or would be; None if there is no configuration file."""
    return loaded.beside(LOCK_FILE)


def read_lock_file(path: Path) -> dict[str, Definitions]:
    """Return a lock's pins, by server. Raises `ConfigurationError`."""
    try:
        return read_lock(read_file(path, MAX_LOCK_BYTES).data)
    except LockError as error:
        raise ConfigurationError(
            f"{path} can't be taken: {error}",
            "take the last good one from version control, or move it away: " + _PIN,
        ) from None
