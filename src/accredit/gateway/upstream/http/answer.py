"""An upstream's answer: its head, and its body, which arrives as fast as the reader takes it. I/O through its
connection."""

import asyncio
from collections.abc import Callable, Coroutine
from io import BytesIO
from typing import Any

from accredit.errors import AnswerError, UpstreamTimeout
from accredit.gateway.headers import RawHeaders
from accredit.gateway.upstream.http.connection import Connection
from accredit.gateway.upstream.http.parsing import AnswerHead, Response
from accredit.limits import LARGE_ANSWER_BYTES, SHORT_MESSAGE_BYTES

Grow = Callable[[int], Coroutine[Any, Any, None]]


class Answer:
    """An answer whose `head` has arrived. Read it to its end, or `close` it."""

    __slots__ = ("_connection", "_response", "head", "status")
    replica = ""
    """The name of the replica that answers; "" for a single one."""

    def __init__(self, connection: Connection, response: Response, head: AnswerHead) -> None:
        self._connection = connection
        self._response = response
        self.head = head
        self.status = head.status

    @property
    def headers(self) -> RawHeaders:
        """The headers as they came, including hop-by-hop ones, with names in lower case."""
        return self.head.headers

    def header(self, name: bytes) -> bytes | None:
        """Return a header's value; `name` is in lower case. The values of a repeated header are joined by
        `DUPLICATED`."""
        return self.head.fields.get(name)

    def whole(self, limit: int) -> bytes | None:
        """Return the whole raw body and close the answer, or None if more is to come. Raises `AnswerError` if it
        exceeds `limit` bytes."""
        response = self._response
        if not response.complete:
            return None
        body = response.take()
        if len(body) > limit:
            raise _too_large(limit)
        return body

    async def read(self, limit: int, *, timeout: float, grow: Grow | None = None) -> bytes:
        """Return the whole raw body, within `timeout` seconds in all, and close the answer.

        `grow` reserves memory for a number of bytes.

        Raises `AnswerError` as soon as the body is certain to exceed `limit` bytes, `UpstreamTimeout`, and
        `UpstreamUnavailable` if it is cut off.
        """
        response = self._response
        try:
            body = self.whole(limit)
            if body is not None:
                return body
            if response.length is not None and response.length > limit:
                raise _too_large(limit)
            return await self._gather(limit, asyncio.get_running_loop().time() + timeout, grow)
        finally:
            self.close()

    @property
    def has_come(self) -> bool:
        """Whether the whole body has arrived, read or not."""
        return self._response.complete

    @property
    def is_short(self) -> bool:
        """Whether the whole body has arrived, and is short. Then edited copies of it need no room either."""
        return self._response.complete and self._response.unread <= SHORT_MESSAGE_BYTES

    def rest(self) -> bytes:
        """Return what has arrived of the body since the last read."""
        return self._response.take()

    async def chunk(self, *, timeout: float | None) -> bytes:
        """Return the next bytes of the body, at most some 500 KiB, or b"" at its end.

        Raises `UpstreamTimeout` if none came within `timeout` seconds; then this may be called again. Raises
        `AnswerError` or `UpstreamUnavailable` if no more will come.
        """
        response = self._response
        deadline = asyncio.get_running_loop().time() + timeout if timeout is not None else None
        while not response.unread and not response.complete:
            await self._connection.more(deadline)
        return response.take()

    def handed_over(self) -> "Answer":
        """Return this answer as a new object, whose owner must end it. Closing the old object does nothing any more."""
        other = Answer(self._connection, self._response, self.head)
        self._response = Response()
        self._response.complete = True
        return other

    def close(self) -> None:
        """Drop the unread part: an unfinished answer closes its connection."""
        response = self._response
        if not response.complete:
            self._connection.abort()
        if response.pieces:
            response.take()

    async def _gather(self, limit: int, deadline: float, grow: Grow | None) -> bytes:
        response = self._response
        whole = BytesIO()  # grows in place, and returns its bytes without a copy
        while True:
            whole.write(response.take())
            if whole.tell() > limit:
                raise _too_large(limit)
            if grow is not None and whole.tell() > LARGE_ANSWER_BYTES:
                await grow(max(whole.tell(), response.length or 0))
            if response.complete:
                return whole.getvalue()
            if asyncio.get_running_loop().time() >= deadline:
                raise UpstreamTimeout("the upstream did not finish its answer in time")
            await self._connection.more(deadline)


def _too_large(limit: int) -> AnswerError:
    return AnswerError(f"the answer is larger than {limit} bytes", bound=True)
