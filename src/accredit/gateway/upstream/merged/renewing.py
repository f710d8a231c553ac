"""Starts a new session at a server that has lost its part of a client's merged session. I/O through the servers'
backends.

The client has one session with all of them, and can't restart one part. So the gateway does, where it can:

1. Of a server over HTTP (a command's session lives as long as its child), the gateway remembers what a client has told
   in sessions that began in this process (`renewals`). Otherwise the server's 404 is forwarded, and its client starts
   anew.
2. The new session gets the client's own `initialize`, in the revision of the lost one, and the same messages:
   initialized, the log level, the subscriptions. Pinned definitions are compared as at any start.
3. A restarted session is restarted again only if its server has answered in it: a server that knows none of its own
   sessions costs one `initialize`, and not one for each call.
4. The call that found its session gone fails, and so does each that was in progress: none is sent again. Lists, `ping`
   and the log level are sent once more, and the standing stream continues, with the notice that lists have changed.
"""

import asyncio
import logging
from collections.abc import Mapping

from msgspec import Raw

from accredit.base.log_events import log_event
from accredit.errors import MessageId, UpstreamTimeout
from accredit.gateway.headers import LAST_EVENT_HEADER, SESSION_HEADER, RequestHead
from accredit.gateway.turns import in_turns
from accredit.gateway.upstream.merged.aside import Aside
from accredit.gateway.upstream.merged.initialize import hello_in, revision_of
from accredit.gateway.upstream.merged.renewals import SessionHistory
from accredit.gateway.upstream.merged.sessions import MemberSession, in_session
from accredit.gateway.upstream.merged.ways import MemberAccess, Message, session_id
from accredit.gateway.upstream.reply import Reply
from accredit.jsonrpc.encode import METHOD_NOT_FOUND, to_json
from accredit.jsonrpc.era import VERSION_HEADER
from accredit.jsonrpc.frames import Failure, Notification, Request, Success
from accredit.jsonrpc.methods import Era
from accredit.limits import LONG_ANSWER_BYTES, RENEW_SECONDS

_log = logging.getLogger("accredit.gateway.merged")
_ACCEPT = b"application/json, text/event-stream"
_INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
_SUBSCRIPTIONS = frozenset({"resources/subscribe", "resources/unsubscribe"})


class Renewer:
    """One for each merged endpoint."""

    def __init__(self, ways: MemberAccess) -> None:
        self._ways = ways
        self._known = ways.renewals

    async def renew(self, reply: Reply, name: str, lost: RequestHead) -> bool:
        """Start a new session at a server that does not know the one in `lost`, unless that was done. Return whether
        there is one now. `reply` is the client's."""
        own, id = session_id(reply.head), lost.headers.get(SESSION_HEADER)
        told = self._known.of(own)
        if told is None or id is None or not self._ways.members[name].has_sessions:
            return False
        async with told.locks.setdefault(name, asyncio.Lock()):
            session = self._ways.session_at(reply.head, name)
            if session is None or session.id != id:
                return session is not None
            if name in told.unproved:
                return False
            try:
                async with asyncio.timeout(RENEW_SECONDS):
                    begun = await self._begin(reply, name, told, session)
            except TimeoutError:
                self._ways.failed(name, UpstreamTimeout("no new session in time"))
                begun = False
            log_event(_log, logging.WARNING, "session_renewed" if begun else "session_lost", server=name)
            return begun

    async def all_of(
        self, reply: Reply, asides: Mapping[str, Aside], message: Request | Notification
    ) -> dict[str, Aside]:
        """Restart the sessions that servers did not know when asked; return the replies for asking these again."""
        id = message.id if isinstance(message, Request) else None
        lost = {name: aside.head for name, aside in asides.items() if _is_lost(aside, id)}
        found = [name for name, head in lost.items() if await self.renew(reply, name, head)]
        return {name: self._ways.aside(reply, name) for name in found}

    async def lists_again(self, reply: Reply, name: str, head: RequestHead, text: bytes | None) -> bool:
        """Return whether a server that gave no list, or an error, had lost its session, and now has a new one."""
        own = session_id(reply.head)
        if text is not None and b'"error"' not in text[:LONG_ANSWER_BYTES]:
            self._known.answered(own, name)
            return False
        if self._known.of(own) is None or not self._ways.members[name].has_sessions:
            return False
        ping = _request("ping", {})
        aside = await self._say(reply, name, head, ping)
        return _is_lost(aside, ping.id) and await self.renew(reply, name, head)

    def answered(self, reply: Reply, method: str, name: str, target: str) -> None:
        """Note that a server has answered a request about its own `target`, and what to tell a new session about
        that."""
        own = session_id(reply.head)
        self._known.answered(own, name)
        if method in _SUBSCRIPTIONS:
            self._known.subscribed(own, name, target, ends=method == "resources/unsubscribe")

    async def _begin(self, reply: Reply, name: str, told: SessionHistory, lost: MemberSession) -> bool:
        member = self._ways.members[name]
        bare = self._ways.bare_head(reply.head).without((VERSION_HEADER, LAST_EVENT_HEADER))
        aside = await self._say(reply, name, bare, told.initialize)
        response = aside.response(told.initialize.id)
        hello = hello_in(response.result) if isinstance(response, Success) else None
        if hello is None or not aside.session or (lost.revision and revision_of(hello) != lost.revision):
            return False
        if member.pinned is not None and isinstance(response, Success):
            await in_turns(member.pinned.hello(response))
        session = MemberSession(aside.session, member.home_of(aside.replica), revision_of(hello))
        told.now[name] = session
        told.unproved.add(name)
        head = in_session(bare, MemberSession(aside.session, aside.replica, session.revision))
        await self._say(reply, name, head, Notification("notifications/initialized", None, _INITIALIZED))
        if told.level is not None:
            await self._say(reply, name, head, _request("logging/setLevel", {"level": told.level}))
        for server, uri in list(told.subscribed):
            if server == name:
                await self._say(reply, name, head, _request("resources/subscribe", {"uri": uri}))
        return True

    async def _say(self, reply: Reply, name: str, head: RequestHead, message: Message) -> Aside:
        replica = head.replica
        head = head.with_field(b"accept-encoding", b"identity").with_field(b"accept", _ACCEPT)
        head.method, head.replica = "POST", replica
        aside = Aside(reply, head)
        await self._ways.one(name, aside, self._ways.members[name].backend.post(aside, message, Era.LEGACY, {}))
        return aside


def _is_lost(aside: Aside, id: MessageId | None) -> bool:
    """Return whether a server did not know the session in which it was asked."""
    answer = aside.response(id) if aside.status == 404 and id is not None else None
    return aside.status == 404 and not (isinstance(answer, Failure) and answer.code == METHOD_NOT_FOUND)


def _request(method: str, params: Mapping[str, object]) -> Request:
    text = to_json({"jsonrpc": "2.0", "id": "renewed", "method": method, "params": params})
    return Request("renewed", method, Raw(to_json(params)), text)
