"""How refusals are worded in A2A: its own error codes, with the details that its specification asks for (section 9.5).
No I/O.

A refusal is a JSON-RPC error with HTTP status 200: clients of the SDK drop what a 4xx says. Refusals by the decision
have the codes and the data that they have in MCP.
"""

from typing import NamedTuple

from accredit.errors import AccreditError, AnswerError, MessageId, ProofRefused, RequestError, UpstreamError
from accredit.jsonrpc.encode import INTERNAL_ERROR, error_frame

UNKNOWN_TASK = -32001
PUSH_REFUSED = -32003
INVALID_AGENT_ANSWER = -32006
UNKNOWN_VERSION = -32009

_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
_DOMAIN = "a2a-protocol.org"
_REASONS = {
    UNKNOWN_TASK: ("TASK_NOT_FOUND", "Task not found"),
    PUSH_REFUSED: ("PUSH_NOTIFICATION_NOT_SUPPORTED", "Push notifications to this address are not supported"),
    INVALID_AGENT_ANSWER: ("INVALID_AGENT_RESPONSE", "Invalid agent response"),
    UNKNOWN_VERSION: ("VERSION_NOT_SUPPORTED", "Version not supported: this agent speaks A2A 1.0"),
}
_WORDS = {"unknown_task": UNKNOWN_TASK, "push_refused": PUSH_REFUSED}


class ErrorAnswer(NamedTuple):
    """The JSON-RPC error that a client is told."""

    code: int
    message: str
    data: object = None

    def frame(self, id: MessageId | None) -> bytes:
        """Return the error response to the request `id`."""
        return error_frame(id, self.code, self.message, self.data)


def a2a_error(code: int) -> ErrorAnswer:
    """Return one of A2A's own errors."""
    reason, message = _REASONS[code]
    return ErrorAnswer(code, message, [{"@type": _INFO, "reason": reason, "domain": _DOMAIN}])


def error_told(error: AccreditError) -> ErrorAnswer | None:
    """Return an error as the client gets it, or None if A2A has no code for it."""
    match error:
        case ProofRefused():
            own = _WORDS.get(error.error)
            return a2a_error(own) if own is not None else ErrorAnswer(error.code, error.message, error.data)
        case RequestError():
            return (
                a2a_error(error.code) if error.code in _REASONS else ErrorAnswer(error.code, error.detail, error.data)
            )
        case AnswerError():
            return a2a_error(INVALID_AGENT_ANSWER)
        case UpstreamError():
            return ErrorAnswer(INTERNAL_ERROR, "The agent can't be reached, or does not answer")
        case _:
            return None


def unknown_task() -> RequestError:
    """Return the error for a task, a context or a tenant that is not the caller's. It is the same for all three."""
    return RequestError(UNKNOWN_TASK, _REASONS[UNKNOWN_TASK][1], status=200, word="unknown_task")


def push_refused(method: str) -> ProofRefused:
    """Return the refusal of a push configuration whose address is not configured."""
    return ProofRefused({"error": "push_refused", "method": method, "_meta": {}}, code=PUSH_REFUSED)
