"""Finds key files on this machine by the keys' ids: in the person's folder, and beside a configuration. Reads files.

A key's id is derived from the key, so a found file holds that key, whoever put it there.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path

from accredit.console.settings import read_settings
from accredit.errors import ConfigurationError
from accredit.keys import KeyFile, load_public_key, public_keys_in, public_path
from accredit.keys.places import agent_folders, config_folder
from accredit.limits import MAX_KEY_FILES


def find_public_keys(environ: Mapping[str, str], configuration: Path | None) -> dict[str, Path]:
    """Return the paths of public keys by the keys' ids. Files that are not keys are left out."""
    folders = [*agent_folders(config_folder(environ)), *([configuration.parent] if configuration is not None else [])]
    found: dict[str, Path] = {}
    for path, key in islice(chain(_settings_key(environ), *map(public_keys_in, folders)), MAX_KEY_FILES):
        found.setdefault(key.id, path)
    return found


def _settings_key(environ: Mapping[str, str]) -> Iterator[tuple[Path, KeyFile]]:
    with suppress(ConfigurationError):  # the desk says what is wrong with its settings
        named = read_settings(environ).key_file
        if named is not None:
            yield public_path(named), load_public_key(public_path(named))
