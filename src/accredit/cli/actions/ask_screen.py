"""Shows an ask in a terminal, and repeats the essentials once they have scrolled away.

- Shows everything that the desk's page shows. Calls with different digests have different rows at every width: each row
  but the last of a folded value ends with `⟨…⟩`, which no text can contain.
- No value can imitate our own rows: the rows that continue it begin with `  | ` after the margin. Values nested deeper
  than the width allows are indented no further; their row states the level.
- If the screen has scrolled, these are repeated above the menu, as room allows: the title, the code, the warnings, the
  start of each value, and the number of values left out.
"""

import sys
from collections.abc import Iterable, Sequence

from accredit.base.clock import unix_seconds
from accredit.base.terminal import FURTHER, GOES_ON, rows, size_of
from accredit.consent.shown import Field
from accredit.console.views import Described
from accredit.limits import DEFAULT_TERMINAL, MAX_UNFOLDED_CHARS, MAX_UNFOLDED_LINES
from accredit.terminal import wording as words
from accredit.terminal.layout import Row, Words, fact_rows
from accredit.terminal.output import BAD, QUIET, show

MAX_MARGIN_LEVELS = 4
"""How many levels of nested values are indented. For deeper ones the row states the level, as on the desk's page."""


_COLUMNS_OF_LEVEL = 16
"""How many columns of the screen's width allow one more level of indentation."""
_LEAST_ROOM = 3
"""How many rows of values are repeated at least, even on a screen with few rows."""


class AskScreen:
    """Shows an ask in the terminal. The size is that of the terminal at stdin, as stdout may go through a pager."""

    def __init__(self) -> None:
        self.width, self.height = size_of(sys.stdin) or DEFAULT_TERMINAL
        self._shown = 0
        """How many rows have been shown."""

    def say(self, text: str, style: str = "") -> None:
        """Show one line, wrapped."""
        self._show([[Words(each, style)] for each in rows(text, self.width)])

    def facts(self, facts: Iterable[tuple[str, str]]) -> None:
        """Show names with their values."""
        self._show(list(fact_rows(list(facts), self.width)))

    def ask(self, described: Described, *, unfolded: bool) -> None:
        """Show an ask: who asks for what, with which arguments, and any warnings."""
        self.say("")
        self.say(described.title, "bold")
        self.say(f"Code {described.code}, ends {words.relative(described.until, unix_seconds())}.", QUIET)
        self.say("If your assistant shows a code, it has to be this one.", QUIET)
        self.say("")
        self.fields(described, unfolded=unfolded)
        for each in _warnings(described):
            self.say(each, BAD)
        self.say("")
        self.facts((each.label, f"{each.text} ({each.note})" if each.note else each.text) for each in described.who)
        if described.server_says:
            self.say("")
            self.say("What the server says of this tool - nobody has checked it:", QUIET)
            self.say(f"  {described.server_says}", QUIET)
        if described.refused:
            self.say(described.refused, BAD)

    def fields(self, described: Described, *, unfolded: bool) -> None:
        """Show the arguments."""
        self.say("With exactly these arguments" if described.fields else "No arguments", QUIET)
        for each in described.fields:
            self._show([[Words(row)] for row in screen_rows(each, self.width, unfolded=unfolded)])
            for mark in each.marks:
                self.say(f"{_margin(each, self.width)}  ! {mark}", BAD)

    def menu(self, described: Described, offers: Sequence[str], menu: str) -> None:
        """Show the choices, after a repetition of what has scrolled away. `menu` is the prompt that follows."""
        choices = [row for each in offers for row in rows(each, self.width)]
        below = len(choices) + len(rows(menu, self.width)) + 1
        if self._shown + below > self.height:
            self._again(described, self.height - below)
        self.say("")
        self._show([[Words(each)] for each in choices])

    def _again(self, described: Described, room: int) -> None:
        self.say("")
        self.say("It is longer than the screen. In short:", QUIET)
        title = [*rows(described.title, self.width), f"Code {described.code}"]
        warned = [self._short(each) for each in _warnings(described)]
        lines = [self._short(value_rows(each, self.width, unfolded=False)[0]) for each in described.fields]
        left = max(_LEAST_ROOM, room - len(title) - len(warned) - 3)
        if len(lines) > left:
            more = f"and {len(lines) - left + 1} values more: all of them stand further up"
            lines = [*lines[: left - 1], *rows(f"{FURTHER}{more}", self.width)]
        self._show([[Words(each, "bold")] for each in title])
        self._show([[Words(each)] for each in lines])
        self._show([[Words(each, BAD)] for each in warned])

    def _short(self, row: str) -> str:
        """Return the part of a row that fits the width."""
        return rows(row, self.width, GOES_ON)[0]

    def _show(self, found: Sequence[Row]) -> None:
        self._shown += len(found)
        show(found)


def screen_rows(each: Field, width: int, *, unfolded: bool) -> list[str]:
    """Return the rows of a value, wrapped to the width."""
    return [row for line in value_rows(each, width, unfolded=unfolded) for row in rows(line, width, GOES_ON)]


def value_rows(each: Field, width: int, *, unfolded: bool) -> list[str]:
    """Return the unwrapped rows of a value."""
    first, *more = _lines(each, unfolded=unfolded)
    margin = _margin(each, width)
    deep = f"⟨level {each.level}⟩ " if each.level > _levels(width) else ""  # no name holds these brackets
    return [f"{margin}{deep}{each.label}: {first}", *(f"{margin}{FURTHER}{line}" for line in more)]


def _levels(width: int) -> int:
    """Return how many levels are indented at this width."""
    return min(MAX_MARGIN_LEVELS, width // _COLUMNS_OF_LEVEL)


def _margin(each: Field, width: int) -> str:
    return "  " * (min(each.level, _levels(width)) + 1)


def _lines(each: Field, *, unfolded: bool) -> list[str]:
    if each.kind in ("list", "object"):
        return [f"⟨{each.kind}⟩"]  # no text holds these brackets
    if each.folded and not unfolded:
        text = "\n".join(each.lines[:MAX_UNFOLDED_LINES])[:MAX_UNFOLDED_CHARS]
        return [*text.split("\n"), f"... ({each.chars} characters in all: [s] shows them)"]
    lines = list(each.lines)
    if each.kind == "text":
        return lines if each.chars else ["⟨empty text⟩"]
    return [f"{lines[0]} ⟨{each.kind}⟩"]


def _warnings(described: Described) -> list[str]:
    return [f"! {each.lead} {each.text}" for each in described.warnings]
