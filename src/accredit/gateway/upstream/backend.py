"""The interface (a protocol class) of every server behind the endpoint, over HTTP or as a child process. No I/O."""

from collections.abc import Coroutine, Mapping
from typing import Any, Protocol

from accredit.errors import MessageId
from accredit.gateway.upstream.reply import Reply
from accredit.jsonrpc.frames import Frame, Request
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.requests import Batch
from accredit.jsonrpc.responses import Edit


class Backend(Protocol):
    """Answers the messages that the endpoint has admitted.

    An `AccreditError` that is raised before the answer was started becomes the reply. Once the answer has started, the
    backend ends the stream itself, with an error response for each request that is still open.
    """

    def post(
        self, reply: Reply, message: Frame | Batch, era: Era, edits: Mapping[MessageId, Edit]
    ) -> Coroutine[Any, Any, None]:
        """Answer a client's message. `edits` change the responses to the message's requests, by id."""
        ...

    async def get(self, reply: Reply, otherwise: Edit | None) -> None:
        """Serve a long-lived stream of a legacy session, or resume a stream (`Last-Event-ID`).

        A resumed stream may hold responses to requests that this process does not know. `otherwise` edits these.
        """
        ...

    async def delete(self, reply: Reply) -> None:
        """End a legacy session."""
        ...

    async def ask(self, reply: Reply, era: Era, request: Request, most: int | None = None) -> bytes | None:
        """Send one of the gateway's own requests upstream, on behalf of this caller. Return the response's text, or
        None. At most `most` bytes are read, if that is less than the bound of every answer."""
        ...

    async def ready(self) -> bool:
        """Return whether the upstream answers."""
        ...

    def drain(self) -> None:
        """End the long-lived streams: the process is about to stop."""
        ...

    async def aclose(self) -> None:
        """Release all resources: connections, children, tasks."""
        ...
