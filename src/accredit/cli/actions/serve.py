"""Implements `serve` and `wrap`: run a gateway from a configuration.

Reads the environment, opens the listening socket, and runs until stopped. Everything is checked before anything
starts.
"""

import logging
import os
import signal
import socket
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from accredit.base.deferred import Deferred, leave_unopened

if not TYPE_CHECKING:  # its own code imports its command line, which reloads a server's code: 1 to 3 MiB
    leave_unopened("uvicorn", modules={"Config": "config", "Server": "server"})

import uvloop

from accredit import __version__
from accredit.app.assemble import Ports, assemble
from accredit.app.configured import Configured, Start, first_ports, next_ports, read_configuration, warn_of_observing
from accredit.app.listener import address_of, allow_descriptors, open_listener
from accredit.app.monitoring import Monitoring, SharedMonitoring
from accredit.app.pid_file import PidFile
from accredit.app.reloading import ReloadTarget, Reports, SingleProcessReloads, Worker
from accredit.app.server import serve
from accredit.app.workers import Reading, WorkerStart, run_workers
from accredit.asking.reaching import values_of
from accredit.base.log_events import LogFormat, LogLevel, configure_logs, log_event, notice
from accredit.base.text import several
from accredit.config.build import build_settings
from accredit.config.load import DEFAULT_FILE, Loaded, load
from accredit.config.monitoring import build_monitoring
from accredit.errors import ConfigurationError
from accredit.gateway import Gateway, GatewaySettings, HttpUpstream, StdioUpstream, create_app
from accredit.gateway.front.bootstrap import PATH
from accredit.gateway.front.legacy_sse import SSE_PATH
from accredit.gateway.settings import ApiUpstream, BootstrapSettings
from accredit.keys import ReadFiles, reading, write_file
from accredit.limits import CONNECT_SECONDS

if TYPE_CHECKING:
    from accredit.gateway.front import wrap
else:
    wrap = Deferred("accredit.gateway.front.wrap")  # `serve` does without it

_TOKEN_VARIABLE = "ACCREDIT_TOKEN"  # noqa: S105 - the name of a variable
"""The environment variable with the token of `accredit wrap`. Child processes don't get it."""

_logger = logging.getLogger("accredit.app")


def start_server(
    command: list[str] | None,
    *,
    url: str | None = None,
    config: Path | None = None,
    host: str | None = None,
    port: int | None = None,
    workers: int = 1,
    insecure: bool = False,
    timeout: float | None = None,
    log_level: LogLevel = "info",
    log_format: LogFormat = "json",
) -> int:
    """Run `accredit serve` until a signal ends it; return the exit code. Raises `ConfigurationError`."""
    given, files = values_of(url, command, host, port, timeout), ReadFiles()
    with reading(files):
        loaded = load(config, os.environ, given)
    start = Start(loaded.file, dict(os.environ), given, workers, insecure)
    return _run_server(start, files, log_level=log_level, log_format=log_format)


def start_wrap(
    command: list[str] | None,
    *,
    config: Path | None = None,
    server: str | None = None,
    timeout: float | None = None,
    log_level: LogLevel = "info",
    log_format: LogFormat = "json",
) -> int:
    """Run `accredit wrap` until its input ends; return the exit code. Raises `ConfigurationError`."""
    url = command[0] if command and len(command) == 1 and command[0].startswith(("http://", "https://")) else None
    loaded = load(config, os.environ, values_of(url, None if url else command, None, None, timeout))
    return _run_wrap(loaded, server, log_level=log_level, log_format=log_format)


def _run_server(start: Start, files: ReadFiles, *, log_level: LogLevel, log_format: LogFormat) -> int:
    """Run `accredit serve` until a signal ends it; return the exit code. Raises `ConfigurationError`."""
    now, workers = read_configuration(start, files), start.workers
    ports = first_ports(now)
    gateway, servers = now.loaded.config.gateway, now.servers
    allow_descriptors()
    listener = open_listener(gateway.host, gateway.port)
    shared = SharedMonitoring(now.monitoring_settings, workers) if now.monitoring_settings is not None else None
    base = f"{'https' if now.tls else 'http'}://{address_of(listener)}"
    configure_logs(log_level, log_format)
    _log_start(now.loaded, servers)
    if servers[0].tokens is not None and servers[0].tokens.bootstrap is not None:
        _offer_token(servers[0].tokens.bootstrap)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})  # from now on it may come: it waits for who listens
    pid_file = _lock_pid_file(start.file)

    announce = partial(_announce, now, base, workers, shared)
    if workers == 1:
        app, part, monitoring = _build_gateway(start, now, ports, shared, 0)
        reloads = SingleProcessReloads(start, part, Reports(pid_file)).begin
        try:
            return serve(
                app, listener, tls=now.tls, ending=now.ending, announce=announce, reloads=reloads, beside=monitoring
            )
        finally:
            if pid_file is not None:
                pid_file.end()

    def serve_as_worker(lifeline: int, first: bool, orders: WorkerStart) -> int:
        mine, own = now, ports
        if orders.files is not None:
            mine = read_configuration(start, ReadFiles.of(orders.files))
            own = next_ports(mine, ports)
        app, part, monitoring = _build_gateway(start, mine, own, shared, orders.number)
        if orders.files is not None or orders.problem is not None:
            part.tell(orders.problem)
        return serve(
            app,
            listener,
            tls=mine.tls,
            ending=mine.ending,
            lifeline=lifeline,
            announce=announce if first else None,
            reloads=Worker(part, orders.socket).begin,
            beside=monitoring,
        )

    code = run_workers(
        workers,
        listener,
        serve_as_worker,
        ending_seconds=sum(now.ending),
        reading=Reading(start, files.encoded(), pid_file),
    )
    if pid_file is not None:
        pid_file.end()
    return code


def _tell_unreachable(servers: Sequence[GatewaySettings]) -> None:
    """Log each server behind HTTP that takes no connection: its calls would fail, and nothing would say so before.
    Nothing is sent."""
    for each in servers:
        for url in each.upstream.replicas.values() if isinstance(each.upstream, HttpUpstream) else ():
            parts = urlsplit(url)
            address = (parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
            try:
                socket.create_connection(address, CONNECT_SECONDS).close()
            except OSError as error:
                log_event(
                    _logger,
                    logging.WARNING,
                    "a server behind this gateway takes no connections",
                    server=each.server or None,
                    at=f"{address[0]}:{address[1]}",
                    reason=error.strerror or str(error),
                    remedy="start it: the gateway needs no restart",
                )


def _announce(now: Configured, base: str, workers: int, shared: SharedMonitoring | None) -> None:
    threading.Thread(target=_tell_unreachable, args=(now.servers,), daemon=True).start()  # the gateway waits for none
    if shared is not None and shared.listener is not None:
        scheme = "https" if now.tls and shared.settings.outside else "http"
        notice(f"metrics and health at {scheme}://{address_of(shared.listener)}/metrics")
    counted = f"({several(workers, 'worker')})"
    if all(isinstance(each.upstream, ApiUpstream) for each in now.servers):
        notice(f"listening on {base}/ {counted}")
    for each in now.servers:
        if isinstance(each.upstream, ApiUpstream):
            if each.upstream.proxy is None:
                if each.upstream.agent is not None:
                    notice(f"the agent {each.server} is at {base}{each.path} {counted}")
                    continue
                notice(f"the HTTP API {each.server} is at {base}{each.path}/ {counted}")
                continue
            notice(f"{each.upstream.proxy} asks about {each.server} at {each.path} of the admin listener")
            continue
        notice(f"listening on {base}{_path(each)} {counted}")


def _build_gateway(
    start: Start, now: Configured, ports: Ports, shared: SharedMonitoring | None, number: int
) -> tuple[Gateway, ReloadTarget, Monitoring | None]:
    """Return one process's application, its part in reloads, and its monitoring."""
    monitoring = Monitoring(shared, number) if shared is not None else None
    app = create_app(now.servers, **ports._asdict(), telemetry=monitoring.telemetry if monitoring is not None else None)
    part = ReloadTarget(start, app, now, ports)
    if monitoring is not None:
        monitoring.watch(now, ports, app)
        part.monitoring = monitoring
    return app, part, monitoring


def _lock_pid_file(configuration: Path | None) -> PidFile | None:
    """Lock the file by which `accredit reload` finds this process. Return None, after logging why, if that is
    impossible."""
    if configuration is None:
        return None
    try:
        return PidFile.lock(configuration)
    except ConfigurationError as error:
        log_event(
            _logger,
            logging.WARNING,
            "`accredit reload` will not find this gateway",
            reason=error.what,
            remedy=error.remedy,
        )
        return None


def _path(settings: GatewaySettings) -> str:
    """Return the path for clients. For a server that speaks HTTP+SSE (2024-11-05) it ends in `/sse`."""
    upstream = settings.upstream
    if isinstance(upstream, HttpUpstream) and urlsplit(upstream.url).path.rstrip("/").endswith(SSE_PATH):
        return f"{settings.path}{SSE_PATH}" if settings.server else SSE_PATH
    return settings.path


def _run_wrap(loaded: Loaded, server: str | None, *, log_level: LogLevel, log_format: LogFormat) -> int:
    """Run `accredit wrap` until its input ends; return the exit code. Raises `ConfigurationError`."""
    settings = build_settings(loaded, os.environ, server=server)
    if isinstance(settings.upstream, HttpUpstream):
        raise ConfigurationError(
            f"wrap stands around a stdio server, and {settings.place}.url names one behind HTTP",
            "name a command after --, or use `accredit serve`",
        )
    ports, monitoring = assemble(loaded, settings.proofs), None
    monitoring_settings = build_monitoring(loaded)
    if monitoring_settings is not None:
        monitoring = Monitoring(SharedMonitoring(monitoring_settings, listens=False))
        monitoring.watch(None, ports)
    configure_logs(log_level, log_format)
    _log_start(loaded, [settings])
    serving = wrap.run(
        settings,
        store=ports.store,
        revocations=ports.revocations,
        key_sets=ports.key_sets,
        records=ports.records,
        tasks=ports.tasks,
        token=os.environ.get(_TOKEN_VARIABLE),
        telemetry=monitoring.telemetry if monitoring is not None else None,
    )
    return uvloop.run(serving if monitoring is None else monitoring.during(serving))


def _log_start(loaded: Loaded, servers: list[GatewaySettings]) -> None:
    settings = servers[0]
    proofs = settings.proofs is not None and settings.proofs.judged
    # Say so plainly: a gateway that only validates must not be mistaken for an enforcing one.
    if loaded.file is None and not proofs and settings.tokens is None and settings.records is None:
        notice(f"tokens, proofs and records are off ({_why_no_file(settings)})")
    log_event(
        _logger,
        logging.INFO,
        "the gateway starts",
        version=__version__,
        configuration=str(loaded.file) if loaded.file else None,
        upstream=_kind(settings) if not settings.server else None,
        servers={each.server: _kind(each) for each in servers if each.server} if settings.server else None,
        merged=any(each.members for each in servers) or None,
        responses="enforce" if settings.enforce else "observe",
        tokens=loaded.config.tokens.mode,
        proofs=loaded.config.proofs.mode,
        records=loaded.config.attest.mode,
        traces=bool(loaded.config.telemetry.endpoint) or None,
        pins="off" if settings.pins is None else "enforce" if settings.pins.enforced else "warn",
    )
    warn_of_observing(servers)
    if settings.workers > 1 and loaded.config.rounds.keys_file is None and loaded.config.cluster.keys_file is None:
        log_event(
            _logger,
            logging.WARNING,
            "requestState is sealed with a key of this process: a restart, or another machine, does not know it",
            remedy="set cluster.keys_file",
        )


def _kind(settings: GatewaySettings) -> str:
    if isinstance(settings.upstream, ApiUpstream):
        return settings.upstream.protocol
    return "command" if isinstance(settings.upstream, StdioUpstream) else "url"


def _why_no_file(settings: GatewaySettings) -> str:
    command = isinstance(settings.upstream, StdioUpstream)
    if os.path.lexists(DEFAULT_FILE):
        return (
            f"{DEFAULT_FILE} is not read beside a {'command' if command else 'URL'}: --config {DEFAULT_FILE} reads it"
        )
    return f"no {DEFAULT_FILE}; `accredit init {'-- COMMAND' if command else 'URL'}` writes one"


def _offer_token(bootstrap: BootstrapSettings) -> None:
    """Write the bootstrap secret to its file. Raises `ConfigurationError`."""
    write_file(bootstrap.file, bootstrap.secret.encode("ascii") + b"\n", private=True, replace=True)
    notice(f"the secret for one session token (POST {PATH}) is in {bootstrap.file}")
