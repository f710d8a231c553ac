"""The one table that turns each of our errors into a reply to the client. No I/O."""

from msgspec import Struct

from accredit.errors import (
    AccreditError,
    AnswerError,
    KeysUnavailable,
    MessageId,
    ProofRefused,
    RequestError,
    TokenError,
    UpstreamLeftOut,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from accredit.jsonrpc.encode import (
    INTERNAL_ERROR,
    INVALID_ANSWER,
    INVALID_REQUEST,
    UNAVAILABLE,
    UPSTREAM_ERROR,
    error_frame,
)
from accredit.limits import BUSY_RETRY_SECONDS
from accredit.tokens.challenges import challenge


class Refusal(Struct, frozen=True):
    """The reply to a client: the JSON-RPC error, and an HTTP status and headers, which are used if no head has been
    sent yet."""

    status: int
    code: int
    message: str
    data: object = None
    id: MessageId | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()

    def frame(self, id: MessageId | None = None) -> bytes:
        """Return the error response, for the request `id` if it is known."""
        return error_frame(self.id if id is None else id, self.code, self.message, self.data)


def session_not_found(id: MessageId | None = None) -> RequestError:
    """Return the refusal of a session that is over, unknown, or somebody else's: the same for all. `id` is the
    request's id."""
    return RequestError(INVALID_REQUEST, "Session not found", id=id, status=404, word="session_not_found")


def too_little_memory() -> RequestError:
    """Return the refusal for lack of memory in this process."""
    detail = "Too little memory for this at the moment"
    return RequestError(UPSTREAM_ERROR, detail, status=503, retry_after=BUSY_RETRY_SECONDS, word="too_little_memory")


def refusal(error: AccreditError, metadata_url: str = "") -> Refusal:
    """Return the reply that reports one of our errors to the client. All such replies are made here.

    `metadata_url` is the URL of the resource's metadata, for clients that lack a token.
    """
    match error:
        case RequestError():
            headers = ((b"allow", b"GET, POST, DELETE"),) if error.status == 405 else ()
            if error.retry_after:
                headers = ((b"retry-after", b"%d" % error.retry_after),)
            return Refusal(error.status, error.code, error.detail, error.data, error.id, headers)
        case TokenError():
            headers = ((b"www-authenticate", challenge(error, metadata_url).encode("ascii")),)
            data = {"error": error.error}
            return Refusal(error.status, error.code, f"{error.error}: {error.detail}", data, headers=headers)
        case KeysUnavailable():
            headers = ((b"retry-after", b"%d" % error.retry_after),)
            return Refusal(503, INTERNAL_ERROR, "Tokens can't be verified for now", headers=headers)
        case ProofRefused():  # 200: only then do clients show an error's text
            told = ((b"www-authenticate", error.challenge.encode("ascii")),) if error.challenge else ()
            return Refusal(401 if told else 200, error.code, error.message, error.data, headers=told)
        case AnswerError():
            return Refusal(502, UPSTREAM_ERROR, INVALID_ANSWER, error.detail)
        case UpstreamTimeout():
            return Refusal(504, UPSTREAM_ERROR, UNAVAILABLE, error.detail)
        case UpstreamLeftOut():
            headers = ((b"retry-after", b"%d" % BUSY_RETRY_SECONDS),)
            return Refusal(503, UPSTREAM_ERROR, UNAVAILABLE, error.detail, headers=headers)
        case UpstreamUnavailable():
            return Refusal(502, UPSTREAM_ERROR, UNAVAILABLE, error.detail)
        case _:
            return Refusal(500, INTERNAL_ERROR, "Internal error")
