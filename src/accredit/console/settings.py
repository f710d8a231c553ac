"""`desk.toml`, in the folder of the person's keys: where the desk's key is, and how long it stays unlocked. Reads files
of that folder."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from accredit.base.toml import read_toml
from accredit.base.values import decodable
from accredit.errors import ConfigurationError
from accredit.keys import public_keys_in, read_file
from accredit.keys.places import config_folder, home_folder

MAX_DESK_FILE_BYTES = 65_536
"""The most bytes that `desk.toml` may have."""
UNLOCKED_SECONDS = 900
"""How long the desk's key stays unlocked, by default."""
MAX_UNLOCKED_SECONDS = 43_200
"""The longest time that `desk.toml` may keep the key unlocked: a working day."""


DESK_FILE = "desk.toml"
_UNITS = {"m": 60, "h": 3_600}
_DURATION = re.compile(r"([1-9][0-9]{0,3})([mh])")


class _Desk(Struct, frozen=True, forbid_unknown_fields=True):
    key_file: str = ""
    store: str = ""
    revocation_list: str = ""
    unlock: str = ""
    start: bool = False
    at: tuple[str, ...] = ()


@decodable
class _DeskFile(Struct, frozen=True, forbid_unknown_fields=True):
    desk: _Desk = _Desk()


class DeskSettings(Struct, frozen=True, kw_only=True):
    """The content of `desk.toml`. `unlock_seconds` is how long the key stays unlocked; if it is None, each signature
    needs the passphrase. `start` lets `connect --ask` start the desk. `at` are the public URLs of
    gateways elsewhere."""

    folder: Path
    key_file: Path | None = None
    store: str = ""
    revocation_list: Path | None = None
    unlock_seconds: int | None = UNLOCKED_SECONDS
    start: bool = False
    at: tuple[str, ...] = ()


def read_settings(environ: Mapping[str, str]) -> DeskSettings:
    """Read `desk.toml`, in which everything is optional. Raises `ConfigurationError`."""
    folder = config_folder(environ)
    path = folder / DESK_FILE
    found = _read(path) if path.exists() else _Desk()
    return DeskSettings(
        folder=folder,
        key_file=_path(found.key_file, folder, environ),
        store=found.store,
        revocation_list=_path(found.revocation_list, folder, environ),
        unlock_seconds=_unlock_seconds(found.unlock, path),
        start=found.start,
        at=found.at,
    )


def _path(text: str, folder: Path, environ: Mapping[str, str]) -> Path | None:
    if not text:
        return None
    return home_folder(environ) / text[2:] if text.startswith("~/") else folder / text


def _read(path: Path) -> _Desk:
    remedy = "its [desk] may have key_file, store, revocation_list, unlock, start and at"
    try:
        tree: dict[str, Any] = read_toml(read_file(path, MAX_DESK_FILE_BYTES).data)
        return msgspec.convert(tree, _DeskFile).desk
    except (ValueError, RecursionError) as error:  # of any of the three
        raise ConfigurationError(f"{path}: {error}", remedy) from None


def _unlock_seconds(text: str, path: Path) -> int | None:
    if not text:
        return UNLOCKED_SECONDS
    if text == "each":
        return None
    match = _DURATION.fullmatch(text)
    seconds = int(match[1]) * _UNITS[match[2]] if match else 0
    if not 0 < seconds <= MAX_UNLOCKED_SECONDS:
        raise ConfigurationError(
            f"{path}: desk.unlock: {text!a} is no time from 1m to 12h", 'say unlock = "15m", or "each"'
        )
    return seconds


def keys_in(folder: Path) -> list[Path]:
    """Return the paths of people's private keys in a folder, by their public halves."""
    found = ((path.with_suffix(""), key) for path, key in public_keys_in(folder))
    return [path for path, key in found if key.kind == "human" and path.is_file()]


def find_key(settings: DeskSettings) -> Path:
    """Return the path of the person's private key: the configured one or, if none is configured, the only one in the
    folder. Raises `ConfigurationError`."""
    if settings.key_file is not None:
        return settings.key_file
    found = keys_in(settings.folder)
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(each.name for each in found)
        raise ConfigurationError(
            f"there are several human keys in {settings.folder}: {names}",
            f"name one: key_file under [desk] in {settings.folder / DESK_FILE}",
        )
    raise ConfigurationError(
        f"there is no human key in {settings.folder}",
        f"make one: accredit keys new {settings.folder / 'owner.key'} --kind human --name YOU",
    )
