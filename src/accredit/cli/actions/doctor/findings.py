"""What a look finds. No I/O.

Its texts may come from files and gateways of others: they are bounded here, and escaped where they are shown. A command
is meant to be copied into a shell: words are quoted, and one that would not show as it is makes no command.
"""

import shlex
from typing import Literal

from msgspec import Struct

from accredit.errors import ConfigurationError
from accredit.limits import MAX_FINDING_CHARS

Subject = Literal["clock", "keys", "configuration", "store", "gateway", "desk", "hosts", "versions"]
SUBJECTS: tuple[Subject, ...] = ("keys", "configuration", "store", "gateway", "clock", "desk", "hosts", "versions")
"""In the order in which they are told."""


MIGRATE = "as the database's administrator: accredit store migrate --store postgresql://ADMIN@HOST/DATABASE"
"""What makes tables. The user of `store.url` may not, where it is the gateway's own."""


class Finding(Struct, frozen=True):
    """What was found: `good`, worth a `note`, or `bad`; what to do about it, and a command line that does that, if one
    does."""

    subject: Subject
    level: Literal["good", "note", "bad"]
    what: str
    remedy: str = ""
    command: str = ""


def good(subject: Subject, what: str) -> Finding:
    """Return that something is as it should be."""
    return Finding(subject, "good", _bounded(what))


def note(subject: Subject, what: str, remedy: str = "", command: str = "") -> Finding:
    """Return something to know."""
    return Finding(subject, "note", _bounded(what), _bounded(remedy), command)


def bad(subject: Subject, what: str, remedy: str, command: str = "") -> Finding:
    """Return something that is wrong."""
    return Finding(subject, "bad", _bounded(what), _bounded(remedy), command)


def faulty(subject: Subject, error: ConfigurationError) -> Finding:
    """Return what an error says."""
    return bad(subject, error.what, error.remedy)


def command_line(*words: str) -> str:
    """Return words as a command line; "" if one would not show as it is."""
    line = shlex.join(words)
    return line if line.isascii() and line.isprintable() and len(line) <= MAX_FINDING_CHARS else ""


def into_file(file: str, *words: str) -> str:
    """Return a command line that writes what these words print into a file; "" as above."""
    line, name = command_line(*words), command_line(file)
    return f"{line} > {name}" if line and name else ""


def _bounded(text: str) -> str:
    return text if len(text) <= MAX_FINDING_CHARS else f"{text[:MAX_FINDING_CHARS]}..."
