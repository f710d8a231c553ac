"""The answer to a call of an OAuth client that waits for a person: begun early, so that the client hears why it waits.

In the modern era such a call is answered at once, with `input_required`. In the legacy era it is held, and its answer
begins as an event stream. Later the same stream has the server's answer, or the refusal.

- [begins] A stream begins only once a call is held: its client has logged in, and its call lacks nothing but a person's
  word. The call is a single request by streamable HTTP, and the client says that it takes event streams. Any other
  client waits for the whole answer.
- [progress] If the request has a progress token, the client gets progress every `ASK_PROGRESS_SECONDS`. Otherwise it
  gets a comment at the same intervals, so that no proxy takes the connection for idle. Progress is a fraction below 1,
  as it must only increase, and what the server itself reports later is more (2025-11-25, basic/utilities/progress).
- [page] If the client has said in `initialize` that it shows pages (`elicitation.url`), it is asked once to show the
  ask's page. When the call no longer waits, that request is cancelled.
- [disconnect] If the client disconnects, its call waits no more, and is not made. The ask stays, so that the same call
  may come again: a disconnect cancels nothing (2025-11-25, basic/transports, "Sending Messages to the Server").
- [cancelled] If the client cancels the call, it is not made either. The ask is withdrawn as well. But it stays until it
  expires if another call waits for it, or if this client has already withdrawn many asks. Another worker or gateway,
  which does not know the call, passes the cancellation on.

The stream's events before the server's answer have no ids: they are not sent again to a client that resumes.
"""

from typing import NamedTuple, Protocol

from accredit.base.text import excerpt
from accredit.gateway.upstream.reply import Reply, WhileConnected
from accredit.jsonrpc.encode import cancellation, to_json
from accredit.jsonrpc.frames import Request, progress_token
from accredit.jsonrpc.sse import KEEP_ALIVE, encode_event


class WaitingCall(NamedTuple):
    """A call that waits for a person: the ask's code, and the address of its page."""

    code: str
    url: str

    @property
    def elicitation(self) -> dict[str, object]:
        """The params of the request to show the page."""
        message = f"A person has to allow this call at their desk (code {self.code})."
        return {"mode": "url", "message": message, "url": self.url, "elicitationId": self.code}


class ClientReply(Reply, Protocol):
    """The reply to the client itself, which can be begun early. `shows_pages` says whether the client shows pages
    ([page])."""

    shows_pages: bool

    async def begin(self) -> None:
        """Begin the answer as an event stream."""
        ...


class HeldAnswer:
    """The answer to `request`, in the client's `session`. `cancelled` is set once the client has cancelled it."""

    def __init__(self, reply: ClientReply, request: Request, session: str) -> None:
        self._reply = reply
        self._token = progress_token(request)
        self._target = excerpt(request.target or "")
        self._question = ""
        self.call = (session, request.id)
        self.session = session
        self.cancelled = False

    def while_connected(self) -> WhileConnected:
        """Return the context in which a client that disconnects interrupts the work ([disconnect])."""
        return WhileConnected(self._reply)

    async def begin(self, waits: WaitingCall, question: str) -> None:
        """Begin the stream, and ask the client to show the ask's page ([page]). `question` is the id of that request.
        Raises `ClientGone`."""
        await self._reply.begin()
        if self._reply.shows_pages:
            self._question = question
            await self._send({"id": question, "method": "elicitation/create", "params": waits.elicitation})

    async def tell(self, waits: WaitingCall, left: float, whole: float) -> None:
        """Tell the client that the call waits for `left` more of `whole` seconds ([progress]). Raises `ClientGone`."""
        if self._token is None:
            await self._reply.write(KEEP_ALIVE)
            return
        minutes, seconds = divmod(max(0, round(left)), 60)
        text = f"Waiting for a person: {self._target}, code {waits.code}, {minutes}:{seconds:02} left"
        progress = {"progressToken": self._token, "progress": round(1 - left / whole, 4), "message": text}
        await self._send({"method": "notifications/progress", "params": progress})

    async def close(self, waits: WaitingCall, *, decided: bool) -> None:
        """Tell the client that the page is not needed any more ([page]). The request to show it is cancelled. A client
        that has already answered that request ignores this. Raises `ClientGone`."""
        if not self._question:
            return
        await self._reply.write(encode_event(cancellation(self._question, "the call waits no more")))
        if decided:
            ended = {"elicitationId": waits.code}
            await self._send({"method": "notifications/elicitation/complete", "params": ended})

    async def _send(self, message: dict[str, object]) -> None:
        await self._reply.write(encode_event(to_json({"jsonrpc": "2.0", **message})))
