"""Assembles the gateway and puts it on the network: the adapters, the socket, the server and its workers."""

from accredit.app.assemble import Ports, assemble
from accredit.app.configured import Configured, Start, first_ports, next_ports, read_configuration, warn_of_observing
from accredit.app.listener import address_of, allow_descriptors, open_listener
from accredit.app.monitoring import Monitoring, SharedMonitoring
from accredit.app.pid_file import PidFile
from accredit.app.reloading import ReloadTarget, Reports, SingleProcessReloads, Worker
from accredit.app.server import Ending, serve
from accredit.app.workers import Reading, WorkerStart, run_workers

__all__ = [
    "Configured",
    "Ending",
    "Monitoring",
    "PidFile",
    "Ports",
    "Reading",
    "ReloadTarget",
    "Reports",
    "SharedMonitoring",
    "SingleProcessReloads",
    "Start",
    "Worker",
    "WorkerStart",
    "address_of",
    "allow_descriptors",
    "assemble",
    "first_ports",
    "next_ports",
    "open_listener",
    "read_configuration",
    "run_workers",
    "serve",
    "warn_of_observing",
]
