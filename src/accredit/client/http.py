"""The HTTP connection to a gateway, for the official SDK's transport. Opens sockets; logs nothing itself.

The SDK's transport ends with everything in it when a connection breaks. So what goes wrong becomes an answer here:

1. A gateway that can't be reached, or says nothing in time, is a JSON-RPC error for the one request, whose data says
   where it was looked for.
2. A body that breaks off ends its own request only.
3. A 401 or 403 that asks for a token says so in the words of a refusal (docs/reference/refusals.md).
4. An answer that is too long is an error as well. A stream may be long, but none of its events.

The session id of the legacy era is noted: proofs are bound to it.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import MCP_DEFAULT_SSE_READ_TIMEOUT, MCP_DEFAULT_TIMEOUT

from accredit.jsonrpc.encode import UNAVAILABLE, UPSTREAM_ERROR
from accredit.jsonrpc.text import excerpt
from accredit.limits import MAX_ANSWER_BYTES, MAX_ANSWER_EVENT_BYTES

INVALID_TOKEN = -31010
MISSING_TOKEN = -31011

_SESSION_HEADER = "mcp-session-id"


class GatewayHttp(httpx2.AsyncClient):
    """A client for one gateway. `token` is sent as `Authorization: Bearer` and shows nowhere else; `headers` go with
    every request. `timeout` is for how long a request may go without a byte, in seconds.

    `on_trouble` is told, in a line for the log, of each request for which the gateway could not be had.
    """

    def __init__(
        self,
        token: str = "",
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        on_trouble: Callable[[str], None] | None = None,
    ) -> None:
        with_token = {"Authorization": f"Bearer {token}"} if token else {}
        read = MCP_DEFAULT_SSE_READ_TIMEOUT if timeout is None else timeout
        super().__init__(
            headers={**(headers or {}), **with_token}, timeout=httpx2.Timeout(MCP_DEFAULT_TIMEOUT, read=read)
        )
        self.session_id = ""
        self._with_token = "authorization" in self.headers
        self._on_trouble = on_trouble

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Sends a request. Nothing of the network is raised."""
        try:
            response = await super().send(request, **options)
        except httpx2.TimeoutException:
            return self._unavailable(request, 504, "did not answer in time")
        except httpx2.RequestError:
            return self._unavailable(request, 502, "can't be reached: is it running, and is the URL right?")
        if "www-authenticate" in response.headers and response.status_code in (401, 403):
            await response.aclose()
            return self._refused(request, response.status_code)
        self.session_id = response.headers.get(_SESSION_HEADER, self.session_id)
        is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
        response.stream = _Fenced(response.stream, None if is_stream else MAX_ANSWER_BYTES)
        return response

    def _unavailable(self, request: httpx2.Request, status: int, what: str) -> httpx2.Response:
        # Host and port only: the rest of a URL may hold a secret.
        text = f"the gateway at {excerpt(request.url.netloc)} {what}"
        if self._on_trouble is not None:
            self._on_trouble(text)
        return _error(request, status, UPSTREAM_ERROR, UNAVAILABLE, text)

    def _refused(self, request: httpx2.Request, status: int) -> httpx2.Response:
        if status == 403:
            text = "insufficient_scope: the gateway does not let this token do this"
            return _error(request, status, INVALID_TOKEN, text, {"error": "insufficient_scope"})
        if self._with_token:
            text = "invalid_token: the gateway does not accept this token"
            return _error(request, status, INVALID_TOKEN, text, {"error": "invalid_token"})
        text = "missing_token: the gateway asks for a token"
        return _error(request, status, MISSING_TOKEN, text, {"error": "missing_token"})


@asynccontextmanager
async def over_http(url: str, http: GatewayHttp) -> AsyncGenerator[TransportStreams]:
    """The official SDK's transport over this connection, which it closes at its end."""
    async with (
        http,
        streamable_http_client(url, http_client=http, max_sse_event_size=MAX_ANSWER_EVENT_BYTES) as streams,
    ):
        yield streams


class _Fenced(httpx2.AsyncByteStream):
    """A body whose breaking off, or going on for too long, is the one error that the SDK's transport expects of it."""

    def __init__(self, inner: Any, max_bytes: int | None) -> None:
        self._inner = inner
        self._max_bytes = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        seen = 0
        try:
            async for piece in self._inner:
                seen += len(piece)
                if self._max_bytes is not None and seen > self._max_bytes:
                    raise httpx2.StreamError("the gateway's answer is too long")
                yield piece
        except httpx2.TransportError:
            raise httpx2.StreamError("the gateway broke its answer off") from None

    async def aclose(self) -> None:
        await self._inner.aclose()


def _error(request: httpx2.Request, status: int, code: int, message: str, data: object) -> httpx2.Response:
    error = {"code": code, "message": message, "data": data}
    return httpx2.Response(status, json={"jsonrpc": "2.0", "id": None, "error": error}, request=request)
