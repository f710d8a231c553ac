"""Findings of `accredit doctor`. No I/O.

Texts may come from others' files and gateways: their length is bounded here, and they are escaped when shown. Commands
are meant to be pasted into a shell, so words are quoted; one that can't be shown as it is yields no command.
"""

import shlex
from typing import Literal

from msgspec import Struct

from accredit.errors import ConfigurationError
from accredit.limits import MAX_FINDING_CHARS

Subject = Literal["clock", "keys", "configuration", "store", "gateway", "desk", "hosts", "versions"]
SUBJECTS: tuple[Subject, ...] = ("keys", "configuration", "store", "gateway", "clock", "desk", "hosts", "versions")
"""The order in which findings are printed."""


MIGRATE = "as the database's administrator: accredit store migrate --store postgresql://ADMIN@HOST/DATABASE"
"""Creates the tables. The gateway's own database user may lack that right."""


class Finding(Struct, frozen=True):
    """Something `good`, worth a `note`, or `bad`; what to do about it, and a command that does it, if there is one."""

    subject: Subject
    level: Literal["good", "note", "bad"]
    what: str
    remedy: str = ""
    command: str = ""


def good(subject: Subject, what: str) -> Finding:
    """Return a finding that something is fine."""
    return Finding(subject, "good", _shorten(what))


def note(subject: Subject, what: str, remedy: str = "", command: str = "") -> Finding:
    """Return a finding worth knowing."""
    return Finding(subject, "note", _shorten(what), _shorten(remedy), command)


def bad(subject: Subject, what: str, remedy: str, command: str = "") -> Finding:
    """Return a finding of a problem."""
    return Finding(subject, "bad", _shorten(what), _shorten(remedy), command)


def faulty(subject: Subject, error: ConfigurationError) -> Finding:
    """Return an error as a finding."""
    return bad(subject, error.what, error.remedy)


def command_line(*words: str) -> str:
    """Return words as a shell line; "" if it can't be shown safely."""
    line = shlex.join(words)
    return line if line.isascii() and line.isprintable() and len(line) <= MAX_FINDING_CHARS else ""


def into_file(file: str, *words: str) -> str:
    """Return `WORDS > FILE` as a shell line; "" if it can't be shown safely."""
    line, name = command_line(*words), command_line(file)
    return f"{line} > {name}" if line and name else ""


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_FINDING_CHARS else f"{text[:MAX_FINDING_CHARS]}..."
