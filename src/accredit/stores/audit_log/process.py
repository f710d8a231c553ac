"""A process beside the gateway that signs and writes its log (`writer_main`), on a core of its own. I/O: a process.

It is not a thread, because an interpreter runs one thread at a time: a thread's work would delay the calls. The process
ends with the gateway. If it exits by itself (e.g. it was killed), all waiting requests are refused, and another process
continues. One is started at most every `RESTART_SECONDS`.

Both ends of the socket between the two are this program, on one machine, and nobody else has an end of it. A frame is a
length (4 bytes, little-endian) and as many bytes. The first frame to the process is `WriterSetup`. Each later frame is
a request. It begins with a deadline (8 bytes, a double: seconds of this machine's monotonic clock), after which nobody
waits for the answer. Then comes the request in MessagePack.

Answers come in the order of the requests. An answer begins with one of these:

- OK: the answer in MessagePack follows;
- NOT_OK: a text for people follows;
- ENDED: the name of the writer whose chain has ended follows;
- TAKEN: the name of the writer whose chain is not where it was left follows.
"""

import asyncio
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import msgspec
from msgspec import Struct

from accredit.attest import LogSigner
from accredit.base.values import decodable
from accredit.errors import StoreUnavailable
from accredit.limits import MAX_STORE_JOBS, RECORDS_A_TURN, RESTART_SECONDS, STORE_LOCK_SECONDS, STORE_WAIT_SECONDS
from accredit.stores.audit_log.places import LogPlace
from accredit.stores.audit_log.requests import AnyRequest, WriterRequest
from accredit.stores.audit_log.tables import ChainEnded, ChainTaken

OK, NOT_OK, ENDED, TAKEN = b"\0", b"\1", b"\2", b"\3"
LENGTH = struct.Struct("<I")
_DEADLINE = struct.Struct("<d")

_encode = msgspec.msgpack.Encoder().encode
_decode_request = msgspec.msgpack.Decoder(AnyRequest).decode


@decodable
class WriterSetup(Struct, frozen=True):
    """What the process needs: the log's place, and the key to sign with.

    It holds secrets, which its `repr` does not show. A database's password is not among them: the process finds the
    password in the same way as the gateway.
    """

    place: LogPlace
    key_id: str
    ed25519: bytes
    ml_dsa_65: bytes

    def __repr__(self) -> str:
        return f"<Opening {self.key_id}>"


def encode_frame(body: bytes) -> bytes:
    """Encode a frame."""
    return LENGTH.pack(len(body)) + body


def encode_opening(opening: WriterSetup) -> bytes:
    """Encode the first frame."""
    return encode_frame(msgspec.msgpack.encode(opening, enc_hook=_path_bytes))


def decode_opening(body: bytes) -> WriterSetup:
    """Decode the body of the first frame."""
    return msgspec.msgpack.decode(body, type=WriterSetup, dec_hook=_path)


def encode_request(request: WriterRequest[Any], deadline: float) -> bytes:
    """Encode a request's frame."""
    return encode_frame(_DEADLINE.pack(deadline) + _encode(request))


def decode_request(body: bytes) -> tuple[AnyRequest, float]:
    """Decode the request in a frame's body, and its deadline."""
    return _decode_request(memoryview(body)[_DEADLINE.size :]), *_DEADLINE.unpack_from(body)


def encode_answer(answer: object) -> bytes:
    """Encode an answer's frame."""
    return encode_frame(OK + _encode(answer))


def encode_failure(text: str) -> bytes:
    """Encode a failure's frame."""
    return encode_frame(NOT_OK + text.encode("utf-8", "replace"))


def encode_ended(ended: ChainEnded) -> bytes:
    """Encode the frame for a writer's chain that has ended, or is not where it was left."""
    return encode_frame((TAKEN if isinstance(ended, ChainTaken) else ENDED) + ended.writer.encode())


def _path_bytes(path: Any) -> bytes:
    if not isinstance(path, Path):
        raise NotImplementedError
    return os.fsencode(path.absolute())


def _path(kind: type, value: Any) -> Path:
    if kind is not Path:
        raise NotImplementedError
    return Path(os.fsdecode(value))


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

    def run(self, request: WriterRequest[T]) -> Awaitable[T]:
        """Return a request's answer. Raises `StoreUnavailable`, also after `STORE_WAIT_SECONDS`."""
        link = self._link
        return self._run_anew(request) if link is None or link.ended else link.ask(request)

    async def aclose(self) -> None:
        """Let the process finish its requests and end. If it hangs, kill it."""
        self._closed = True
        async with self._starting:
            if self._link is not None:
                await self._link.end()

    async def _run_anew(self, request: WriterRequest[T]) -> T:
        link = await self._start()
        return await link.ask(request)

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
            await link.send(encode_opening(self._opening), None, LOG_PROCESS_SECONDS)
        except BaseException:
            process.kill()
            await link.end()
            ours.close()
            raise
        return link


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
    late: asyncio.TimerHandle


class _Link(asyncio.Protocol):
    """The socket to the process, which answers requests in order."""

    def __init__(self, name: str, process: "subprocess.Popen[bytes]") -> None:
        self.ended = False
        self._name = name
        self._process = process
        self._transport: asyncio.Transport | None = None
        self._pending: deque[_Pending] = deque()
        self._received = bytearray()

    def ask(self, request: WriterRequest[T]) -> "asyncio.Future[T]":
        """Send a request; the returned future gets the answer. Raises `StoreUnavailable`."""
        frame = encode_request(request, time.monotonic() + STORE_LOCK_SECONDS)
        return self.send(frame, request.ANSWER, STORE_WAIT_SECONDS)

    def send(self, frame: bytes, type: Any, seconds: float) -> "asyncio.Future[Any]":
        """Send a frame; the returned future gets the answer, of this type, within `seconds`. Raises
        `StoreUnavailable`."""
        if self.ended or self._transport is None:
            raise StoreUnavailable(f"{self._name}: the process that writes it has ended")
        if len(self._pending) >= MAX_STORE_JOBS:
            raise StoreUnavailable(f"{self._name}: {MAX_STORE_JOBS} jobs are waiting")
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        self._pending.append(_Pending(type, answer, loop.call_later(seconds, self._refuse, answer, seconds)))
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
        for _, answer, late in self._pending:
            late.cancel()
            if not answer.done():
                answer.set_exception(StoreUnavailable(f"{self._name}: the process that writes it has ended"))
        self._pending.clear()

    def _refuse(self, answer: asyncio.Future[Any], seconds: float) -> None:
        if not answer.done():
            what = f"{self._name}: the process that writes it has not answered in {seconds:g} s"
            answer.set_exception(StoreUnavailable(what))

    def _settle(self, body: bytes) -> None:
        type, answer, late = self._pending.popleft()
        late.cancel()
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
