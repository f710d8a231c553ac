"""An ask on a terminal's screen: its rows, and what is told once more as it has scrolled away.

1. Everything is shown that the page shows. Two calls with different digests have different rows, in every width: of a
   value that is folded, each row but the last ends with `⟨…⟩`, which no text holds.
2. No value makes a row that reads as one of ours: its further lines and rows begin with `  | ` after the margin. Values
   that lie deep, for the width, are set in no further; their row says the level.
3. Where the screen has scrolled, the title, the code, the warnings and the beginning of each value stand once more
   above the menu, as far as there is room, and how many values don't.
"""

import sys
from collections.abc import Iterable, Sequence

from accredit.base.clock import unix_seconds
from accredit.base.terminal import FURTHER, GOES_ON, rows, size_of
from accredit.cli.actions import wording as words
from accredit.cli.actions.output import BAD, QUIET, show
from accredit.cli.layout import Row, Words, fact_rows
from accredit.consent.shown import Field
from accredit.console.views import Described
from accredit.limits import DEFAULT_TERMINAL, MAX_MARGIN_LEVELS, MAX_UNFOLDED_CHARS, MAX_UNFOLDED_LINES

_COLUMNS_OF_LEVEL = 16
"""Columns that a level takes before there is one more: margins leave room for what is set in."""
_LEAST_ROOM = 3
"""Rows of values that are told once more, however low the screen is."""


class AskScreen:
    """The terminal in which an ask is read. It is measured where the person types, as output may go through a pager."""

    def __init__(self) -> None:
        self.width, self.height = size_of(sys.stdin) or DEFAULT_TERMINAL
        self._shown = 0
        """Rows that were shown since the first."""

    def say(self, text: str, style: str = "") -> None:
        """Show one line, in rows."""
        self._show([[Words(each, style)] for each in rows(text, self.width)])

    def facts(self, facts: Iterable[tuple[str, str]]) -> None:
        """Show names with their values."""
        self._show(list(fact_rows(list(facts), self.width)))

    def ask(self, described: Described, *, unfolded: bool) -> None:
        """Show an ask: who asks for what, with which arguments, and what is to be known of it."""
        self.say("")
        self.say(described.title, "bold")
        self.say(f"Code {described.code}, ends {words.relative(described.until, unix_seconds())}.", QUIET)
        self.say("Compare the code with the one your assistant tells you.", QUIET)
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
        """Show what can be chosen, and above it what has scrolled away (rule 3). `menu` is asked afterwards."""
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
        """Return the beginning of a row that does not fit."""
        return rows(row, self.width, GOES_ON)[0]

    def _show(self, found: Sequence[Row]) -> None:
        self._shown += len(found)
        show(found)


def screen_rows(each: Field, width: int, *, unfolded: bool) -> list[str]:
    """Return the rows of a value in so many columns (rules 1 and 2)."""
    return [row for line in value_rows(each, width, unfolded=unfolded) for row in rows(line, width, GOES_ON)]


def value_rows(each: Field, width: int, *, unfolded: bool) -> list[str]:
    """Return the rows of a value as if there were room for all of each."""
    first, *more = _lines(each, unfolded=unfolded)
    margin = _margin(each, width)
    deep = f"⟨level {each.level}⟩ " if each.level > _levels(width) else ""  # no name holds these brackets
    return [f"{margin}{deep}{each.label}: {first}", *(f"{margin}{FURTHER}{line}" for line in more)]


def _levels(width: int) -> int:
    """Return how many levels have a margin of their own in so many columns."""
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
