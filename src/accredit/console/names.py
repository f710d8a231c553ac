"""The names that a person gives to keys and gateways: `names.json` in the folder of `desk.toml`. I/O: that file.

These names are the person's own, so they are shown without quotes. A name that a key gives itself is always quoted. The
file is read at each use, as `accredit names set` may have changed it.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import cast

from accredit.attest import LogKey
from accredit.base.files import make_folder
from accredit.errors import ConfigurationError
from accredit.keys import log_key, public_keys_in, read_file, write_file
from accredit.keys.formats import name_fault
from accredit.keys.places import agent_folders
from accredit.limits import MAX_IDENTIFIER_LENGTH_BYTES

MAX_NAMES = 4_096
"""How many names a person may give to keys and gateways."""
MAX_NAMES_FILE_BYTES = 1_048_576
"""How many bytes the file of these names may have."""


NAMES = "names.json"


def read_names(folder: Path) -> Mapping[str, str]:
    """Return the names by the ids of keys and gateways. Raises `ConfigurationError` for a malformed file."""
    path = folder / NAMES
    if not path.exists():
        return {}
    remedy = 'it is {"ID": "NAME", ...}; `accredit names set` writes it'
    try:
        names: object = json.loads(read_file(path, MAX_NAMES_FILE_BYTES).data)
    except (ValueError, RecursionError):
        raise ConfigurationError(f"{path} is not JSON", remedy) from None
    if not isinstance(names, dict):
        raise ConfigurationError(f"{path} is no object", remedy)
    members = cast("dict[str, object]", names)
    for value in members.values():
        if not isinstance(value, str) or name_fault(value):
            raise ConfigurationError(f"{path} holds a name that is none", remedy)
    return cast("dict[str, str]", members)


def known_names(folder: Path) -> Mapping[str, str]:
    """Return the names of `read_names`, and those in the public keys of the folder and of its adopted agents, which the
    person made or accepted. Unreadable files are skipped."""
    folders = reversed(agent_folders(folder))
    names = {key.id: key.name for each in folders for _, key in public_keys_in(each)}
    with suppress(ConfigurationError):
        names.update(read_names(folder))
    return names


def gateway_keys(folder: Path) -> list[LogKey]:
    """Return the gateways' public keys in the folder, which verify the records of their logs."""
    return [log_key(key) for _, key in public_keys_in(folder) if key.kind == "gateway"]


def set_name(folder: Path, holder_id: str, name: str) -> None:
    """Give a key or a gateway a name; an empty one removes its name. Raises `ConfigurationError`.

    Names are unique, so that a reader knows which key or gateway is meant.
    """
    if not holder_id.isprintable() or not 0 < len(holder_id.encode()) <= MAX_IDENTIFIER_LENGTH_BYTES:
        raise ConfigurationError(f"{holder_id!a} is no id", "`accredit asked` and `accredit keys show` print ids")
    names = dict(read_names(folder))
    fault = name_fault(name) if name else None
    if fault:
        raise ConfigurationError(f"NAME: {fault}", "give a short name, such as Assistant")
    other = next((each for each, given in names.items() if given == name and each != holder_id), None)
    if name and other is not None:
        raise ConfigurationError(f"{other} is called {name} already", "give each a name of its own")
    names.pop(holder_id, None)
    if name:
        names[holder_id] = name
    if len(names) > MAX_NAMES:
        raise ConfigurationError(f"there are {MAX_NAMES} names already", "take one away: accredit names set ID ''")
    make_folder(folder)
    text = json.dumps(names, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    write_file(folder / NAMES, text.encode(), private=True, replace=True)
