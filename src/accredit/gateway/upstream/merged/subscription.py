"""`subscriptions/listen` of several servers on one stream (2026-07-28). I/O through their backends.

- [shares] Each server is asked for its share of the subscription. Changes of lists are asked of all servers, a resource
  or a task of its own server. A server without a share is not asked.
- [acknowledgement] The client gets one acknowledgement, which combines the servers'. It names the servers that have not
  sent one by then. If a part of a server's acknowledgement is much longer than the whole request, that part is left
  out: it was not requested.
- [changed] A server whose stream ends is asked again. Then all that it reports about counts as changed, as events may
  have been missed. A server that refuses with an error is left out.
- [end] The answer comes when no server is left, or the gateway stops.
"""

from collections.abc import Mapping
from functools import partial

from msgspec import Raw

from accredit.errors import FrameError, RequestError, UpstreamUnavailable
from accredit.gateway.replies import refusal
from accredit.gateway.upstream.merged.answers import LISTED, UNAVAILABLE
from accredit.gateway.upstream.merged.members import MemberAccess
from accredit.gateway.upstream.merged.messages import ACKNOWLEDGED, list_of
from accredit.gateway.upstream.merged.replies import EventMapper
from accredit.gateway.upstream.merged.streams import MemberStream, SharedStream, notification_event
from accredit.gateway.upstream.reply import Reply
from accredit.jsonrpc.encode import UPSTREAM_ERROR, to_json
from accredit.jsonrpc.frames import Failure, Notification, Request, decode_frame
from accredit.jsonrpc.methods import CANCELLED, META_SUBSCRIPTION, Era
from accredit.jsonrpc.objects import as_string, is_object, members
from accredit.jsonrpc.responses import COMPLETE
from accredit.jsonrpc.sse import encode_event
from accredit.policy.merging import member_of_name, member_of_uri

HONORED_TIMES = 2
"""How many times as long as the client's request one server's part of the acknowledgement may be. That part repeats
some of the request, perhaps spelled in another way."""


_RESOURCES = "resourceSubscriptions"
_TASKS = "taskIds"
_WHOSE = {_RESOURCES: member_of_uri, _TASKS: member_of_name}


def shares(request: Request, names: list[str]) -> dict[str, Request]:
    """Return the request for each of the servers ([shares]). Raises `FrameError` for an invalid filter."""
    filter = request.members.get("notifications")
    wanted = members(filter) if filter is not None and is_object(filter) else {}
    common = {name: value for name, value in wanted.items() if name not in _WHOSE and bytes(value) != b"false"}
    own: dict[str, dict[str, list[str]]] = {name: {} for name in names}
    for member, whose in _WHOSE.items():
        for text in list_of(wanted[member]) if member in wanted else []:
            found = whose(as_string(text) or "")
            if found is not None and found.server in own:
                own[found.server].setdefault(member, []).append(found.own)
    asked = {name: {**common, **own[name]} for name in names if common or own[name]}
    return {name: request.with_params({"notifications": Raw(to_json(share))}) for name, share in asked.items()}


class Subscription(SharedStream):
    """The answer to one `subscriptions/listen`; `asked` are the servers' own requests."""

    def __init__(self, reply: Reply, request: Request, asked: Mapping[str, Request], access: MemberAccess) -> None:
        super().__init__(reply, access, {name: access.head(reply.head, name) for name in asked})
        self._request = request
        self._asked = asked
        self._honored: dict[str, dict[str, Raw]] = {}
        """What each server has acknowledged, until the client was told."""
        self._is_told = False

    def began(self, part: MemberStream) -> None:
        """Do nothing: the acknowledgement opens the stream."""

    async def take(self, part: MemberStream, chunk: bytes) -> None:
        """Forward a server's events, except for its acknowledgement."""
        text = await part.mapper.feed(chunk)
        if text or part.before:
            await self._begun.wait()
            await self._write(self._new(part) + text)

    def heard(self, part: MemberStream, notification: Notification) -> bool:
        """Return whether the client gets a server's notification, given in the client's form."""
        if notification.method != ACKNOWLEDGED:
            return part.opened and notification.method != CANCELLED
        again, honored = part.name in self._honored, self._of(notification)
        self._honored[part.name] = {} if self._is_told else honored
        self.open(part)
        if again or self._is_told:
            part.before = self._changed(honored)
        return False

    def answered(self, part: MemberStream, text: bytes) -> None:
        """Handle a server's answer on the stream: an error is a refusal."""
        try:
            frame = decode_frame(text)
        except FrameError:
            return  # invalid, and only observed
        if isinstance(frame, Failure):
            self._refused(part, frame)

    def _mapper(self, part: MemberStream) -> EventMapper:
        return self._access.mapper(
            self._reply,
            part.name,
            lambda _: None,  # this era has no resumption
            subscription=self._request.id,
            answered=partial(self.answered, part),
            seen=partial(self.heard, part),
        )

    async def _serve(self, part: MemberStream) -> None:
        await self._access.members[part.name].backend.post(part, self._asked[part.name], Era.MODERN, {})
        response = part.response(self._request.id)
        if isinstance(response, Failure):
            self._refused(part, response)

    def _failed(self, part: MemberStream) -> None:
        """Do nothing: only an error answer ends the attempts (`_refused`)."""

    def _refused(self, part: MemberStream, frame: Failure) -> None:
        if not part.opened:
            part.final = frame.code != UPSTREAM_ERROR and part.status < 500
            data = members(frame.error).get("data")
            raise RequestError(frame.code, frame.message, id=self._request.id, status=part.status or 200, data=data)

    def _beginning(self) -> bytes:
        """Return the acknowledgement ([acknowledgement])."""
        union: dict[str, object] = {}
        for honored in self._honored.values():
            for name, value in honored.items():
                if name in _WHOSE:
                    union[name] = [*_list(union.get(name)), *list_of(value)]
                elif bytes(value) == b"true" or name not in union:
                    union[name] = value
        self._honored, self._is_told = {each: {} for each in self._honored}, True
        missing = sorted(set(self._heads) - self.opened)
        unavailable = {UNAVAILABLE: missing} if missing else {}
        return notification_event(
            "subscriptions/acknowledged", {"_meta": {**self._meta, **unavailable}, "notifications": union}
        )

    def _ending(self, *, drained: bool) -> bytes:
        if drained:
            stops = UpstreamUnavailable("the gateway is stopping")
            return encode_event(refusal(stops).frame(self._request.id))
        result = {"resultType": COMPLETE, "_meta": self._meta}
        return encode_event(to_json({"jsonrpc": "2.0", "id": self._request.id, "result": result}))

    @property
    def _meta(self) -> dict[str, object]:
        return {META_SUBSCRIPTION: self._request.id}

    def _of(self, notification: Notification) -> dict[str, Raw]:
        honored = notification.members.get("notifications")
        if honored is None or not is_object(honored):
            return {}
        kept: dict[str, Raw] = {}
        left = HONORED_TIMES * self._request.size
        for name, value in members(honored).items():
            left -= len(name) + len(value)
            if left >= 0:
                kept[name] = value.copy()  # a view of it would keep the whole notification
        return kept

    def _changed(self, honored: Mapping[str, Raw]) -> bytes:
        """Return events for a change of everything that a server reports ([changed])."""
        lists = [each for each in LISTED if bytes(honored.get(f"{each}ListChanged", b"")) == b"true"]
        uris = list_of(honored[_RESOURCES]) if _RESOURCES in honored else []
        events = [notification_event(f"{each}/list_changed", {"_meta": self._meta}) for each in lists]
        return b"".join(
            events + [notification_event("resources/updated", {"_meta": self._meta, "uri": uri}) for uri in uris]
        )


def _list(value: object) -> list[object]:
    return [*value] if isinstance(value, list) else []
