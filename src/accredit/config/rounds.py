"""From `[rounds]` to the keys that seal `requestState`. Reads the file of keys, once, at the start.

1. Nobody but the file's owner has any permission on it.
2. It holds valid keys (`accredit.rounds.sealing.parse_keys`).

Without a file, a key is made that lives as long as this process and its forks.
"""

import shlex
from pathlib import Path

from accredit.base.text import one_line
from accredit.config.load import Loaded
from accredit.errors import ConfigurationError
from accredit.gateway.settings import RoundsSettings
from accredit.keys import read_file
from accredit.limits import MAX_KEY_FILE_BYTES
from accredit.rounds import KeyRing, parse_keys


def build_rounds(loaded: Loaded) -> RoundsSettings:
    """Return how `requestState` is sealed. Raises `ConfigurationError`, which quotes nothing of the file."""
    rounds = loaded.config.rounds
    if rounds.keys_file is None:
        return RoundsSettings(state_seconds=rounds.state_seconds)
    return RoundsSettings(_ring(Path(rounds.keys_file)), rounds.state_seconds)


def _ring(path: Path) -> KeyRing:
    quoted = shlex.quote(str(path))
    if not path.exists():
        raise ConfigurationError(
            one_line(f"rounds.keys_file: there is no {path}"),
            one_line(f"(umask 077; openssl rand -base64 32 > {quoted}) makes it"),
        )
    try:
        content = read_file(path, MAX_KEY_FILE_BYTES)
    except ConfigurationError as error:
        raise ConfigurationError(one_line(f"rounds.keys_file: {error.what}"), error.remedy) from None
    if content.open_to_others:
        raise ConfigurationError(
            one_line(f"rounds.keys_file: others can read {path} (mode {content.mode:04o})"),
            one_line(f"chmod 600 {quoted}, and put a new key into it: this one is known to whoever could read it"),
        )
    return parse_keys(content.data.decode("utf-8", "replace"))
