"""Who comes in over HTTP: the token of a request, and the session that it names. Changes the exchange's headers.

1. The Authorization header is judged before the body is read; nothing behind this ever sees it.
2. The members of a batch are of one subject.
3. A session that is named is one of that subject's (`session_binding`), also in the era that has none; there the name
   goes no further.
4. A token that names a session is good only in that one, by the id that its client has, and so on no way that has no
   session of rule 3: in a modern request, on HTTP+SSE, for an `initialize`.
"""

from accredit.errors import RequestError
from accredit.gateway.admission.bearer import Bearer
from accredit.gateway.admission.tool_directory import Ask
from accredit.gateway.front.exchange import Exchange
from accredit.gateway.front.session_binding import Sessions, principal_of
from accredit.gateway.headers import RequestHead
from accredit.gateway.recording.early_refusals import InboundRequest
from accredit.gateway.turns import turn
from accredit.jsonrpc.encode import INVALID_REQUEST
from accredit.jsonrpc.frames import Frame, Request
from accredit.jsonrpc.requests import Batch
from accredit.tokens import ExchangeableToken, VerifiedToken


class HttpAuthenticator:
    """One per gateway where tokens are on."""

    def __init__(self, bearer: Bearer, sessions: Sessions) -> None:
        self._bearer = bearer
        self._sessions = sessions

    async def of_header(self, exchange: Exchange, *, sessions: bool = False) -> VerifiedToken | None:
        """Return the token in the header. Raises `TokenError` and `KeysUnavailable`.

        `sessions` says that the session which the request names will be looked at (rule 3).
        """
        token = await self._bearer.of_header(exchange.credentials, exchange.head.in_era.session if sessions else "")
        exchange.vouched = token is not None
        _carry(exchange, token)
        return token

    async def of_request(self, exchange: Exchange, *, sessions: bool = False) -> VerifiedToken | None:
        """Return the token of a request without a body. Raises the same, and `RequestError`."""
        token = await self.of_header(exchange, sessions=sessions)
        self._bearer.require(token)
        self._enter(exchange, token, exchange.head)
        return token

    async def of_message(
        self, exchange: Exchange, message: Frame | Batch, inbound: InboundRequest, ask: Ask | None, session: str = ""
    ) -> None:
        """Note the tokens of a message. Raises the same. `session` is the one that it is in, by the id that the client
        knows.

        `ask` asks in the session that is named before it is known whose that is: nobody is shown the answer.
        """
        named = exchange.head
        self._sessions.look(exchange)
        exchange.head = exchange.head.in_era
        frames = message.frames if isinstance(message, Batch) else (message,)
        tokens = inbound.tokens
        for frame in frames:
            await turn(len(message.text))
            begins = isinstance(frame, Request) and frame.method == "initialize"
            tokens.append(await self._bearer.of_frame(frame, inbound.header, ask, "" if begins else session))
            self._bearer.check(frame, tokens[-1])
        if len({principal_of(token) for token in tokens}) > 1:
            raise RequestError(INVALID_REQUEST, "Invalid Request: the tokens of a batch are of several subjects")
        self._enter(exchange, tokens[0], named)

    def _enter(self, exchange: Exchange, token: VerifiedToken | None, named: RequestHead) -> None:
        """Apply rule 3."""
        self._sessions.enter(exchange, named, principal_of(token))
        exchange.head = exchange.head.in_era
        _carry(exchange, token)
        if token is not None:
            exchange.vouch()


def _carry(exchange: Exchange, token: VerifiedToken | None) -> None:
    """Note the token that is exchanged, where one is: it goes to the authorization server, and nowhere else."""
    exchange.carried = token.carried if isinstance(token, ExchangeableToken) else None
