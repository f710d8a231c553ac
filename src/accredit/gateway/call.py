"""One message of a client on its way through the gateway, and what each step has found out about it. No I/O.

A `Call` begins empty in `front.intake`, which says the order of the steps. Each step writes its own members, and reads
those of the steps before it; nothing is copied from one carrier to the next.
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
    """A message, its source, its sender, and its measurement."""

    message: Frame | Batch | None = None
    """None until it is read."""
    session: str = ""
    """Its session's id, as the client knows it, or ""."""
    revision: str | None = None
    era: Era = Era.LEGACY
    token: VerifiedToken | None = None
    """The verified token of the header, then the one that decides (`admission.bearer`)."""
    brought: FoundTokens | None = None
    """The credentials in the message, None until they are looked for."""
    error: TokenError | KeysUnavailable | None = None
    """The refusal of its token where the gate answers it: on stdio."""
    way: UpstreamAccess | None = None
    """How the gateway itself asks the server on behalf of this caller, if it can."""
    began: float = 0.0
    """When it came, if it is measured."""
    measured: Operation | Batched | None = None
    traceparent: bytes | None = None
    """The trace context of its HTTP request."""
    members: list["Call"] = []
    """Those of a batch, once `each` has made them."""

    def each(self) -> "list[Call]":
        """Return a call for each message of a batch, always the same ones; of a single message the call itself.

        The members have the header's token until their own is known.
        """
        if not isinstance(self.message, Batch):
            return [self]
        if not self.members:
            session, revision, era, token = self.session, self.revision, self.era, self.token
            self.members = [Call(frame, session, revision, era, token) for frame in self.message.frames]
        return self.members
