"""Connections to the desk's page: any user of the machine can open them. Runs in an event loop.

- [bound] There are at most `MAX_PAGE_CONNECTIONS`. If one more comes, the oldest idle one is cut off.
- [idle] A connection is idle unless a request of a signed-in session is being answered on it, and the peer reads the
  answer. Strangers who keep sending requests, or don't read, must not keep the person out.
- [not-http] Bytes that are not HTTP get an answer with the headers of every answer, and the connection ends.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from accredit.console.admission import EVERY_ANSWER, SIGNED_IN

MAX_PAGE_CONNECTIONS = 64
"""How many connections to the desk's page there may be. Any user of the machine can open them: one more closes the
oldest idle one. Commands don't need them: they use the socket."""


class PageConnection(H11Protocol):
    """One connection to the desk's page."""

    opened_at = 0.0
    """When the connection was opened, by the loop's clock."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection. If there are now too many, cut off the oldest idle one ([bound])."""
        super().connection_made(transport)
        self.opened_at = self.loop.time()
        if len(self.connections) > MAX_PAGE_CONNECTIONS:
            resting = [each for each in self.connections if isinstance(each, PageConnection) and each.rests]
            min(resting, key=_age, default=self).transport.abort()  # `close` waits until the peer has read all

    @property
    def rests(self) -> bool:
        """Whether the connection is idle, and so may be cut off ([idle])."""
        cycle: Any = self.cycle  # None before the first request
        if cycle is None or cycle.response_complete or self.flow.write_paused:
            return True
        return not cycle.scope["state"].get(SIGNED_IN)

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are not HTTP with 400 and the headers of every answer, and close the connection
        ([not-http])."""
        headers = [*EVERY_ANSWER, (b"content-type", b"text/plain"), (b"connection", b"close")]
        lines = [b"HTTP/1.1 400 Bad Request", *(name + b": " + value for name, value in headers), b"", msg.encode()]
        self.transport.write(b"\r\n".join(lines))
        self.transport.close()


def _age(connection: PageConnection) -> float:
    return connection.opened_at
