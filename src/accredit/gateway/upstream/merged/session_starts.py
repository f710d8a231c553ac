"""Starts sessions at servers: at all of them for a client's `initialize`, and anew at one that has lost its part. I/O
through the servers' backends; tasks.

- [wait] The client waits `MERGED_ASK_SECONDS` for the servers. If none has answered and a command is still starting, it
  waits for the first answer.
- [late-command] A command that has not answered by then continues to start, within its own `timeout_seconds`. Its
  session has an id already, so it can be part of the client's session. As soon as the command has answered, the gateway
  tells it that it is initialized, before anything that waits for it.
- [others] Any other server that has not answered is not in the session. The attempt to start it leaves nothing behind.

A client has one session with all servers, and can't restart one part. So the gateway does, where it can:

- [memory] For servers over HTTP, the gateway remembers what a client has told in sessions that began in this process
  (`SessionHistories`). A command's session needs none of this, as it lives as long as its child. Where nothing is
  remembered, the server's 404 is forwarded, and the client starts anew.
- [renewal] The new session gets the client's own `initialize`, in the revision of the lost one, and the same messages:
  initialized, the log level, the subscriptions. Pinned definitions are compared as at any start.
- [once] A restarted session is restarted again only if its server has answered in it. So a server that knows none of
  its own sessions costs one `initialize`, and not one for each call.
- [failed-call] The call that found its session gone fails, and so does each call that was in progress: none is sent
  again. Lists, `ping` and the log level are sent once more. The standing stream continues, with the notice that lists
  have changed.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping

from msgspec import Raw

from accredit.base.log_events import log_event
from accredit.errors import MessageId
from accredit.gateway.headers import LAST_EVENT_HEADER, SESSION_HEADER, RequestHead
from accredit.gateway.upstream.merged.answers import hello_in, revision_of
from accredit.gateway.upstream.merged.ids import MemberSession, in_session, session_id
from accredit.gateway.upstream.merged.members import MemberAccess, Message, SessionHistory
from accredit.gateway.upstream.merged.replies import CapturedReply
from accredit.gateway.upstream.reply import Reply
from accredit.gateway.upstream.stdio.backend import HeadStart, StdioBackend
from accredit.jsonrpc.encode import METHOD_NOT_FOUND, to_json
from accredit.jsonrpc.era import VERSION_HEADER
from accredit.jsonrpc.frames import Failure, Notification, Request, Success
from accredit.limits import LONG_ANSWER_BYTES, MERGED_ASK_SECONDS, RENEW_SECONDS

_log = logging.getLogger("accredit.gateway.merged")
_ACCEPT = b"application/json, text/event-stream"
_INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
_SUBSCRIPTIONS = frozenset({"resources/subscribe", "resources/unsubscribe"})

Hello = dict[str, Raw]


class Starts:
    """The starts of one client's session, each in a task. `hello_of` returns the `initialize` result of a server that
    starts a session."""

    def __init__(
        self,
        access: MemberAccess,
        replies: Mapping[str, CapturedReply],
        request: Request,
        hello_of: Callable[[CapturedReply], Hello | None],
    ) -> None:
        self._access = access
        self._replies = replies
        self._hello_of = hello_of
        backends = {name: access.members[name].backend for name in replies}
        self._ahead = {name: HeadStart() for name, each in backends.items() if isinstance(each, StdioBackend)}
        self.tasks = {name: asyncio.create_task(self._begin(name, request)) for name in replies}

    async def answered(self) -> tuple[dict[str, Hello], dict[str, bytes]]:
        """Wait for answers ([wait]). Return the results so far, and the session ids of the servers that are still
        starting ([late-command])."""
        await asyncio.wait(self.tasks.values(), timeout=MERGED_ASK_SECONDS)
        while not (hellos := self._hellos()) and self._starting():
            left = [task for task in self.tasks.values() if not task.done()]
            await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        going_on = {name: self._ahead[name].session for name in self._starting() if self._ahead[name].session}
        for name, task in self.tasks.items():
            if not task.done():
                self._access.late(name)
                if name in going_on:
                    self._ahead[name].confirmed = True
                else:
                    task.cancel()
        return hellos, going_on

    def cancel(self) -> None:
        """Cancel the remaining starts."""
        for task in self.tasks.values():
            task.cancel()

    def _hellos(self) -> dict[str, Hello]:
        done = [name for name, task in self.tasks.items() if task.done()]
        for name in done:
            self.tasks[name].result()  # nothing, unless there is a defect here
        return {name: hello for name in done if (hello := self._hello_of(self._replies[name])) is not None}

    def _starting(self) -> list[str]:
        return [name for name in self._ahead if not self.tasks[name].done()]

    async def _begin(self, name: str, request: Request) -> None:
        reply, member = self._replies[name], self._access.members[name]
        if isinstance(member.backend, StdioBackend):
            work = member.backend.begin(reply, request, self._ahead[name])
        else:
            work = member.post(reply, request)
        await self._access.one(name, reply, work)


class Renewer:
    """One for each merged endpoint."""

    def __init__(self, access: MemberAccess) -> None:
        self._access = access
        self._histories = access.histories

    async def renew(self, reply: Reply, name: str, lost: RequestHead) -> bool:
        """Start a new session at a server that does not know the session in `lost`, unless that was done already.
        Return whether there is a new session now. `reply` is the client's."""
        own, id = session_id(reply.head), lost.headers.get(SESSION_HEADER)
        history = self._histories.of(own)
        if history is None or id is None or not self._access.members[name].has_sessions:
            return False
        async with history.locks.setdefault(name, asyncio.Lock()):
            session = self._access.session_at(reply.head, name)
            if session is None or session.id != id:
                return session is not None
            if name in history.unproved:
                return False
            try:
                async with asyncio.timeout(RENEW_SECONDS):
                    begun = await self._begin(reply, name, history, session)
            except TimeoutError:
                self._access.late(name, "no new session in time")
                begun = False
            log_event(_log, logging.WARNING, "session_renewed" if begun else "session_lost", server=name)
            return begun

    async def all_of(
        self, reply: Reply, replies: Mapping[str, CapturedReply], message: Request | Notification
    ) -> dict[str, CapturedReply]:
        """Restart the sessions that servers did not know when asked; return the replies for asking these again."""
        id = message.id if isinstance(message, Request) else None
        lost = {name: each.head for name, each in replies.items() if _is_lost(each, id)}
        found = [name for name, head in lost.items() if await self.renew(reply, name, head)]
        return {name: self._access.capture(reply, name) for name in found}

    async def lists_again(self, reply: Reply, name: str, head: RequestHead, text: bytes | None) -> bool:
        """Return whether a server that gave no list, or an error, had lost its session, and now has a new one."""
        own = session_id(reply.head)
        if text is not None and b'"error"' not in text[:LONG_ANSWER_BYTES]:
            self._histories.answered(own, name)
            return False
        if self._histories.of(own) is None or not self._access.members[name].has_sessions:
            return False
        ping = _request("ping", {})
        answer = await self._say(reply, name, head, ping)
        return _is_lost(answer, ping.id) and await self.renew(reply, name, head)

    def answered(self, reply: Reply, method: str, name: str, target: str) -> None:
        """Note that a server has answered a request about its own `target`, and what to tell a new session about
        that."""
        own = session_id(reply.head)
        self._histories.answered(own, name)
        if method in _SUBSCRIPTIONS:
            self._histories.subscribed(own, name, target, ends=method == "resources/unsubscribe")

    async def _begin(self, reply: Reply, name: str, history: SessionHistory, lost: MemberSession) -> bool:
        member = self._access.members[name]
        bare = self._access.bare_head(reply.head).without((VERSION_HEADER, LAST_EVENT_HEADER))
        begun = await self._say(reply, name, bare, history.initialize)
        response = begun.response(history.initialize.id)
        hello = hello_in(response.result) if isinstance(response, Success) else None
        if hello is None or not begun.session or (lost.revision and revision_of(hello) != lost.revision):
            return False
        await member.compare(response)
        session = member.session(begun, revision_of(hello))
        history.now[name] = session
        history.unproved.add(name)
        head = in_session(bare, MemberSession(begun.session, begun.replica, session.revision))
        await self._say(reply, name, head, Notification("notifications/initialized", None, _INITIALIZED))
        if history.level is not None:
            await self._say(reply, name, head, _request("logging/setLevel", {"level": history.level}))
        for server, uri in list(history.subscribed):
            if server == name:
                await self._say(reply, name, head, _request("resources/subscribe", {"uri": uri}))
        return True

    async def _say(self, reply: Reply, name: str, head: RequestHead, message: Message) -> CapturedReply:
        replica = head.replica
        head = head.with_field(b"accept-encoding", b"identity").with_field(b"accept", _ACCEPT)
        head.method, head.replica = "POST", replica
        captured = CapturedReply(reply, head)
        await self._access.one(name, captured, self._access.members[name].post(captured, message))
        return captured


def _is_lost(reply: CapturedReply, id: MessageId | None) -> bool:
    """Return whether a server did not know the session in which it was asked."""
    answer = reply.response(id) if reply.status == 404 and id is not None else None
    return reply.status == 404 and not (isinstance(answer, Failure) and answer.code == METHOD_NOT_FOUND)


def _request(method: str, params: Mapping[str, object]) -> Request:
    text = to_json({"jsonrpc": "2.0", "id": "renewed", "method": method, "params": params})
    return Request("renewed", method, Raw(to_json(params)), text)
