"""Every exception that `accredit` raises on purpose. No I/O.

    AccreditError
    ├── ConfigurationError        what is wrong, and what to do about it
    ├── FrameError                bytes that are not one valid JSON-RPC message
    │   ├── JsonError             ... nor strict JSON
    │   ├── LineTooLong           ... but a line past its bound
    │   ├── RequestError          ... from a client, with the JSON-RPC error to answer
    │   └── AnswerError           ... from an upstream: the client gets a clean error instead
    ├── UpstreamError             the upstream gave no answer to judge
    │   ├── UpstreamUnavailable   unreachable or cut off
    │   │   ├── UpstreamLeftOut   ... or not asked at all
    │   │   └── UpstreamRefuses   ... as it does not accept the gateway's credentials
    │   └── UpstreamTimeout       too late
    ├── ClientGone                nobody is left to answer
    ├── StoreUnavailable          the store can't answer: what depends on it is refused
    │   └── ClockSetBack          ... because its clock was set back: forgotten entries may count again
    ├── AttestationError          an envelope, a statement or a record that can't be read, or does not verify
    ├── ProofRefused              a call that was not authorized
    ├── TokenError                a bearer token that does not let its request pass
    │   ├── AmbiguousToken        ... more than one, where there may be one
    │   ├── MissingToken          ... none
    │   ├── InvalidToken          ... one that is not good
    │   └── InsufficientScope     ... a good one that may not do this
    ├── OAuthError                a request to the gateway's authorization server that is refused
    │   └── LoginUnavailable      ... as the identity provider does not answer
    ├── KeySetError               public keys for verifying tokens could not be fetched or read
    ├── KeysUnavailable           an issuer's keys can't be had for now
    ├── AccessTokenError          a token for the upstream that could not be had, or read
    ├── CollectorError            telemetry that its collector may not have taken
    ├── RequestTimeout            a request of ours that was not answered in time
    ├── UnsupportedRevision       a server that speaks no revision of MCP that is spoken here
    ├── RoundsError               a multi-round-trip request that can't go on
    │   ├── RoundsExceeded        ... since the server asked once more than a call may be repeated
    │   ├── RoundsTimeout         ... since the whole call's time is used up
    │   ├── InputRequestError     ... since one of its input requests is not fulfilled
    │   │   ├── InputHandlerMissing   there is no handler for it
    │   │   ├── UnknownInputRequest   the protocol does not know its method
    │   │   └── InputHandlerFailed    its handler failed
    │   ├── InputRequired         ... since input is not given automatically
    │   ├── InvalidInputRequired  ... since its result is not allowed by the protocol
    │   ├── UnsupportedResultType ... since its result is of an unknown kind
    │   └── SealError             ... since its state can't be sealed, or does not open
    ├── DeskError                 the desk does not do what it is asked
    ├── NoBackChannel             a handler tried to send to the server that asks
    ├── ConsentError              what a person is asked, or answers, that can't be used
    │   ├── AskError              ... an ask that can't be read or made, or does not hold
    │   ├── UnusableAnswer        ... an answer that does not allow the call it is used for
    │   └── NotOffered            ... a choice that is not offered for the call
    └── RatifyError               the delegation protocol
        ├── WireError             bytes or values that are not an object of the protocol
        ├── IssueError            an object that may not be signed
        └── ChallengesFull        no room for one more pending challenge

No exception of a parser, a socket or the operating system leaves this package: the code that calls them raises one of
these errors instead. The text of an exception is public (a peer may read it) unless its class says otherwise; it never
quotes a secret, nor more than 100 ASCII characters of what a peer sent.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from accredit.refusals import BY_WORD, DENIED

if TYPE_CHECKING:  # only for a type: this module loads no library
    from mcp_types import InputRequiredResult

MessageId = int | str
"""The id of a JSON-RPC request: an integer or a string. 7 is not "7"."""


def one_line(text: str) -> str:
    """Escape all characters that are not printable: line ends, control sequences, changes of writing direction."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


class AccreditError(Exception):
    """The base of all errors here. If the gateway has several servers, `server` names the one that the error is about,
    or is "" if that is unknown."""

    server = ""

    def let_go(self) -> None:
        """Drop the traceback, whose frames keep the request's bytes. Call this before the error is answered: a frame
        that refers to the error makes a cycle, and the garbage collector would free it only some hundred calls
        later."""
        self.__traceback__ = None


class ConfigurationError(AccreditError):
    """The configuration, or the command line, can't be used.

    `what` says in one line what is wrong, and names the key; `remedy` says in one line what to do. Both are escaped
    here (`one_line`): they may quote others' texts.
    """

    def __init__(self, what: str, remedy: str) -> None:
        self.what, self.remedy = one_line(what), one_line(remedy)
        super().__init__(f"{self.what}\n{self.remedy}")


@contextmanager
def named_key(key: str) -> Generator[None]:
    """Put the configuration's `key` before the text of any `ConfigurationError` raised in this block."""
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError(f"{key}: {error.what}", error.remedy) from None


class WrongPassphrase(ConfigurationError):
    """A passphrase does not open a key. The text says nothing about the passphrase that was tried. `file` is where the
    key is, "" if that is not known."""

    def __init__(self, name: str, id: str, file: str = "") -> None:
        where = f", {file}" if file else ""
        super().__init__(
            f"this is not the passphrase of {name}'s key ({id}){where}",
            "try again; nothing was signed. A lost passphrase can't be found: then make a new key, and sign anew",
        )


class FrameError(AccreditError):
    """Bytes that are not one valid message. `detail` is public and short.

    `bound` says that a limit was exceeded. Such a frame is refused even if invalid frames are only observed.
    """

    def __init__(self, detail: str, *, bound: bool = False) -> None:
        super().__init__(detail)
        self.detail = detail
        self.bound = bound


class JsonError(FrameError):
    """Bytes that are not one strict JSON value."""


class LineTooLong(FrameError):
    """A line that is longer than allowed. Only the two ends of the line were read, to find the message's `id`, its
    `kind` ("call" for a request or a notification, "response", or "" if unknown), and whether the line begins as a
    message at all."""

    def __init__(self, detail: str, *, id: MessageId | None = None, kind: str = "", is_message: bool = False) -> None:
        super().__init__(detail, bound=True)
        self.id = id
        self.kind = kind
        self.is_message = is_message


class RequestError(FrameError):
    """A client's message that is refused.

    `code` and `detail` become the JSON-RPC error. `id` is the request's, if that could be read. `status` is the HTTP
    status. If the code says too little, `word` is what records give as the error. After `retry_after` seconds, the same
    request may succeed (0: it won't).
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
    """The upstream gave no answer to judge. `detail` is public and short. If `unsent`, it is certain that no byte of
    the request was written. `at` is the address that can't be reached, or ""; it is for the log only."""

    unsent = False
    at = ""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class UpstreamUnavailable(UpstreamError):
    """The upstream can't be reached, or was cut off before its answer was complete."""


class UpstreamLeftOut(UpstreamUnavailable):
    """The request is not sent to the upstream: the upstream has as many requests or connections as it may have, or all
    its replicas are ejected, or the gateway has no token for it."""

    unsent = True


class UpstreamRefuses(UpstreamUnavailable):
    """The upstream does not accept the gateway's own credentials (401). The client is not told this reason."""

    def __init__(self) -> None:
        super().__init__("the upstream does not accept the gateway's credentials")


class UpstreamTimeout(UpstreamError):
    """The upstream did not answer in time."""


class ClientGone(AccreditError):
    """The client closed its connection, or stopped reading; there is nobody to answer."""


class StoreUnavailable(AccreditError):
    """A store can't be reached, or did not answer in time. The text is for the log: it may name a file."""


class AsksFull(StoreUnavailable):
    """The store has no room for one more ask (a question to a person), from this asker or from anybody. There may be
    room later."""


class ClockSetBack(StoreUnavailable):
    """The clock was set back: entries that the store has deleted as expired would count again, so an earlier use may be
    unknown. `until` (unix seconds) is when the last of these entries expires."""

    def __init__(self, until: int) -> None:
        super().__init__(f"the clock was set back: the store has forgotten what counts until {until} (unix seconds)")
        self.until = until


class AttestationError(AccreditError):
    """An envelope, a statement or a record can't be read or written, or does not verify. The text says why.

    `place` is the record's place in its log, "writer/sequence". It is set only where the caller can't know it
    otherwise.
    """

    def __init__(self, text: str, place: str = "") -> None:
        super().__init__(text)
        self.place = place


class ProofRefused(AccreditError):
    """A call was not authorized, by the gateway or by a server that decides itself. The client gets the same error.

    `code`, `message` and `data` are the JSON-RPC error's; `data["error"]` is the word for programs, such as
    "ratify_scope_denied". With a `challenge`, the HTTP status is 401, and the challenge is the value of
    `WWW-Authenticate`.
    """

    challenge = ""

    def __init__(self, data: Mapping[str, object], message: str = "", code: int = DENIED) -> None:
        super().__init__(message or str(data.get("error", "refused")))
        self.data = data
        self.message = str(self)
        self.code = code

    @property
    def error(self) -> str:
        """The word for programs."""
        return str(self.data.get("error", ""))


class TokenError(AccreditError):
    """A request is refused because of its bearer token.

    The text is public. `reason` is only for the program's log, and never holds the token. `status` is the HTTP status,
    `code` the JSON-RPC error's code, and `error` the word for programs.
    """

    error: ClassVar[str] = "invalid_token"
    status: ClassVar[int] = BY_WORD[error].status
    code: ClassVar[int] = BY_WORD[error].code

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.status, cls.code = BY_WORD[cls.error].status, BY_WORD[cls.error].code

    def __init__(self, reason: str, detail: str = "the token is not valid") -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class AmbiguousToken(TokenError):
    """There is more than one Authorization header. Different readers would use different ones."""

    error = "invalid_request"


class MissingToken(TokenError):
    """A token is required, and there is none."""

    error = "missing_token"


class InvalidToken(TokenError):
    """A token was not issued by the one it names, or not for this server, or is not valid now."""


class InsufficientScope(TokenError):
    """A valid token does not allow this. `scopes` are the scopes that it would need, if it lacks one."""

    error = "insufficient_scope"

    def __init__(self, reason: str, detail: str, scopes: tuple[str, ...] = ()) -> None:
        super().__init__(reason, detail)
        self.scopes = scopes


class OAuthError(AccreditError):
    """A request to the gateway's own authorization server, or a client's metadata, that is refused.

    `error` is the code that the client gets (RFC 6749 sections 4.1.2.1 and 5.2, RFC 7591 section 3.2.2, RFC 8707
    section 2). `detail` is public, short, in ASCII, and does not quote what a client sent.
    """

    def __init__(self, error: str, detail: str) -> None:
        super().__init__(f"{error}: {detail}")
        self.error = error
        self.detail = detail


class LoginUnavailable(OAuthError):
    """The identity provider does not answer: nobody can log in, and nobody's groups can be refreshed."""

    def __init__(self) -> None:
        super().__init__("temporarily_unavailable", "the identity provider does not answer")


class KeySetError(AccreditError):
    """A set of public keys could not be fetched or read. The text is for the log and the operator."""


class KeysUnavailable(AccreditError):
    """An issuer's keys are not available, so its tokens can't be verified. The text is for the log: it may name a URL.

    `retry_after` is in seconds; asking again earlier would be in vain.
    """

    def __init__(self, reason: str, retry_after: int) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class AccessTokenError(AccreditError):
    """The authorization server gave no token for the upstream. The text is for the log, and does not quote the answer.
    `word` is the error's code, if it is one that the specification names."""

    def __init__(self, reason: str, word: str = "") -> None:
        super().__init__(reason)
        self.word = word


class CollectorError(AccreditError):
    """The collector of telemetry may not have accepted a message. The text is for the log, and does not quote the
    collector's answer. `passing` says that it may accept the same message later, after at least `wait` seconds."""

    def __init__(self, reason: str, *, passing: bool = True, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.passing = passing
        self.wait = wait


class RequestTimeout(AccreditError):
    """A request was not answered within its own time: `timeout`, in seconds."""

    def __init__(self, timeout: float) -> None:
        super().__init__(f"no answer within {timeout:g} s")
        self.timeout = timeout


class UnsupportedRevision(AccreditError):
    """A server speaks no revision of MCP that is spoken here."""


class RoundsError(AccreditError):
    """A multi-round-trip request that can't continue (2026-07-28, basic/patterns/mrtr)."""


class RoundsExceeded(RoundsError):
    """The server asked for input once more than a call may be repeated. `last_result` is its last request for input."""

    def __init__(self, last_result: "InputRequiredResult") -> None:
        super().__init__("the server keeps asking for input: this call was repeated as often as it may be")
        self.last_result = last_result


class RoundsTimeout(RoundsError):
    """The whole call, with all its rounds, took too long. Both times are in seconds since it was first sent."""

    def __init__(self, max_total_timeout: float, elapsed: float) -> None:
        super().__init__(f"the call was not done within {max_total_timeout:g} s")
        self.max_total_timeout = max_total_timeout
        self.elapsed = elapsed


class InputRequestError(RoundsError):
    """One entry of `inputRequests` can't be fulfilled. The server chose its `key` and its `method`."""

    def __init__(self, key: str, method: str, fault: str) -> None:
        super().__init__(f"input request {key!a:.40} ({method!a:.40}) {fault}")
        self.key = key
        self.method = method


class InputHandlerMissing(InputRequestError):
    """The server asks for a kind of input for which there is no handler."""

    def __init__(self, key: str, method: str) -> None:
        super().__init__(key, method, "has no handler here")


class UnknownInputRequest(InputRequestError):
    """The server asks with a method that is not one of the three that may be embedded."""

    def __init__(self, key: str, method: str) -> None:
        super().__init__(key, method, "is of a kind that does not exist")


class InputHandlerFailed(InputRequestError):
    """A handler raised an exception (the cause of this error), or returned something that does not answer its
    request."""

    def __init__(self, key: str, method: str) -> None:
        super().__init__(key, method, "was not fulfilled: its handler failed")


class InputRequired(RoundsError):
    """The server needs input (`result`). The caller neither allowed automatic answers (`auto_fulfil`) nor asked to be
    given such results (`allow_input_required`)."""

    def __init__(self, result: "InputRequiredResult") -> None:
        super().__init__("the server needs input: pass allow_input_required=True to see what it asks")
        self.result = result


class InvalidInputRequired(RoundsError):
    """An `input_required` result that the protocol does not allow. `detail` is public and short."""

    def __init__(self, detail: str) -> None:
        super().__init__(f"invalid input_required: {detail}")
        self.detail = detail


class UnsupportedResultType(RoundsError):
    """A result of a kind that neither the revision nor a negotiated extension defines, so that its meaning is unknown.
    `result_type` is the kind that it claims, `result` all of it."""

    def __init__(self, result_type: object, result: object) -> None:
        super().__init__(f"the result is of a kind that is not known here: resultType {result_type!a:.40}")
        self.result_type = result_type
        self.result = result


class SealError(RoundsError):
    """A `requestState` or a session's id can't be sealed or does not open. The public text is the same for both, and
    for every cause (2026-07-28, basic/patterns/mrtr). `reason` is only for the program's log."""

    def __init__(self, reason: str) -> None:
        super().__init__("Invalid or expired requestState")
        self.reason = reason


class LockError(AccreditError):
    """A lock file with pinned tool definitions (`accredit.lock`) can't be read. The text says why."""


class ConsentError(AccreditError):
    """A question to a person, or the answer, can't be used. Of what a peer sent, the text quotes only names of JSON
    members."""


class AskError(ConsentError):
    """A question to a person (an ask) can't be read or made, has expired, or was not signed by its agent."""


class AskGone(ConsentError):
    """The ask is gone: it has expired, was taken, or its digits were typed wrong too often."""


class DeskRequestError(ConsentError):
    """A desk's request to a gateway can't be read, is for another gateway or another time, or is not signed."""


class UnusableAnswer(ConsentError):
    """An answer that does not allow the call that it is used for."""


class NotOffered(ConsentError):
    """A person chose something that is not offered for the call, so nothing is signed."""


class DeskError(AccreditError):
    """The desk refuses a request. `error` is a word for programs, `reason` a sentence for people."""

    def __init__(self, error: str, reason: str) -> None:
        super().__init__(reason)
        self.error = error
        self.reason = reason


class NoBackChannel(AccreditError):
    """An input handler tried to send to the server. It can only answer, by what it returns."""

    def __init__(self) -> None:
        super().__init__("the server is not listening while it waits for input: return the answer instead")


class RatifyError(AccreditError):
    """Something of the Ratify protocol that can't be read, signed or issued."""


class WireError(RatifyError):
    """A text or value that is not an object of the protocol.

    `path` is the place, such as `ProofBundle.delegations[0].scope` ("" for the whole text), and `reason` says what is
    wrong there.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"wire: {path}: {reason}" if path else f"wire: {reason}")
        self.path = path
        self.reason = reason


class IssueError(RatifyError):
    """An object that may not be signed, and was not. The text says why."""


class ChallengesFull(RatifyError):
    """A challenge store has no room: too many challenges are pending."""
