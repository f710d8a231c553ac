"""Every exception that `accredit` raises on purpose. No I/O.

    AccreditError
    ├── ConfigurationError        what is wrong, and what to do about it
    ├── FrameError                bytes that are not one valid JSON-RPC message
    │   ├── JsonError             ... nor JSON at all
    │   ├── RequestError          ... from a client, with the JSON-RPC error it is owed
    │   └── AnswerError           ... from an upstream: the client gets a clean error instead
    ├── UpstreamError             no frame to judge
    │   ├── UpstreamUnavailable   unreachable or cut off
    │   └── UpstreamTimeout       too late
    ├── StoreUnavailable          the store can't answer: what depends on it is denied
    ├── AttestationError          an envelope, a statement or a record that can't be read, or does not verify
    ├── ProofRefused              a call that was not authorized (contract, section 4)
    └── RatifyError               the delegation protocol
        ├── WireError             bytes or values that are no object of the protocol
        ├── IssueError            what may not be signed, and why
        └── ChallengesFull        no room for one more pending challenge

Nothing from a parser, a socket or an operating system leaves this package unwrapped: each boundary is
fenced where it is crossed. The text of an exception is public (a peer may read it) unless its class says
otherwise; it never quotes a secret, nor more than 100 ASCII characters of what a peer sent.
"""

from collections.abc import Mapping

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


class RequestError(FrameError):
    """A client's message that is refused.

    `code` and `detail` become the JSON-RPC error, `id` is the request's where it could be read, and
    `status` is the HTTP status that goes with it.
    """

    def __init__(
        self, code: int, detail: str, *, id: MessageId | None = None, status: int = 400, data: object = None
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.id = id
        self.status = status
        self.data = data


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


class StoreUnavailable(AccreditError):
    """A store can't be reached, or has not answered in time. The text is for the log: it may name a file."""


class AttestationError(AccreditError):
    """An envelope, a statement or a record can't be read or written, or does not verify. The text says why."""


class ProofRefused(AccreditError):
    """A call was refused by the decision: at the gateway or in a server, and so what a client gets to see.

    `code`, `message` and `data` are the JSON-RPC error's (contract, section 4); `data["error"]` is the word for
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
