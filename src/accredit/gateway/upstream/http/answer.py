"""What an upstream answered: its head, and its body as fast as somebody reads it. I/O through its connection."""

import asyncio
from io import BytesIO

from accredit.errors import AnswerError, UpstreamTimeout
from accredit.gateway.headers import RawHeaders, fold
from accredit.gateway.upstream.http.connection import Connection
from accredit.gateway.upstream.http.parsing import Response


class Answer:
    """An answer whose head has come. Read it to its end, or `close` it.

    `headers` are as they came, hop-by-hop ones included, names in lower case.
    """

    __slots__ = ("_connection", "_folded", "_response", "headers", "status")

    def __init__(self, connection: Connection, response: Response) -> None:
        self._connection = connection
        self._response = response
        self._folded: dict[bytes, bytes] | None = None
        self.status = response.status
        self.headers: RawHeaders = response.headers

    def header(self, name: bytes) -> bytes | None:
        """The value of a header (`name` in lower case); those of a repeated one are joined by `DUPLICATED`."""
        if self._folded is None:
            self._folded = fold(self.headers)
        return self._folded.get(name)

    async def read(self, limit: int, *, timeout: float) -> bytes:
        """The whole body as it came, within `timeout` seconds in all.

        Raises `AnswerError` as soon as it is known to be larger than `limit` bytes, `UpstreamTimeout`,
        `UpstreamUnavailable` when it is cut off. The answer is closed then.
        """
        response = self._response
        try:
            if response.complete:
                if response.unread > limit:
                    raise _too_large(limit)
                return response.take()
            if response.length is not None and response.length > limit:
                raise _too_large(limit)
            return await self._gather(limit, asyncio.get_running_loop().time() + timeout)
        finally:
            self.close()

    async def chunk(self, *, timeout: float | None) -> bytes:
        """The next bytes of the body, at most some 500 KiB; b"" at its end.

        None came within `timeout` seconds: raises `UpstreamTimeout`, and may be called again. Raises
        `AnswerError` or `UpstreamUnavailable` when no more will come.
        """
        response = self._response
        deadline = asyncio.get_running_loop().time() + timeout if timeout is not None else None
        while not response.unread and not response.complete:
            await self._connection.more(deadline)
        return response.take()

    def close(self) -> None:
        """Gives up what was not read: an unfinished answer takes its connection with it."""
        response = self._response
        if not response.complete:
            self._connection.abort()
        response.take()

    async def _gather(self, limit: int, deadline: float) -> bytes:
        response = self._response
        whole = BytesIO()  # grows in place, and gives its bytes away without a copy
        while True:
            whole.write(response.take())
            if whole.tell() > limit:
                raise _too_large(limit)
            if response.complete:
                return whole.getvalue()
            if asyncio.get_running_loop().time() >= deadline:
                raise UpstreamTimeout("the upstream did not finish its answer in time")
            await self._connection.more(deadline)


def _too_large(limit: int) -> AnswerError:
    return AnswerError(f"the answer is larger than {limit} bytes", bound=True)
