"""The requests of a server to the host (sampling, elicitation, roots), across the sessions that it makes them in.

1. Two sessions never share an id at the host: servers count from the beginning in each, and an answer to the last
   session's first request must not answer the new one's. The first session keeps its ids.
2. What a session asked that is gone is cancelled at the host, and the host's answer to it goes to nobody.
3. At most `MAX_DIALOGS` may be open; what comes beyond is refused here.

No I/O: whoever holds this sends what it returns.
"""

from typing import Generic, Protocol, TypeVar

from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, JSONRPCNotification, JSONRPCRequest, RequestId

from accredit.client.peers import Answer
from accredit.limits import MAX_DIALOGS


class _Numbered(Protocol):
    """A session, as far as this needs to know it: they are numbered from 0."""

    number: int


_Session = TypeVar("_Session", bound=_Numbered)


class ServerRequests(Generic[_Session]):
    """The requests that the host has not answered yet, of all sessions."""

    def __init__(self, limit: int = MAX_DIALOGS) -> None:
        self._limit = limit
        self._open: dict[RequestId, tuple[_Session, RequestId]] = {}

    def __len__(self) -> int:
        """Return how many are open."""
        return len(self._open)

    def add(self, session: _Session, request: JSONRPCRequest) -> JSONRPCRequest | JSONRPCError:
        """Return the request as the host is to get it; or the error for the server, if too many are open."""
        if len(self._open) >= self._limit:
            error = ErrorData(code=INTERNAL_ERROR, message="The client owes too many answers")
            return JSONRPCError(jsonrpc="2.0", id=request.id, error=error)
        id = _id_at_host(session, request.id)
        self._open[id] = (session, request.id)
        return request.model_copy(update={"id": id})

    def settle(self, answer: Answer) -> tuple[_Session, Answer] | None:
        """Remove the request that the host answers; return its session, and the answer under the server's own id.

        None if no request with this id is open.
        """
        settled = self._open.pop(answer.id, None) if answer.id is not None else None
        if settled is None:
            return None
        session, id = settled
        return session, answer.model_copy(update={"id": id})

    def withdraw(self, session: _Session, cancelled: JSONRPCNotification) -> JSONRPCNotification:
        """Remove the request that the server cancels; return the cancellation for the host, which answers no more."""
        params = cancelled.params or {}
        id = params.get("requestId")
        if not isinstance(id, str | int):
            return cancelled
        at_host = _id_at_host(session, id)
        self._open.pop(at_host, None)
        return cancelled.model_copy(update={"params": {**params, "requestId": at_host}})

    def drop(self, session: _Session) -> list[JSONRPCNotification]:
        """Remove every request of a session that is gone; return the cancellations for the host."""
        dropped = [id for id, (made_by, _) in self._open.items() if made_by is session]
        for id in dropped:
            del self._open[id]
        return [
            JSONRPCNotification(
                jsonrpc="2.0",
                method="notifications/cancelled",
                params={"requestId": id, "reason": "the session is gone"},
            )
            for id in dropped
        ]


def _id_at_host(session: _Numbered, id: RequestId) -> RequestId:
    return id if session.number == 0 else f"accredit-{session.number}-{id}"
