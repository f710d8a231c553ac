"""Says what is wrong with a configuration: one line what, with the key's name, and one line what to do. No I/O.

A value is never quoted: it may be a secret that was put into the wrong key.
"""

from collections.abc import Callable, Iterable
from difflib import SequenceMatcher

from pydantic import ValidationError

from accredit import __version__
from accredit.config.schema import LATER_SECTIONS, SECTIONS, WORKING_SECTIONS
from accredit.errors import ConfigurationError

PREFIX = "ACCREDIT_"

_KEYS = tuple(f"{section}.{key}" for section, model in SECTIONS.items() for key in model.model_fields)
_NOT_A_TABLE = ("model_type", "dict_type")


def problem(error: ValidationError, origin_of: Callable[[str, str], str]) -> ConfigurationError:
    """The first problem that validation found; `origin_of` says where a section's key came from."""
    found = error.errors(include_url=False, include_context=False, include_input=False)[0]
    section, *rest = (str(part) for part in found["loc"])
    key = rest[0] if rest else ""
    name = ".".join((section, *rest))
    where = f"{name} ({origin_of(section, key)})"
    if section in LATER_SECTIONS:
        return _unsupported(section, f"[{section}] ({origin_of(section, key)})")
    if found["type"] == "extra_forbidden":
        return ConfigurationError(one_line(f"{where}: no such key"), _did_you_mean(name))
    if found["type"] in _NOT_A_TABLE:
        message = "should be a table"
    else:
        message = found["msg"].removeprefix("Value error, ").removeprefix("Input ").removeprefix("String ")
    return ConfigurationError(one_line(f"{where}: {message}"), _meaning(section, key))


def check_environment_name(name: str) -> tuple[str, str]:
    """The section and key that an environment variable overrides. Raises `ConfigurationError` for a misspelt one."""
    section, _, key = name.removeprefix(PREFIX).partition("__")
    known = {_environment_name(dotted): dotted for dotted in _KEYS}
    if name in known:
        section, _, key = known[name].partition(".")
        return section, key
    if section.lower() in LATER_SECTIONS:
        raise _unsupported(section.lower(), f"{name} (environment)")
    raise ConfigurationError(
        one_line(f"{name} (environment): no such key"), f"did you mean {_nearest(name.upper(), known)}?"
    )


def one_line(text: str) -> str:
    """A key's name may hold anything: what is not printable is escaped."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _environment_name(dotted: str) -> str:
    return PREFIX + dotted.replace(".", "__").upper()


def _unsupported(section: str, where: str) -> ConfigurationError:
    off = ', or say mode = "off"' if section in SECTIONS else ""
    working = ", ".join(f"[{name}]" for name in WORKING_SECTIONS)
    return ConfigurationError(
        f"{where}: not supported by accredit {__version__} yet",
        f"remove it{off}; the sections that work are {working}",
    )


def _did_you_mean(name: str) -> str:
    if "." not in name:
        return f"did you mean {_nearest(name, [f'[{section}]' for section in WORKING_SECTIONS] + list(_KEYS))}?"
    return f"did you mean {_nearest(name, _KEYS)}?"


def _nearest(name: str, known: Iterable[str]) -> str:
    return max(known, key=lambda candidate: SequenceMatcher(None, candidate, name).ratio())


def _meaning(section: str, key: str) -> str:
    field = SECTIONS[section].model_fields.get(key) if section in SECTIONS else None
    if field is None:
        return f"write it as a table: [{section}]"
    return f"{section}.{key} is {field.description}"
