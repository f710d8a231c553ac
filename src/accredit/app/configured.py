"""One reading of the configuration, from its files to all of a gateway's settings. Reads files, once (`keys.reading`).

On a reload, one process reads the files and checks them (`check_change`). Every process that serves then builds its
settings from those same bytes (`read_configuration`), even if the files have changed since. The file's name, the
command line and the environment stay as they were when `accredit serve` was started.
"""

import logging
import os
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from accredit.app.assemble import Ports, assemble, renew_ports
from accredit.app.server import Ending
from accredit.base.log_events import log_event
from accredit.config.attest import try_record_signer
from accredit.config.build import build_all_settings
from accredit.config.changes import changes, check_fixed, in_short
from accredit.config.listen import check_exposure, check_no_loop, tls_context
from accredit.config.load import Loaded, Values, load
from accredit.config.monitoring import MonitoringSettings, build_monitoring
from accredit.errors import ConfigurationError
from accredit.gateway import GatewaySettings
from accredit.gateway.settings import RoundsSettings
from accredit.keys import ReadFiles, reading
from accredit.rounds import KeyRing

_logger = logging.getLogger("accredit.app")


@dataclass(frozen=True)
class Start:
    """The inputs with which a gateway was started. `own` are sealing keys for a gateway without a file of keys; they
    last as long as the gateway."""

    file: Path | None
    environ: Mapping[str, str]
    command_line: Values
    workers: int = 1
    insecure: bool = False
    terminals: tuple[int, ...] = field(default_factory=lambda: tuple(each for each in range(3) if os.isatty(each)))
    own: KeyRing = field(default_factory=lambda: RoundsSettings().ring, repr=False)

    def terminal_gone(self) -> bool:
        """Return whether the terminal that started this process is gone. Then a SIGHUP reports that, and does not ask
        for a reload."""
        return bool(self.terminals) and not any(map(os.isatty, self.terminals))


class Configured(NamedTuple):
    """A gateway's settings, and the `files` that they were read from."""

    files: ReadFiles
    loaded: Loaded
    servers: list[GatewaySettings]
    tls: ssl.SSLContext | None
    monitoring_settings: MonitoringSettings | None

    @property
    def ending(self) -> Ending:
        """How long shutdown may take."""
        return Ending(self.loaded.config.gateway.drain_seconds, self.loaded.config.gateway.grace_seconds)


class ConfigurationChange(NamedTuple):
    """A configuration that may replace the current one. `files` are its files, encoded. `told` names the differences,
    as a text for people."""

    files: bytes
    told: str
    ending_seconds: int


def read_configuration(start: Start, files: ReadFiles) -> Configured:
    """Read a configuration. Files that are in `files` are not read again. Raises `ConfigurationError`."""
    with reading(files):
        loaded = load(start.file, start.environ, start.command_line)
        servers = build_all_settings(loaded, start.environ, workers=start.workers, starting=True, own=start.own)
        check_no_loop(loaded.config.gateway, servers)
        monitoring_settings = build_monitoring(loaded)
        tls = tls_context(loaded.config.gateway)
        if not start.insecure:
            check_exposure(loaded.config.gateway, loaded.config.admin)
        return Configured(files, loaded, servers, tls, monitoring_settings)


def warn_of_observing(servers: Sequence[GatewaySettings]) -> None:
    """Log a warning if proofs are only observed."""
    if not servers[0].observes:
        return
    what = "proofs are only observed: no call is refused for want of authority"
    log_event(_logger, logging.WARNING, what, remedy='set proofs.mode = "required"')
    if servers[0].records is None:
        what = "proofs are only observed, and nothing is recorded of what agents do"
        log_event(_logger, logging.WARNING, what, remedy='set attest.mode = "durable"')


def first_ports(now: Configured) -> Ports:
    """Return the adapters of a starting gateway. Raises `ConfigurationError`."""
    with reading(now.files):
        ports = assemble(now.loaded, now.servers[0].proofs, now.servers[0].rounds.ring)
        if ports.revocations is not None:
            ports.revocations.remember()
        return ports


def next_ports(now: Configured, ports: Ports) -> Ports:
    """Return the adapters after a reload, which keep what they remember. Raises `ConfigurationError`."""
    with reading(now.files):
        return renew_ports(ports, now.loaded, now.servers[0].proofs, now.servers[0].rounds.ring)


def check_change(start: Start, before: ReadFiles) -> ConfigurationChange:
    """Read the configuration again, and do the checks that one process can do for all processes. `before` has the
    current configuration's files. Raises `ConfigurationError`."""
    if start.file is None:
        raise ConfigurationError(
            "this gateway was started without a configuration file: there is nothing to read again",
            "start it with --config, or start it anew",
        )
    with reading(before):
        was = load(start.file, start.environ, start.command_line)
    now = read_configuration(start, ReadFiles())
    check_fixed(was, before, now.loaded, now.files)
    with reading(now.files):
        try_record_signer(now.loaded)
    folder = start.file.parent
    names = [*changes(was, now.loaded)]
    for path in now.files.changed(before):
        if path != start.file:
            name = path.relative_to(folder) if path.is_relative_to(folder) else path
            names.append(f"{name}" if now.files.exists(path) else f"{name} (removed)")
    return ConfigurationChange(now.files.encoded(), in_short(names) or "nothing", sum(now.ending))
