"""Compares what the suite found through the gateway with what it found directly, and prints it.

No I/O: outcomes in, lines of text out. `EXPLAINED` is the one place that names differences which are known,
each with its reason; a difference that is not there fails the run, and so does an explanation of nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tests.conformance.suite import Outcome, Outcomes

DIRECT = "direct"
LEGEND = "checks that pass / checks with a verdict · requests that reached the server"


@dataclass(frozen=True)
class Explained:
    """Checks of one scenario that cannot come out through some targets as they do directly, and why."""

    targets: frozenset[str]
    revision: str
    scenario: str
    checks: frozenset[str]
    reason: str


STDIO = frozenset({"stdio", "named-stdio", "merged-stdio"})
MERGED = frozenset({"merged-http", "merged-stdio"})
EXPLAINED: tuple[Explained, ...] = (
    Explained(
        STDIO,
        "2025-11-25",
        "server-sse-polling",
        frozenset({"server-sse-disconnect-resume", "server-sse-priming-event", "server-sse-retry-field"}),
        "the tool asks its server's own HTTP transport to close the stream of its answer and to let it be resumed, and "
        "nothing that a stdio server writes says so: it answers at once, and as this is its first word, with JSON, "
        "which has no event ids and no `retry`",
    ),
    Explained(
        STDIO | MERGED,
        "2025-11-25",
        "server-sse-multiple-streams",
        frozenset({"server-sse-streams-functional"}),
        "the suite makes this check for event streams only. The calls are answered, all at once: with JSON, as their "
        "answers come before anything else (the revision leaves the choice to the server). As an event stream each "
        "would have begun with status 200, before it is known whether it is to be a 502 or 504",
    ),
    Explained(
        MERGED,
        "2026-07-28",
        "tasks-dispatch-and-envelope",
        frozenset({"sep-2663-tasks-get-invalid-task-id-32602"}),
        "a task's id begins with its server's name; one that does not is refused by the gateway with -32602, as it "
        "has to be, which this server by itself does not do",
    ),
)


@dataclass(frozen=True)
class Comparison:
    """One revision through all targets."""

    revision: str
    required: list[str]
    outcomes: Mapping[str, Outcomes]

    def total(self, target: str) -> str:
        """The required scenarios that pass, of those that are required: `37/37`."""
        passed = [name for name in self.required if name in self.passing(target)]
        return f"{len(passed)}/{len(self.required)}"

    def passing(self, target: str) -> set[str]:
        return {name for name, outcome in self.outcomes[target].items() if outcome.passed}

    def explained(self) -> list[Explained]:
        """The entries of `EXPLAINED` that this run touches."""
        return [
            entry
            for entry in EXPLAINED
            if entry.revision == self.revision
            and any(entry.scenario in self.outcomes.get(target, {}) for target in entry.targets)
        ]

    def problems(self) -> list[str]:
        """What is wrong, a line each; none means that the run is good."""
        missing = [name for name in self.required if name not in self.passing(DIRECT)]
        lines = [f"{self.revision} {name}: does not pass directly" for name in missing]
        for target in [target for target in self.outcomes if target != DIRECT]:
            for name in self.outcomes[DIRECT]:
                lines += [f"{self.revision} {name} ({target}): {line}" for line in self._differences(target, name)]
        return lines

    def _differences(self, target: str, name: str) -> list[str]:
        if name not in self.outcomes[target]:
            return ["did not run"]
        direct, through = self.outcomes[DIRECT][name], self.outcomes[target][name]
        known = {
            check: entry
            for entry in self.explained()
            if target in entry.targets and entry.scenario == name
            for check in entry.checks
        }
        differing = differing_checks(direct, through)
        lines = [f"{check}: {differing[check]}" for check in sorted(differing.keys() - known.keys())]
        lines += [f"{check}: explained, but the same as directly" for check in sorted(known.keys() - differing.keys())]
        if direct.passed and not through.passed and (name in self.required or not known):
            lines += [f"passes directly and not here, with {through.requests} requests that reached the server"]
        return lines

    def rows(self, *, scored: bool) -> list[list[str]]:
        """A row per scenario: its name, then a cell per target (see `LEGEND`)."""
        names = [name for name in self.outcomes[DIRECT] if (name in self.required) == scored]
        return [[name, *(_cell(outcomes.get(name)) for outcomes in self.outcomes.values())] for name in names]


def differing_checks(direct: Outcome, through: Outcome) -> dict[str, str]:
    """The checks whose counts per status differ, with both in words."""
    keys = {check for check, _ in direct.checks | through.checks}
    pairs = {key: (_statuses(direct, key), _statuses(through, key)) for key in keys}
    return {key: f"{one} directly, {other} here" for key, (one, other) in pairs.items() if one != other}


def _statuses(outcome: Outcome, check: str) -> str:
    found = sorted((status, count) for (key, status), count in outcome.checks.items() if key == check)
    return " + ".join(f"{count} {status}" for status, count in found) or "nothing"


def _cell(outcome: Outcome | None) -> str:
    if outcome is None:
        return "did not run"
    return f"{outcome.succeeded}/{outcome.judged} · {outcome.requests}"


def text_report(comparisons: list[Comparison]) -> str:
    """The table for people, one block per revision, with the totals first in each."""
    lines = [LEGEND]
    for comparison in comparisons:
        targets = list(comparison.outcomes)
        totals = "   ".join(f"{target} {comparison.total(target)}" for target in targets)
        rows = [["scenario", *targets], *comparison.rows(scored=True), *comparison.rows(scored=False)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(targets) + 1)]
        lines += ["", f"{comparison.revision}   {totals}", ""]
        lines += [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
        ]
        lines += [
            f"explained ({', '.join(sorted(e.targets))}): {e.scenario}: {e.reason}" for e in comparison.explained()
        ]
    return "\n".join(lines)


def markdown_report(comparisons: list[Comparison]) -> str:
    """The same as Markdown, for the reference page."""
    lines: list[str] = []
    for comparison in comparisons:
        targets = list(comparison.outcomes)
        head = ["", *targets]
        lines += [f"### {comparison.revision}", "", _markdown_row(head), _markdown_row(["---"] * len(head))]
        totals = [f"**{comparison.total(target)}**" for target in targets]
        lines += [_markdown_row(["**required scenarios that pass**", *totals])]
        lines += [_markdown_row([f"`{name}`", *cells]) for name, *cells in comparison.rows(scored=True)]
        extra = comparison.rows(scored=False)
        lines += [_markdown_row([f"`{name}` (not scored)", *cells]) for name, *cells in extra]
        lines += [""]
        lines += [f"- `{e.scenario}` ({', '.join(sorted(e.targets))}): {e.reason}." for e in comparison.explained()]
        lines += [""] if comparison.explained() else []
    return "\n".join(lines)


def _markdown_row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
