"""Compares a server's lists with its pins: findings for people and programs. No I/O.

- [definition] Every difference between the two sets of tools is a finding: `definition_changed` for a tool whose
  definition is not the pinned one, `new_definition` for a tool that is not pinned, and `missing_definition` for a
  pinned tool that is not listed.
- [moved-name] If another tool was approved with the same definition, except for the name, the finding for a new or
  changed tool names that tool. It is a rename, a swapped pair, or a copy.
- [instructions] If the instructions differ, the finding is `instructions_changed`. It is only reported: no call is
  refused because of it.
- [lookalike] If a new or changed tool's name looks like another's, or mixes scripts, the finding says so.
"""

import json
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from accredit.pins.definitions import Definition, Definitions, same_but_for_name
from accredit.pins.lookalikes import LookAlikes, mixes_scripts
from accredit.pins.shown import diff, visible_text, with_code_points

Problem = Literal["definition_changed", "new_definition", "missing_definition", "instructions_changed"]


class Change(Struct, frozen=True):
    """One difference. `tool` is "" for the instructions. `expected` is the pinned digest, and `found` the current one;
    either may be None. `text` is one line for people, `notes` are further lines, and `diff` shows the change."""

    problem: Problem
    tool: str
    expected: str | None
    found: str | None
    text: str
    notes: tuple[str, ...] = ()
    diff: tuple[str, ...] = ()


def changes(pinned: Definitions, found: Definitions) -> list[Change]:
    """Return the differences between a server and its pins: tools by name, the instructions last."""
    twins = same_but_for_name(pinned.tools.values())
    names = LookAlikes(pinned.tools.keys() | found.tools.keys())
    listed: list[Change] = []
    for name in sorted(pinned.tools.keys() | found.tools.keys()):
        was, now = pinned.tools.get(name), found.tools.get(name)
        if now is None and was is not None:
            text = f"{visible_text(name)}: pinned, and the server does not list it any more (missing_definition)"
            listed.append(Change("missing_definition", name, was.sha256, None, text))
        elif now is not None and (was is None or now.sha256 != was.sha256):
            listed.append(_build_change(was, now, twins, names))
    return [*listed, *_instructions(pinned, found)]


def _build_change(was: Definition | None, now: Definition, twins: dict[str, list[str]], names: LookAlikes) -> Change:
    name = visible_text(now.name)
    if now.sha256 is None:
        what = "listed so that readers may take it for two different definitions"
    else:
        what = "not pinned" if was is None else "its definition is not the pinned one"
    notes = [*_twins(now, twins), *_likeness(now.name, names)]
    lines = diff(was.text if was is not None else None, now.text)
    problem: Problem = "new_definition" if was is None else "definition_changed"
    expected = was.sha256 if was is not None else None
    return Change(problem, now.name, expected, now.sha256, f"{name}: {what} ({problem})", tuple(notes), tuple(lines))


def _twins(now: Definition, twins: dict[str, list[str]]) -> Iterator[str]:
    for digest in same_but_for_name([now]):
        for other in twins.get(digest, ()):
            if other != now.name:
                one, approved = visible_text(now.name), visible_text(other)
                yield f"{one} says what {approved} was approved for: renamed, swapped or copied"


def _likeness(name: str, names: LookAlikes) -> Iterator[str]:
    for other in names.of(name):
        yield f"{visible_text(name)} looks like {visible_text(other)}, and is another tool"
    if mixes_scripts(name):
        yield f"{visible_text(name)} mixes scripts: it is {with_code_points(name)}"


def _instructions(pinned: Definitions, found: Definitions) -> Iterator[Change]:
    expected, now = pinned.instructions_sha256, found.instructions_sha256
    if pinned.instructions == found.instructions:
        return
    sides = (("-", pinned.instructions), ("+", found.instructions))
    lines = tuple(
        f"{sign} {visible_text(json.dumps(said, ensure_ascii=False))}" for sign, said in sides if said is not None
    )
    text = "the server's instructions are not the pinned ones"
    yield Change("instructions_changed", "", expected, now, text, diff=lines)
