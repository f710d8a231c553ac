"""Where a backend writes its answer, so that it does not depend on the way in. No I/O.

A backend gets an admitted message and a `Reply`: the request's head, on whose authority it comes, the calls that the
answer concerns, and the client's connection state. It answers in one of two ways, once:

- `reply(status, body, headers)`: the whole answer, in one call;
- `start(status, headers)`, then `write` for each piece, then `end`: a stream.

An error raised before either becomes the client's answer; after `start` it must be written into the stream. Every
implementation, over whatever transport, follows these rules:

- [slow-client] `write` waits while the client is slow to read, and raises `ClientGone` if that lasts too long. The
  others need not wait: if bytes can be handed over at once, none of them suspends.
- [disconnect] Between `watch` and `unwatch` a client that disconnects interrupts the work: it is cancelled, as
  `asyncio` cancels a task, where it awaits. At other times nothing happens. `watch` makes no timer and no task if the
  transport reports a lost connection by itself; then watching costs nothing until that happens.
- [no-task] It neither needs nor makes a task of its own. A call reaches its first real wait (for the upstream, a log,
  or a body) without a task, a timer or anything else that needs the current task: so it may be started by stepping its
  coroutine once, and get a task only when it has to wait. Long-lived streams do need a task, later.
"""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from accredit.errors import ClientGone
from accredit.gateway.headers import RawHeaders, RequestHead
from accredit.gateway.recording.open_calls import OpenCalls
from accredit.jsonrpc.frames import Notification
from accredit.policy.passing import CallerIdentity
from accredit.tokens import SubjectToken


class Reply(Protocol):
    """The one answer to a client's message.

    `head` is the request's; `speaker` is on whose authority the message comes, `carried` the caller's token if it is to
    be exchanged. `calls` are those that the answer concerns and whose outcomes are not recorded yet: whoever takes one
    must settle it. `hears` filters notifications to it, if not all pass. `started` says that the answer was started.
    `resumable` is set once its client has seen an event with an id, from which it may resume the stream. `replica` is
    set to the server's replica that answers, if there are several.
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
        """Whether its caller, or one in its session, has authenticated by now."""
        ...

    def negotiated(self, session: bytes, revision: str) -> None:
        """Tell, before the answer is started, that it begins a session: the server's id of it, and its revision.

        Raises `AnswerError` for an id that is too long to be sent back.
        """
        ...

    async def reply(self, status: int, body: bytes = b"", headers: RawHeaders | None = None) -> None:
        """Send a whole answer. `headers` must not hold `Content-Length`."""
        ...

    async def start(self, status: int, headers: RawHeaders) -> None:
        """Send the head of a stream, whose pieces follow."""
        ...

    async def write(self, chunk: bytes) -> None:
        """Send a piece; wait for a slow client. Raises `ClientGone`."""
        ...

    async def end(self) -> None:
        """End an answer started with `start`."""
        ...

    def watch(self) -> None:
        """Interrupt the work if the client disconnects from now on."""
        ...

    def unwatch(self) -> bool:
        """Stop watching. Return whether the work was interrupted by the client alone."""
        ...


class WhileConnected:
    """Within this context a client that disconnects cancels the work, which then raises `ClientGone` here."""

    __slots__ = ("_reply",)

    def __init__(self, reply: Reply) -> None:
        self._reply = reply

    def __enter__(self) -> None:
        self._reply.watch()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A cancellation from elsewhere as well (the process is stopping) must propagate.
        if self._reply.unwatch() and kind is asyncio.CancelledError:
            raise ClientGone from None
