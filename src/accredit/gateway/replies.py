"""The single table from a refusal to the reply that the client gets. No I/O."""

from msgspec import Struct

from accredit.errors import (
    AccreditError,
    AnswerError,
    KeysUnavailable,
    MessageId,
    ProofRefused,
    RequestError,
    TokenError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from accredit.jsonrpc.encode import INTERNAL_ERROR, INVALID_ANSWER, UNAVAILABLE, UPSTREAM_ERROR, error_frame
from accredit.tokens import challenge


class Refusal(Struct, frozen=True):
    """What a client is told: an HTTP status and headers where they can still be sent, and the JSON-RPC error."""

    status: int
    code: int
    message: str
    data: object = None
    id: MessageId | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()

    def frame(self, id: MessageId | None = None) -> bytes:
        """The error response, for the request `id` where that is known."""
        return error_frame(self.id if id is None else id, self.code, self.message, self.data)


def refusal(error: AccreditError, metadata_url: str = "") -> Refusal:
    """The one place that says how an error of ours looks from outside.

    `metadata_url` is where the metadata of the resource is, for those who lack a token.
    """
    match error:
        case RequestError():
            told = ((b"allow", b"GET, POST, DELETE"),) if error.status == 405 else ()
            if error.retry_after:
                told = ((b"retry-after", b"%d" % error.retry_after),)
            return Refusal(error.status, error.code, error.detail, error.data, error.id, told)
        case TokenError():
            told = ((b"www-authenticate", challenge(error, metadata_url).encode("ascii")),)
            data = {"error": error.error}
            return Refusal(error.status, error.code, f"{error.error}: {error.detail}", data, headers=told)
        case KeysUnavailable():
            told = ((b"retry-after", b"%d" % error.retry_after),)
            return Refusal(503, INTERNAL_ERROR, "Tokens can't be verified for now", headers=told)
        case ProofRefused():  # 200: clients show an error's text only then
            return Refusal(200, error.code, error.message, error.data)
        case AnswerError():
            return Refusal(502, UPSTREAM_ERROR, INVALID_ANSWER, error.detail)
        case UpstreamTimeout():
            return Refusal(504, UPSTREAM_ERROR, UNAVAILABLE, error.detail)
        case UpstreamUnavailable():
            return Refusal(502, UPSTREAM_ERROR, UNAVAILABLE, error.detail)
        case _:
            return Refusal(500, INTERNAL_ERROR, "Internal error")
