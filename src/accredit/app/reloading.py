"""One process's part in a reload, in its event loop: prepares the new settings, then switches to them.

`ReloadTarget` does that. On SIGHUP, a process that serves alone reads the configuration itself, in a thread
(`SingleProcessReloads`); a worker follows its parent's orders (`Worker`). Each process does this, in this order:

- [build] settings are built from the bytes already read, and from no other file. Revocation lists are checked, and
  known remote key sets are fetched again;
- [prepare] the gateway prepares the new routes (`Gateway.prepare`). Nothing has changed yet, and the prepared routes
  may still be dropped;
- [swap] in one step, new requests (`Gateway.swap`), handshakes and the shutdown begin to use the new settings.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct

from accredit.app.assemble import Ports, refresh
from accredit.app.configured import Configured, Start, check_change, next_ports, read_configuration, warn_of_observing
from accredit.app.monitoring import Monitoring
from accredit.app.pid_file import PidFile
from accredit.app.server import TakeSettings
from accredit.base.log_events import log_event
from accredit.base.text import one_line
from accredit.errors import ConfigurationError
from accredit.gateway.app import Gateway, Routes
from accredit.keys import ReadFiles
from accredit.limits import MAX_RELOAD_TEXT

RELOAD_CHECK_SECONDS = 30.0
"""How many seconds the reading and checking of a new configuration may take. Its files may be on a network, and its
signer may be far away."""
RELOAD_PREPARE_SECONDS = 30.0
"""How many seconds the workers may take to prepare. In that time they fetch the key sets at URLs."""


_logger = logging.getLogger("accredit.app")


class ReloadMessage(Struct, frozen=True):
    """A parent's order to a worker, or the worker's answer. `number` is the number of the reload that it is about."""

    kind: Literal["prepare", "swap", "stay", "ready", "unable", "done"]
    number: int
    text: str = ""
    remedy: str = ""

    def sent(self) -> bytes:
        """Return the order encoded as one datagram."""
        return msgspec.msgpack.encode(self)


read_order = msgspec.msgpack.Decoder(ReloadMessage).decode


class _Next(NamedTuple):
    now: Configured
    ports: Ports
    routes: Routes


class ReloadTarget:
    """Does one process's part in a reload. `now` is the configuration in force."""

    def __init__(self, start: Start, gateway: Gateway, now: Configured, ports: Ports) -> None:
        self.now = now
        self._start = start
        self._gateway = gateway
        self._ports = ports
        self._next: _Next | None = None
        self.take: TakeSettings | None = None
        """Called with the server's own settings: for TLS, and for the shutdown."""
        self.monitoring: Monitoring | None = None
        """This process's monitoring, if any."""

    async def prepare(self, files: ReadFiles) -> None:
        """Build the new settings and prepare the routes ([build] and [prepare]). Raises `ConfigurationError`."""
        self._next = None
        now, ports = await asyncio.to_thread(self._built, files)
        await refresh(ports)
        shared = self._gateway.routes.shared._replace(
            store=ports.store, revocations=ports.revocations, key_sets=ports.key_sets, tasks=ports.tasks
        )
        self._next = _Next(now, ports, self._gateway.prepare(now.servers, shared))

    def swap(self) -> None:
        """Switch to what was prepared, if anything ([swap])."""
        if self._next is None:
            return
        observed = self.now.servers[0].observes
        self.now, self._ports, routes = self._next
        self._next = None
        if not observed:
            warn_of_observing(self.now.servers)
        self._gateway.swap(routes, self.now.ending.grace)
        if self.take is not None:
            self.take(self.now.tls, self.now.ending)
        if self.monitoring is not None:
            self.monitoring.goes_by(self.now, self._ports)
        self.tell(None)

    def stay(self, problem: str) -> None:
        """Drop what was prepared."""
        self._next = None
        self.tell(problem)

    def tell(self, problem: str | None) -> None:
        """Make `/readyz` report the last reload."""
        condition = self._gateway.condition
        condition.reloaded, condition.reload_problem = True, problem

    def _built(self, files: ReadFiles) -> tuple[Configured, Ports]:
        now = read_configuration(self._start, files)
        return now, next_ports(now, self._ports)


class Reports:
    """Reports reloads in the log, and in the file that `accredit reload` reads."""

    def __init__(self, file: PidFile | None) -> None:
        self._file = file
        self.number = 0

    def begun(self) -> int:
        """Report that a reload begins; return its number."""
        self.number += 1
        self._tell(begun=self.number)
        return self.number

    def changed(self, told: str) -> None:
        """Report that another configuration is in force."""
        log_event(_logger, logging.INFO, "the configuration was read again", changed=told)
        self._tell(done=self.number, changed=told, problem="", remedy="")

    def refused(self, problem: str, remedy: str) -> None:
        """Report that the old configuration stays in force."""
        problem, remedy = one_line(problem)[: MAX_RELOAD_TEXT // 4], one_line(remedy)[: MAX_RELOAD_TEXT // 4]
        log_event(_logger, logging.ERROR, "the configuration stays as it was", reason=problem, remedy=remedy)
        self._tell(done=self.number, changed="", problem=problem, remedy=remedy)

    def _tell(self, **members: object) -> None:
        if self._file is not None:
            self._file.tell(msgspec.structs.replace(self._file.reloads, **members))


class SingleProcessReloads:
    """Does the reloads of a process that serves alone."""

    def __init__(self, start: Start, part: ReloadTarget, reports: Reports) -> None:
        self._start = start
        self._part = part
        self._reports = reports
        self._told = False
        self._running: asyncio.Task[None] | None = None

    def begin(self, take: TakeSettings) -> None:
        """Listen for SIGHUP."""
        self._part.take = take
        if threading.current_thread() is threading.main_thread():
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._on_signal)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})

    def _on_signal(self) -> None:
        if self._start.terminal_gone():
            os.kill(os.getpid(), signal.SIGTERM)
            return
        self._told = True
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._told:
                self._told = False
                await self._once()
        finally:
            self._running = None

    async def _once(self) -> None:
        self._reports.begun()
        try:
            async with asyncio.timeout(RELOAD_CHECK_SECONDS):
                change = await asyncio.to_thread(check_change, self._start, self._part.now.files)
            async with asyncio.timeout(RELOAD_PREPARE_SECONDS):
                await self._part.prepare(ReadFiles.of(change.files))
        except (ConfigurationError, TimeoutError) as error:
            problem, remedy = words_for(error)
            self._part.stay(problem)
            self._reports.refused(problem, remedy)
        except Exception as error:  # a fault of ours must not end a gateway that serves
            log_event(_logger, logging.CRITICAL, "a reload failed", exc_info=error)
            self._part.stay("a fault of the gateway's own")
            self._reports.refused("a fault of the gateway's own", "the log has it; please report it")
        else:
            self._part.swap()
            self._reports.changed(change.told)


class Worker:
    """Does a worker's part in the reloads that its parent leads. `orders` is the worker's end of the socket between
    them."""

    def __init__(self, part: ReloadTarget, orders: socket.socket) -> None:
        self._part = part
        self._orders = orders
        self._number = 0
        self._preparing: asyncio.Task[None] | None = None

    def begin(self, take: TakeSettings) -> None:
        """Listen for the parent's orders. `take` is called with the new settings when they are to be used."""
        self._part.take = take
        self._orders.setblocking(False)
        asyncio.get_running_loop().add_reader(self._orders, self._heard)

    def _heard(self) -> None:
        try:
            text, descriptors, _, _ = socket.recv_fds(self._orders, MAX_RELOAD_TEXT, 1)
        except OSError:
            return
        order = read_order(text)
        if order.kind == "prepare":
            self._number = order.number
            if self._preparing is not None:
                self._preparing.cancel()
            self._preparing = asyncio.get_running_loop().create_task(self._prepare(order.number, descriptors[0]))
        elif order.kind == "stay":
            self._part.stay(order.text)
        elif order.number == self._number:
            self._part.swap()
            self._say(ReloadMessage("done", order.number))

    async def _prepare(self, number: int, descriptor: int) -> None:
        try:
            try:
                text = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
            finally:
                os.close(descriptor)
            await self._part.prepare(ReadFiles.of(text))
        except ConfigurationError as error:
            self._say(ReloadMessage("unable", number, *_shorten(error)))
        except Exception as error:  # the parent has to hear of it
            log_event(_logger, logging.CRITICAL, "a reload failed", exc_info=error)
            self._say(
                ReloadMessage("unable", number, "a fault of the gateway's own", "the log has it; please report it")
            )
        else:
            self._say(ReloadMessage("ready", number))

    def _say(self, order: ReloadMessage) -> None:
        with contextlib.suppress(OSError):  # the parent is gone, and so will this process be
            self._orders.send(order.sent())


def words_for(error: Exception) -> tuple[str, str]:
    """Return the problem and remedy of a failed reload."""
    if isinstance(error, ConfigurationError):
        return error.what, error.remedy
    return "the new configuration was not read in time", "see whether its files can be read, and reload again"


def _shorten(error: ConfigurationError) -> tuple[str, str]:
    return one_line(error.what)[: MAX_RELOAD_TEXT // 4], one_line(error.remedy)[: MAX_RELOAD_TEXT // 4]
