"""What stands behind the endpoint: a server over HTTP, or a child process. No I/O here."""

from typing import Protocol

from accredit.gateway.http import Exchange
from accredit.jsonrpc.frames import Frame
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.requests import Batch


class Backend(Protocol):
    """Answers what the endpoint has let in.

    An `AccreditError` that is raised before the answer was begun becomes the reply; later the backend ends the
    stream itself, with an error response for each request that is still open.
    """

    async def post(self, exchange: Exchange, message: Frame | Batch, era: Era) -> None:
        """Answers a client's message."""
        ...

    async def get(self, exchange: Exchange) -> None:
        """Serves a standing stream of a legacy session, or resumes one (`Last-Event-ID`)."""
        ...

    async def delete(self, exchange: Exchange) -> None:
        """Ends a legacy session."""
        ...

    def revision(self, session_id: str | None) -> str | None:
        """The revision that a session negotiated, where this backend knows it."""
        ...

    async def ready(self) -> bool:
        """Whether the upstream answers."""
        ...

    def drain(self) -> None:
        """Ends the streams that would stand for ever: the process is about to stop."""
        ...

    async def aclose(self) -> None:
        """Gives everything back: connections, children, tasks."""
        ...
