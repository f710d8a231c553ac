"""Authenticates HTTP requests: the token, and the session that the request names. Changes the exchange's headers.

- [header-first] The Authorization header is verified before the body is read. No code after this sees the header.
- [one-subject] All messages of a batch have the same subject.
- [session-owner] If a request names a session, the session must belong to the subject (`session_binding`). This
  also holds in the era without sessions, although the session's name is not forwarded there.
- [introduced] Where OAuth clients are let in, `initialize`, `server/discover` and lists without a token, a proof and a
  session are answered with 401 and the place where tokens are given out: with that, an OAuth client begins its login. A
  guarded call without them gets the usual refusal (`policy.decide`) with the same status and header. Whether a proof is
  valid is not checked here.
- [session-token] A token may name a session, by the client's id for it. It is then valid only in that session. So it is
  not valid for a request without a session: in the modern era, on HTTP+SSE, or for an `initialize`.
"""

from accredit.errors import RequestError
from accredit.gateway.admission.bearer import Bearer
from accredit.gateway.admission.tool_directory import Ask
from accredit.gateway.call import Call
from accredit.gateway.front.exchange import Exchange
from accredit.gateway.front.session_binding import Sessions, principal_of
from accredit.gateway.headers import RequestHead
from accredit.gateway.turns import turn
from accredit.jsonrpc.encode import INVALID_REQUEST
from accredit.jsonrpc.frames import Frame, Request
from accredit.jsonrpc.requests import Batch
from accredit.policy import LISTS, PROOF, Policy, is_guarded, refusals
from accredit.policy.guarded_call import BEGINNINGS
from accredit.tokens import ExchangeableToken, VerifiedToken


class HttpAuthenticator:
    """One per gateway where tokens are on. Where OAuth clients are let in, `challenge` is what [introduced] says in
    `WWW-Authenticate`, and `policy` says who verifies proofs."""

    def __init__(self, bearer: Bearer, sessions: Sessions, challenge: str = "", policy: Policy | None = None) -> None:
        self._bearer = bearer
        self._sessions = sessions
        self.challenge = challenge
        self._policy = policy

    async def of_header(self, exchange: Exchange, *, sessions: bool = False) -> VerifiedToken | None:
        """Return the token in the header. Raises `TokenError` and `KeysUnavailable`.

        `sessions` says that the request's session will be checked ([session-owner]).
        """
        token = await self._bearer.of_header(exchange.credentials, exchange.head.in_era.session if sessions else "")
        exchange.vouched = token is not None
        _carry(exchange, token)
        return token

    async def of_request(self, exchange: Exchange, *, sessions: bool = False) -> VerifiedToken | None:
        """Authenticate a request without a body, and return its token. Raises what `of_header` raises, and
        `RequestError`."""
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
        self._sessions.look(exchange)
        exchange.head = exchange.head.in_era
        each = call.each()
        for one, frame in zip(each, message.frames if isinstance(message, Batch) else (message,), strict=True):
            await turn(len(message.text))
            begins = isinstance(frame, Request) and frame.method == "initialize"
            await self._bearer.of_call(one, frame, ask, "" if begins else call.session)
            self._bearer.check(frame, one.token)
            if self.challenge and not call.session and isinstance(frame, Request):
                self._introduce(frame, one)
        if len({principal_of(one.token) for one in each}) > 1:
            raise RequestError(INVALID_REQUEST, "Invalid Request: the tokens of a batch are of several subjects")
        self._enter(exchange, each[0].token, named)

    def _introduce(self, request: Request, call: Call) -> None:
        """Check who comes with neither token nor session ([introduced]). Raises `ProofRefused`."""
        if call.token is not None or request.in_meta(PROOF) is not None:
            return
        call.unknown = is_guarded(request)
        if self._policy is not None and (request.method in BEGINNINGS or request.method in LISTS):
            policy = self._policy
            raise refusals.ask_for_introduction(request.method, policy.verifier_id, policy.binding, self.challenge)

    def _enter(self, exchange: Exchange, token: VerifiedToken | None, named: RequestHead) -> None:
        """Check the owner of the named session ([session-owner])."""
        self._sessions.enter(exchange, named, principal_of(token))
        exchange.head = exchange.head.in_era
        _carry(exchange, token)
        if token is not None:
            exchange.vouch()


def _carry(exchange: Exchange, token: VerifiedToken | None) -> None:
    """Let the HTTP exchange carry the token, if that is to be exchanged for another one. The token is sent to the
    authorization server only."""
    exchange.carried = token.carried if isinstance(token, ExchangeableToken) else None
