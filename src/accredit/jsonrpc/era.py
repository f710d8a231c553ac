"""The eras of MCP: the methods of each revision, and the agreement of a request's HTTP headers with its body. No I/O.

The method table has the names that each revision knows, and the members that a request's `params` may have. Its source
are the MCP schemas of 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25 and 2026-07-28. By it the gateway separates known
methods from unknown ones (`is_known`), finds a request's target, and recognises misspelt members.
docs/reference/methods.md shows the whole table.

Source: 2026-07-28, basic/transports ("Standard headers", "Header validation") and basic/index ("Per-request protocol
fields"). A modern request is refused, in this order:

- [meta] `params._meta` lacks the protocol version or the client's capabilities: -32602;
- [headers] a routing header occurs twice, is missing, or differs from the body: -32020. The headers are
  `MCP-Protocol-Version`, `Mcp-Method` and, for calls with a target, `Mcp-Name`.

Intermediaries route by headers and servers act on bodies. So a message whose headers and body disagree is refused
before either is trusted. Whether the version is supported is for the upstream to decide.

Some routing headers have no counterpart in the message's body: any in the legacy era, or `Mcp-Name` on a list request.
They can't be compared, so they are not forwarded (`unmirrored_headers`).
"""

from collections.abc import Collection
from enum import Enum

from msgspec import Struct

from accredit.errors import RequestError
from accredit.jsonrpc.encode import HEADER_MISMATCH, INVALID_PARAMS
from accredit.jsonrpc.frames import Frame, Notification, Request
from accredit.jsonrpc.header_values import DUPLICATED, Headers, decode_header, plain_header
from accredit.jsonrpc.objects import as_string
from accredit.jsonrpc.param_headers import is_param_header
from accredit.jsonrpc.requests import Batch

LEGACY_REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Revisions with `initialize` and sessions, oldest first."""

MODERN_REVISIONS = ("2026-07-28",)
"""Stateless revisions: every request carries its metadata in `params._meta`."""

BATCH_REVISION = "2025-03-26"
"""The one revision whose transport allows JSON-RPC batches."""

HEADERLESS_REVISION = "2025-03-26"
"""The revision that a server assumes for a request without `MCP-Protocol-Version` (2025-11-25, basic/transports)."""


class Era(Enum):
    """The two kinds of revisions. Legacy: up to 2025-11-25, with sessions. Modern: 2026-07-28 and later, stateless."""

    LEGACY = "legacy"
    MODERN = "modern"


META_VERSION = "io.modelcontextprotocol/protocolVersion"
META_CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
META_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
META_LOG_LEVEL = "io.modelcontextprotocol/logLevel"
CANCELLED = "notifications/cancelled"
TASK_NOTIFICATION = "notifications/tasks"
"""The notification about a task in the extension of SEP-2663."""

META_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
META_PROGRESS = "progressToken"

META_MEMBERS = (
    META_PROGRESS,
    META_VERSION,
    META_CLIENT_INFO,
    META_CAPABILITIES,
    META_LOG_LEVEL,
    META_SUBSCRIPTION,
    "io.modelcontextprotocol/related-task",
    "traceparent",
    "tracestate",
    "baggage",
)
"""The names that MCP defines in a request's `_meta`."""

INPUT_REQUIRED_METHODS = frozenset({"tools/call", "prompts/get", "resources/read"})
"""The methods whose result may be `input_required` (2026-07-28, basic/patterns/mrtr)."""

TASK_MEMBER = "taskId"

TASK_METHODS = frozenset({"tasks/get", "tasks/result", "tasks/update", "tasks/cancel"})
"""Requests about one task (2025-11-25, basic/utilities/tasks, and the extension of SEP-2663)."""

TASK_LIST = "tasks/list"

TASKS = TASK_METHODS | {TASK_LIST}
"""Every method about tasks."""

TASK_CHANGES = frozenset({"tasks/update", "tasks/cancel"})
"""Methods that change a task. They need the same authority as the tool that began the task; for methods that only show
a task, any valid proof of its owner is enough."""

TARGET_MEMBER = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    **dict.fromkeys(TASK_METHODS, TASK_MEMBER),
}
"""The member of `params` that names a request's target; `Mcp-Name` mirrors it (2026-07-28, basic/transports, and
SEP-2663, "Routing Headers")."""

_ROUND = ("inputResponses", "requestState")


class Method(Struct, frozen=True):
    """A method that clients may send, a request or a notification: the revisions that know it, and the members of its
    `params`."""

    revisions: tuple[str, ...]
    params: tuple[str, ...] = ()


_ALL = LEGACY_REVISIONS + MODERN_REVISIONS
_TASKS = "2025-11-25"  # the only revision that has them; in modern ones an extension adds them
_TASK_STATUS = ("taskId", "status", "statusMessage", "createdAt", "lastUpdatedAt", "ttl", "pollInterval")

METHODS = {
    "initialize": Method(LEGACY_REVISIONS, ("protocolVersion", "capabilities", "clientInfo")),
    "ping": Method(LEGACY_REVISIONS),
    "server/discover": Method(MODERN_REVISIONS),
    "subscriptions/listen": Method(MODERN_REVISIONS, ("notifications",)),
    "completion/complete": Method(_ALL, ("ref", "argument", "context")),
    "logging/setLevel": Method(LEGACY_REVISIONS, ("level",)),
    "prompts/get": Method(_ALL, ("name", "arguments", *_ROUND)),
    "prompts/list": Method(_ALL, ("cursor",)),
    "resources/list": Method(_ALL, ("cursor",)),
    "resources/read": Method(_ALL, ("uri", *_ROUND)),
    "resources/subscribe": Method(LEGACY_REVISIONS, ("uri",)),
    "resources/templates/list": Method(_ALL, ("cursor",)),
    "resources/unsubscribe": Method(LEGACY_REVISIONS, ("uri",)),
    "tools/call": Method(_ALL, ("name", "arguments", "task", *_ROUND)),
    "tools/list": Method(_ALL, ("cursor",)),
    CANCELLED: Method(_ALL, ("requestId", "reason")),
    "notifications/initialized": Method(LEGACY_REVISIONS),
    "notifications/progress": Method(LEGACY_REVISIONS, ("progressToken", "progress", "total", "message")),
    "notifications/roots/list_changed": Method(LEGACY_REVISIONS),
    "tasks/get": Method((_TASKS, *MODERN_REVISIONS), (TASK_MEMBER, "requestState")),
    "tasks/result": Method((_TASKS,), (TASK_MEMBER,)),
    "tasks/list": Method((_TASKS,), ("cursor",)),
    "tasks/update": Method(MODERN_REVISIONS, (TASK_MEMBER, *_ROUND)),
    "tasks/cancel": Method((_TASKS, *MODERN_REVISIONS), (TASK_MEMBER, "requestState")),
    "notifications/tasks/status": Method((_TASKS,), _TASK_STATUS),
}
"""The messages that clients send, in all revisions, and in the extension `io.modelcontextprotocol/tasks`. Messages that
only servers send are not included: from a client, they have no meaning."""

LISTEN = "subscriptions/listen"
"""The request whose answer is a long-lived stream (2026-07-28)."""


def is_modern(revision: str) -> bool:
    """Return whether a revision is stateless. Any revision newer than those known here counts as such."""
    return revision in MODERN_REVISIONS or (revision not in LEGACY_REVISIONS and revision > LEGACY_REVISIONS[-1])


def is_known(method: str, revision: str | None) -> bool:
    """Return whether a client may send this method in a revision.

    For a revision that is not in this table, the newest one of the same era decides. Before a revision is negotiated
    (None), every method of any revision is known.
    """
    entry = METHODS.get(method)
    if entry is None or revision is None:
        return entry is not None
    newest = MODERN_REVISIONS[-1] if is_modern(revision) else LEGACY_REVISIONS[-1]
    return (revision if revision in _ALL else newest) in entry.revisions


AGENT_MESSAGES = frozenset({"SendMessage", "SendStreamingMessage"})
"""Methods of A2A that send a message to an agent."""
AGENT_CHANGES = frozenset({"CancelTask", "CreateTaskPushNotificationConfig", "DeleteTaskPushNotificationConfig"})
"""Methods of A2A that change a task."""


VERSION_HEADER = b"mcp-protocol-version"
METHOD_HEADER = b"mcp-method"
NAME_HEADER = b"mcp-name"

_SHOWN = {VERSION_HEADER: "MCP-Protocol-Version", METHOD_HEADER: "Mcp-Method", NAME_HEADER: "Mcp-Name"}


def era_of(frame: Frame | Batch, headers: Headers) -> Era:
    """Return the era of a client's message: modern if its version header names a modern version, else the era of its
    body."""
    return Era.MODERN if names_modern(headers) else era_of_body(frame)


def names_modern(headers: Headers) -> bool:
    """Return whether the headers name a modern version."""
    return is_modern(_version_header(headers))


def era_of_body(frame: Frame | Batch) -> Era:
    """Return the era named by a message's own metadata."""
    return frame.era if isinstance(frame, Request) else Era.LEGACY


def check_agreement(frame: Request | Notification, headers: Headers) -> None:
    """Raise `RequestError` for a modern message whose headers and body disagree."""
    id = frame.id if isinstance(frame, Request) else None
    if isinstance(frame, Request):
        version = required_version(frame)
        _agree(headers, VERSION_HEADER, version, id)
    if isinstance(frame, Request) or METHOD_HEADER in headers:
        _agree(headers, METHOD_HEADER, frame.method, id)
    target = _target(frame, headers)
    if target is not None:
        _agree(headers, NAME_HEADER, target, id)


def unmirrored_headers(
    frame: Frame | Batch | None, era: Era, headers: Headers, routing: Collection[bytes] | None = None
) -> frozenset[bytes]:
    """Return the routing headers that mirror nothing in the body of a message (None: an HTTP request without a body).
    They were not compared with anything, so an intermediary that routes by them could take the message for another one.

    For a method that MCP does not define, its author defines the meaning of `Mcp-Name` and `Mcp-Param-*`, so these are
    not returned. `routing` holds the names of all routing headers, if already known.
    """
    if routing is None:
        routing = routing_headers(headers)
    if not routing:
        return frozenset()
    if era is Era.LEGACY or not isinstance(frame, Request | Notification):
        return frozenset(routing)
    mirrored = {METHOD_HEADER}
    if frame.method not in METHODS or _target(frame, headers) is not None:
        mirrored.add(NAME_HEADER)
    with_params = frame.method == "tools/call" or frame.method not in METHODS
    return frozenset(name for name in routing if name not in mirrored and not (with_params and is_param_header(name)))


def routing_headers(headers: Headers) -> tuple[bytes, ...]:
    """Return the names of the headers by which a message is routed, except the version header."""
    return tuple(name for name in headers if name in (METHOD_HEADER, NAME_HEADER) or is_param_header(name))


def _target(frame: Request | Notification, headers: Headers) -> str | None:
    """Return the value that `Mcp-Name` has to mirror, or None.

    A method that does not exist in the message's revision (such as `tasks/result`) has no target: the answer is "method
    not found", whatever its headers say (SEP-2663).
    """
    known = frame.method in TARGET_MEMBER and is_known(frame.method, _version_header(headers) or None)
    return frame.target if known else None


def _version_header(headers: Headers) -> str:
    return headers.get(VERSION_HEADER, b"").strip(b" \t").decode("latin-1")


def required_version(request: Request) -> str:
    """Return the protocol version in a modern request's body. Raises `RequestError` if required metadata is missing."""
    said = request.in_meta(META_VERSION)
    if said is None or request.in_meta(META_CAPABILITIES) is None:
        missing = [key for key in (META_VERSION, META_CAPABILITIES) if request.in_meta(key) is None]
        raise RequestError(INVALID_PARAMS, f"params._meta lacks {' and '.join(missing)}", id=request.id)
    version = as_string(said)
    if version is None:
        raise RequestError(INVALID_PARAMS, f"params._meta {META_VERSION} is not a string", id=request.id)
    return version


def _agree(headers: Headers, name: bytes, expected: str, id: int | str | None) -> None:
    value = headers.get(name)
    shown = _SHOWN[name]
    if value is None:
        raise RequestError(HEADER_MISMATCH, f"Header mismatch: {shown} is missing", id=id)
    if DUPLICATED in value:
        raise RequestError(HEADER_MISMATCH, f"Header mismatch: {shown} occurs twice", id=id)
    if (decode_header if name == NAME_HEADER else plain_header)(value) != expected:
        raise RequestError(HEADER_MISMATCH, f"Header mismatch: {shown} differs from the body", id=id)
