"""One process's monitoring: its meters, admin listener, and exports. Runs in the event loop.

`SharedMonitoring` is made before the fork, for all workers. Each worker has a `Monitoring` of its own, with the number
of its slot.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from accredit import stores
from accredit.app.admin import AdminApp, AdminListener
from accredit.app.assemble import Ports
from accredit.app.configured import Configured
from accredit.app.listener import client_connections, open_listener
from accredit.config.digest import policy_digest
from accredit.config.monitoring import MonitoringSettings
from accredit.config.store import store_of
from accredit.errors import AccreditError
from accredit.gateway.app import Gateway
from accredit.keys import reading
from accredit.telemetry.board import Board
from accredit.telemetry.export import Collector, Exporter
from accredit.telemetry.metrics import Metrics
from accredit.telemetry.operations import Telemetry
from accredit.telemetry.tracing import RandomIds, SpanQueue, Tracer

GAUGES_SECONDS = 5.0
"""How often, in seconds, each worker updates its gauges (measured values, such as the length of a queue). Any worker
may be asked for those of all, and Prometheus asks every 15 s or less often."""
SINK_LAG_SECONDS = 30.0
"""How often, in seconds, one worker asks the store for the positions of the log's sinks. That takes a connection, and
two short queries for each sink."""
MAX_WATCHED_SINKS = 32
"""The most sinks of the log whose lag is in the metrics: each is a series."""


_DIGEST_DIGITS = 12
"""How many digits of the configuration's digest are in its metric: as many as a float holds exactly, and enough to tell
configurations apart."""


class SharedMonitoring:
    """What all workers share: the counters, and the admin listener's socket, if any."""

    def __init__(self, settings: MonitoringSettings, workers: int = 1, *, listens: bool = True) -> None:
        """If `listens`, open the admin listener's socket; `accredit wrap` has none. Raises `ConfigurationError` if it
        can't listen."""
        self.settings = settings
        self.board = Board(workers)
        self.instance = RandomIds().draw()
        self.listener = open_listener(*settings.admin, "admin") if settings.admin is not None and listens else None


class Monitoring:
    """One process's monitoring. `telemetry` is what the gateway reports to."""

    def __init__(self, shared: SharedMonitoring, number: int = 0) -> None:
        settings = shared.settings
        self._shared = shared
        self._is_first = number == 0
        self._metrics = metrics = Metrics(shared.board.slot(number))
        tracer: Tracer | None = None
        self._exporter: Exporter | None = None
        if settings.endpoint:
            queue = SpanQueue(metrics.spans)
            tracer = Tracer(settings.sample, queue, metrics.spans)
            collector, instance = partial(_collector, settings.endpoint), f"{shared.instance}-{number}"
            self._exporter = Exporter(metrics, queue, collector, settings.service_name, instance)
        self.telemetry = Telemetry(metrics, tracer)
        self._gateway: Gateway | None = None
        self._admin: AdminListener | None = None
        self._ports = Ports()
        self._tls = False
        self._connections: Callable[[], int] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._log: stores.LogStore | None = None
        self._asking: asyncio.Task[None] | None = None

    def watch(self, now: Configured | None, ports: Ports, gateway: Gateway | None = None) -> None:
        """Set the monitored parts, and the configuration in force, before the start."""
        self._gateway = gateway
        if ports.records is not None:
            ports.records.on_turn = self._metrics.log_turn_seconds
        self._ports = ports
        if now is None:
            return
        self.goes_by(now, ports)
        if self._is_first and ports.records is not None:
            self._log = store_of(now.loaded).lasting  # one process looks for all
        listener, settings = self._shared.listener, self._shared.settings
        if gateway is not None and listener is not None and settings.admin is not None:
            app = AdminApp(gateway, self._shared.board, settings.admin[0])
            self._admin = AdminListener(app, listener, now.tls if settings.outside else None)

    def goes_by(self, now: Configured, ports: Ports) -> None:
        """Set the configuration that is in force now."""
        self._ports, self._tls = ports, now.tls is not None
        with reading(now.files):
            digest = policy_digest(now.loaded)
        self._metrics.config_digest.set(float(int(digest[:_DIGEST_DIGITS], 16)))

    async def during(self, serving: Coroutine[Any, Any, int]) -> int:
        """Run while `serving` runs; return its result."""
        await self.start()
        try:
            return await serving
        finally:
            await self.stop()

    async def start(self, connections: Callable[[], int] | None = None) -> None:
        """Begin. `connections` says how many connections of clients there are, where any are accepted."""
        self._connections = connections
        if self._admin is not None:
            await self._admin.start()
        if self._exporter is not None:
            self._exporter.start()
        self._look()
        if self._log is not None:
            self._asking = asyncio.create_task(self._ask_for_sinks(self._log))

    def take(self, tls: ssl.SSLContext | None) -> None:
        """Use this TLS context for the next handshakes."""
        if self._admin is not None:
            self._admin.take(tls)

    async def stop(self) -> None:
        """Stop, after a moment to send what is left."""
        if self._timer is not None:
            self._timer.cancel()
        if self._asking is not None:
            self._asking.cancel()
        if self._admin is not None:
            self._admin.close()
        if self._exporter is not None:
            await self._exporter.stop()

    def _look(self) -> None:
        """Update the gauges, now and every few seconds."""
        metrics, ports = self._metrics, self._ports
        if self._connections is not None:
            metrics.connections.set(self._connections(), ("open",))
            metrics.connections.set(client_connections(tls=self._tls), ("most",))
        if ports.records is not None:
            metrics.log_queue.set(ports.records.waiting)
            metrics.log_left.set(ports.records.left)
        if ports.store is not None and (skew := ports.store.skew_seconds) is not None:
            metrics.store_skew.set(skew)
        for server in self._gateway.routes.servers if self._gateway is not None else ():
            left_out = server.left_out
            if left_out is not None:
                metrics.breakers.set(left_out, (server.name,))
        self._timer = asyncio.get_running_loop().call_later(GAUGES_SECONDS, self._look)

    async def _ask_for_sinks(self, store: "stores.LogStore") -> None:
        """Measure the lag of each of the log's sinks, again and again. A sink that was removed has no lag."""
        known = set[str]()
        while True:
            with contextlib.suppress(AccreditError):  # what was known last stays
                behind = await asyncio.to_thread(_sink_lags, store)
                known |= behind.keys()
                for name in known:
                    self._metrics.sink_lag.set(behind.get(name, 0), (name,))
            await asyncio.sleep(SINK_LAG_SECONDS)


def _sink_lags(store: "stores.LogStore") -> dict[str, int]:
    log = store.open_log()
    try:
        log.renew()
        return {name: log.behind(name) for name in log.sinks()[:MAX_WATCHED_SINKS]}
    finally:
        log.close()


def _collector(url: str) -> Collector:
    from accredit.net import otlp  # noqa: PLC0415 - httpx2 costs 2 MiB, and only who sends telemetry needs it

    return otlp.Collector(url)
