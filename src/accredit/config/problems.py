"""Texts for what is wrong with a configuration: one line for what, with the key's name, and one for what to do. No I/O.

A value is never quoted: it may be a secret that was put into the wrong key.
"""

from collections.abc import Callable, Iterable
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from accredit.base.deferred import Deferred
from accredit.base.text import one_line
from accredit.config.schema import ENTRIES, NESTED, SECTIONS
from accredit.config.tables import Section
from accredit.errors import ConfigurationError

if TYPE_CHECKING:
    from accredit.config import conversion
else:
    conversion = Deferred("accredit.config.conversion")

PREFIX = "ACCREDIT_"

_KEYS = tuple(f"{section}.{key}" for section, model in SECTIONS.items() for key in model.model_fields)

_Place = tuple[int | str, ...]


def problem(error: ValueError, origin_of: Callable[[str, str], str]) -> ConfigurationError:
    """Return the first problem that validation found. `origin_of` returns the source of a section's key."""
    errors = conversion.faults(error)
    # A misspelt key is reported as missing, too: the misspelling says more.
    fault = next((each for each in errors if each["type"] == conversion.NO_SUCH_KEY), errors[0])
    place = fault["loc"]
    section, key = str(place[0]), str(place[1]) if len(place) > 1 else ""
    name = _dotted(place)
    where = f"{name} ({origin_of(section, key)})"
    if fault["type"] == conversion.NO_SUCH_KEY:
        return ConfigurationError(one_line(f"{where}: no such key"), _did_you_mean(place))
    if fault["type"] in conversion.NOT_A_TABLE:
        message = "should be a table"
    elif fault["type"] == conversion.MISSING:
        message = "should be given"
    else:
        message = fault["msg"].removeprefix("Value error, ").removeprefix("Input ").removeprefix("String ")
    return ConfigurationError(one_line(f"{where}: {message}"), one_line(_meaning(place)))


def check_environment_name(name: str) -> tuple[str, str]:
    """Return the section and key that an environment variable overrides. Raises `ConfigurationError` for an unknown
    one."""
    section, _, key = name.removeprefix(PREFIX).partition("__")
    known = {_environment_name(dotted): dotted for dotted in _KEYS}
    if name in known:
        section, _, key = known[name].partition(".")
        return section, key
    if section.lower() in ENTRIES:
        raise ConfigurationError(
            one_line(f"{name} (environment): names with their own spelling can't come from the environment"),
            f"write it into the file: [{section.lower()}.NAME]",
        )
    raise ConfigurationError(
        one_line(f"{name} (environment): no such key"), f"did you mean {_nearest(name.upper(), known)}?"
    )


def _environment_name(dotted: str) -> str:
    return PREFIX + dotted.replace(".", "__").upper()


def _did_you_mean(place: _Place) -> str:
    name, model = _dotted(place), _table_around(place)
    if model is not None and len(place) > 2:
        around = _dotted(place[:-1])
        return one_line(f"did you mean {_nearest(name, [f'{around}.{key}' for key in model.model_fields])}?")
    if len(place) == 1:
        return f"did you mean {_nearest(name, [f'[{section}]' for section in SECTIONS] + list(_KEYS))}?"
    return f"did you mean {_nearest(name, _KEYS)}?"


def _nearest(name: str, known: Iterable[str]) -> str:
    return max(known, key=lambda candidate: SequenceMatcher(None, candidate, name).ratio())


def _meaning(place: _Place) -> str:
    """Return the description of the key nearest to a place."""
    for end in range(len(place), 1, -1):
        model = _table_around(place[:end])
        field = model.model_fields.get(str(place[end - 1])) if model is not None else None
        if field is not None:
            return f"{_dotted(place[:end])} is {field.description}"
    section = str(place[0])
    return f"write it as a table: [{_dotted(place[:2]) if section in ENTRIES else section}]"


def _table_around(place: _Place) -> type[Section] | None:
    """Return the kind of table that the last key of a place belongs to."""
    section, *rest = place
    if section not in SECTIONS or not rest:
        return None
    model, first = SECTIONS[str(section)], str(rest[0])
    if len(rest) == 1:
        return model
    return NESTED.get((str(section), first)) or (None if first in model.model_fields else ENTRIES.get(str(section)))


def _dotted(place: _Place) -> str:
    name = str(place[0])
    for step in place[1:]:
        name += f"[{step}]" if isinstance(step, int) else f".{step}"
    return name
