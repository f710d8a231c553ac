"""Who sends an HTTP request: its token, and the session that it names. Changes the exchange's headers. Reads the clock
and randomness.

- [header-first] The Authorization header is verified before the body is read. No code after this sees the header.
- [one-subject] All messages of a batch have the same subject.
- [session-owner] If a request names a session, the session must belong to the subject. This
  also holds in the era without sessions, although the session's name is not forwarded there.
- [introduced] Where OAuth clients are let in, `initialize`, `server/discover` and lists without a token, a proof and a
  session are answered with 401 and the URL of the metadata for OAuth clients: with that, an OAuth client begins its
  login. A guarded call without them gets the usual refusal (`policy.decide`) with the same status and header. Whether a
  proof is valid is not checked here.
- [session-token] A token may name a session, by the client's id for it. It is then valid only in that session. So it is
  not valid for a request without a session: in the modern era, on HTTP+SSE, or for an `initialize`.

A legacy session between a client and the server has an id on each side, an owner, and a revision.

Where tokens are on, or the keys of a cluster are set, clients get sealed ids (`session_ids`; `SealedSessions`). A
sealed id holds all that the gateway needs to know of the session. So any worker, and any gateway with the same keys,
can serve it without having stored anything. Elsewhere a session keeps the server's id (`PlainSessions`).

- [owner] A session belongs to the subject of an issuer, whichever of that subject's tokens is used (2025-11-25,
  basic/security_best_practices, "Session Hijacking"). All callers without a token count as one anonymous subject, which
  has sessions of its own.
- [unknown-session] If an id is forged, expired or somebody else's, the answer is the same as for an unknown id: 404. It
  comes only after the caller's token was verified.
- [stable-id] Towards its client, a session has the same id for as long as it lives.

An id is opened before the caller is known. This is needed to learn the session's revision. It is also needed to find
out, in that session, whether `_token` is an argument of the called tool itself. If a connection repeats a cached
request head, the id in it is not opened again.
"""

import hmac
import secrets
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import NamedTuple

from accredit.base.caching import RecentlyUsed
from accredit.base.clock import unix_seconds
from accredit.errors import AnswerError, RequestError, SealError
from accredit.gateway.admission.bearer import Bearer
from accredit.gateway.admission.tool_directory import Ask
from accredit.gateway.call import Call
from accredit.gateway.front.exchange import Exchange
from accredit.gateway.front.session_ids import (
    REVISION_CHARS,
    Principal,
    SessionIds,
    SessionState,
    is_current,
    subject_of,
)
from accredit.gateway.headers import SESSION_HEADER, RequestHead
from accredit.gateway.replies import session_not_found
from accredit.gateway.settings import GatewaySettings, HttpUpstream
from accredit.gateway.turns import next_turn
from accredit.jsonrpc.encode import INVALID_REQUEST
from accredit.jsonrpc.frames import Frame, Request
from accredit.jsonrpc.requests import Batch
from accredit.limits import (
    MAX_REMEMBERED_SESSION_BYTES,
    MAX_REMEMBERED_SESSIONS,
    MAX_SESSION_ID_BYTES,
    SHORT_MESSAGE_BYTES,
)
from accredit.policy import refusals
from accredit.policy.decision import Policy
from accredit.policy.guarded_call import BEGINNINGS, GUARDED, LISTS, PROOF
from accredit.rounds.sealing import NONCE_BYTES
from accredit.tokens.access import ExchangeableToken
from accredit.tokens.claims import VerifiedToken

MAX_SEALED_SESSION_ID_BYTES = 6_144
"""The maximum length of a sealed session id, in bytes. It has room for the longest id of a server, in base64url, and
some 200 bytes more. The sealed id of a UUID has some 170. Load balancers accept heads of 8 KiB and more."""


NOBODY: Principal = ("", "")

_NODE_BYTES = 8


def principal_of(token: VerifiedToken | None) -> Principal:
    """Return a token's issuer and subject, or `NOBODY` without a token."""
    return (token.issuer, token.subject) if token is not None else NOBODY


class Sessions(ABC):
    """Maps the ids of sessions between clients and the server. `max_bytes` is the length of the longest id that a
    client may send."""

    max_bytes: int

    @abstractmethod
    def revision(self, head: RequestHead) -> str | None:
        """Return the revision of the request's session, if known. Its owner is not checked."""

    @abstractmethod
    def look(self, exchange: Exchange) -> None:
        """Replace the client's session id in the head by the server's own. If the client's id does not open, drop the
        header. The owner is not checked, so nothing that is read from the session may be shown before `enter`."""

    @abstractmethod
    def enter(self, exchange: Exchange, named: RequestHead, principal: Principal) -> None:
        """Check the owner of the session. `named` is the head as it came, with the client's id. From here on the
        request has the server's own id, and its answer gets the client's. Raises `RequestError` (404) if the session is
        unknown or somebody else's ([owner] and [unknown-session])."""


class PlainSessions(Sessions):
    """Sessions with the server's own ids."""

    max_bytes = MAX_SESSION_ID_BYTES

    def __init__(self) -> None:
        # If a client does not name a session's revision, this tells whether a batch is allowed.
        self._revisions = RecentlyUsed[bytes, str](MAX_REMEMBERED_SESSIONS)

    def revision(self, head: RequestHead) -> str | None:
        """Return the revision of a session that began in this process."""
        named = head.headers.get(SESSION_HEADER)
        return self._revisions.get(named) if named is not None else None

    def look(self, exchange: Exchange) -> None:
        """Do nothing: clients have the server's own ids."""

    def enter(self, exchange: Exchange, named: RequestHead, principal: Principal) -> None:
        """Let everybody in: the server checks its own sessions."""
        exchange.learn_revision = self._learn

    def _learn(self, id: bytes, revision: str, replica: str) -> None:
        if len(id) <= MAX_REMEMBERED_SESSION_BYTES:
            self._revisions.put(id, revision[:REVISION_CHARS])


class SealedSessions(Sessions):
    """Sessions with sealed ids."""

    max_bytes = MAX_SEALED_SESSION_ID_BYTES

    def __init__(self, ids: SessionIds) -> None:
        self.ids = ids

    def revision(self, head: RequestHead) -> str | None:
        """Return the revision sealed in the id."""
        found = self._found(head) if SESSION_HEADER in head.headers else None
        return found.state.revision or None if found is not None else None

    def look(self, exchange: Exchange) -> None:
        """Open the id."""
        head = exchange.head
        if SESSION_HEADER in head.headers:
            found = self._found(head)
            exchange.head = found.head if found is not None else head.without((SESSION_HEADER,))

    def enter(self, exchange: Exchange, named: RequestHead, principal: Principal) -> None:
        """Open the id, and check its owner."""
        subject = _subject(principal)
        id = named.headers.get(SESSION_HEADER)
        own = None
        if id is not None:
            found = self._found(named)
            if found is None or not hmac.compare_digest(found.state.subject, subject):
                raise session_not_found(exchange.request_id)
            exchange.head, own = found.head, found.state.id
            exchange.shows_pages = exchange.shows_pages or found.state.shows_pages
        naming = _Naming(self, id, own, subject, shows_pages=exchange.shows_pages)
        exchange.session_shown, exchange.learn_revision = naming.shown, naming.learn

    def seal(self, id: bytes, revision: str, subject: bytes, replica: str = "", *, shows_pages: bool = False) -> bytes:
        """Return the client's id of a session. Raises `AnswerError` if the server's id is too long."""
        now, nonce = unix_seconds(), secrets.token_bytes(NONCE_BYTES)
        try:
            return self.ids.seal(id, revision, subject, now, nonce, replica, shows_pages=shows_pages)
        except SealError as error:
            raise AnswerError(error.reason, bound=True) from None

    def sealed(self, id: str, revision: str, principal: Principal) -> str:
        """Return the client's id of a session owned by `principal`."""
        return self.seal(id.encode("ascii"), revision, _subject(principal)).decode("ascii")

    def _found(self, head: RequestHead) -> "_Found | None":
        """Open the session id in a head, or return None. The result is cached with the head."""
        if head.found is None:
            head.found = self._open(head)
        found = head.found
        return found if isinstance(found, _Found) and is_current(found.state, unix_seconds()) else None

    def _open(self, head: RequestHead) -> object:
        try:
            state = self.ids.open(head.headers.get(SESSION_HEADER, b""))
        except SealError:
            return _NOT_FOUND
        own = head.with_field(SESSION_HEADER, state.id)
        own.replica = state.replica
        return _Found(state, own)


def sessions_of(settings: GatewaySettings, *, live_here: bool, before: Sessions | None = None) -> Sessions:
    """Return the `Sessions` of a gateway. If sessions live in this process (`live_here`), their ids name this process.
    `before` is the object from before a reload, which is kept if possible."""
    if not settings.seals_sessions:
        return before if isinstance(before, PlainSessions) else PlainSessions()
    if live_here:
        node = before.ids.node if isinstance(before, SealedSessions) else secrets.token_hex(_NODE_BYTES)
        return SealedSessions(SessionIds(settings.rounds.ring, node, server=settings.server))
    replicas, server = {"": ""}, settings.server
    if isinstance(settings.upstream, HttpUpstream):
        replicas = settings.upstream.replicas
        if not settings.upstream.others:  # a single replica has no name
            server = f"{server} {next(iter(settings.homes))}"
    return SealedSessions(SessionIds(settings.rounds.ring, replicas=replicas, server=server))


class _Found(NamedTuple):
    """An opened id, and the head in which the server's own id replaces the client's."""

    state: SessionState
    head: RequestHead


class _Naming:
    """The session ids in one answer: where the server's id `own` is to appear, the client gets `named`."""

    __slots__ = ("_named", "_own", "_sessions", "_shows_pages", "_subject")

    def __init__(
        self, sessions: SealedSessions, named: bytes | None, own: bytes | None, subject: bytes, *, shows_pages: bool
    ) -> None:
        self._sessions = sessions
        self._shows_pages = shows_pages
        self._named = named
        self._own = own
        self._subject = subject

    def learn(self, id: bytes, revision: str, replica: str) -> None:
        """Give an id for the client to the session that a replica's answer begins. Raises `AnswerError`."""
        shows = self._shows_pages
        self._named, self._own = self._sessions.seal(id, revision, self._subject, replica, shows_pages=shows), id

    def shown(self, id: bytes, replica: str) -> bytes | None:
        """Return the client's id for a session ([stable-id]), or None if it would be too long for the client to send
        back."""
        if id != self._own:
            try:
                self.learn(id, "", replica)
            except AnswerError:
                return None
        return self._named


_NOT_FOUND = object()
_subject = lru_cache(1_024)(subject_of)


class HttpAuthenticator:
    """One per gateway. Without a `bearer` tokens are off, and all callers are one anonymous subject.

    Where OAuth clients are let in, `challenge` is what [introduced] says in `WWW-Authenticate`, and `policy` says who
    verifies proofs.
    """

    def __init__(
        self, bearer: Bearer | None, sessions: Sessions, challenge: str = "", policy: Policy | None = None
    ) -> None:
        self._bearer = bearer
        self.sessions = sessions
        self.takes_tokens = bearer is not None
        self.challenge = challenge
        self._policy = policy

    async def of_header(self, exchange: Exchange, *, sessions: bool = False) -> VerifiedToken | None:
        """Return the token in the header. Raises `TokenError` and `KeysUnavailable`.

        `sessions` says that the request's session will be checked ([session-owner]).
        """
        if self._bearer is None or not (exchange.credentials or self._bearer.in_header_only):
            return None
        session = exchange.head.session if sessions and not exchange.head.is_modern else ""
        token = await self._bearer.of_header(exchange.credentials, session)
        exchange.vouched = token is not None
        _carry(exchange, token)
        return token

    async def of_request(self, exchange: Exchange, *, sessions: bool = False) -> VerifiedToken | None:
        """Authenticate a request without a body, and return its token. Raises what `of_header` raises, and
        `RequestError`."""
        if self._bearer is None:
            self.sessions.enter(exchange, exchange.head, NOBODY)
            return None
        token = await self.of_header(exchange, sessions=sessions)
        self._bearer.require(token)
        self._enter(exchange, token, exchange.head)
        return token

    async def of_message(self, exchange: Exchange, call: Call, message: Frame | Batch, ask: Ask | None) -> None:
        """Store the tokens of a message in its call. Raises what `of_request` raises.

        `ask` sends the server a request in the named session before the session's owner is checked. So its answer must
        not be shown to anybody.
        """
        named = exchange.head
        if self._bearer is None:
            self.sessions.enter(exchange, named, NOBODY)
            return
        self.sessions.look(exchange)
        if named.is_modern:
            exchange.head = exchange.head.in_era
        each = call.each()
        for one, frame in zip(each, message.frames if isinstance(message, Batch) else (message,), strict=True):
            if len(message.text) > SHORT_MESSAGE_BYTES:
                await next_turn()
            begins = isinstance(frame, Request) and frame.method == "initialize"
            await self._bearer.of_call(one, frame, ask, "" if begins else call.session)
            self._bearer.check(frame, one.token)
            if self.challenge and not call.session and isinstance(frame, Request):
                self._introduce(frame, one)
        if len(each) > 1 and len({principal_of(one.token) for one in each}) > 1:
            raise RequestError(INVALID_REQUEST, "Invalid Request: the tokens of a batch are of several subjects")
        self._enter(exchange, each[0].token, named)

    def _introduce(self, request: Request, call: Call) -> None:
        """Refuse an `initialize`, `server/discover` or list that comes with neither token nor proof ([introduced]).
        Raises `ProofRefused`."""
        if call.token is not None or request.in_meta(PROOF) is not None:
            return
        call.unknown = request.method in GUARDED
        if self._policy is not None and (request.method in BEGINNINGS or request.method in LISTS):
            policy = self._policy
            raise refusals.ask_for_introduction(request.method, policy.verifier_id, policy.binding, self.challenge)

    def _enter(self, exchange: Exchange, token: VerifiedToken | None, named: RequestHead) -> None:
        """Check the owner of the named session ([session-owner])."""
        self.sessions.enter(exchange, named, principal_of(token))
        if named.is_modern:
            exchange.head = exchange.head.in_era
        _carry(exchange, token)
        if token is not None:
            exchange.vouch()


def _carry(exchange: Exchange, token: VerifiedToken | None) -> None:
    """Let the HTTP exchange carry the token, if that is to be exchanged for another one. The token is sent to the
    authorization server only."""
    exchange.carried = token.carried if isinstance(token, ExchangeableToken) else None
