"""A transport that joins what is written in one step of the event loop into one write. Runs in the event loop.

uvicorn writes a response's head and body separately. Each write is a system call and wakes the client: together they
cost a fifth of a small call.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from accredit.gateway.end_of_step import end_of_step
from accredit.limits import CLIENT_STALL_SECONDS

if TYPE_CHECKING:
    Base = asyncio.Transport
else:
    Base = object  # asyncio's own class would hide what is delegated

ONE_WRITE_BYTES = 65_536
"""Bytes of an answer that are held so as to leave in one write with its head; more leave at once, so that the
transport's own bound on buffered data applies."""


class OneWriteTransport(Base):
    """Delegates to `transport`; buffers writes until the end of this step, or up to `ONE_WRITE_BYTES`."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._end_of_step = end_of_step(loop)
        self._held: list[bytes] = []
        self._size = 0

    def write(self, data: Any) -> None:
        """Take bytes to send."""
        if not self._held:
            self._end_of_step.add(self._flush)
        self._held.append(data)
        self._size += len(data)
        if self._size > ONE_WRITE_BYTES:
            self._flush()

    def close(self) -> None:
        """Flush and close; abort after `CLIENT_STALL_SECONDS` if the peer doesn't read."""
        self._flush()
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self._loop.call_later(CLIENT_STALL_SECONDS, self._transport.abort)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        """Whether the connection is closed or about to be."""
        return self._transport.is_closing()

    def _flush(self) -> None:
        held, self._held, self._size = self._held, [], 0
        if held and not self._transport.is_closing():
            self._transport.write(b"".join(held) if len(held) > 1 else held[0])
