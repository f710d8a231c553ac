"""`accredit wrap`: the gate as a stdio server in front of a stdio server. One host, one child, lines both ways.

- [host-lines] A host's line takes the steps of `endpoint`. An invalid line is answered with an error line, and so is a
  refused call. Where tokens are on, calls and lists need a token: one in the message, or the one in the environment.
- [child-lines] A child's line is routed by `dedicated`.
- [slow-host] While the host is slow to read, no more lines are read, of the child or of the host.
- [log] Of refusals, `REFUSALS_LOGGED_PER_SECOND` are logged: a host keeps our stderr in a file, and neither side may
  fill the disk by it. All are counted, and the next line says how many were left out.
- [end] When the host closes its side, the child's stdin is closed, and open calls may finish. The host still gets the
  child's lines, but no more lines of our own. When the child ends first, each open request gets an error line, the
  log says how it ended, and the exit code is 1.

A valid line is forwarded byte for byte, except for what the gate removes or adds. Nothing but messages is ever written
to stdout.
"""

import asyncio
import contextlib
import logging
import signal

from accredit.base.log_events import Pace, log_event
from accredit.base.stdio import StdioHost
from accredit.errors import (
    ConfigurationError,
    FrameError,
    KeysUnavailable,
    LineTooLong,
    RequestError,
    TokenError,
    UpstreamError,
)
from accredit.gateway.admission.bearer import Bearer, bearer_for
from accredit.gateway.admission.gate import Gate
from accredit.gateway.admission.pinned_tools import UpstreamAccess
from accredit.gateway.admission.tool_directory import ToolDirectory
from accredit.gateway.call import Call
from accredit.gateway.counters import Counters
from accredit.gateway.front.endpoint import Intake
from accredit.gateway.recording.recorder import recorder_of
from accredit.gateway.replies import refusal
from accredit.gateway.settings import GatewaySettings, StdioUpstream
from accredit.gateway.upstream.stdio.child import Child, OrphanGuard
from accredit.gateway.upstream.stdio.dedicated import DedicatedChild
from accredit.jsonrpc.encode import INVALID_REQUEST
from accredit.jsonrpc.frames import Frame, Request
from accredit.jsonrpc.lines import LineSplitter, encode_line
from accredit.jsonrpc.methods import BATCH_REVISION, META_VERSION
from accredit.jsonrpc.objects import as_string
from accredit.jsonrpc.requests import Batch
from accredit.limits import GRACE_SECONDS, STOP_GRACE_SECONDS
from accredit.ports import KeySets, ProofStore, Records, Revocations, TaskStore
from accredit.telemetry.labels import Names
from accredit.telemetry.operations import Meter, Telemetry, Transports
from accredit.telemetry.tracing import set_current_message

REFUSALS_LOGGED_PER_SECOND = 20
"""How many refusals are logged per second. A person's agent has a few a minute."""

_log = logging.getLogger("accredit.gateway.stdio")


async def run(
    settings: GatewaySettings,
    *,
    store: ProofStore | None = None,
    revocations: Revocations | None = None,
    key_sets: KeySets | None = None,
    records: Records | None = None,
    tasks: TaskStore | None = None,
    token: str | None = None,
    telemetry: Telemetry | None = None,
) -> int:
    """Serve until the host or the child ends, or a signal comes. Return the exit code.

    `store` and `revocations` are asked when proofs are judged, and `key_sets` when tokens are verified. `records` is
    the log. `tasks` stores the owners of tasks. At the end all of these are closed except the revocations. `token` is
    used for messages that bring none. `telemetry` measures. Raises `ConfigurationError`.
    """
    if not isinstance(settings.upstream, StdioUpstream):
        raise ConfigurationError("wrap stands around a stdio server", "name its command after --")
    counters = Counters(invalid=telemetry.invalid if telemetry else None, pace=Pace(REFUSALS_LOGGED_PER_SECOND))
    names, transports = Names(settings.named_tools, settings.methods), Transports("pipe", "pipe")
    meter = telemetry.meter("", names, transports) if telemetry is not None else None
    recorder = recorder_of(settings, counters, records)
    tools = ToolDirectory()
    bearer = bearer_for(settings, key_sets, tools, token)
    gate = Gate(
        settings,
        counters,
        tools,
        store=telemetry.timed(store) if telemetry is not None else store,
        revocations=revocations,
        bearer=bearer,
        recorder=recorder,
        tasks=tasks,
        meter=meter,
    )
    stopping, guard = _stop_event(), OrphanGuard()
    try:
        await _check_environment(bearer)
        if recorder is not None:
            await recorder.ready()  # calls left open by a dead process are closed now
        child = await Child.start(settings.upstream, guard, settings.max_event_bytes)
        try:
            host = StdioHost()
            code = await Wrap(settings, gate, child, host, counters, bearer, meter).serve(stopping)
            if recorder is not None:
                await recorder.drain()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_GRACE_SECONDS):
                    await host.drained(0)
            return code
        finally:
            await child.aclose()
    except UpstreamError as error:
        log_event(_log, logging.ERROR, "upstream_failed", detail=error.detail)
        return 1
    finally:
        for held in (guard, recorder, store, tasks, key_sets):
            if held is not None:
                await held.aclose()


def _stop_event() -> asyncio.Event:
    """Return an event that SIGINT and SIGTERM set."""
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    return stopping


async def _check_environment(bearer: Bearer | None) -> None:
    """Refuse to start if the environment's token is invalid. If its keys are unavailable now, start nevertheless: they
    may become available later."""
    try:
        if bearer is not None:
            await bearer.of_environment()
    except TokenError as error:
        raise ConfigurationError(
            f"the token of the environment is refused: {error.reason}", "set ACCREDIT_TOKEN to one that is good here"
        ) from None
    except KeysUnavailable as error:
        log_event(_log, logging.WARNING, "keys_unavailable", detail=str(error))


class Wrap(Intake[bytes]):
    """Relays messages between a host and one child, both over stdio."""

    answers_later = True

    def __init__(
        self,
        settings: GatewaySettings,
        gate: Gate,
        child: Child,
        host: StdioHost,
        counters: Counters,
        bearer: Bearer | None = None,
        meter: Meter | None = None,
    ) -> None:
        super().__init__(settings, gate, meter)
        self._bearer = bearer
        self._child = child
        self._host = host
        self._counters = counters
        self._backend = DedicatedChild(child, settings, counters, self._tell, host.drained)

    async def serve(self, stopping: asyncio.Event) -> int:
        """Pass lines both ways until either side ends ([end])."""
        from_host = asyncio.create_task(self._from_host())
        over = self._backend.over
        ends = {over, asyncio.create_task(stopping.wait()), asyncio.create_task(self._host.gone.wait())}
        try:
            await asyncio.wait({from_host, *ends}, return_when=asyncio.FIRST_COMPLETED)
            if self._backend.closing and self._backend.owes:
                await asyncio.wait(ends, timeout=GRACE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if not over.done() or self._backend.closing or stopping.is_set():
                return 0
            log_event(_log, logging.ERROR, "upstream_failed", detail=over.result().detail)
            return 1
        finally:
            if not over.done():  # else answers may still wait for their records
                self._backend.closing = True
            for task in (from_host, *ends):
                task.cancel()
            await asyncio.wait({from_host, *ends})

    async def _from_host(self) -> None:
        """Read the host's lines, and take each through the intake ([host-lines])."""
        splitter = LineSplitter(self._settings.max_request_bytes)
        while not self._backend.closing:
            chunk = await self._host.read()
            self._backend.closing = not chunk
            for line in splitter.feed(chunk or b"\n"):  # a last line may have no end
                await asyncio.sleep(0)  # give others a turn: a chunk may hold thousands of lines
                try:
                    await self._forward(line)
                except RequestError as error:
                    self._counters.refused(error)
                    self._tell(refusal(error).frame())
                if chunk:
                    await self._host.drained()
        self._child.close_input()

    async def _forward(self, line: bytes | FrameError) -> None:
        set_current_message(None)
        if isinstance(line, LineTooLong):
            await self._backend.refuse_unread(line)
        elif isinstance(line, FrameError):
            raise RequestError(INVALID_REQUEST, f"Invalid Request: {line.detail}")
        else:
            await self.take(line)

    def _revision(self, client: bytes) -> str | None:
        return self._backend.revision

    async def _arrive(self, client: bytes, call: Call) -> None:
        message = await self._read(client, call, batches=self._backend.revision == BATCH_REVISION)  # 4
        call.revision = _modern_revision(message) or self._backend.revision
        if self._bearer is not None:
            frames = message.frames if isinstance(message, Batch) else (message,)
            for one, frame in zip(call.each(), frames, strict=True):
                await self._bearer.of_line(one, frame, self._backend.ask)  # 6

    def _way(self, client: bytes, call: Call) -> UpstreamAccess:
        return UpstreamAccess(self._backend.ask, [])

    async def _go_on(self, client: bytes, call: Call) -> None:
        if call.replies:
            self._tell(call.answer)
        if call.onward is not None:
            await self._post(call.onward, call)  # 8

    async def _post(self, message: Frame | Batch, call: Call) -> None:
        if self._meter is None:
            await self._backend.post(message, call.open_calls, call.edits)
            return
        message, operations = self._meter.sent(message)
        try:
            await self._backend.post(message, call.open_calls, call.edits)
        except BaseException as error:
            self._meter.received(operations, error)
            raise

    def _tell(self, message: bytes) -> None:
        self._host.send(encode_line(message))


def _modern_revision(message: Frame | Batch) -> str | None:
    """Return the revision that a modern request names, or None."""
    if not isinstance(message, Request):
        return None
    return as_string(message.in_meta(META_VERSION))
