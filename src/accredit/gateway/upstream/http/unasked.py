"""Bodies that a server sends in answer to a notification or a response, which need none. I/O through its connections.

MCP requires 202 and no body. Servers send `{}`, JSON-RPC without an id, `Accepted`, a page, a stream. Clients that talk
to such servers directly look only at the status. So here nothing waits for these bodies:

- [bounds] a body is read for `ANSWER_TO_NOTHING_SECONDS`, and up to `MAX_ANSWER_TO_NOTHING` bytes. If it ends within
  these bounds, the connection is reused; otherwise it is closed;
- [background] a body is read in the background, at most `MAX_UNASKED_BODIES` of one server at once. Beyond that, the
  connection is closed at once;
- [dropped] the bytes are dropped without being parsed. That is counted, and logged once a minute.
"""

import asyncio
from contextlib import suppress

from accredit.base.text import excerpt
from accredit.errors import AnswerError, UpstreamError
from accredit.gateway.counters import Counters
from accredit.gateway.room import EqualShares
from accredit.gateway.upstream.http.answer import Answer

MAX_ANSWER_TO_NOTHING = 65_536
"""How many bytes of a body in answer to a notification or a response are read, so that the connection can be reused.
Real bodies say `{}` or `Accepted`, or are a page of HTML."""
ANSWER_TO_NOTHING_SECONDS = 5.0
"""How long such a body may take. Nothing waits for it."""
MAX_UNASKED_BODIES = 64
"""How many such bodies are read at one time, each on a connection, at all servers together. Most arrive with their
head, and are not counted here. Reading a body to its end saves a new connection."""
MIN_UNASKED_BODIES = 4
"""How many such bodies of one of many servers are read at once, at least."""


class UnaskedBodies:
    """The unasked bodies of one server."""

    def __init__(self, counters: Counters, parts: EqualShares) -> None:
        self._counters = counters
        self._parts = parts
        self._tasks: set[asyncio.Task[None]] = set()

    def drop(self, answer: Answer) -> bool:
        """Take over an answer of good status, and dispose of its body. Return whether the answer is known to have no
        body."""
        if answer.has_come:
            size = len(answer.rest())
            self._dropped(answer, size)
            return not size
        declared = answer.head.length or 0
        has_room = len(self._tasks) < self._parts.of(MAX_UNASKED_BODIES, MIN_UNASKED_BODIES)
        if declared > MAX_ANSWER_TO_NOTHING or not has_room:
            self._close(answer, declared or len(answer.rest()))
        else:
            task = asyncio.create_task(self._read(answer.handed_over()))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return False

    async def aclose(self) -> None:
        """Close the connections whose bodies are being read."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _read(self, answer: Answer) -> None:
        """Read and drop a body, within the bounds ([bounds])."""
        clock = asyncio.get_running_loop().time
        due, size = clock() + ANSWER_TO_NOTHING_SECONDS, 0
        try:
            with suppress(UpstreamError, AnswerError):
                while size <= MAX_ANSWER_TO_NOTHING and (chunk := await answer.chunk(timeout=due - clock())):
                    size += len(chunk)
        finally:
            self._close(answer, size)

    def _close(self, answer: Answer, size: int) -> None:
        answer.close()
        self._dropped(answer, size)

    def _dropped(self, answer: Answer, size: int) -> None:
        if size:
            kind = excerpt((answer.header(b"content-type") or b"no type").decode("latin-1"))
            detail = f"status {answer.status} and {size} bytes of {kind}, where nothing was asked"
            self._counters.unasked(asyncio.get_running_loop().time(), detail)
