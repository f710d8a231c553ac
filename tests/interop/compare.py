"""Compares what a client got through the gateway with what it got directly. No I/O.

A difference has to be named (`differences.py`), and a name has to be needed: what is named and does not occur any more
is a failure too, of the run of the whole matrix.
"""

import json
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct

Outcome = dict[str, Any]
Transcript = dict[str, Outcome]
SAME, CANNOT = "same", "n/a"


class Difference(Struct, frozen=True, kw_only=True):
    """A difference that is known, and why it is as it is.

    `ways`, `clients`, `servers` and `steps` are shell patterns for where it may occur. What it is, is one of two:
    members that only one side has or that differ (`members`, by name, at any depth), or outcomes of the step as a whole
    (`direct` and `through`, regular expressions of which each must be found in the JSON of its side). `sometimes`: a
    matter of who is first, so that a run in which it does not occur is no reason to take it off the list.
    """

    name: str
    reason: str
    ways: tuple[str, ...] = ("*",)
    clients: tuple[str, ...] = ("*",)
    servers: tuple[str, ...] = ("*",)
    steps: tuple[str, ...] = ("*",)
    members: tuple[str, ...] = ()
    direct: str = ""
    through: str = ""
    sometimes: bool = False

    def covers(self, where: "Where") -> bool:
        """Whether it may occur there."""
        pairs = (
            (self.ways, where.way),
            (self.clients, where.client),
            (self.servers, where.server),
            (self.steps, where.step),
        )
        return all(any(fnmatchcase(value, pattern) for pattern in patterns) for patterns, value in pairs)

    def explains(self, direct: Any, through: Any) -> bool:
        """Whether it is the difference of these two outcomes as a whole."""
        if not (self.direct or self.through):
            return False
        return bool(re.search(self.direct, text(direct)) and re.search(self.through, text(through)))


class Where(Struct, frozen=True):
    """A step of a client at a server by a way."""

    client: str
    server: str
    way: str
    step: str


class Verdict(Struct, frozen=True):
    """What came of a step: `SAME`, `CANNOT`, the names of known differences, or none of them: then it is a failure."""

    where: Where
    known: tuple[str, ...] = ()
    direct: str = ""
    through: str = ""
    cannot: bool = False

    @property
    def failed(self) -> bool:
        return bool(self.direct or self.through) and not self.known


def text(outcome: Any) -> str:
    """An outcome in a form that can be compared and searched."""
    return json.dumps(outcome, sort_keys=True, ensure_ascii=False)


def _without(value: Any, names: Iterable[str]) -> Any:
    if isinstance(value, dict):
        kept = {name: _without(each, names) for name, each in value.items() if name not in names}
        return {name: each for name, each in kept.items() if each != {} or value[name] == {}}
    return [_without(each, names) for each in value] if isinstance(value, list) else value


def judge(where: Where, direct: Outcome | None, through: Outcome | None, differences: Iterable[Difference]) -> Verdict:
    """Compares one step."""
    if direct is not None and through is not None and direct.get("cannot") and through.get("cannot"):
        return Verdict(where, cannot=True)
    if direct == through:
        return Verdict(where)
    here = [difference for difference in differences if difference.covers(where)]
    for difference in here:
        if difference.explains(direct, through):
            return Verdict(where, (difference.name,), text(direct), text(through))
    known: list[str] = []
    one, other = direct, through
    for difference in (each for each in here if each.members):
        pruned = _without(one, difference.members), _without(other, difference.members)
        if pruned != (one, other):
            known.append(difference.name)
            one, other = pruned
        if one == other:
            return Verdict(where, tuple(known), text(direct), text(through))
    return Verdict(where, (), text(direct), text(through))


def joined(first: Transcript, *others: Transcript) -> Transcript:
    """The transcript with what the others have of restarts besides."""
    restarts = {step: outcome for other in others for step, outcome in other.items() if "restart" in step}
    return restarts | first


def compare(
    client: str, server: str, way: str, direct: Transcript, through: Transcript, differences: Iterable[Difference]
) -> list[Verdict]:
    """Compares every step of two transcripts. A restart of the gateway is compared with one of the server."""
    differences = list(differences)
    verdicts: list[Verdict] = []
    for step in {**direct, **through}:
        counterpart = step.replace("gateway", "server")
        where = Where(client, server, way, step)
        verdicts.append(judge(where, direct.get(counterpart), through.get(step), differences))
    return verdicts


def uncalled(client: str, server: str, way: str, direct: Transcript, left_out: Iterable[str]) -> list[Verdict]:
    """A failure for each tool that the server lists to this client and that no step calls."""
    listed = direct.get("tools", {}).get("result")
    tools = listed["tools"] if isinstance(listed, dict) else listed or []
    taken = [step.split()[-1] for step in direct]
    missing = [tool["name"] for tool in tools if tool["name"] not in (*taken, *left_out)]
    return [Verdict(Where(client, server, way, f"call {tool}"), direct="listed", through="no step") for tool in missing]


def unneeded(verdicts: Iterable[Verdict], differences: Iterable[Difference]) -> list[str]:
    """Names of differences that did not occur, or not where one of their patterns says that they may."""
    verdicts = list(verdicts)
    left: list[str] = []
    for difference in differences:
        where = [verdict.where for verdict in verdicts if difference.name in verdict.known]
        if not where and not difference.sometimes:
            left.append(difference.name)
        elif not difference.sometimes:
            left += [f"{difference.name} ({pattern})" for pattern in _unused(difference, where)]
    return left


def _unused(difference: Difference, occurred: Iterable[Where]) -> list[str]:
    occurred = list(occurred)
    patterns = (
        (difference.ways, {where.way for where in occurred}),
        (difference.clients, {where.client for where in occurred}),
        (difference.servers, {where.server for where in occurred}),
        (difference.steps, {where.step for where in occurred}),
    )
    return [each for some, values in patterns for each in some if not any(fnmatchcase(value, each) for value in values)]
