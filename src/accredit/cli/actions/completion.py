"""Implements `accredit completion`: prints a shell's script, or the candidates for the word at the cursor.

The script runs `accredit completion SHELL -- WORDS`, with the words up to and including the one at the cursor. The
first line of the answer is `words`, or `files` to let the shell complete file names. Then follows one candidate a
line, with a tab and its description (not for bash, which shows none). Rules:

1. Shells must take answers as plain words only: a candidate that is not one is left out.
2. Nothing is run or written. A configuration is read only if it is a short regular file.
3. Input that can't be understood has no candidates and no error: the person is still typing.
"""

import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import typer
from typer.main import get_command

from accredit.base.text import one_line
from accredit.cli.actions.completion_scripts import SCRIPTS
from accredit.cli.application import app
from accredit.cli.candidates import PLAIN_WORD
from accredit.cli.dashes import CommandAfterDashes

Shell = Literal["bash", "zsh", "fish"]

_BREAK = re.compile(r"[=:]+")
"""Where bash breaks words, besides spaces."""


class Candidate(NamedTuple):
    """A candidate and its description."""

    word: str
    meaning: str = ""


def start_completion(command: list[str] | None, *, shell: Shell) -> int:
    """Run `accredit completion`; return the exit code."""
    if command is None:
        sys.stdout.write(SCRIPTS[shell])
        return 0
    found = candidates(command, shell)
    lines = ["files" if found is None else "words"]
    lines += [each.word if shell == "bash" else f"{each.word}\t{one_line(each.meaning)}" for each in found or ()]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def candidates(words: Sequence[str], shell: Shell) -> list[Candidate] | None:
    """Return candidates for the last word, as the shell should insert them; None for file names."""
    *before, last = _join_words(words) if shell == "bash" else (words or [""])
    place = _Place(explained=shell != "bash")
    for word in before:
        place.pass_by(word)
    option, equals, value = last.partition("=")
    prefix = ""
    if equals and place.pass_by(option):
        prefix = f"{option}="
    found = place.candidates(value if prefix else last)
    if found is None:
        return None
    # Bash replaces only the part after the last word break.
    begins = max((each.end() for each in _BREAK.finditer(last)), default=0) if shell == "bash" else 0
    whole = [each._replace(word=f"{prefix}{each.word}") for each in found]
    return [each._replace(word=each.word[begins:]) for each in whole if PLAIN_WORD.fullmatch(each.word)]


class _Place:
    """The cursor's context: the command, its options given so far, and the option that awaits a value."""

    def __init__(self, *, explained: bool) -> None:
        self._explained = explained
        self._command: Any = get_command(app)
        self._given: dict[str, Any] = {}
        self._expected: Any = None
        self._arguments = 0
        self._is_for_another = False

    def pass_by(self, word: str) -> bool:
        """Consume one more word; return whether it is an option that takes a value."""
        if self._command is None or self._is_for_another:
            return False
        if self._expected is not None:
            self._given[self._expected.name], self._expected = word, None
        elif word == "--":
            self._is_for_another = True
        elif word.startswith("-"):
            name, equals, value = word.partition("=")
            option = self._options().get(name)
            self._given[getattr(option, "name", name)] = value
            self._expected = None if equals or getattr(option, "is_flag", True) else option
        elif hasattr(self._command, "commands"):
            self._command = self._command.commands.get(word)
            self._given = {}
        else:
            self._arguments += 1
        return self._expected is not None

    def candidates(self, begun: str) -> Iterable[Candidate] | None:
        """Return the candidates that begin with `begun`; None for file names."""
        if self._command is None:
            return ()
        if self._is_for_another:
            return None if isinstance(self._command, CommandAfterDashes) else ()
        if self._expected is not None:
            return self._values(self._expected, begun)
        if begun.startswith("-"):
            options = self._options().items()
            return [
                Candidate(name, option.help or "")
                for name, option in options
                if name.startswith(begun) and (option.multiple or option.name not in self._given)
            ]
        if hasattr(self._command, "commands"):
            below = self._command.commands
            names = [name for name in below if name.startswith(begun)]
            return [Candidate(name, below[name].short_help if self._explained else "") for name in names]
        arguments = [each for each in self._command.params if each.param_type_name == "argument"]
        if self._arguments < len(arguments):
            return self._values(arguments[self._arguments], begun)
        return None if isinstance(self._command, CommandAfterDashes) else ()

    def _values(self, parameter: Any, begun: str) -> Iterable[Candidate] | None:
        annotation = parameter.type_descriptor.annotation
        if Path in (annotation, *get_args(annotation)):
            return None
        context = typer.Context(self._command)
        context.params = self._given
        return [Candidate(item.value) for item in parameter.shell_complete(context, begun)]

    def _options(self) -> dict[str, Any]:
        parameters = self._command.get_params(typer.Context(self._command))
        return {
            name: each
            for each in parameters
            if each.param_type_name == "option" and not each.hidden
            for name in (*each.opts, *each.secondary_opts)
        }


def _join_words(words: Sequence[str]) -> list[str]:
    """Rejoin words that bash has split at `=` and `:`."""
    joined: list[str] = []
    is_open = False
    for word in words or [""]:
        is_break = _BREAK.fullmatch(word) is not None
        if joined and (is_break or is_open):
            joined[-1] += word
        else:
            joined.append(word)
        is_open = is_break
    return joined
