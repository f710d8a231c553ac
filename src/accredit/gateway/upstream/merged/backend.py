"""The backend of the merged endpoint: several servers as one.

A request's target names its server, so a call needs no list, and waits for no other server:

- [to-all] lists and `server/discover` are requested from all servers at once (`lists`). The answer is made here;
- [to-one] a request with a target (`policy.merging`) goes to the server in the target's name, and so does
  `completion/complete`, by its `ref`. The server gets its own name for the target. Names in the answer are mapped back
  (`messages`);
- [unknown-target] if the target names no server here, that is the client's error (-32602), and nothing is forwarded;
- [unknown-method] any other method is unknown here (-32601), as nothing tells which server it is for. So is a method
  that the request's revision lacks. An unknown stateless revision is refused (-32022), as its methods are unknown;
- [legacy-server] a server may speak only legacy revisions: it does not answer `server/discover`, but starts a session.
  Then `server/discover` is refused here too (-32022). So clients of both eras use `initialize`, and reach all servers;
- [pins] a call's tool is compared with its pinned definition as at the server's own endpoint (`pinned_tools`), with the
  same bounds. The server in the tool's name is asked for its list, as the current caller; no other server delays that.
  The two endpoints do not share these lists: from here fewer of the caller's headers are sent, and no query.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from msgspec import Raw

from accredit import __version__
from accredit.base.log_events import log_event
from accredit.base.steps import Steps
from accredit.base.text import excerpt
from accredit.errors import AccreditError, AnswerError, FrameError, MessageId, RequestError, UpstreamUnavailable
from accredit.gateway.admission.pinned_tools import PinnedTools, UpstreamAccess
from accredit.gateway.admission.tool_directory import Ask
from accredit.gateway.counters import Counters
from accredit.gateway.headers import JSON, RequestHead
from accredit.gateway.room import until_read
from accredit.gateway.settings import GatewaySettings
from accredit.gateway.turns import current_server, in_turns
from accredit.gateway.upstream.merged.answers import MergedLists, answers_of_all, merge_discover, own_answer, read_frame
from accredit.gateway.upstream.merged.members import MemberAccess, MergedMember
from accredit.gateway.upstream.merged.messages import failure_edit, result_edit, resumed_edit
from accredit.gateway.upstream.merged.replies import MemberReply
from accredit.gateway.upstream.merged.sessions import MergedSessions
from accredit.gateway.upstream.reply import Reply, WhileConnected
from accredit.jsonrpc.encode import INVALID_PARAMS, METHOD_NOT_FOUND, UNSUPPORTED_VERSION, to_json
from accredit.jsonrpc.frames import Frame, Request, Success
from accredit.jsonrpc.methods import (
    LEGACY_REVISIONS,
    META_VERSION,
    MODERN_REVISIONS,
    TARGET_MEMBER,
    TASK_LIST,
    Era,
    is_known,
)
from accredit.jsonrpc.objects import as_string, is_object, members
from accredit.jsonrpc.requests import Batch
from accredit.jsonrpc.responses import Answers, Edit
from accredit.limits import LONG_ANSWER_BYTES
from accredit.pins.definitions import Pins
from accredit.policy.decision import Authority
from accredit.policy.guarded_call import LISTS
from accredit.policy.merging import Member, member_of_name, member_of_target, member_of_uri
from accredit.policy.passing import CallerIdentity
from accredit.tokens.claims import VerifiedToken

ASK_ERA_AGAIN_SECONDS = 30.0
"""How long to wait before a server that answered neither `server/discover` nor `initialize` is asked for a session
again. Otherwise each question about the merged endpoint's revisions would cost it one more request, or one more
child."""


ONE_SERVER = "dev.accredit/server"
"""The `_meta` member of one of the gateway's own requests that names the only server to ask. It is not forwarded."""
_log = logging.getLogger("accredit.gateway.merged")
_REMEDY = "clients of both eras speak an older revision at the merged endpoint for it; or give it its own alone"
_DISCOVER = "server/discover"
_COMPLETE = "completion/complete"
_RESOURCES = frozenset({"resources/subscribe", "resources/unsubscribe"})
_REFS = {"ref/prompt": "name", "ref/resource": "uri"}
"""The member that holds the target, by the type of `ref`."""


class MergedBackend:
    """Answers for several servers, which it does not own."""

    def __init__(
        self,
        settings: GatewaySettings,
        servers: Mapping[str, MergedMember],
        counters: Counters,
        before: "MergedBackend | None" = None,
    ) -> None:
        """`before` is the previous backend for the same servers, whose sessions and streams are kept."""
        self._servers = servers
        self._lists = MergedLists(servers)
        self._info = {"name": _own_name(settings), "version": __version__}
        begun = before._sessions if before is not None else None
        self._access = MemberAccess(settings, servers, counters, before._access if before is not None else None)
        self._sessions = MergedSessions(self._access, self._info, begun)
        self._older: set[str] = before._older if before is not None else set()
        """The servers known to speak only legacy revisions."""
        self._finding_out = {name: asyncio.Lock() for name in servers}
        self._silent: dict[str, float] = {}
        """Earliest time to retry `initialize`, by server."""

    async def post(self, reply: Reply, message: Frame | Batch, era: Era, edits: Mapping[MessageId, Edit]) -> None:
        """Answer a client's message."""
        if era is Era.MODERN and isinstance(message, Request):
            _check_modern(message)
        if await self._sessions.post(reply, message, era, edits) or not isinstance(message, Request):
            return
        edit = edits.get(message.id)
        if message.method in LISTS or message.method in (_DISCOVER, TASK_LIST):
            with WhileConnected(reply), until_read():
                make = self._discovered if message.method == _DISCOVER else self._listed
                await self._answer(reply, message, await make(reply, message, era), edit)
            return
        found, toward = self._toward(message, era)
        try:
            await self._post_to(self._servers[found.server], reply, toward, found.own, era, edit)
        except AccreditError as error:
            error.server = found.server
            raise

    async def get(self, reply: Reply, otherwise: Edit | None) -> None:
        """Serve the standing stream of a session, or resume one."""
        await self._sessions.get(reply, lambda name: resumed_edit(name, otherwise))

    async def delete(self, reply: Reply) -> None:
        """End a session."""
        await self._sessions.delete(reply)

    async def ask(self, reply: Reply, era: Era, request: Request, most: int | None = None) -> bytes | None:
        """Send one of the gateway's own requests: a list to all servers, or to the one that it names."""
        named = as_string(request.in_meta(ONE_SERVER))
        if named is not None:
            return await self._look(reply, era, named, request.with_meta({}, without=(ONE_SERVER,)), most)
        if request.method not in LISTS:
            return None
        result = await self._listed(reply, request, era)
        return to_json({"jsonrpc": "2.0", "id": request.id, "result": Raw(result)})

    async def ready(self) -> bool:
        """Return True: the merged endpoint answers, whatever its servers do."""
        return True

    def drain(self) -> None:
        """End the long-lived streams."""
        self._sessions.drain()

    async def aclose(self) -> None:
        """Release its own resources; the servers have other owners."""
        await self._sessions.aclose()

    async def _ask(self, reply: Reply, era: Era, name: str, request: Request, most: int | None = None) -> bytes | None:
        """Send a client's request for all servers to one of them, counted among its calls. Raises `AccreditError`."""
        head = self._access.head(reply.head, name)
        text = await self._ask_once(reply, era, name, request, head, most)
        if era is Era.LEGACY and await self._access.renew_for_list(reply, name, head, text):
            return await self._ask_once(reply, era, name, request, self._access.head(reply.head, name), most)
        return text

    async def _ask_once(
        self, reply: Reply, era: Era, name: str, request: Request, head: RequestHead, most: int | None
    ) -> bytes | None:
        server = self._servers[name]
        with server.rooms.calls.held(reply):
            return await server.backend.ask(MemberReply(reply, head), era, server.request(request), most)

    async def _look(self, reply: Reply, era: Era, name: str, request: Request, most: int | None) -> bytes | None:
        """Send one of the gateway's own requests to one server, before the call in question was admitted."""
        server = self._servers.get(name)
        if server is None:
            return None
        current_server.set(name)
        try:
            head = self._access.head(reply.head, name)
        except UpstreamUnavailable:
            return None
        return await server.backend.ask(MemberReply(reply, head), era, server.request(request), most)

    async def _listed(self, reply: Reply, request: Request, era: Era) -> bytes:
        if bytes(request.members.get("cursor", b"null")) != b"null":
            raise RequestError(INVALID_PARAMS, "Invalid params: this list has one page", id=request.id, status=200)
        result, given = await self._lists.result(request, era, partial(self._ask, reply, era))
        if era is Era.LEGACY and not given:
            await self._sessions.check(reply)
        return result

    async def _discovered(self, reply: Reply, request: Request, era: Era) -> bytes:
        """Return the result of `server/discover`. Raises `RequestError` if a server speaks only legacy revisions
        ([legacy-server])."""

        async def one(name: str) -> dict[str, Raw] | None:
            text = await self._ask(reply, era, name, request, LONG_ANSWER_BYTES)
            answer = await read_frame(text) if text is not None else None
            if not isinstance(answer, Success) or not is_object(answer.result):
                return await self._note_older(reply, name)
            self._older.discard(name)
            result = members(answer.result)
            await self._servers[name].compare(answer)
            return result

        found, missing = await answers_of_all(self._servers, one)
        if any(name in self._older for name in found):
            raise _unsupported_version(request, LEGACY_REVISIONS)
        return merge_discover(found, missing, self._info, as_string(request.in_meta(META_VERSION)))

    async def _note_older(self, reply: Reply, name: str) -> dict[str, Raw] | None:
        """Find out whether a server speaks only legacy revisions. If so, note that and return an empty result. Return
        None if the server does not answer at all. Raises `AccreditError`."""
        clock = asyncio.get_running_loop().time
        async with self._finding_out[name]:  # concurrent requests share one attempt
            if name not in self._older:
                if clock() < self._silent.get(name, 0.0):
                    return None
                self._silent[name] = clock() + ASK_ERA_AGAIN_SECONDS  # even if it does not answer in time
                if not await self._sessions.begins_session(reply, name):
                    return None
                self._older.add(name)
                log_event(_log, logging.INFO, "older_server", server=name, remedy=_REMEDY)
            self._silent.pop(name, None)
        return {}

    async def _answer(self, reply: Reply, request: Request, result: bytes, edit: Edit | None) -> None:
        """Answer a request with this result, after its `edit`. Raises `AnswerError`."""
        response = own_answer(request, result)
        try:
            text = await in_turns(edit(response)) if edit is not None else response.text
        except FrameError as error:
            raise AnswerError(error.detail, bound=error.bound) from None
        if reply.calls:
            text = await reply.calls.withhold(Answers([(response, text)])) or text
        await reply.reply(200, text, [JSON])

    async def _post_to(
        self, server: MergedMember, reply: Reply, request: Request, own: str, era: Era, edit: Edit | None
    ) -> None:
        current_server.set(server.name)
        edit = result_edit(server.name, request.method, edit)
        edits = {request.id: edit} if edit is not None else {}
        member = self._access.reply_of(reply, request, server.name, own)
        toward = self._access.toward(server.request(request), server.name, reply.head)
        member.failed = failure_edit(server.name, request.method)
        try:
            with server.rooms.calls.held(reply), self._sessions.under_way(reply.head, request.id, server.name):
                await server.backend.post(member, toward, era, edits)
        except RequestError as error:
            if error.status != 404 or not member.renewable:
                raise
            lost = error
        else:
            self._access.note_answer(reply, request.method, server.name, own)
            return
        if not await self._access.renew(reply, server.name, member.head):
            raise lost
        raise UpstreamUnavailable(f"{server.name} had lost its session, and has a new one now: this was not done")

    def _toward(self, request: Request, era: Era) -> tuple[Member, Request]:
        """Return a request's server, and the request under that server's own name for the target. Raises `RequestError`
        for an unknown target or method ([unknown-target] and [unknown-method])."""
        if request.method == _COMPLETE:
            found, toward = _completion(request)
        elif request.method in _RESOURCES:
            target = as_string(request.members.get("uri"))
            found = member_of_uri(target) if target is not None else None
            toward = {"uri": found.own} if found is not None else {}
        elif request.method in TARGET_MEMBER:
            target = request.target
            found = member_of_target(request.method, target) if target is not None else None
            toward = {TARGET_MEMBER[request.method]: found.own} if found is not None else {}
        else:
            raise _no_method(request, 404 if era is Era.MODERN else 200)  # in sessions 404 means a lost session
        if found is None or found.server not in self._servers:
            detail = f"Invalid params: no server here has {excerpt(request.target or 'it')}"
            raise RequestError(INVALID_PARAMS, detail, id=request.id, status=200)
        return found, request.with_params({name: Raw(to_json(value)) for name, value in toward.items()})


class MergedPins(PinnedTools):
    """The pins of several servers, under merged names."""

    def __init__(self, pins: Pins, counters: Counters, servers: Mapping[str, MergedMember]) -> None:
        super().__init__(pins, counters)
        self._pinned = {name: each.pinned for name, each in servers.items() if each.pinned is not None}

    async def find(
        self, call: Request, way: UpstreamAccess | None, name: str, speaker: CallerIdentity | None = None
    ) -> str | None:
        """Return the digest of the definition that the tool's server shows this caller, or None."""
        found = member_of_name(name)
        pinned = self._pinned.get(found.server) if found is not None else None
        if pinned is None or found is None or way is None:
            return None
        way = _from_here(way)._replace(ask=partial(_ask_one, way.ask, found.server))
        return await pinned.find(call, way, found.own, speaker)

    def on_other(
        self, request: Request, way: UpstreamAccess | None, authority: Authority | None, token: VerifiedToken | None
    ) -> Callable[[], None]:
        """Return the function to call if a list for this caller shows another definition."""
        way = _from_here(way) if way is not None else None
        forgets = [each.on_other(request, way, authority, token) for each in self._pinned.values()]

        def forget() -> None:
            for each in forgets:
                each()

        return forget

    def hello(self, response: Success) -> Steps[bytes]:
        """Return the answer as it is: each server's instructions were compared before they were joined."""
        yield
        return response.text


def _check_modern(request: Request) -> None:
    """Refuse an unknown stateless revision or method ([unknown-method]). Raises `RequestError`."""
    version = as_string(request.in_meta(META_VERSION)) or ""
    if version not in MODERN_REVISIONS:
        raise _unsupported_version(request, MODERN_REVISIONS)
    if not is_known(request.method, version):
        raise _no_method(request, 404)


def _unsupported_version(request: Request, supported: Sequence[str]) -> RequestError:
    data = {"supported": list(supported), "requested": excerpt(as_string(request.in_meta(META_VERSION)) or "")}
    return RequestError(UNSUPPORTED_VERSION, "Unsupported protocol version", id=request.id, data=data)


def _no_method(request: Request, status: int) -> RequestError:
    return RequestError(METHOD_NOT_FOUND, "Method not found", id=request.id, status=status)


def _completion(request: Request) -> tuple[Member | None, dict[str, object]]:
    """Return the server of the prompt or template to complete, and the replacement of `ref`."""
    ref = request.members.get("ref")
    found = members(ref) if ref is not None and is_object(ref) else {}
    name = _REFS.get(as_string(found.get("type")) or "", "")
    target = as_string(found.get(name))
    if target is None:
        return None, {}
    member = member_of_uri(target) if name == "uri" else member_of_name(target)
    return member, {"ref": found | {name: Raw(to_json(member.own))}} if member is not None else {}


def _own_name(settings: GatewaySettings) -> str:
    """Return the merged endpoint's name: the gateway's id, if it has one."""
    if settings.proofs is not None and settings.proofs.judged:
        return settings.proofs.policy.verifier_id
    return settings.records.gateway_id if settings.records is not None else "accredit"


def _from_here(way: UpstreamAccess) -> UpstreamAccess:
    """Mark the tool lists that this endpoint requests, so that they are not shared with another endpoint. The mark is
    an empty header name, which no client can send. The query is dropped."""
    return way._replace(headers=[*way.headers, (b"", b"merged")], query=b"")


async def _ask_one(ask: Ask, server: str, request: Request) -> bytes | None:
    return await ask(request.with_meta({ONE_SERVER: Raw(to_json(server))}))
