"""Values of labels, all from our own lists, so that peers can't create series. No I/O.

Any other value becomes `_other`; for errors `_OTHER`, as the conventions say.
"""

from asyncio import CancelledError
from collections.abc import Collection

from msgspec import Raw

from accredit.errors import (
    AccreditError,
    AnswerError,
    ClientGone,
    FrameError,
    KeysUnavailable,
    ProofRefused,
    RequestError,
    TokenError,
    UpstreamError,
    UpstreamLeftOut,
    UpstreamTimeout,
)
from accredit.jsonrpc import encode
from accredit.jsonrpc.encode import to_json
from accredit.jsonrpc.frames import Request, Response, Success
from accredit.jsonrpc.methods import LEGACY_REVISIONS, METHODS, MODERN_REVISIONS
from accredit.jsonrpc.objects import is_object, members
from accredit.limits import SHORT_MESSAGE_BYTES
from accredit.refusals import BY_WORD, CHALLENGE_REQUIRED, CODES
from accredit.telemetry.board import OTHER

MAX_LABEL_CHARS = 128
"""The most characters of a label's value, such as a tool's name (128, says MCP). A longer one is counted as
`_other`."""


CALL = "tools/call"
_OTHER_METHOD, _OTHER_TOOL = (OTHER, ""), (CALL, OTHER)
OTHER_ERROR = "_OTHER"
TOOL_ERROR = "tool_error"
UPSTREAM_INVALID, UPSTREAM_TIMEOUT, UPSTREAM_BUSY = "upstream_invalid", "upstream_timeout", "upstream_left_out"
UPSTREAM_UNAVAILABLE, CANCELLED = "upstream_unavailable", "cancelled"
REVISIONS = frozenset({*LEGACY_REVISIONS, *MODERN_REVISIONS})

_MCP_CODES = range(-32_042, -31_999)
"""JSON-RPC error codes with a meaning in MCP, its SDKs or JSON-RPC servers."""
_JSONRPC_CODES = frozenset(
    {
        encode.PARSE_ERROR, encode.INVALID_REQUEST, encode.METHOD_NOT_FOUND, encode.INVALID_PARAMS,
        encode.INTERNAL_ERROR, -32800,
    }
)  # fmt: skip
_WORDS = {encode.HEADER_MISMATCH: "header_mismatch", encode.INVALID_PARAMS: "invalid_params"}
_EARLY_WORDS = frozenset({"session_not_found", *_WORDS.values(), "invalid_request", "keys_unavailable"})
RESULT_END_BYTES = 2_048
"""How many of a result's last bytes are searched for `isError`, which servers put at the end. Searching all of a long
result would take as long as all other measuring."""
_MEMBER, _NONE = b'"isError"', b'"isError":false'
_NONE_AT_LAST = _NONE + b"}}"


class Names:
    """The names of one server that may be labels: the `tools` of its catalog, and the `methods` that the configuration
    adds."""

    __slots__ = ("_methods", "_tools", "_written")

    def __init__(self, tools: Collection[str] = (), methods: Collection[str] = ()) -> None:
        self._tools = {name: (CALL, name) for name in tools if len(name) <= MAX_LABEL_CHARS}
        # As most clients spell it, so that nothing needs decoding.
        self._written = {to_json(name): labels for name, labels in self._tools.items()}
        self._methods = {name: (name, "") for name in (*METHODS, *methods) if len(name) <= MAX_LABEL_CHARS}

    def of(self, request: Request) -> tuple[str, str]:
        """Return the labels of a request: its method, and its tool ("" if it has none)."""
        if request.method != CALL:
            return self._methods.get(request.method, _OTHER_METHOD)
        if not self._tools:
            return _OTHER_TOOL
        try:
            name = request.parts.get("name")
            known = self._written.get(bytes(name)) if isinstance(name, Raw) else None
            return known or self._tools.get(request.target or "", _OTHER_TOOL)
        except FrameError:
            return _OTHER_TOOL


def code_label(code: int) -> str:
    """Return the label of a JSON-RPC error: its code, if that is a known one."""
    return str(code) if code in _JSONRPC_CODES or code in CODES or code in _MCP_CODES else OTHER_ERROR


def error_of_response(response: Response, *, of_tool: bool) -> str:
    """Return the label of a response; "" if it is no error. A tool's result is an error if its last `RESULT_END_BYTES`
    say so. A result of more than `SHORT_MESSAGE_BYTES` never counts as an error."""
    if not isinstance(response, Success):
        return code_label(response.code)
    text = response.text
    # Most servers set it in each result, once, and often last: then nothing needs parsing.
    if not of_tool or text.endswith(_NONE_AT_LAST) or len(text) > SHORT_MESSAGE_BYTES:
        return ""
    end = text if len(text) <= RESULT_END_BYTES else text[-RESULT_END_BYTES:]
    times = end.count(_MEMBER)
    if not times or (times == 1 and _NONE in end):
        return ""
    try:
        told = members(response.result).get("isError") if is_object(response.result) else None
    except FrameError:
        return ""
    return TOOL_ERROR if told is not None and bytes(told) == b"true" else ""


def error_of(error: BaseException | None) -> str:
    """Return the label of what ended a request: a refusal's word, or the kind of failure."""
    match error:
        case None:
            return ""
        case ProofRefused() | TokenError():
            return word_of(error)
        case KeysUnavailable():
            return "keys_unavailable"
        case RequestError():
            return error.word if error.word in _EARLY_WORDS else code_label(error.code)
        case AnswerError():
            return UPSTREAM_INVALID
        case UpstreamTimeout():
            return UPSTREAM_TIMEOUT
        case UpstreamLeftOut():
            return UPSTREAM_BUSY
        case UpstreamError():
            return UPSTREAM_UNAVAILABLE
        case ClientGone() | CancelledError():
            return CANCELLED
        case _:
            return OTHER_ERROR


def decision_of(error: AccreditError | None) -> tuple[str, str]:
    """Return a decision's verdict and error, in the words that records use. A refusal's error is that in its
    `data.error`."""
    if error is None:
        return "allow", ""
    challenges = isinstance(error, ProofRefused) and error.code == CHALLENGE_REQUIRED
    return "challenge" if challenges else "deny", word_of(error)


def word_of(error: AccreditError) -> str:
    """Return the word that says why a call was refused."""
    match error:
        case ProofRefused() | TokenError():
            return error.error if error.error in BY_WORD else OTHER_ERROR
        case KeysUnavailable():
            return "keys_unavailable"
        case RequestError():
            word = error.word or _WORDS.get(error.code, "invalid_request")
            return word if word in _EARLY_WORDS else OTHER_ERROR
        case _:
            return OTHER_ERROR
