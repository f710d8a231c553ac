"""The metrics of all workers as Prometheus reads them. No I/O.

prometheus-client comes with `accredit[telemetry]`, and writes the text.
"""

from collections.abc import Iterable
from itertools import accumulate
from typing import TYPE_CHECKING

from accredit.base.deferred import Deferred
from accredit.telemetry.board import Board, Labels
from accredit.telemetry.families import Family

if TYPE_CHECKING:
    import prometheus_client as prometheus
    from prometheus_client import core
    from prometheus_client.metrics_core import Metric
else:
    prometheus = Deferred("prometheus_client")
    core = Deferred("prometheus_client.core")

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


class _Shown:
    """The metrics, with the interface from which prometheus-client collects."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def collect(self) -> "Iterable[Metric]":
        for family, series in self._board.totals().items():
            yield _metric(family, series)


def text_of(board: Board) -> bytes:
    """Render the metrics. Takes up to some tenths of a second, with many series."""
    registry = prometheus.CollectorRegistry(auto_describe=False)
    registry.register(_Shown(board))
    return prometheus.generate_latest(registry)


def _metric(family: Family, series: dict[Labels, list[float]]) -> "Metric":
    if family.kind == "histogram":
        histogram = core.HistogramMetricFamily(family.name, family.help, labels=family.labels)
        bounds = [*map(repr, family.bounds), "+Inf"]
        for labels, numbers in series.items():
            buckets = list(zip(bounds, accumulate(numbers[:-1]), strict=True))
            histogram.add_metric(labels, buckets, numbers[-1])
        return histogram
    made = core.CounterMetricFamily if family.kind == "counter" else core.GaugeMetricFamily
    metric = made(family.name, family.help, labels=family.labels)
    for labels, (number,) in series.items():
        metric.add_metric(labels, number)
    return metric
