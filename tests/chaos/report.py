"""The table of a run. No I/O.

`unknown` are errors that leave it open what became of a call, `lost` are connections that were, `no answer` is the
longest time in which no guarded call was answered, and `back` how long after the last repair every gateway answered.
"""

from collections import Counter

from tests.chaos.agents import ANSWERED, LIMITED, LOST, REPLAYED, UNKNOWN
from tests.chaos.judge import Summary

_COLUMNS = (
    *("nemesis", "seed", "calls", "answered", "replayed", "over the limit", "refused or unknown, by cause", "unknown"),
    *("lost", "no answer", "back", "lists", "held"),
)
HEAD = f"| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}"


def line(name: str, seed: int, summary: Summary, lists: list[int], back: float) -> str:
    """Return the line of one nemesis."""
    count = summary.outcomes
    cells = (
        *(name, seed, summary.calls, count[ANSWERED], count[REPLAYED], count[LIMITED], _causes(summary.causes)),
        *(count[UNKNOWN], count[LOST], f"{summary.longest_gap:.1f} s", f"{back:.1f} s", f"{lists[0]} of {sum(lists)}"),
        "no" if summary.broken else "yes",
    )
    return f"| {' | '.join(map(str, cells))} |"


def _causes(causes: Counter[str]) -> str:
    lost = ("connection lost",)
    return ", ".join(f"{cause} {count}" for cause, count in causes.most_common() if cause not in lost) or "none"
