"""The speed series: each call through each way to the upstream, in turn, round after round.

Other work on the machine moves all ways of one round alike, so that ratios are taken within a round, and the
median of the rounds is kept.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.load import Load, check, run
from bench.payloads import CALLS
from bench.procfs import cpu_seconds

DIRECT, NGINX, GATEWAY = "direct", "nginx", "gateway"


@dataclass(frozen=True, slots=True)
class Way:
    """One way to the upstream: whose CPU time counts as its cost (`direct`: the upstream's own)."""

    name: str
    url: str
    pid: int


@dataclass(frozen=True, slots=True)
class Sample:
    """One way in one round."""

    load: Load
    cpu_us: float
    """Microseconds of CPU time per call."""


@dataclass(frozen=True, slots=True)
class Series:
    """One call at one number of connections: the samples of each way, in the order of the rounds."""

    call: str
    connections: int
    samples: dict[str, list[Sample]]

    @property
    def name(self) -> str:
        return f"{self.call}-x{self.connections}"

    def typical(self, way: str, what: Callable[[Sample], float]) -> float | None:
        samples = self.samples.get(way)
        return median(map(what, samples)) if samples else None

    def cpu(self, way: str) -> float | None:
        return self.typical(way, lambda sample: sample.cpu_us)

    def ratio(self, way: str, base: str) -> float | None:
        """CPU time per call of `way` in those of `base`."""
        pairs = zip(self.samples.get(way, ()), self.samples.get(base, ()), strict=False)
        ratios = [one.cpu_us / other.cpu_us for one, other in pairs if other.cpu_us]
        return median(ratios) if ratios else None


@dataclass(frozen=True, slots=True)
class Plan:
    """Which series, how many rounds of each, and how long one way's turn takes."""

    series: tuple[tuple[str, int], ...]
    rounds: int
    seconds: int = 1


FULL = Plan(tuple((call, connections) for call in CALLS for connections in (1, 16)), rounds=5)
QUICK = Plan(
    tuple((call, 16) for call in ("200b-json", "200b-varied", "200b-modern", "200b-sse", "32k-json", "32k-modern")),
    rounds=3,
)


def measure(plan: Plan, ways: list[Way], folder: Path, say: Callable[[str], None]) -> Iterable[Series]:
    for name, connections in plan.series:
        series = Series(name, connections, {way.name: [] for way in ways})
        say(f"{series.name}: {plan.rounds} rounds of {', '.join(way.name for way in ways)}")
        for way in ways:
            for call in CALLS[name].all:
                check(way.url, call)
        for number in range(plan.rounds):
            for way in _rotated(ways, number):
                before = cpu_seconds(way.pid)
                load = run(way.url, CALLS[name], connections, plan.seconds, folder)
                used = cpu_seconds(way.pid) - before
                series.samples[way.name].append(Sample(load, used / load.calls * 1e6))
        yield series


def _rotated(ways: list[Way], by: int) -> list[Way]:
    at = by % len(ways)
    return ways[at:] + ways[:at]
