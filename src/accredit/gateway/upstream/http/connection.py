"""One connection to the upstream, one exchange at a time. Network I/O.

An answer that is whole gives its connection back to its owner at once, before anybody has read its body: the
`Response` keeps what came. Whatever else happens closes the connection, and nothing is ever sent twice.
"""

import asyncio
import socket
from typing import Protocol, cast

from accredit.errors import AccreditError, AnswerError, UpstreamTimeout, UpstreamUnavailable
from accredit.gateway.eager import Wakeup
from accredit.gateway.end_of_step import end_of_step
from accredit.gateway.upstream.http.parsing import AnswerHeads, Response, ResponseParser, cut_off

HIGH_WATER_BYTES = 262_144
"""Bytes of a body that may wait for their reader; above that the connection is not read. One read of the event loop
brings at most as much again."""


_PEEK = int(socket.MSG_PEEK | socket.MSG_DONTWAIT)


class Owner(Protocol):
    """Keeps connections. `heads` are those that their server is known to send."""

    heads: AnswerHeads

    def opened(self, connection: "Connection") -> None:
        """A connection is established, TLS included. `lost` will follow at some time."""

    def free(self, connection: "Connection", seconds: float) -> None:
        """A connection may be reused within so many seconds."""

    def lost(self, connection: "Connection") -> None:
        """A connection is gone."""


class Connection(asyncio.Protocol):
    """The protocol of one connection; `sock` is its raw socket, which the transport owns."""

    __slots__ = (
        "_armed", "_closing", "_deadline", "_end_of_step", "_error", "_loop", "_owner", "_parser", "_paused",
        "_response", "_rest_until", "_sock", "_timer", "_transport", "_unsent", "_waiter",
    )  # fmt: skip

    def __init__(self, sock: socket.socket, owner: Owner) -> None:
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._owner = owner
        self._parser = ResponseParser(owner.heads)
        self._response: Response | None = None
        self._waiter: Wakeup | None = None
        self._deadline: float | None = None
        self._rest_until = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._armed = 0.0
        self._error: AccreditError | None = None
        self._unsent: tuple[bytes, ...] = ()
        self._end_of_step = end_of_step(self._loop)
        self._paused = False
        self._closing = False

    @property
    def closing(self) -> bool:
        """Whether it is closed, or about to be."""
        return self._closing

    def rest(self, seconds: float) -> None:
        """Wait for the next exchange, and close if none came within `seconds`."""
        self._rest_until = until = self._loop.time() + seconds
        if self._timer is None or until < self._armed:
            self._arm(until)

    def usable(self) -> bool:
        """Return whether an idle connection can be reused: nothing unrequested has arrived on it, not even its end.

        The event loop may not have seen that yet; the kernel has.
        """
        if self._closing:
            return False
        try:
            self._sock.recv(1, _PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def start(self, head: bytes, body: bytes, *, bodiless: bool) -> Response:
        """Send a request. From here on it may have reached the upstream."""
        self._response = response = self._parser.expect(bodiless=bodiless)
        self._unsent = (head, body) if body else (head,)
        self._end_of_step.add(self._write)
        return response

    def _write(self) -> None:
        parts, self._unsent = self._unsent, ()
        if not self._closing:
            self._transport.writelines(parts)

    def more(self, deadline: float | None) -> Wakeup:
        """Return what to wait for until something new has arrived, or nothing more will: the next call raises why.

        `deadline` is in the loop's time; after it, waiting raises `UpstreamTimeout`. A timeout or a cancellation leaves
        the exchange as it is. Only one waiter at a time.
        """
        if self._error is not None:
            raise self._error
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        waiter = self._waiter = Wakeup(loop=self._loop)
        self._deadline = deadline
        if deadline is not None and (self._timer is None or deadline < self._armed):
            self._arm(deadline)
        return waiter

    def abort(self) -> None:
        """Close at once. `Owner.lost` follows."""
        self._fail(UpstreamUnavailable("the connection to the upstream was closed"))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is connected, TLS included."""
        self._transport = cast(asyncio.Transport, transport)
        self._owner.opened(self)

    def data_received(self, data: bytes) -> None:
        """Bytes of an answer; while nothing was asked, the upstream is out of step and can't serve again."""
        response = self._response
        if response is None or self._unsent:
            self.abort()
            return
        try:
            self._parser.feed(data)
        except AnswerError as error:
            self._fail(error)
            return
        if response.complete:
            self._finish(response.idle_seconds)
        elif response.unread > HIGH_WATER_BYTES and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        if response.status:
            self._wake()

    def eof_received(self) -> None:
        """The upstream will send no more; what is left to be sent of the request is of no use then."""
        if self._response is not None:
            try:
                self._parser.end()
            except UpstreamUnavailable as error:
                self._fail(error)
        self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone. Without `eof_received` before, what came is cut off.

        So it is with TLS when TCP ends first, which anybody on the way can do (uvloop tells; asyncio does not).
        """
        if self._response is not None:
            self._fail(cut_off(self._response))
        self.abort()
        self._owner.lost(self)

    def _finish(self, seconds: float) -> None:
        self._response = None
        # An answer that came before the whole request was sent leaves the rest of it in the buffer.
        if seconds > 0 and not self._transport.get_write_buffer_size():
            self._owner.free(self, seconds)
        else:
            self.abort()

    def _fail(self, error: AccreditError) -> None:
        if self._closing:
            return
        self._closing = True
        self._error = error
        self._response = None
        if self._timer is not None:
            self._timer.cancel()
        self._transport.abort()
        self._wake()

    def _arm(self, when: float) -> None:
        """Let `_tick` run at `when`. Where it runs before that, it sees to the rest.

        So one timer serves a connection for many exchanges: rescheduling it for each would cost more than the rest of
        the client.
        """
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._tick)
        self._armed = when

    def _tick(self) -> None:
        self._timer = None
        waiter = self._waiter
        if waiter is not None and waiter.done():
            waiter = None
        if waiter is None and self._response is not None:
            return  # nobody waits at the moment; whoever does next arms anew
        due = self._rest_until if waiter is None else self._deadline
        if due is None:
            return
        if due > self._loop.time():
            self._arm(due)
        elif waiter is None:
            self.abort()
        else:
            waiter.fail(UpstreamTimeout("the upstream did not answer in time"))

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.wake()
