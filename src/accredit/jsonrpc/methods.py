"""The method table: the names that each revision knows, and the members that a request's `params` may have. No I/O.

Source: the MCP schemas of 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25 and 2026-07-28. By this table the gateway
separates known methods from unknown ones (`is_known`), finds a request's target, and recognises misspelt members.
docs/reference/methods.md shows the whole table.
"""

from enum import Enum

from msgspec import Struct

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

MAY_NAME_TASKS = TASKS | {LISTEN}
"""Every method that may be about tasks."""

ALWAYS_KNOWN = frozenset(name for name, method in METHODS.items() if method.revisions == _ALL)
"""The methods that clients may send in every revision (`is_known`)."""


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
AGENT_SKILL = "dev.accredit/skill"
"""The member of `params.metadata` by which such a message names a skill."""
AGENT_CHANGES = frozenset({"CancelTask", "CreateTaskPushNotificationConfig", "DeleteTaskPushNotificationConfig"})
"""Methods of A2A that change a task."""
