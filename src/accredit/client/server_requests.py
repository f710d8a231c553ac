"""The requests of a server to the host (sampling, elicitation, roots), across the server's sessions.

- [own-ids] Two sessions never use the same id at the host. Servers start counting anew in each session, and an answer
  to the previous session's first request must not answer the new session's first. The first session keeps its ids.
- [lost-session] A request of a lost session is cancelled at the host, and the host's answer to it is dropped.
- [limit] At most `MAX_DIALOGS` requests may be open; more are refused here.

No I/O: the owner sends the returned messages.
"""

from typing import Generic, Protocol, TypeVar

from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, JSONRPCNotification, JSONRPCRequest, RequestId

from accredit.client.peers import Answer
from accredit.limits import MAX_DIALOGS


class _Numbered(Protocol):
    """The part of a session that is used here: its number. Sessions are numbered from 0."""

    number: int


_Session = TypeVar("_Session", bound=_Numbered)


class ServerRequests(Generic[_Session]):
    """The open requests to the host, of all sessions."""

    def __init__(self, limit: int = MAX_DIALOGS) -> None:
        self._limit = limit
        self._open: dict[RequestId, tuple[_Session, RequestId]] = {}

    def __len__(self) -> int:
        """Return how many requests are open."""
        return len(self._open)

    def add(self, session: _Session, request: JSONRPCRequest) -> JSONRPCRequest | JSONRPCError:
        """Return the request in the host's form. If too many are open, return the error for the server instead."""
        if len(self._open) >= self._limit:
            error = ErrorData(code=INTERNAL_ERROR, message="The client owes too many answers")
            return JSONRPCError(jsonrpc="2.0", id=request.id, error=error)
        id = _id_at_host(session, request.id)
        self._open[id] = (session, request.id)
        return request.model_copy(update={"id": id})

    def settle(self, answer: Answer) -> tuple[_Session, Answer] | None:
        """Remove the request that the host answers. Return its session, and the answer under the server's own id.

        Return None if no request with this id is open.
        """
        settled = self._open.pop(answer.id, None) if answer.id is not None else None
        if settled is None:
            return None
        session, id = settled
        return session, answer.model_copy(update={"id": id})

    def withdraw(self, session: _Session, cancelled: JSONRPCNotification) -> JSONRPCNotification:
        """Remove the request that the server cancels, and return the cancellation for the host. The host does not
        answer it then."""
        params = cancelled.params or {}
        id = params.get("requestId")
        if not isinstance(id, str | int):
            return cancelled
        at_host = _id_at_host(session, id)
        self._open.pop(at_host, None)
        return cancelled.model_copy(update={"params": {**params, "requestId": at_host}})

    def drop(self, session: _Session) -> list[JSONRPCNotification]:
        """Remove every request of a lost session. Return their cancellations, for the host."""
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
