"""Every exception that `accredit` raises on purpose. No I/O.

    AccreditError
    ├── ConfigurationError        what is wrong, and what to do about it
    ├── FrameError                bytes that are not one valid JSON-RPC message
    │   ├── JsonError             ... nor JSON at all
    │   ├── LineTooLong           ... nor read to its end
    │   ├── RequestError          ... from a client, with the JSON-RPC error it is owed
    │   └── AnswerError           ... from an upstream: the client gets a clean error instead
    ├── UpstreamError             no frame to judge
    │   ├── UpstreamUnavailable   unreachable or cut off
    │   └── UpstreamTimeout       too late
    ├── ClientGone                nobody is left to answer
    ├── StoreUnavailable          the store can't answer: what depends on it is denied
    │   └── ClockSetBack          ... as it has forgotten by a clock that was ahead what may count again
    ├── AttestationError          an envelope, a statement or a record that can't be read, or does not verify
    ├── ProofRefused              a call that was not authorized
    ├── TokenError                a bearer token that does not let its request pass
    │   ├── AmbiguousToken        ... more than one, where there may be one
    │   ├── MissingToken          ... none
    │   ├── InvalidToken          ... one that is not good
    │   └── InsufficientScope     ... a good one that may not do this
    ├── KeySetError               no public keys to verify tokens with could be fetched or read
    ├── KeysUnavailable           an issuer's keys can't be had for now
    ├── RequestTimeout            one request of ours that was not answered in time
    ├── RoundsError               a multi-round-trip request that can't go on
    │   ├── RoundsExceeded        ... asked for more input than is given in one call
    │   ├── RoundsTimeout         ... took longer than the whole call may
    │   ├── InputRequestError     ... asks for one thing that it does not get
    │   │   ├── InputHandlerMissing   nobody here can give it
    │   │   ├── UnknownInputRequest   the protocol does not know it
    │   │   └── InputHandlerFailed    who was asked did not give it
    │   ├── InputRequired         ... where input is not given automatically
    │   ├── InvalidInputRequired  ... in a way that the protocol does not allow
    │   └── SealError             ... with a state that is not what was sealed for it
    ├── NoBackChannel             a handler tried to send to the server that asks
    └── RatifyError               the delegation protocol
        ├── WireError             bytes or values that are no object of the protocol
        ├── IssueError            what may not be signed, and why
        └── ChallengesFull        no room for one more pending challenge

Nothing from a parser, a socket or an operating system leaves this package unwrapped: each boundary is
fenced where it is crossed. The text of an exception is public (a peer may read it) unless its class says
otherwise; it never quotes a secret, nor more than 100 ASCII characters of what a peer sent.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:  # the type of what an error carries; this module loads no library
    from mcp_types import InputRequiredResult

MessageId = int | str
"""The id of a JSON-RPC request: an integer or a string, and 7 is not "7"."""


class AccreditError(Exception):
    """The root of the tree."""


class ConfigurationError(AccreditError):
    """The configuration, or the command line, can't be used.

    `what` says in one line what is wrong and names the key; `remedy` says in one line what to do.
    """

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}\n{remedy}")
        self.what = what
        self.remedy = remedy


class FrameError(AccreditError):
    """Bytes that are not one valid message. `detail` is public and short.

    `bound` says that a limit was passed: such a frame is refused in observe mode too.
    """

    def __init__(self, detail: str, *, bound: bool = False) -> None:
        super().__init__(detail)
        self.detail = detail
        self.bound = bound


class JsonError(FrameError):
    """Bytes that are not one strict JSON value."""


class LineTooLong(FrameError):
    """A line past its bound. What its two ends say: the message's `id`, its `kind` ("call": a request or a
    notification; "response"; "": neither is known), and whether it begins as a message at all."""

    def __init__(self, detail: str, *, id: MessageId | None = None, kind: str = "", is_message: bool = False) -> None:
        super().__init__(detail, bound=True)
        self.id = id
        self.kind = kind
        self.is_message = is_message


class RequestError(FrameError):
    """A client's message that is refused.

    `code` and `detail` become the JSON-RPC error, `id` is the request's where it could be read, and
    `status` is the HTTP status that goes with it. `word` is what a record calls it, where its code says too little.
    `retry_after` is in seconds: after them, asking again may help.
    """

    def __init__(
        self,
        code: int,
        detail: str,
        *,
        id: MessageId | None = None,
        status: int = 400,
        data: object = None,
        word: str = "",
        retry_after: int = 0,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.retry_after = retry_after
        self.id = id
        self.status = status
        self.data = data
        self.word = word


class AnswerError(FrameError):
    """An upstream's answer that is not forwarded (message "Invalid upstream JSON-RPC response")."""


class UpstreamError(AccreditError):
    """The upstream gave nothing to judge. `detail` is public and short."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class UpstreamUnavailable(UpstreamError):
    """The upstream can't be reached, or was cut off before its answer was whole."""


class UpstreamTimeout(UpstreamError):
    """The upstream did not answer in time."""


class ClientGone(AccreditError):
    """The client closed its connection, or does not read any more; there is nobody to answer."""


class StoreUnavailable(AccreditError):
    """A store can't be reached, or has not answered in time. The text is for the log: it may name a file."""


class ClockSetBack(StoreUnavailable):
    """The clock is behind what the store has forgotten: whether something was used before, nobody can say. `until` is
    in unix seconds."""

    def __init__(self, until: int) -> None:
        super().__init__(f"the clock was set back: the store has forgotten what counts until {until} (unix seconds)")
        self.until = until


class AttestationError(AccreditError):
    """An envelope, a statement or a record can't be read or written, or does not verify. The text says why.

    `place` is the record's in its log, "writer/sequence", where only whoever reads it knows it.
    """

    def __init__(self, text: str, place: str = "") -> None:
        super().__init__(text)
        self.place = place


class ProofRefused(AccreditError):
    """A call was refused by the decision: at the gateway or in a server, and so what a client gets to see.

    `code`, `message` and `data` are the JSON-RPC error's; `data["error"]` is the word for
    programs, such as "ratify_scope_denied".
    """

    def __init__(self, data: Mapping[str, object], message: str = "", code: int = -31003) -> None:
        super().__init__(message or str(data.get("error", "refused")))
        self.data = data
        self.message = str(self)
        self.code = code

    @property
    def error(self) -> str:
        """The word for programs."""
        return str(self.data.get("error", ""))


class TokenError(AccreditError):
    """A request that its bearer token does not let pass.

    The text is public; `reason` is for the log only, and never holds the token. `status` is the HTTP status, `code`
    the JSON-RPC error's, and `error` the word for programs.
    """

    status: ClassVar[int] = 401
    code: ClassVar[int] = -31010
    error: ClassVar[str] = "invalid_token"

    def __init__(self, reason: str, detail: str = "the token is not valid") -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class AmbiguousToken(TokenError):
    """More than one Authorization header: readers take different ones."""

    status = 400
    error = "invalid_request"


class MissingToken(TokenError):
    """A token is required, and there is none."""

    code = -31011
    error = "missing_token"


class InvalidToken(TokenError):
    """A token that was not issued as it says, or not for this, or whose time is over."""


class InsufficientScope(TokenError):
    """A good token that may not do this. `scopes` are those that it would need, where a scope is what it lacks."""

    status = 403
    error = "insufficient_scope"

    def __init__(self, reason: str, detail: str, scopes: tuple[str, ...] = ()) -> None:
        super().__init__(reason, detail)
        self.scopes = scopes


class KeySetError(AccreditError):
    """No set of public keys could be fetched or read. The text is for the log and for whoever configured it."""


class KeysUnavailable(AccreditError):
    """No keys of an issuer can be had: its tokens can't be judged. The text is for the log: it may name a URL.

    `retry_after` is in seconds: before, asking again is no use.
    """

    def __init__(self, reason: str, retry_after: int) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class RequestTimeout(AccreditError):
    """A request was not answered within its own time, `timeout` in seconds."""

    def __init__(self, timeout: float) -> None:
        super().__init__(f"no answer within {timeout:g} s")
        self.timeout = timeout


class RoundsError(AccreditError):
    """A multi-round-trip request that can't go on (2026-07-28, basic/patterns/mrtr)."""


class RoundsExceeded(RoundsError):
    """The server asked once more than a call may be repeated. `last_result` is what it asked last."""

    def __init__(self, last_result: "InputRequiredResult") -> None:
        super().__init__("the server keeps asking for input: this call was repeated as often as it may be")
        self.last_result = last_result


class RoundsTimeout(RoundsError):
    """The whole call, with all its rounds, took too long. Both times in seconds, from when it was first sent."""

    def __init__(self, max_total_timeout: float, elapsed: float) -> None:
        super().__init__(f"the call was not done within {max_total_timeout:g} s")
        self.max_total_timeout = max_total_timeout
        self.elapsed = elapsed


class InputRequestError(RoundsError):
    """One entry of `inputRequests` that can't be fulfilled: its `key` and its `method`, both the server's words."""

    def __init__(self, key: str, method: str, fault: str) -> None:
        super().__init__(f"input request {key!a:.40} ({method!a:.40}) {fault}")
        self.key = key
        self.method = method


class InputHandlerMissing(InputRequestError):
    """The server asks for a kind of input for which there is no handler."""

    def __init__(self, key: str, method: str) -> None:
        super().__init__(key, method, "has no handler here")


class UnknownInputRequest(InputRequestError):
    """The server asks with a method that is none of the three that may be embedded."""

    def __init__(self, key: str, method: str) -> None:
        super().__init__(key, method, "is of a kind that does not exist")


class InputHandlerFailed(InputRequestError):
    """A handler raised (that is the cause), or returned what is no answer to what it was asked."""

    def __init__(self, key: str, method: str) -> None:
        super().__init__(key, method, "was not fulfilled: its handler failed")


class InputRequired(RoundsError):
    """The server needs input, and the caller neither has it given automatically nor asked to see `result`."""

    def __init__(self, result: "InputRequiredResult") -> None:
        super().__init__("the server needs input: pass allow_input_required=True to see what it asks")
        self.result = result


class InvalidInputRequired(RoundsError):
    """An `input_required` result that the protocol does not allow. `detail` is public and short."""

    def __init__(self, detail: str) -> None:
        super().__init__(f"invalid input_required: {detail}")
        self.detail = detail


class UnsupportedResultType(RoundsError):
    """A result of a kind that neither the revision nor an extension that was negotiated defines: what it means, nobody
    here knows. `result_type` is what it says that it is, `result` all of it."""

    def __init__(self, result_type: object, result: object) -> None:
        super().__init__(f"the result is of a kind that is not known here: resultType {result_type!a:.40}")
        self.result_type = result_type
        self.result = result


class SealError(RoundsError):
    """A `requestState` that can't be sealed or does not open. The text is public, and one for every cause (2026-07-28,
    basic/patterns/mrtr); `reason` is for the log alone."""

    def __init__(self, reason: str) -> None:
        super().__init__("Invalid or expired requestState")
        self.reason = reason


class NoBackChannel(AccreditError):
    """An input handler tried to send to the server. What it has to say to it is what it returns."""

    def __init__(self) -> None:
        super().__init__("the server is not listening while it waits for input: return the answer instead")


class RatifyError(AccreditError):
    """Something of the Ratify protocol that can't be read, signed or issued."""


class WireError(RatifyError):
    """What was read or is to be written is no object of the protocol.

    `path` names the place, such as `ProofBundle.delegations[0].scope` ("" for the whole text), and `reason` says
    what is wrong there.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"wire: {path}: {reason}" if path else f"wire: {reason}")
        self.path = path
        self.reason = reason


class IssueError(RatifyError):
    """What was asked to be signed may not be: nothing was signed. The text says why."""


class ChallengesFull(RatifyError):
    """A challenge store has no room: too many challenges are pending."""
