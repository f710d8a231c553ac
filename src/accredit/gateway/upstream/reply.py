"""The interfaces between the endpoint and a server behind it: `Backend`, and the `Reply` to which a backend writes its
answer, whatever transport the message came over. No I/O.

A backend gets an admitted message and a `Reply`. The `Reply` has the request's head, the authority on which the request
is made, the calls that the answer concerns, and the state of the client's connection. The backend answers once, in one
of two ways:

- `reply(status, body, headers)`: the whole answer, in one call;
- `start(status, headers)`, then `write` for each piece, then `end`: a stream.

An error raised before either becomes the client's answer. After `start` it must be written into the stream. Every
implementation, over whatever transport, follows these rules:

- [slow-client] `write` waits while the client is slow to read, and raises `ClientGone` if that lasts too long. The
  other methods suspend only if bytes can't be handed over at once.
- [disconnect] While it is watched (`WhileConnected`), a client that disconnects interrupts the work: at its next
  `await` it is cancelled, as `asyncio` cancels a task. At other times a disconnection has no effect. If the transport
  reports a lost connection by itself, `watch` makes no timer and no task; then watching costs nothing until that
  happens.
- [no-task] A reply neither needs nor makes a task of its own. Up to its first real wait (for the upstream, a log, or a
  body), a call uses no task, no timer, and nothing else that needs a current task. So its coroutine may be stepped
  once, and gets a task only if it has to wait. Long-lived streams do need a task, later.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Protocol

from accredit.errors import ClientGone, MessageId
from accredit.gateway.headers import RawHeaders, RequestHead
from accredit.gateway.recording.open_calls import OpenCalls
from accredit.jsonrpc.frames import Frame, Notification, Request
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.requests import Batch
from accredit.jsonrpc.responses import Edit
from accredit.policy.passing import CallerIdentity
from accredit.tokens.access import SubjectToken


class Reply(Protocol):
    """The one answer to a client's message.

    `head` is the request's head. `speaker` says on whose authority the message comes. `carried` is the caller's token,
    if that is to be exchanged. `calls` are the calls that the answer concerns and whose outcomes are not recorded yet:
    code that takes one of them out must settle it. `hears` filters the notifications that go to this client; None lets
    all pass. `started` says that the answer was started. `resumable` is set once the client has seen an event with an
    id, from which it may resume the stream. `replica` is set to the server's replica that answers, if there are
    several.
    """

    head: RequestHead
    speaker: CallerIdentity | None
    carried: SubjectToken | None
    calls: OpenCalls
    hears: Callable[[Notification], Notification | None] | None
    started: bool
    resumable: bool
    replica: str

    @property
    def peer(self) -> str:
        """The address that the request comes from, which counts as one caller."""
        ...

    @property
    def proved(self) -> bool:
        """Whether the caller has authenticated by now, or another caller in the same session."""
        ...

    def negotiated(self, session: bytes, revision: str) -> None:
        """Report, before the answer is started, that it begins a session. `session` is the server's id for it.

        Raises `AnswerError` for an id that is too long for the client to send back.
        """
        ...

    async def reply(self, status: int, body: bytes = b"", headers: RawHeaders | None = None) -> None:
        """Send a whole answer. `headers` must not hold `Content-Length`."""
        ...

    async def start(self, status: int, headers: RawHeaders) -> None:
        """Send the head of a stream, whose pieces follow."""
        ...

    async def write(self, chunk: bytes) -> None:
        """Send a piece. If the client is slow, wait. Raises `ClientGone`."""
        ...

    async def end(self) -> None:
        """End an answer started with `start`."""
        ...

    def watch(self, on_gone: Callable[[], None] | None) -> None:
        """From now on, call `on_gone` when the client disconnects. None ends that."""
        ...


class WhileConnected:
    """Within this context, a client that disconnects cancels the work. The context then raises `ClientGone`. The
    request's body must have been read before."""

    __slots__ = ("_gone", "_reply", "_task")

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._gone = False
        self._task: asyncio.Task[Any] | None = None

    def __enter__(self) -> None:
        self._task = asyncio.current_task()
        self._reply.watch(self._interrupt)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reply.watch(None)
        task, self._task = self._task, None
        # A cancellation from elsewhere as well (the process is stopping) must propagate.
        if self._gone and task is not None and task.uncancel() == 0 and kind is asyncio.CancelledError:
            raise ClientGone from None

    def _interrupt(self) -> None:
        self._gone = True
        if self._task is not None:
            self._task.cancel()


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
