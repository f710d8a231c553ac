"""The standing stream of a merged session, from those of its servers (GET; 2025-11-25, basic/transports). I/O through
their backends.

A client that resumes it (`Last-Event-ID`) resumes each server's after the last event seen of that server. For a server
that gives no ids, or can't resume there, the client is told that its lists may have changed; so too for one that was
slow to start, once it is there.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping

from accredit.errors import AccreditError, RequestError, UpstreamUnavailable
from accredit.gateway.headers import LAST_EVENT_HEADER, RequestHead
from accredit.gateway.upstream.merged.events import EventMapper
from accredit.gateway.upstream.merged.ids import EventIds, longest_event_id
from accredit.gateway.upstream.merged.member import MergedMember
from accredit.gateway.upstream.merged.streams import LISTS, MemberStream, SharedStream, notification_event
from accredit.gateway.upstream.reply import Reply
from accredit.jsonrpc.encode import INVALID_REQUEST

_ENDED = 404
_NOT_OFFERED = 405
_CHANGED = b"".join(notification_event(f"{each}/list_changed") for each in LISTS)


class StandingStream(SharedStream):
    """`heads` are those of the servers' own streams, without `Last-Event-ID`, `resumed` the ids to resume after.
    `id_of` maps such ids for the client. `renew` restarts the session of a server that does not know the one in a head,
    and returns the head that names the new one, if there is one. The lists of the `slow` ones may be unknown to the
    client."""

    def __init__(
        self,
        reply: Reply,
        heads: Mapping[str, RequestHead],
        members: Mapping[str, MergedMember],
        mapper: Callable[[str, Callable[[bytes], bytes | None]], EventMapper],
        resumed: EventIds | None,
        id_of: Callable[[EventIds], bytes],
        max_bytes: int,
        renew: Callable[[str, RequestHead], Awaitable[RequestHead | None]],
        slow: Collection[str] = (),
    ) -> None:
        super().__init__(reply, heads.keys(), members)
        self._heads = dict(heads)
        self._renew = renew
        self._mapper = mapper
        self._id_of = id_of
        self._max_bytes = max_bytes
        self._last = dict(resumed.of) if resumed is not None else dict[str, bytes]()
        self._longest = longest_event_id(len(heads))
        self._lost = {name for name in slow if name not in self._last}

    def began(self, part: MemberStream) -> None:
        """Note that the stream is open."""
        self.open(part)
        if part.name in self._lost:
            self._lost.discard(part.name)
            part.before = _CHANGED

    def _part(self, name: str) -> MemberStream:
        head, last = self._heads[name], self._last.get(name)
        if last is not None:
            head = head.with_field(LAST_EVENT_HEADER, last)
        part = MemberStream(name, self, self._reply, head, self._max_bytes)
        part.mapper = self._mapper(name, lambda id: self._seen(name, id))
        return part

    async def _serve(self, part: MemberStream) -> None:
        try:
            await self._members[part.name].backend.get(part, None)
        except RequestError as error:
            if error.status != _ENDED:
                raise
            part.status = _ENDED
        if part.status == _ENDED and not part.opened:
            head = await self._renew(part.name, self._heads[part.name])
            if head is None:
                raise RequestError(INVALID_REQUEST, "Session not found", status=_ENDED)
            self._heads[part.name] = head
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
            return RequestError(INVALID_REQUEST, "Session not found", status=_ENDED, word="session_not_found")
        if statuses <= {_ENDED, _NOT_OFFERED}:
            return RequestError(INVALID_REQUEST, "Method not allowed", status=_NOT_OFFERED)
        return next(iter(self.problems.values()))

    def _seen(self, name: str, id: bytes) -> bytes | None:
        """Return the merged stream's event id after a server's event."""
        if len(id) > self._longest:
            self._last.pop(name, None)
        else:
            self._last[name] = id
        return self._id_of(EventIds(self._last)) if self._last else None
