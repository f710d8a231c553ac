"""An HTTP exchange and an upstream's answer in memory: honest stand-ins without sockets. No I/O."""

import asyncio
from collections.abc import Iterable
from typing import Any, NamedTuple, cast

from accredit.errors import AnswerError, UpstreamTimeout
from accredit.gateway.front.asgi import AsgiExchange
from accredit.gateway.headers import RawHeaders, fold
from accredit.gateway.recording.open_calls import OpenCalls
from accredit.gateway.room import Rooms
from accredit.gateway.upstream.http.client import Answer, UpstreamClient
from accredit.gateway.upstream.http.parsing import AnswerHead


class Told:
    """A client's request, and what it was told: `status`, `headers`, `body`; `whole` once the answer has ended.

    After `body_parts` were received, `receive` waits until `go_away`.
    """

    def __init__(
        self,
        method: str = "POST",
        headers: Iterable[tuple[bytes, bytes]] = (),
        *body_parts: bytes,
        path: str = "/mcp",
        query: bytes = b"",
        rooms: Rooms | None = None,
    ) -> None:
        self._parts = list(body_parts or (b"",))
        self._gone = asyncio.Event()
        self.status = 0
        self.headers: RawHeaders = []
        self.body = b""
        self.whole = False
        self.scope: dict[str, Any] = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query,
            "headers": list(headers),
        }
        self.exchange = AsgiExchange(self.scope, self.receive, self.send, rooms or Rooms(4_194_304, proving=False))
        self.exchange.calls = OpenCalls()

    def go_away(self) -> None:
        """The client closes its connection."""
        self._gone.set()

    async def receive(self) -> dict[str, Any]:
        """ASGI's `receive`."""
        if self._gone.is_set() or not self._parts:
            await self._gone.wait()
            return {"type": "http.disconnect"}
        part = self._parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(self._parts)}

    async def send(self, message: Any) -> None:
        """ASGI's `send`, with the checks that a server makes."""
        if message["type"] == "http.response.start":
            assert not self.status
            self.status, self.headers = message["status"], list(message["headers"])
            return
        assert self.status
        assert not self.whole
        self.body += message["body"]
        self.whole = not message.get("more_body", False)
        declared = fold(self.headers).get(b"content-length")
        if self.whole and declared is not None:
            assert int(declared) == len(self.body)


class MemoryAnswer:
    """An upstream's answer whose body comes in pieces; a piece that is an error is raised in its turn."""

    def __init__(self, status: int, headers: RawHeaders, *pieces: bytes | Exception) -> None:
        self.status = status
        self.headers = headers
        self.head = AnswerHead(status, headers)
        self._pieces = list(pieces)
        self.closed = False

    def header(self, name: bytes) -> bytes | None:
        """As `Answer.header`."""
        return fold(self.headers).get(name)

    has_come = False
    replica = ""

    def short(self, limit: int) -> bytes | None:
        """As `Answer.short`, of an answer that is still to come."""

    async def read(self, limit: int, *, timeout: float, grow: object = None) -> bytes:
        """As `Answer.read`."""
        whole = b""
        while piece := await self.chunk(timeout=timeout):
            whole += piece
            if len(whole) > limit:
                raise AnswerError(f"the answer is larger than {limit} bytes", bound=True)
        return whole

    async def chunk(self, *, timeout: float | None) -> bytes:
        """As `Answer.chunk`; what is to come never takes any time."""
        if not self._pieces:
            return b""
        piece = self._pieces.pop(0)
        if isinstance(piece, UpstreamTimeout):
            await asyncio.sleep(timeout or 0)
        if isinstance(piece, Exception):
            raise piece
        return piece

    def rest(self) -> bytes:
        """As `Answer.rest`."""
        return b""

    def handed_over(self) -> "MemoryAnswer":
        """As `Answer.handed_over`."""
        other = MemoryAnswer(self.status, self.headers, *self._pieces)
        self._pieces = []
        return other

    def close(self) -> None:
        """As `Answer.close`."""
        self.closed = True

    def as_answer(self) -> Answer:
        """For who wants the real one."""
        return cast(Answer, self)


class MemoryHead(NamedTuple):
    """What `MemoryClient` prepares: not encoded."""

    method: str
    headers: RawHeaders
    target: bytes | None
    head: bytes = b""


class MemoryClient:
    """Gives the same answer to every request, and keeps what was sent."""

    def __init__(self, answer: MemoryAnswer) -> None:
        self._answer = answer
        self.sent: list[tuple[str, RawHeaders, bytes, bytes | None]] = []

    def target(self, query: bytes) -> bytes:
        """As `UpstreamClient.target`, of a URL that ends with `/mcp`."""
        return b"/mcp?" + query if query else b"/mcp"

    def url_of(self, replica: str) -> str:
        """As `UpstreamClient.url_of`."""
        return "http://127.0.0.1:1/mcp"

    async def send(
        self, method: str, headers: RawHeaders, body: bytes = b"", *, target: bytes | None = None, route: object = None
    ) -> MemoryAnswer:
        """As `UpstreamClient.send`."""
        self.sent.append((method, headers, body, target))
        return self._answer

    def prepare(self, method: str, headers: RawHeaders, *, target: bytes | None = None) -> "MemoryHead":
        """As `UpstreamClient.prepare`."""
        return MemoryHead(method, headers, target)

    async def exchange(
        self, prepared: "MemoryHead", body: bytes, headers: RawHeaders | None = None, route: object = None
    ) -> MemoryAnswer:
        """As `UpstreamClient.exchange`."""
        return await self.send(prepared.method, [*prepared.headers, *(headers or [])], body, target=prepared.target)

    async def close(self) -> None:
        """As `UpstreamClient.close`."""

    def as_client(self) -> UpstreamClient:
        """For who wants the real one."""
        return cast(UpstreamClient, self)
