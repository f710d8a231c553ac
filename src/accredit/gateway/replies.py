"""The single table from a refusal to the reply that the client gets (contract, section 3). No I/O."""

from msgspec import Struct

from accredit.errors import (
    AccreditError,
    AnswerError,
    MessageId,
    ProofRefused,
    RequestError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from accredit.jsonrpc.encode import INTERNAL_ERROR, INVALID_ANSWER, UNAVAILABLE, UPSTREAM_ERROR, error_frame


class Refusal(Struct, frozen=True):
    """What a client is told: an HTTP status where one can still be sent, and the JSON-RPC error."""

    status: int
    code: int
    message: str
    data: object = None
    id: MessageId | None = None

    def frame(self, id: MessageId | None = None) -> bytes:
        """The error response, for the request `id` where that is known."""
        return error_frame(self.id if id is None else id, self.code, self.message, self.data)


def refusal(error: AccreditError) -> Refusal:
    """The one place that says how an error of ours looks from outside."""
    match error:
        case RequestError():
            return Refusal(error.status, error.code, error.detail, error.data, error.id)
        case ProofRefused():  # 200: clients show an error's text only then (contract, section 4)
            return Refusal(200, error.code, error.message, error.data)
        case AnswerError():
            return Refusal(502, UPSTREAM_ERROR, INVALID_ANSWER, error.detail)
        case UpstreamTimeout():
            return Refusal(504, UPSTREAM_ERROR, UNAVAILABLE, error.detail)
        case UpstreamUnavailable():
            return Refusal(502, UPSTREAM_ERROR, UNAVAILABLE, error.detail)
        case _:
            return Refusal(500, INTERNAL_ERROR, "Internal error")
