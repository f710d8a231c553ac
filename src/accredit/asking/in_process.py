"""A transport that connects an HTTP client to a gateway in this process, with real streams but no socket. No I/O.

(httpx2's own transport for applications returns only complete bodies. A long-lived stream never completes.)
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, MutableMapping
from contextlib import suppress
from typing import Any

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream

from accredit.gateway.app import Gateway


class InProcess(httpx2.AsyncBaseTransport):
    """Passes requests to an application. Each runs in a task of its own, which ends when the response is closed."""

    def __init__(self, app: Gateway) -> None:
        self._app = app

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the response's head, with a streaming body. Raises `httpx2.RequestError` if there is no response."""
        body = await request.aread()
        head: asyncio.Future[tuple[int, list[tuple[bytes, bytes]]]] = asyncio.get_running_loop().create_future()
        gone = asyncio.Event()
        sender, chunks = anyio.create_memory_object_stream[bytes](1)
        unread = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> MutableMapping[str, Any]:
            if unread:
                return unread.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                head.set_result((message["status"], list(message["headers"])))
                return
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # nobody is reading any more
                if message.get("body"):
                    await sender.send(message["body"])
                if not message.get("more_body", False):
                    await sender.aclose()

        async def serve() -> None:
            try:
                await self._app(_scope(request), receive, send)
            finally:
                sender.close()

        task = asyncio.create_task(serve())
        try:
            await asyncio.wait({task, head}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            chunks.close()
            await _end(task, gone)
            raise
        if not head.done():
            chunks.close()
            task.result()
            raise httpx2.RemoteProtocolError("the gateway gave no answer", request=request)
        status, headers = head.result()
        return httpx2.Response(status, headers=headers, stream=_Body(chunks, task, gone), request=request)


class _Body(httpx2.AsyncByteStream):
    def __init__(self, chunks: MemoryObjectReceiveStream[bytes], task: asyncio.Task[None], gone: asyncio.Event) -> None:
        self._chunks = chunks
        self._task = task
        self._gone = gone

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._each()

    async def _each(self) -> AsyncGenerator[bytes]:
        async for chunk in self._chunks:
            yield chunk

    async def aclose(self) -> None:
        self._chunks.close()
        await _end(self._task, self._gone)


async def _end(task: asyncio.Task[None], gone: asyncio.Event) -> None:
    """Tell the application that its client has disconnected, and wait for it to end."""
    gone.set()
    await asyncio.wait({task})


def _scope(request: httpx2.Request) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "scheme": request.url.scheme,
        "path": request.url.path,
        "raw_path": request.url.raw_path.split(b"?")[0],
        "query_string": request.url.query,
        "server": (request.url.host, request.url.port),
        "client": ("127.0.0.1", 0),
        "root_path": "",
    }
