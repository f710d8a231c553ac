"""One long-lived stream to a client, from the streams of several servers. I/O through their backends; timers.

- [separate] Each server's stream is followed separately. Its events are forwarded at once, one at a time. A client that
  reads slowly slows all of them, so nothing piles up here.
- [reopen] If a server's stream ends or can't be opened, it is opened again after a growing pause, while the others
  continue. The client could not reopen it, as it knows only one stream. A server that does not offer a stream is left
  out. Each stream takes a place in its server's room for streams, so a server whose room is full delays no other.
- [start] The client's stream starts when each server has opened its own stream or refused to, and after
  `MERGED_ASK_SECONDS` at the latest. It is refused if all servers refuse.
- [lost] If messages of a server may be lost for good, the client is told that its lists may be outdated.
- [end] The client's stream ends when no server's stream is left, and when the process is about to stop.

`StandingStream` is the stream of a legacy session (GET; 2025-11-25, basic/transports). `Subscription` (in
`subscription`) is the answer to `subscriptions/listen`. When a client resumes a session's stream (`Last-Event-ID`),
each server's stream is resumed after the last event that the client has seen of that server. If a server gives no ids,
or can't resume there, the client is told that its lists may have changed. So it is when a server that was slow to start
has started.
"""

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from accredit.base.log_events import log_event
from accredit.errors import AccreditError, ClientGone, RequestError, UpstreamError, UpstreamUnavailable
from accredit.gateway.headers import EVENT_STREAM, LAST_EVENT_HEADER, RawHeaders, RequestHead
from accredit.gateway.replies import session_not_found
from accredit.gateway.turns import current_server
from accredit.gateway.upstream.merged.answers import LISTED
from accredit.gateway.upstream.merged.ids import EventIds, MemberSession, longest_event_id, session_id
from accredit.gateway.upstream.merged.members import MemberAccess
from accredit.gateway.upstream.merged.replies import CapturedReply, EventMapper
from accredit.gateway.upstream.reply import Reply, WhileConnected
from accredit.jsonrpc.encode import INVALID_REQUEST, to_json
from accredit.jsonrpc.sse import KEEP_ALIVE, encode_event
from accredit.limits import KEEP_ALIVE_SECONDS, MERGED_ASK_SECONDS

REOPEN_FIRST_SECONDS = 1.0
"""The pause before one server's part of a merged stream is opened again. It doubles at each failure. The `retry` that
servers themselves state is about as long."""
REOPEN_MAX_SECONDS = 30.0
"""The longest such pause. A server that is back is noticed within this time, and one that is gone costs one attempt in
it."""

_log = logging.getLogger("accredit.gateway.merged")
_CONFLICT, _ENDED, _NOT_OFFERED = 409, 404, 405


class MemberStream(CapturedReply):
    """The reply for one server's stream. `opened` says that it has begun, `final` that it will not be opened again."""

    mapper: EventMapper

    def __init__(self, name: str, stream: "SharedStream", reply: Reply, head: RequestHead, max_bytes: int) -> None:
        super().__init__(reply, head, max_bytes)
        self.name = name
        self._stream = stream
        self.opened = False
        self.final = False
        self.before = b""
        """Events that the client gets before this stream's first one."""

    async def start(self, status: int, headers: RawHeaders) -> None:
        """Note the head of the stream."""
        self.started, self.status = True, status
        self._stream.began(self)
        if self.before:
            await self._stream.take(self, b"")

    async def write(self, chunk: bytes) -> None:
        """Forward events. Raises `ClientGone`."""
        await self._stream.take(self, chunk)


class SharedStream(ABC):
    """One stream to the client, made of several servers' streams. It runs once, in the task of the client's request."""

    def __init__(self, reply: Reply, access: MemberAccess, heads: Mapping[str, RequestHead]) -> None:
        """`heads` are the heads of the requests that go to the servers."""
        self._reply = reply
        self._access = access
        self._heads = dict(heads)
        self._unsettled = set(heads)
        self._settled = asyncio.Event()
        self._begun = asyncio.Event()
        self._writing = asyncio.Lock()
        self._followers: set[asyncio.Task[None]] = set()
        self._drained = asyncio.Event()
        self._last_write = asyncio.get_running_loop().time()
        self.opened: set[str] = set()
        """The servers whose streams are or were open."""
        self.problems: dict[str, AccreditError] = {}
        """Errors of servers without a stream, by server."""

    async def run(self) -> None:
        """Serve the stream until it is over. Raises the `AccreditError` that becomes the answer."""
        self._followers = {asyncio.create_task(self._follow(name)) for name in self._heads}
        for follower in self._followers:
            follower.add_done_callback(lambda _: self._settled.set())
        try:
            with WhileConnected(self._reply):
                await self._settle()
                if self._heads and not self.opened and not self._unsettled:
                    raise self._refusal()
                await self._reply.start(200, EVENT_STREAM)
                await self._write(self._beginning())
                self._begun.set()
                await self._stand()
        finally:
            for follower in self._followers:
                follower.cancel()
            await asyncio.gather(*self._followers, return_exceptions=True)
        await self._write(self._ending(drained=self._drained.is_set()))
        await self._reply.end()

    def drain(self) -> None:
        """End the stream, as the process is about to stop."""
        self._drained.set()
        self._settled.set()

    @abstractmethod
    def began(self, part: MemberStream) -> None:
        """Note that a server has sent the head of its stream."""

    async def take(self, part: MemberStream, chunk: bytes) -> None:
        """Forward a server's events, once the client's stream has begun."""
        self._settled.set()
        await self._begun.wait()
        async with self._writing:
            text = await part.mapper.feed(chunk)
            await self._write_now(self._new(part) + text)

    def open(self, part: MemberStream) -> None:
        """Note that a server's stream is open."""
        part.opened = True
        self.opened.add(part.name)
        self.problems.pop(part.name, None)
        self._note(part.name)

    def _part(self, name: str) -> MemberStream:
        """Return the reply for a server's next stream."""
        part = MemberStream(name, self, self._reply, self._head(name), self._access.max_event_bytes)
        part.mapper = self._mapper(part)
        return part

    def _head(self, name: str) -> RequestHead:
        """Return the head for a server's next stream."""
        return self._heads[name]

    @abstractmethod
    def _mapper(self, part: MemberStream) -> EventMapper:
        """Return the mapper of the events of a server's stream."""

    @abstractmethod
    async def _serve(self, part: MemberStream) -> None:
        """Open a server's stream, and follow it to its end."""

    def _refusal(self) -> AccreditError:
        """Return why there is no stream, from `problems`."""
        return next(iter(self.problems.values()))

    def _beginning(self) -> bytes:
        return b""

    def _ending(self, *, drained: bool) -> bytes:
        return b""

    def _left(self, part: MemberStream) -> bytes:
        """Return the events for the client when a server's stream is over for good."""
        return b""

    async def _follow(self, name: str) -> None:
        current_server.set(name)
        pause = REOPEN_FIRST_SECONDS
        while True:
            part = self._part(name)
            problem = await self._attempt(part)
            if part.opened:
                pause = REOPEN_FIRST_SECONDS
            else:
                if name not in self.problems:
                    detail = problem.detail if isinstance(problem, RequestError | UpstreamError) else str(problem)
                    log_event(_log, logging.INFO, "stream_without", server=name, detail=detail)
                self.problems[name] = problem
                if not (isinstance(problem, RequestError) and problem.status == _CONFLICT):
                    self._note(name)  # else the client's previous stream is about to end there
            if part.final:
                await self._begun.wait()
                await self._write(self._left(part))
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, REOPEN_MAX_SECONDS)

    async def _attempt(self, part: MemberStream) -> AccreditError:
        """Follow a server's stream until it ends, and return why."""
        try:
            with self._access.members[part.name].rooms.streams.held(part, yields=True):
                await self._serve(part)
        except ClientGone:
            raise
        except AccreditError as error:
            part.status = error.status if isinstance(error, RequestError) else 0
            self._failed(part)
            return error
        self._failed(part)
        if part.status >= 400:
            return RequestError(INVALID_REQUEST, "a server refuses the stream", status=part.status)
        return UpstreamUnavailable("the stream has ended")

    @abstractmethod
    def _failed(self, part: MemberStream) -> None:
        """Note the end of an attempt, by its `part.status`."""

    def _note(self, name: str) -> None:
        self._unsettled.discard(name)
        if not self._unsettled:
            self._settled.set()

    async def _settle(self) -> None:
        """Wait until each server has opened its stream or refused to ([start])."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(MERGED_ASK_SECONDS):
                await self._settled.wait()

    async def _stand(self) -> None:
        drained = asyncio.ensure_future(self._drained.wait())
        left: set[asyncio.Future[Any]] = {drained, *self._followers}
        try:
            while not self._drained.is_set() and (len(left) > 1 or not self._heads):
                silent = asyncio.get_running_loop().time() - self._last_write
                if silent >= KEEP_ALIVE_SECONDS:
                    await self._write(KEEP_ALIVE)
                    continue
                done, left = await asyncio.wait(
                    left, timeout=KEEP_ALIVE_SECONDS - silent, return_when=asyncio.FIRST_COMPLETED
                )
                for each in done:
                    each.result()
        finally:
            drained.cancel()

    async def _write(self, text: bytes) -> None:
        async with self._writing:
            await self._write_now(text)

    async def _write_now(self, text: bytes) -> None:
        if text:
            self._last_write = asyncio.get_running_loop().time()
            await self._reply.write(text)

    def _new(self, part: MemberStream) -> bytes:
        before, part.before = part.before, b""
        return before


class StandingStream(SharedStream):
    """The standing stream of a session, made from those of its servers. `resumed` are the event ids after which to
    resume. If a server is in `_lost`, the client's copies of its lists may be outdated."""

    def __init__(
        self,
        reply: Reply,
        access: MemberAccess,
        sessions: Mapping[str, MemberSession],
        resumed: EventIds | None,
    ) -> None:
        self._bare = reply.head.without((LAST_EVENT_HEADER,))
        super().__init__(reply, access, {name: access.head(self._bare, name) for name in sessions})
        self._last = dict(resumed.of) if resumed is not None else dict[str, bytes]()
        self._longest = longest_event_id(len(sessions))
        self._lost = {name for name, session in sessions.items() if session.slow and name not in self._last}

    def began(self, part: MemberStream) -> None:
        """Note that the stream is open."""
        self.open(part)
        if part.name in self._lost:
            self._lost.discard(part.name)
            part.before = _CHANGED

    def _head(self, name: str) -> RequestHead:
        head, last = super()._head(name), self._last.get(name)
        return head.with_field(LAST_EVENT_HEADER, last) if last is not None else head

    def _mapper(self, part: MemberStream) -> EventMapper:
        return self._access.mapper(self._reply, part.name, lambda id: self._seen(part.name, id), answered=_ignore)

    async def _serve(self, part: MemberStream) -> None:
        try:
            await self._access.members[part.name].backend.get(part, None)
        except RequestError as error:
            if error.status != _ENDED:
                raise
            part.status = _ENDED
        if part.status == _ENDED and not part.opened:
            if not await self._access.renew(self._reply, part.name, self._heads[part.name]):
                raise session_not_found()
            self._heads[part.name] = self._access.head(self._bare, part.name)
            self._last.pop(part.name, None)
            self._lost.add(part.name)
            part.status = 0
            raise UpstreamUnavailable("the session was lost, and begun anew")

    def _failed(self, part: MemberStream) -> None:
        if part.opened or not 400 <= part.status < 500:
            return
        if part.name in self._last:  # the server can't resume after that event
            del self._last[part.name]
            self._lost.add(part.name)
        part.final = part.status in (_ENDED, _NOT_OFFERED)

    def _left(self, part: MemberStream) -> bytes:
        return _CHANGED if part.status == _ENDED or part.name in self.opened else b""

    def _refusal(self) -> AccreditError:
        statuses = {error.status if isinstance(error, RequestError) else 0 for error in self.problems.values()}
        if statuses == {_ENDED}:
            return session_not_found()
        if statuses <= {_ENDED, _NOT_OFFERED}:
            return RequestError(INVALID_REQUEST, "Method not allowed", status=_NOT_OFFERED)
        return super()._refusal()

    def _seen(self, name: str, id: bytes) -> bytes | None:
        """Return the merged stream's event id that follows from a server's event."""
        if len(id) > self._longest:
            self._last.pop(name, None)
        else:
            self._last[name] = id
        if not self._last:
            return None
        return EventIds(self._last).text(self._access.ring, session_id(self._reply.head))


def notification_event(method: str, params: Mapping[str, object] | None = None) -> bytes:
    """Return one of the gateway's own notifications as an event."""
    message: dict[str, object] = {"jsonrpc": "2.0", "method": f"notifications/{method}"}
    return encode_event(to_json({**message, "params": params} if params is not None else message))


_CHANGED = b"".join(notification_event(f"{each}/list_changed") for each in LISTED)


def _ignore(answer: bytes) -> None:
    """Ignore an answer: none is due on a standing stream."""
