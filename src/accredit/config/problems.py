"""Error texts for a configuration: one line for what is wrong, with the key's name, and one for what to do. No I/O.

A value is never quoted: it may be a secret under the wrong key.
"""

from collections.abc import Callable, Iterable
from difflib import SequenceMatcher

from accredit.base.text import one_line
from accredit.config.schema import LISTED, SECTIONS
from accredit.config.section import Section, description, entries, keys, kinds, table_in
from accredit.config.values import NO_SUCH_KEY, Place, WrongValue
from accredit.errors import ConfigurationError

PREFIX = "ACCREDIT_"

_ENTRIES = frozenset(section for section, table in SECTIONS.items() if entries(table) is not None)
"""The sections that hold tables with user-chosen names."""
_KEYS = tuple(f"{section}.{key}" for section, table in SECTIONS.items() for key in keys(table))


def problem(fault: WrongValue, origin_of: Callable[[str, str], str]) -> ConfigurationError:
    """Return the error for a wrong value. `origin_of` returns where the value of a section's key came from."""
    place = fault.place
    section, key = str(place[0]), str(place[1]) if len(place) > 1 else ""
    remedy = _did_you_mean(place) if fault.text == NO_SUCH_KEY else _meaning(place)
    return ConfigurationError(f"{dotted_name(place)} ({origin_of(section, key)}): {fault.text}", remedy)


def check_environment_name(name: str) -> tuple[str, str]:
    """Return the section and key that an environment variable overrides. Raises `ConfigurationError` for an unknown
    one."""
    section, _, key = name.removeprefix(PREFIX).partition("__")
    known = {_environment_name(dotted): dotted for dotted in _KEYS}
    if name in known:
        section, _, key = known[name].partition(".")
        return section, key
    if section.lower() in LISTED:
        raise ConfigurationError(
            f"{name} (environment): tables of a list can't come from the environment",
            f"write them into the file: [[{section.lower()}]]",
        )
    if section.lower() in _ENTRIES:
        raise ConfigurationError(
            f"{name} (environment): names with their own spelling can't come from the environment",
            f"write it into the file: [{section.lower()}.NAME]",
        )
    raise ConfigurationError(f"{name} (environment): no such key", f"did you mean {_nearest(name.upper(), known)}?")


def _environment_name(dotted: str) -> str:
    return PREFIX + dotted.replace(".", "__").upper()


def _did_you_mean(place: Place) -> str:
    name, model = dotted_name(place), _table_around(place)
    if model is not None and len(place) > 2:
        around = dotted_name(place[:-1])
        return one_line(f"did you mean {_nearest(name, [f'{around}.{key}' for key in keys(model)])}?")
    if len(place) > 2:
        return _meaning(place)
    if len(place) == 1:
        same = [key for key in _KEYS if key.endswith(f".{name}")]  # [gateway] comes first, and is meant the most
        near = same[0] if same else _nearest(name, [f"[{section}]" for section in SECTIONS] + list(_KEYS))
        return f"did you mean {near}?"
    return f"did you mean {_nearest(name, _KEYS)}?"


def _nearest(name: str, known: Iterable[str]) -> str:
    return max(known, key=lambda candidate: SequenceMatcher(None, candidate, name).ratio())


def _meaning(place: Place) -> str:
    """Return what the keys' descriptions say about a place: the description of the key there, or of the nearest one
    around it."""
    for end in range(len(place), 1, -1):
        model = _table_around(place[:end])
        said = description(model, str(place[end - 1])) if model is not None else ""
        if said:
            return f"{dotted_name(place[:end])} is {said}"
    section = str(place[0])
    if section in LISTED:
        return f"write each as a table: [[{section}]]"
    if section == "servers" and len(place) == 2:
        return "write it as a table, such as [servers.mail]"
    return f"write it as a table: [{dotted_name(place[:2]) if section in _ENTRIES else section}]"


def _table_around(place: Place) -> type[Section] | None:
    """Return the kind of table that the last key of a place belongs to."""
    section, *rest = place
    table = SECTIONS.get(str(section)) if rest else None
    for step in rest[:-1]:
        if table is None:
            return None
        if isinstance(step, int):  # in a list of tables
            continue
        named = entries(table)
        table = table_in(kinds(table)[step]) if step in keys(table) else named.table if named is not None else None
    return table


def dotted_name(place: Place) -> str:
    """Return a place as errors name it, such as `proofs.roots[0].name`."""
    name = str(place[0])
    for number, step in enumerate(place[1:]):
        if number == 0 and name in LISTED:
            name += f"[{step}]"
            continue
        name += f"[{step}]" if isinstance(step, int) else f".{step}"
    return name
