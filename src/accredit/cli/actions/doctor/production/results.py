"""What a line of the checklist comes to. No I/O.

`ok`; `no`, with the setting or the command that mends it; `unknown`, where it can't be found out from here, with the
reason: that is no yes. Its texts are bounded and escaped as findings are.
"""

from typing import Literal

from msgspec import Struct

from accredit.base.text import one_line
from accredit.cli.actions.doctor.production.facts import Unknown
from accredit.limits import MAX_FINDING_CHARS

State = Literal["ok", "no", "unknown"]


class Result(Struct, frozen=True):
    """What was found, what to do about it, and a command line that does that, if one does."""

    state: State
    what: str
    remedy: str = ""
    command: str = ""


def ok(what: str) -> Result:
    """Return that a line holds."""
    return Result("ok", _bounded(what))


def no(what: str, remedy: str, command: str = "") -> Result:
    """Return that a line does not hold."""
    return Result("no", _bounded(what), _bounded(remedy), command)


def unknown(why: str | Unknown, remedy: str = "") -> Result:
    """Return that nobody can tell from here."""
    return Result("unknown", _bounded(why.why if isinstance(why, Unknown) else why), _bounded(remedy))


def _bounded(text: str) -> str:
    return one_line(text[:MAX_FINDING_CHARS])
