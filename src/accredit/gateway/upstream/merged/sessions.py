"""The merged endpoint's sessions and streams, and messages that go to all servers or answer one of them. I/O through
the servers' backends.

- [initialize] `initialize` asks all servers at once, and gives each `MERGED_ASK_SECONDS`. The session includes the
  servers that have answered (`ids`), at least one, and the commands that are still starting.
- [wait] If none has answered by then and a command is still starting, the client waits for the first answer.
- [late-command] A command that has not answered by then continues to start, within its own `timeout_seconds`. Its
  session has an id already, so it can be part of the client's session. As soon as the command has answered, the gateway
  tells it that it is initialized, before anything that waits for it.
- [others] Any other server that has not answered is not in the session. The attempt to start it leaves nothing behind.
- [to-all] `ping`, `logging/setLevel` and notifications go to all servers of the session. A server that does not know
  the method counts as having answered. The result names the servers that have not. `DELETE` ends the session at all
  servers.
- [responses] A response goes to the server whose request it answers, under the id that this server gave the request. So
  does progress. A cancellation goes to the server that has the request. If another process forwarded that request, the
  cancellation goes to all servers: a server ignores unknown ids.
- [no-server] A message for a server that is not in the session is dropped and logged, like any response that answers
  nothing.
- [restart] If a server has lost its part of a session, that part is restarted there (`members`). If that is
  impossible, the session is over at that server only: messages to it get its 404, as with a single server. Messages to
  the others pass.
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable, Coroutine, Generator, Mapping
from functools import partial
from typing import Any

from msgspec import Raw

from accredit import __version__
from accredit.base.log_events import log_event
from accredit.errors import AccreditError, FrameError, MessageId, RequestError, UpstreamUnavailable
from accredit.gateway.headers import JSON, LAST_EVENT_HEADER, SESSION_HEADER, RequestHead
from accredit.gateway.recording.open_calls import ResumedCalls
from accredit.gateway.turns import current_server, in_turns
from accredit.gateway.upstream.merged.answers import UNAVAILABLE, hello_in, merge_initialize, own_answer, revision_of
from accredit.gateway.upstream.merged.ids import (
    NONCE_BYTES,
    EventIds,
    MemberSession,
    MemberSessions,
    digest_of,
    in_session,
    longest_id,
    pack_sessions,
    session_id,
)
from accredit.gateway.upstream.merged.members import MemberAccess
from accredit.gateway.upstream.merged.messages import addressee, cancelled_id
from accredit.gateway.upstream.merged.replies import CapturedReply
from accredit.gateway.upstream.merged.streams import SharedStream, StandingStream
from accredit.gateway.upstream.merged.subscription import Subscription, shares
from accredit.gateway.upstream.reply import Reply, WhileConnected
from accredit.gateway.upstream.stdio.backend import HeadStart, StdioBackend
from accredit.jsonrpc.encode import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, to_json
from accredit.jsonrpc.era import METHOD_HEADER, NAME_HEADER, VERSION_HEADER
from accredit.jsonrpc.frames import Failure, Notification, Request, Success
from accredit.jsonrpc.methods import LEGACY_REVISIONS, LISTEN, Era
from accredit.jsonrpc.requests import Batch, decode_request
from accredit.jsonrpc.responses import Edit
from accredit.limits import MERGED_ASK_SECONDS

_log = logging.getLogger("accredit.gateway.merged")
_INITIALIZED = "notifications/initialized"
_PING = b'{"jsonrpc":"2.0","id":"check","method":"ping"}'
_TO_ALL = frozenset({"ping", "logging/setLevel"})
_OF_THE_STATELESS_ERA = frozenset({VERSION_HEADER, METHOD_HEADER, NAME_HEADER})
_INITIALIZE = to_json(
    {
        "jsonrpc": "2.0",
        "id": "initialize",
        "method": "initialize",
        "params": {
            "protocolVersion": LEGACY_REVISIONS[-1],
            "capabilities": {},
            "clientInfo": {"name": "accredit", "version": __version__},
        },
    }
)


Hello = dict[str, Raw]


class _Starts:
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


class MergedSessions:
    """The sessions of one merged endpoint."""

    def __init__(
        self,
        access: MemberAccess,
        info: Mapping[str, str],
        before: "MergedSessions | None" = None,
    ) -> None:
        """`info` is the merged endpoint's `serverInfo`; the requests and streams of `before` are kept."""
        self._access = access
        self._info = info
        self._members = access.members
        self._under_way: dict[tuple[bytes, MessageId], str] = before._under_way if before is not None else {}
        self._streams: set[SharedStream] = before._streams if before is not None else set()
        self._chores: set[asyncio.Task[None]] = before._chores if before is not None else set()

    @contextlib.contextmanager
    def under_way(self, head: RequestHead, id: MessageId, name: str) -> Generator[None]:
        """Remember which server has a request, while it is in progress."""
        key = session_id(head), id
        self._under_way[key] = name
        try:
            yield
        finally:
            if self._under_way.get(key) == name:
                del self._under_way[key]

    async def begins_session(self, reply: Reply, name: str) -> bool:
        """Return whether a server answers `initialize` with a legacy revision. The session that this starts is ended at
        once. Raises `AccreditError`."""
        request = decode_request(_INITIALIZE)
        assert isinstance(request, Request)  # noqa: S101 - it was built as one
        captured = self._access.capture(reply, name)
        captured.head = captured.head.without(_OF_THE_STATELESS_ERA)
        try:
            await self._members[name].post(captured, request)
        finally:
            if captured.session:
                self._end(name, captured)
        return self._hello(request, captured) is not None

    # --- messages ------------------------------------------------------------------------------------

    async def post(
        self,
        reply: Reply,
        message: Request | Notification | Success | Failure | Batch,
        era: Era,
        edits: Mapping[MessageId, Edit],
    ) -> bool:
        """If a message is of a kind that is handled here, answer it. Return whether it was."""
        if isinstance(message, Batch):
            raise RequestError(INVALID_REQUEST, "Invalid Request: the merged endpoint takes no batches")
        if isinstance(message, Request):
            return await self._request(reply, message, era, edits.get(message.id))
        if era is Era.MODERN:  # there a client cancels by closing the answer, and servers send no requests
            await reply.reply(202)
        else:
            await self._forward(reply, message)
        return True

    async def _request(self, reply: Reply, request: Request, era: Era, edit: Edit | None) -> bool:
        if era is Era.MODERN and request.method == LISTEN:
            await self._listen(reply, request)
        elif era is Era.LEGACY and request.method == "initialize":
            await self._initialize(reply, request, edit)
        elif era is Era.LEGACY and request.method in _TO_ALL:
            await self._ask_all(reply, request)
        else:
            if era is Era.LEGACY:
                self._access.sessions_of(reply)
            return False
        return True

    async def check(self, reply: Reply) -> None:
        """Raise the refusal of a session that is over at all of its servers."""
        replies = self._access.capture_all(reply)
        await self._access.ask(replies, Request("check", "ping", None, _PING))
        if all(captured.status == 404 for captured in replies.values()):
            raise _none_of(replies)

    async def _initialize(self, reply: Reply, request: Request, edit: Edit | None) -> None:
        if SESSION_HEADER in reply.head.headers:
            detail = "Invalid Request: this session is initialized already"
            raise RequestError(INVALID_REQUEST, detail, id=request.id)
        replies = {name: self._access.capture(reply, name) for name in self._members}
        sessions: MemberSessions = {}
        begun = False
        starts = _Starts(self._access, replies, request, partial(self._hello, request))
        try:
            with WhileConnected(reply):
                hellos, slow = await starts.answered()
            if not hellos:
                raise UpstreamUnavailable("none of the servers has answered")
            await self._compare(replies, request)
            sessions = {
                name: self._members[name].session(replies[name], revision_of(hello)) for name, hello in hellos.items()
            }
            longest = longest_id(len(self._members))
            sessions |= {name: MemberSession(id, "", "") for name, id in slow.items() if len(id) <= longest}
            missing = sorted(self._members.keys() - hellos.keys())
            if missing:
                log_event(_log, logging.WARNING, "session_without", servers=missing, starting=sorted(slow))
            revision, result = merge_initialize(hellos, missing, self._info, more=bool(slow))
            response = own_answer(request, result)
            text = await in_turns(edit(response)) if edit is not None else response.text
            own = pack_sessions(sessions, secrets.token_bytes(NONCE_BYTES))
            reply.negotiated(own, revision)
            self._access.histories.begun(own, request)
            begun = True
        finally:
            if not begun:
                starts.cancel()
            for name, captured in replies.items():
                if captured.session and not (begun and name in sessions):
                    self._end(name, captured)
        for name in slow:
            self._chore(self._follow(name, replies[name], starts.tasks[name], request))
        await reply.reply(200, text, [JSON, (SESSION_HEADER, own)])

    async def _follow(self, name: str, captured: CapturedReply, start: asyncio.Task[None], request: Request) -> None:
        """Finish the session of a server that starts slowly."""
        try:
            await start
        finally:
            start.cancel()
        begun = self._hello(request, captured) is not None
        log_event(_log, logging.INFO if begun else logging.WARNING, "slow_start", server=name, begun=begun)
        if begun:
            await self._compare({name: captured}, request)
        elif captured.session:
            self._end(name, captured)

    async def _compare(self, replies: Mapping[str, CapturedReply], request: Request) -> None:
        for name, captured in replies.items():
            await self._members[name].compare(captured.response(request.id))

    def _hello(self, request: Request, captured: CapturedReply) -> dict[str, Raw] | None:
        response = captured.response(request.id)
        if not isinstance(response, Success) or len(captured.session) > longest_id(len(self._members)):
            return None
        return hello_in(response.result)

    async def _ask_all(self, reply: Reply, request: Request) -> None:
        replies = self._access.capture_all(reply)
        with WhileConnected(reply):
            await self._access.ask(replies, request)
            again = await self._access.renew_all(reply, replies, request)
            await self._access.ask(again, request)
            replies |= again
        if request.method == "logging/setLevel":
            self._access.histories.level(session_id(reply.head), request)
        answers = {name: captured.response(request.id) for name, captured in replies.items()}
        failures = [
            answer for name, answer in answers.items() if isinstance(answer, Failure) and replies[name].status < 400
        ]
        good = any(isinstance(answer, Success) for answer in answers.values())
        if not good and failures:
            first = next((each for each in failures if each.code != METHOD_NOT_FOUND), failures[0])
            raise RequestError(first.code, first.message, id=request.id, status=200)
        if not good:
            raise _none_of(replies)
        missing = sorted(self._members.keys() - {name for name, answer in answers.items() if _has_answered(answer)})
        response = own_answer(request, to_json({"_meta": {UNAVAILABLE: missing}} if missing else {}))
        await reply.reply(200, response.text, [JSON])

    async def _forward(self, reply: Reply, message: Notification | Success | Failure) -> None:
        """Forward a message that needs no answer ([to-all] to [no-server])."""
        sessions = self._access.sessions_of(reply)
        try:
            found = addressee(message)
        except FrameError as error:
            log_event(_log, logging.WARNING, "response_dropped", detail=error.detail)
            await reply.reply(202)
            return
        if found is not None:
            name, own = found
            if name in sessions:
                current_server.set(name)
                member = self._access.stream_reply(reply, name, b"")
                try:
                    await self._members[name].post(member, own)
                except RequestError as error:
                    if error.status != 404 or not await self._access.renew(reply, name, member.head):
                        raise
                    await reply.reply(202)  # the session of that request is gone
                return
            log_event(_log, logging.WARNING, "response_dropped", detail="it answers no server of the session")
        else:
            id = cancelled_id(message) if isinstance(message, Notification) else None
            at = self._under_way.get((session_id(reply.head), id)) if id is not None else None
            names = [at] if at is not None and at in sessions else list(sessions)
            if isinstance(message, Notification) and message.method == _INITIALIZED:  # `starts` tells the slow ones
                names = [each for each in names if not sessions[each].slow]
            replies = {each: self._access.capture(reply, each) for each in names}
            with WhileConnected(reply):
                await self._access.ask(replies, message)
                if isinstance(message, Notification):
                    await self._access.renew_all(reply, replies, message)
        await reply.reply(202)

    # --- streams -------------------------------------------------------------------------------------

    async def get(self, reply: Reply, otherwise: Callable[[str], Edit | None]) -> None:
        """Serve a session's standing stream, or resume a stream. `otherwise` takes a server's name, and returns the
        edit for that server's answers on a resumed stream."""
        if reply.head.is_modern:
            raise RequestError(INVALID_REQUEST, "Method not allowed", status=405)
        sessions = self._access.sessions_of(reply)
        last = reply.head.headers.get(LAST_EVENT_HEADER)
        own = session_id(reply.head)
        resumed = EventIds.read(last, self._access.ring, own) if last is not None else None
        if last is not None and (resumed is None or not resumed.of.keys() <= sessions.keys()):
            raise RequestError(INVALID_REQUEST, "Last-Event-ID names no event of this session")
        if resumed is not None and resumed.answered:
            ((name, id),) = resumed.of.items()
            await self._resume(reply, name, id, resumed.answered, otherwise(name))
            return
        await self._serve(StandingStream(reply, self._access, sessions, resumed))

    async def _resume(self, reply: Reply, name: str, id: bytes, answered: bytes, otherwise: Edit | None) -> None:
        """Resume the stream that answers one request: the server can answer no other on it."""
        current_server.set(name)

        member = self._access.stream_reply(reply, name, answered, only=True)
        member.head = member.head.with_field(LAST_EVENT_HEADER, id)
        if isinstance(member.calls, ResumedCalls):
            member.calls = member.calls.only(lambda id: digest_of(id) == answered)
        await self._members[name].backend.get(member, otherwise)

    async def delete(self, reply: Reply) -> None:
        """End a session, at all of its servers."""
        replies = self._access.capture_all(reply)
        with WhileConnected(reply):
            await self._access.each(replies, self._delete)
        self._access.histories.ended(session_id(reply.head))
        if not any(200 <= captured.status < 300 for captured in replies.values()):
            raise _none_of(replies)
        await reply.reply(204)

    def drain(self) -> None:
        """End the long-lived streams."""
        for stream in self._streams:
            stream.drain()

    async def aclose(self) -> None:
        """Cancel what is pending."""
        for chore in self._chores:
            chore.cancel()
        await asyncio.gather(*self._chores, return_exceptions=True)

    async def _listen(self, reply: Reply, request: Request) -> None:
        try:
            shared = shares(request, sorted(self._members))
        except FrameError as error:
            raise RequestError(INVALID_PARAMS, f"Invalid params: {error.detail}", id=request.id) from None
        asked = {name: self._members[name].request(share) for name, share in shared.items()}
        await self._serve(Subscription(reply, request, asked, self._access))

    async def _serve(self, stream: SharedStream) -> None:
        self._streams.add(stream)
        try:
            await stream.run()
        finally:
            self._streams.discard(stream)

    def _end(self, name: str, captured: CapturedReply) -> None:
        """End a session at a server. No client has ever got its id."""
        head = in_session(captured.head, MemberSession(captured.session, captured.replica, ""))
        head.method = "DELETE"
        ending = CapturedReply(captured, head)
        self._chore(self._access.each({name: ending}, self._delete))

    def _delete(self, name: str, reply: CapturedReply) -> Coroutine[Any, Any, None]:
        return self._members[name].backend.delete(reply)

    def _chore(self, work: Coroutine[Any, Any, None]) -> None:
        chore = asyncio.create_task(work)
        self._chores.add(chore)
        chore.add_done_callback(self._chores.discard)


def _has_answered(answer: Success | Failure | None) -> bool:
    return isinstance(answer, Success) or (isinstance(answer, Failure) and answer.code == METHOD_NOT_FOUND)


def _none_of(replies: Mapping[str, CapturedReply]) -> AccreditError:
    """Return the refusal of a request that all servers got and none has fulfilled."""
    statuses = {captured.status for captured in replies.values()}
    for status, detail in ((404, "Session not found"), (405, "Method not allowed")):
        if status in statuses:
            return RequestError(INVALID_REQUEST, detail, status=status)
    return UpstreamUnavailable("none of the servers has answered")
