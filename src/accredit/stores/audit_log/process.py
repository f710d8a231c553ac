"""A process beside the gateway that signs and writes its log (`writer_main`), on a core of its own. I/O: a process.

It is not a thread, because an interpreter runs one thread at a time: a thread's work would delay the calls. The process
ends with the gateway. If it exits by itself (e.g. it was killed), all waiting requests are refused, and another process
continues. One is started at most every `RESTART_SECONDS`.
"""

import asyncio
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import msgspec

from accredit.attest import LogSigner
from accredit.errors import StoreUnavailable
from accredit.limits import MAX_STORE_JOBS, RECORDS_A_TURN, RESTART_SECONDS, STORE_LOCK_SECONDS, STORE_WAIT_SECONDS
from accredit.stores.audit_log.channel import (
    ENDED,
    LENGTH,
    NOT_OK,
    TAKEN,
    WriterSetup,
    encode_opening,
    encode_request,
)
from accredit.stores.audit_log.requests import LogPlace, WriterRequest
from accredit.stores.audit_log.tables import ChainEnded, ChainTaken

LOG_PROCESS_SECONDS = 30.0
"""How long the process that writes the log may take to start. It takes 0.1 s on an idle machine."""


T = TypeVar("T")


class LogProcess:
    """A `LogExecutor`. Nothing is started before the first request, so that processes may fork until then.

    `on_replaced` is called with the exit code of a process that exited by itself; it is negative for a signal.
    """

    turn_records = RECORDS_A_TURN

    def __init__(
        self,
        place: LogPlace,
        signer: LogSigner,
        *,
        on_replaced: Callable[[int | None], None] = lambda _: None,
    ) -> None:
        """`signer` is the gateway's key, which is passed to the process. Raises `ValueError` for any other kind of
        signer: that can't leave the process that opened it."""
        if signer.records is not None:
            raise ValueError("another signer of records can't be handed to a process")
        self.place = place
        self._opening = WriterSetup(place, signer.id, signer.ed25519, signer.ml_dsa_65)
        self._on_replaced = on_replaced
        self._link: _Link | None = None
        self._starting = asyncio.Lock()
        self._not_before = 0.0
        self._closed = False

    async def run(self, request: WriterRequest[T]) -> T:
        """Return a request's answer. Raises `StoreUnavailable`, also after `STORE_WAIT_SECONDS`."""
        link = self._link
        if link is None or link.ended:
            link = await self._start()
        frame = encode_request(request, time.monotonic() + STORE_LOCK_SECONDS)
        return await self._answered(link.ask(frame, request.ANSWER), STORE_WAIT_SECONDS)

    async def aclose(self) -> None:
        """Let the process finish its requests and end. If it hangs, kill it."""
        self._closed = True
        async with self._starting:
            if self._link is not None:
                await self._link.end()

    async def _start(self) -> "_Link":
        async with self._starting:
            if self._closed:
                raise StoreUnavailable(f"{self.place.name} was closed")
            if self._link is None or self._link.ended:
                if time.monotonic() < self._not_before:
                    raise StoreUnavailable(f"{self.place.name}: the process that writes it has ended")
                if self._link is not None:
                    self._on_replaced(await self._link.end())
                    self._link = None
                self._not_before = time.monotonic() + RESTART_SECONDS
                self._link = await self._spawn()
            return self._link

    async def _spawn(self) -> "_Link":
        try:
            ours, process = _popen()
        except OSError as error:
            raise StoreUnavailable(f"no process to write {self.place.name}: {error.strerror}") from None
        link = _Link(self.place.name, process)
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: link, sock=ours)
            await self._answered(link.ask(encode_opening(self._opening), None), LOG_PROCESS_SECONDS)
        except BaseException:
            process.kill()
            await link.end()
            ours.close()
            raise
        return link

    async def _answered(self, answer: "asyncio.Future[T]", seconds: float) -> T:
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError:
            what = f"{self.place.name}: the process that writes it has not answered in {seconds:g} s"
            raise StoreUnavailable(what) from None


def _popen() -> tuple[socket.socket, "subprocess.Popen[bytes]"]:
    """Return our end of the socket, and the process at the other end. Raises `OSError`."""
    ours, theirs = socket.socketpair()
    # It starts with all signals blocked: those sent to the whole process group are for the gateway to handle.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        with theirs:
            return ours, subprocess.Popen(  # noqa: S603 - this program
                [sys.executable, "-P", "-m", "accredit.stores.audit_log.writer_main", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # the gateway's own stdout may carry MCP
                pass_fds=[theirs.fileno()],
            )
    except BaseException:
        ours.close()
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Pending(NamedTuple):
    type: Any
    answer: asyncio.Future[Any]


class _Link(asyncio.Protocol):
    """The socket to the process, which answers requests in order."""

    def __init__(self, name: str, process: "subprocess.Popen[bytes]") -> None:
        self.ended = False
        self._name = name
        self._process = process
        self._transport: asyncio.Transport | None = None
        self._pending: deque[_Pending] = deque()
        self._received = bytearray()

    def ask(self, frame: bytes, type: Any) -> "asyncio.Future[Any]":
        """Send a request; the returned future gets the answer, of this type. Raises `StoreUnavailable`."""
        if self.ended or self._transport is None:
            raise StoreUnavailable(f"{self._name}: the process that writes it has ended")
        if len(self._pending) >= MAX_STORE_JOBS:
            raise StoreUnavailable(f"{self._name}: {MAX_STORE_JOBS} jobs are waiting")
        answer = asyncio.get_running_loop().create_future()
        self._pending.append(_Pending(type, answer))
        self._transport.write(frame)
        return answer

    async def end(self) -> int | None:
        """Close the socket, which ends the process. If that hangs, kill it. Return its exit code."""
        self.ended = True
        if self._transport is not None:
            self._transport.close()
        if not await self._gone():
            self._process.kill()
            await self._gone()  # if it hangs in the kernel, do not wait any longer
        return self._process.returncode

    async def _gone(self) -> bool:
        try:
            await asyncio.to_thread(self._process.wait, STORE_WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            return False
        return True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Implement `asyncio.Protocol`, as do the two below."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Settle the requests whose answers are complete."""
        self._received += data
        while len(self._received) >= LENGTH.size:
            (size,) = LENGTH.unpack_from(self._received)
            end = LENGTH.size + size
            if len(self._received) < end:
                return
            self._settle(bytes(self._received[LENGTH.size : end]))
            del self._received[:end]

    def connection_lost(self, exc: Exception | None) -> None:
        """Refuse all requests: the process has ended, or is about to."""
        self.ended = True
        for _, answer in self._pending:
            if not answer.done():
                answer.set_exception(StoreUnavailable(f"{self._name}: the process that writes it has ended"))
        self._pending.clear()

    def _settle(self, body: bytes) -> None:
        type, answer = self._pending.popleft()
        if answer.done():  # its caller has stopped waiting
            return
        if body[:1] == NOT_OK:
            answer.set_exception(StoreUnavailable(body[1:].decode()))
        elif body[:1] == ENDED:
            answer.set_exception(ChainEnded(body[1:].decode()))
        elif body[:1] == TAKEN:
            answer.set_exception(ChainTaken(body[1:].decode()))
        else:
            answer.set_result(msgspec.msgpack.decode(body[1:], type=type))
