"""The result of a check. No I/O.

`ok`; `no`, with the setting or command that fixes it; or `unknown`, with the reason, which does not count as passed.
Texts are bounded and escaped as those of findings are.
"""

from typing import Literal

from msgspec import Struct

from accredit.base.text import one_line
from accredit.cli.actions.doctor.production.facts import Unknown
from accredit.limits import MAX_FINDING_CHARS

State = Literal["ok", "no", "unknown"]


class Result(Struct, frozen=True):
    """What was found, what to do about it, and a command that does it, if there is one."""

    state: State
    what: str
    remedy: str = ""
    command: str = ""


def ok(what: str) -> Result:
    """Return that a check passed."""
    return Result("ok", _shorten(what))


def no(what: str, remedy: str, command: str = "") -> Result:
    """Return that a check failed."""
    return Result("no", _shorten(what), _shorten(remedy), command)


def unknown(why: str | Unknown, remedy: str = "") -> Result:
    """Return that the answer can't be known from here."""
    return Result("unknown", _shorten(why.why if isinstance(why, Unknown) else why), _shorten(remedy))


def _shorten(text: str) -> str:
    return one_line(text[:MAX_FINDING_CHARS])
