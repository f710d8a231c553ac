"""Finds key files on this machine by the keys' ids: in the person's folder, and beside a configuration. Reads files.

A key's id is derived from the key, so a found file holds that key, whoever put it there.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from accredit.console.settings import read_settings
from accredit.errors import ConfigurationError
from accredit.keys import load_public_key, public_path
from accredit.keys.load import PUBLIC_SUFFIX
from accredit.keys.places import config_folder
from accredit.limits import MAX_KEY_FILES
from accredit.setup.install_entry import AGENTS


def find_public_keys(environ: Mapping[str, str], configuration: Path | None) -> dict[str, Path]:
    """Return the paths of public keys by the keys' ids. Files that are not keys are left out."""
    found: dict[str, Path] = {}
    for path in islice(_candidates(environ, configuration), MAX_KEY_FILES):
        try:
            found.setdefault(load_public_key(path).id, path)
        except ConfigurationError:  # such as the public key of a token's issuer, which is in PEM
            continue
    return found


def _candidates(environ: Mapping[str, str], configuration: Path | None) -> Iterator[Path]:
    folder = config_folder(environ)
    try:
        named = read_settings(environ).key_file
    except ConfigurationError:  # the desk says what is wrong with its settings
        named = None
    if named is not None:
        yield public_path(named)
    for place, names in (
        (folder, f"*{PUBLIC_SUFFIX}"),
        (folder / AGENTS, f"*/*{PUBLIC_SUFFIX}"),
        *([(configuration.parent, f"*{PUBLIC_SUFFIX}")] if configuration is not None else []),
    ):
        yield from sorted(place.glob(names))
