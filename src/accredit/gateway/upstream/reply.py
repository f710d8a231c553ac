"""What a backend answers into, so that it does not know where its answer goes. No I/O.

A backend is given a message that was let in, and a `Reply`: the head of the request, on whose word it comes, the calls
that the answer concerns, and the client's ear. It says one of two things, once:

- `reply(status, body, headers)`: the whole answer, in one call;
- `start(status, headers)`, then `write` for each piece, then `end`: a stream.

What it raises before either is the intake's to tell the client; after `start` nothing but the stream can say it.

Whoever implements it, over whatever carries bytes, keeps to this:

1. `write` waits while the client is slow to read, and raises `ClientGone` where that lasts too long. The others need
   not wait: where bytes can be handed over at once, none of them suspends.
2. Between `watch` and `unwatch` a client that goes away interrupts the work: it is cancelled, as `asyncio` cancels a
   task, at what it waits for. Elsewhere nothing happens. `watch` makes no timer and no task where the transport tells
   of a lost connection by itself; then watching costs nothing until that happens.
3. It neither expects nor makes a task of its own. A call comes to its first real wait (for the upstream, for a log, for
   a body) without a task, a timer or anything else that asks for the current task: so it may be begun by stepping its
   coroutine once, and get a task only where it has to wait. Streams that stand for ever do ask for theirs, later.
"""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from accredit.errors import ClientGone
from accredit.gateway.headers import RawHeaders, RequestHead
from accredit.gateway.recording.open_calls import OpenCalls
from accredit.jsonrpc.frames import Notification
from accredit.policy.passing import Speaker


class Reply(Protocol):
    """The one answer to a client's message.

    `head` is the request's; `peer` is the address that it comes from, `proved` says that its caller, or one in its
    session, has proved something. `speaker` is on whose authority the message comes. `calls` are those that the answer
    concerns and whose outcomes are not on record yet: who takes one settles it. `hears` says which notifications go to
    it, where not all do. `started` says that the answer was begun. `resumable` is set once its client has seen an event
    with an id, from which it may resume the stream.
    """

    head: RequestHead
    speaker: Speaker | None
    calls: OpenCalls
    hears: Callable[[Notification], bool] | None
    started: bool
    resumable: bool

    @property
    def peer(self) -> str:
        """Where it comes from: those of one address are one."""
        ...

    @property
    def proved(self) -> bool:
        """Whether its caller has proved something by now."""
        ...

    async def reply(self, status: int, body: bytes = b"", headers: RawHeaders | None = None) -> None:
        """Sends a whole answer. `headers` without `Content-Length`."""
        ...

    async def start(self, status: int, headers: RawHeaders) -> None:
        """Sends the head of a stream, which follows in pieces."""
        ...

    async def write(self, chunk: bytes) -> None:
        """Sends a piece, and waits while the client is slow to read. Raises `ClientGone`."""
        ...

    async def end(self) -> None:
        """Ends an answer that was begun with `start`."""
        ...

    def watch(self) -> None:
        """From here on a client that goes away interrupts the work."""
        ...

    def unwatch(self) -> bool:
        """... and from here on not any more. Whether it did, and nothing else has interrupted the work as well."""
        ...


class WhileConnected:
    """Within this context, a client that goes away cancels the work: it raises `ClientGone` there."""

    __slots__ = ("_reply",)

    def __init__(self, reply: Reply) -> None:
        self._reply = reply

    def __enter__(self) -> None:
        self._reply.watch()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A cancellation that came from elsewhere as well (the process is stopping) goes on.
        if self._reply.unwatch() and kind is asyncio.CancelledError:
            raise ClientGone from None
