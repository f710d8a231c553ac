"""Command lines that can be read without typer, which brings pydantic: 10 MiB for a whole run of `serve` or `wrap`, and
a good part of the time that a host waits for `connect`, or a person for a `completion`.

A plain command line has each option as one word and its value as the next, once if it counts once, in its own type and
bounds; a URL in full; and a command after `--`. Whatever else it is - a call for help, `--port=1`, a mistake - typer
reads, and says what is wrong. A command line that is plain means the same to both.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from accredit.base.deferred import Deferred
from accredit.base.standard import STDIN, STDOUT
from accredit.base.terminal import two_lines
from accredit.errors import ConfigurationError
from accredit.limits import MAX_WORKERS

if TYPE_CHECKING:
    from accredit.cli.actions import completion as completing
    from accredit.cli.actions import connect as connecting
    from accredit.cli.actions import serve as serving
else:
    completing = Deferred("accredit.cli.actions.completion")
    connecting, serving = Deferred("accredit.cli.actions.connect"), Deferred("accredit.cli.actions.serve")

_WHOLE = re.compile(r"0|[1-9][0-9]{0,8}")
_DECIMAL = re.compile(r"(0|[1-9][0-9]{0,8})(\.[0-9]{1,9})?")


def _text(word: str) -> str:
    if not word or word.startswith("-"):
        raise ValueError
    word.encode()
    return word


def _path(word: str) -> Path:
    path = Path(_text(word))
    if path in (STDIN, STDOUT):
        raise ValueError
    return path


def _whole(word: str) -> int:
    if not _WHOLE.fullmatch(word):
        raise ValueError
    return int(word)


def _workers(word: str) -> int:
    if not 1 <= _whole(word) <= MAX_WORKERS:
        raise ValueError
    return int(word)


def _seconds(word: str) -> float:
    if not _DECIMAL.fullmatch(word):
        raise ValueError
    return float(word)


def _one_of(*words: str) -> Callable[[str], str]:
    def read(word: str) -> str:
        return words[words.index(word)]

    return read


_ALL: Mapping[str, Callable[[str], object]] = {
    "--timeout": _seconds,
    "--log-level": _one_of("debug", "info", "warning", "error"),
    "--log-format": _one_of("json", "text"),
}
OPTIONS = {
    "serve": {**_ALL, "--config": _path, "--host": _text, "--port": _whole, "--workers": _workers},
    "wrap": {**_ALL, "--config": _path, "--server": _text},
    "connect": {
        **_ALL,
        "--key": _path,
        "--delegation": _path,
        "--server": _text,
        "--token-env": _text,
        "--header": _text,
        "--gateway-id": _text,
        "--ask": _one_of("auto", "off"),
        "--hold": _seconds,
    },
    "completion": {},
}
"""The options of a command that take a value, and how it is read: anything else raises `ValueError`."""
REPEATED = frozenset({"--delegation", "--header"})
"""Those that may be there several times."""
FLAGS = {
    "serve": frozenset({"--insecure"}),
    "wrap": frozenset[str](),
    "connect": frozenset({"--show-uncovered", "--modern"}),
    "completion": frozenset[str](),
}
_SHELLS = frozenset({"bash", "zsh", "fish"})
_TAKES_URL = frozenset({"serve", "connect"})
_NEEDS = {"connect": "url", "completion": "shell"}
_TAKES_COMMAND = frozenset({"serve", "wrap", "completion"})


@dataclass(frozen=True, slots=True)
class Plain:
    """A command, the values of its parameters by their names, and the words after `--`."""

    name: str
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    command: list[str] | None = None


def run(words: Sequence[str]) -> int | None:
    """Run a plain command line and return its exit code; None for one that is not plain, which is not run."""
    found = read(words)
    if found is None:
        return None
    try:
        if found.name == "connect":
            return connecting.start_connect(**found.values)
        if found.name == "completion":
            return completing.start_completion(found.command, **found.values)
        start = serving.start_server if found.name == "serve" else serving.start_wrap
        return start(found.command, **found.values)
    except ConfigurationError as error:
        print(two_lines(error.what, error.remedy), file=sys.stderr)  # noqa: T201 - as typer would
        return 2


def read(words: Sequence[str]) -> Plain | None:
    """Return what a plain command line says, or None for another one."""
    if not words or words[0] not in OPTIONS:
        return None
    name, at = words[0], words.index("--") if "--" in words else len(words)
    try:
        values = _values(name, iter(words[1:at]))
    except ValueError:
        return None
    if _NEEDS.get(name, name) not in {*values, name} or (name not in _TAKES_COMMAND and at < len(words)):
        return None
    return Plain(name, values, list(words[at + 1 :]) if at < len(words) else None)


def _values(name: str, words: Iterator[str]) -> dict[str, object]:
    values: dict[str, object] = {}
    for word in words:
        if word in OPTIONS[name]:
            parameter, value = _parameter(word), OPTIONS[name][word](next(words, ""))
        elif word in FLAGS[name]:
            parameter, value = _parameter(word), True
        elif name in _TAKES_URL and "://" in word:
            parameter, value = "url", _text(word)
        elif name == "completion" and word in _SHELLS:
            parameter, value = "shell", word
        else:
            raise ValueError
        if word in REPEATED:
            value = [*cast("list[object]", values.pop(parameter, [])), value]
        if parameter in values:
            raise ValueError
        values[parameter] = value
    return values


def _parameter(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")
