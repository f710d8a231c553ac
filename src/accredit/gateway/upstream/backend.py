"""What stands behind the endpoint: a server over HTTP, or a child process. No I/O here."""

from collections.abc import Mapping
from typing import Protocol

from accredit.errors import MessageId
from accredit.gateway.upstream.reply import Reply
from accredit.jsonrpc.frames import Frame, Request
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.requests import Batch
from accredit.jsonrpc.responses import Edit


class Backend(Protocol):
    """Answers what the endpoint has let in.

    An `AccreditError` that is raised before the answer was begun becomes the reply; later the backend ends the
    stream itself, with an error response for each request that is still open.
    """

    async def post(self, reply: Reply, message: Frame | Batch, era: Era, edits: Mapping[MessageId, Edit]) -> None:
        """Answers a client's message; `edits` are what becomes of the responses to its requests."""
        ...

    async def get(self, reply: Reply, otherwise: Edit | None) -> None:
        """Serves a standing stream of a legacy session, or resumes one (`Last-Event-ID`).

        `otherwise` is what becomes of a response in a resumed stream whose request this process does not know.
        """
        ...

    async def delete(self, reply: Reply) -> None:
        """Ends a legacy session."""
        ...

    async def ask(self, reply: Reply, era: Era, request: Request) -> bytes | None:
        """Sends a request of the gateway's own upstream, as this caller; gives the response's text, or None."""
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
