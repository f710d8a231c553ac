"""One message of a client on its way through the gateway, and what each step has found out about it. No I/O.

A `Call` is made empty in `front.intake`, which defines the order of the steps. Each step writes its own members, and
reads those of the steps before it. Nothing is copied from one object to the next.
"""

from msgspec import Struct

from accredit.errors import KeysUnavailable, TokenError
from accredit.gateway.admission.pinned_tools import UpstreamAccess
from accredit.jsonrpc.frames import Frame
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.requests import Batch
from accredit.telemetry import Batched, Operation
from accredit.tokens import FoundTokens, VerifiedToken


class Call(Struct):
    """A client's message, where it came from, who sent it, and when its measurement began."""

    message: Frame | Batch | None = None
    """The message; None until it is read."""
    session: str = ""
    """The id of the message's session, as the client knows it, or ""."""
    revision: str | None = None
    era: Era = Era.LEGACY
    token: VerifiedToken | None = None
    """At first the verified token of the HTTP header. Later the token that decides on the message
    (`admission.bearer`)."""
    brought: FoundTokens | None = None
    """The credentials found in the message. None until the message is searched for them."""
    error: TokenError | KeysUnavailable | None = None
    """Why the message's token is refused, on stdio only: there the gate answers with this error."""
    way: UpstreamAccess | None = None
    """How the gateway sends requests of its own to the server on behalf of this caller. None if it can't."""
    began: float = 0.0
    """When the message came, if it is measured."""
    measured: Operation | Batched | None = None
    traceparent: bytes | None = None
    """The trace context of the HTTP request that brought the message."""
    members: list["Call"] = []
    """The calls of a batch's messages, once `each` has made them."""

    def each(self) -> "list[Call]":
        """Return a call for each message of a batch, always the same objects. For a single message, return the call
        itself.

        The members have the header's token until their own is known.
        """
        if not isinstance(self.message, Batch):
            return [self]
        if not self.members:
            session, revision, era, token = self.session, self.revision, self.era, self.token
            self.members = [Call(frame, session, revision, era, token) for frame in self.message.frames]
        return self.members
