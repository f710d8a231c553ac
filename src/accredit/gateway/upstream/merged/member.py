"""One of several servers, as the merged endpoint asks it on a client's behalf. No own I/O.

1. Of the client's headers a server gets only those that MCP needs, and those in `[gateway] forward_headers`: else a key
   or cookie meant for one would be sent to all. `Authorization` and the query of the client's URL are sent to none,
   whether or not proofs or tokens are required.
2. `Mcp-Name` is the server's own name for the target.
3. Of an answer's headers only those that say how it is carried come back, no server's cookie or session. Its 401 is
   about the gateway, as a client has no credentials for it.
4. It has its own part of the gateway's room: if it hangs, the others' callers keep theirs.
5. Where answers are only observed, one that can't be read, or answers another request, is refused all the same: a
   client could take it for another server's.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from accredit.base.caching import cache_short_values
from accredit.errors import AnswerError, FrameError, MessageId, RequestError, UpstreamRefuses
from accredit.gateway.admission.pinned_tools import PinnedTools
from accredit.gateway.forwarding import TO_UPSTREAM, Fate
from accredit.gateway.headers import JSON, RawHeaders, RequestHead
from accredit.gateway.recording.open_calls import OpenCalls
from accredit.gateway.replies import refusal
from accredit.gateway.room import Rooms
from accredit.gateway.turns import in_turns
from accredit.gateway.upstream.backend import Backend
from accredit.gateway.upstream.merged.lists import read_frame
from accredit.gateway.upstream.reply import Reply
from accredit.jsonrpc.encode import INVALID_REQUEST, METHOD_NOT_FOUND
from accredit.jsonrpc.era import NAME_HEADER
from accredit.jsonrpc.frames import Failure, Notification, Request, Success, decode_error_in_steps
from accredit.jsonrpc.header_values import encode_header
from accredit.policy.passing import AUTHORIZATION, CallerIdentity
from accredit.tokens import SubjectToken

ONE_SERVER = "dev.accredit/server"
"""The `_meta` member of the gateway's own request that names the one server to ask. It is not forwarded."""

_COMES_BACK = frozenset({b"cache-control", b"content-encoding", b"content-type", b"retry-after", b"x-accel-buffering"})
_PASSES = frozenset({Fate.PASSES, Fate.OWN})


class MergedMember(NamedTuple):
    """One of several servers: its backend, its rooms, the check of its definitions, and whether `_meta` tells it on
    whose authority a call comes. `homes` maps the replica names in session ids (`HttpUpstream.homes`) to its own;
    `has_sessions` says that it can lose a session and start a new one, which a child process can't."""

    name: str
    backend: Backend
    rooms: Rooms
    pinned: PinnedTools | None = None
    is_told: bool = True
    homes: Mapping[str, str] = {"": ""}
    has_sessions: bool = True

    def home_of(self, replica: str) -> str:
        """Return a replica's name in session ids."""
        return next((home for home, name in self.homes.items() if name == replica), "")

    def request(self, request: Request) -> Request:
        """Return a request in the form for this server."""
        if not self.is_told and request.in_meta(AUTHORIZATION) is not None:
            request = request.with_meta({}, without=(AUTHORIZATION,))
        return request


def member_head(head: RequestHead, added: frozenset[bytes] = frozenset(), own: str | None = None) -> RequestHead:
    """Return a client's head in the form for one server (rules 1 and 2). `added` are the names in `forward_headers`."""
    goes = [pair for pair in head.raw_headers if _goes_on(pair[0], added)]
    if own is not None and NAME_HEADER in head.headers:
        mirrored = NAME_HEADER, encode_header(own)
        goes = [mirrored if pair[0] == NAME_HEADER else pair for pair in goes]
    return head.with_fields(goes, query=b"")


@cache_short_values(512)
def _goes_on(name: bytes, added: frozenset[bytes]) -> bool:
    if name in added or name == b"connection":  # it may name some of the added ones
        return True
    return name != b"authorization" and TO_UPSTREAM.fate(name) in _PASSES


class MemberReply:
    """The reply that one server answers into: the client's, with a head of its own, and rule 3.

    `mapped`, if given, maps the bytes of an event stream for the client, and `failed`, if set, the body of a whole
    answer that may be an error. `answers`, if set, is the id of the request that a whole answer must be about (rule 5).
    `renewable` says that a new session can be started if the server does not know this one.
    """

    __slots__ = (
        "_mapped",
        "_reply",
        "answers",
        "calls",
        "carried",
        "failed",
        "head",
        "hears",
        "renewable",
        "replica",
        "resumable",
        "speaker",
        "started",
    )  # fmt: skip

    def __init__(
        self, reply: Reply, head: RequestHead, mapped: Callable[[bytes], Awaitable[bytes]] | None = None
    ) -> None:
        self._reply = reply
        self._mapped = mapped
        self.failed: Callable[[bytes], bytes] | None = None
        self.answers: MessageId | None = None
        self.renewable = False
        self.head = head
        self.speaker: CallerIdentity | None = reply.speaker
        self.carried: SubjectToken | None = reply.carried
        self.calls: OpenCalls = reply.calls
        self.hears: Callable[[Notification], Notification | None] | None = reply.hears
        self.replica = head.replica
        self.started = reply.started
        self.resumable = False

    @property
    def peer(self) -> str:
        """The address that the request comes from."""
        return self._reply.peer

    @property
    def proved(self) -> bool:
        """Whether its caller has authenticated by now."""
        return self._reply.proved

    def negotiated(self, session: bytes, revision: str) -> None:
        """Do nothing: a server's session is not the client's."""

    async def reply(self, status: int, body: bytes = b"", headers: RawHeaders | None = None) -> None:
        """Send a whole answer. Raises `UpstreamRefuses` by rule 3, `AnswerError` by rule 5, and `RequestError` (404)
        for a lost session that is renewable."""
        if status == 401:
            raise UpstreamRefuses
        if status == 404 and self.renewable and await _may_be_of_session(body):
            raise session_not_found()
        if self.answers is not None and body:
            try:
                await self._check(status, body, self.answers)
            except AnswerError as error:
                if status < 400:
                    raise
                body, headers = refusal(error).frame(), [JSON]
        self.started = True
        if self.failed is not None:
            body = self.failed(body)
        await self._reply.reply(status, body, _coming_back(headers or []))

    async def _check(self, status: int, body: bytes, asked: MessageId) -> None:
        try:
            frame = await (read_frame(body) if status < 400 else in_turns(decode_error_in_steps(body)))
        except FrameError as error:
            raise AnswerError(error.detail, bound=error.bound) from None
        if not isinstance(frame, Success | Failure) or frame.id not in ((asked,) if status < 400 else (asked, None)):
            raise AnswerError("an answer to what another server may have been asked")

    async def start(self, status: int, headers: RawHeaders) -> None:
        """Send the head of a stream."""
        self.started = True
        await self._reply.start(status, _coming_back(headers))

    async def write(self, chunk: bytes) -> None:
        """Send a piece. Raises `ClientGone`."""
        if self._mapped is not None:
            chunk = await self._mapped(chunk)
        if chunk:
            await self._reply.write(chunk)

    async def end(self) -> None:
        """End an answer started with `start`."""
        await self._reply.end()

    def watch(self) -> None:
        """Interrupt the work if the client disconnects from now on."""
        self._reply.watch()

    def unwatch(self) -> bool:
        """Stop watching; return whether the client interrupted the work."""
        return self._reply.unwatch()


def _coming_back(headers: RawHeaders) -> RawHeaders:
    return [pair for pair in headers if pair[0] in _COMES_BACK]


def session_not_found() -> RequestError:
    """Return the refusal of a session that is over."""
    return RequestError(INVALID_REQUEST, "Session not found", status=404, word="session_not_found")


async def _may_be_of_session(body: bytes) -> bool:
    """Return whether a 404 may mean an unknown session: it is not an error about the method, nor a message other than
    an error, which passes where answers are only observed."""
    if not body.lstrip().startswith((b"{", b"[")):
        return True
    try:
        return (await in_turns(decode_error_in_steps(body))).code != METHOD_NOT_FOUND
    except FrameError:
        return False
