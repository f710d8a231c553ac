"""The kinds of a modern result (`resultType`), and which requests each may answer. No I/O.

Sources: 2026-07-28, basic/index ("ResultType"), and SEP-2663 ("Polymorphic Results", "Supported Methods") for tasks. A
client that takes a result of an unknown kind for a complete one acts on half an answer. So only the kinds listed here
are accepted. The kinds that an extension adds may answer only the methods they are defined for. The request must also
declare that extension (`clientCapabilities.extensions`: an object under its identifier).
"""

from collections.abc import Container

from accredit.jsonrpc.era import INPUT_REQUIRED_METHODS, META_CAPABILITIES
from accredit.jsonrpc.frames import Request
from accredit.jsonrpc.objects import Names, is_object, members

COMPLETE = "complete"
INPUT_REQUIRED = "input_required"
TASK = "task"

DECIDING = Names("resultType", "inputRequests", "requestState")
"""The members of a result that state its kind, and the input that it asks for."""

TASKS_EXTENSION = "io.modelcontextprotocol/tasks"

_EXTENSION_RESULT_TYPES = {TASKS_EXTENSION: {TASK: frozenset({"tools/call"})}}
"""For each extension, the kinds that it adds, each with the methods that it may answer. Kinds of other extensions are
unknown."""


def is_result_type(kind: str, method: str, extensions: Container[str]) -> bool:
    """Return whether the answer to a `method` may be of this kind, given the declared extensions."""
    if kind == INPUT_REQUIRED:
        return method in INPUT_REQUIRED_METHODS
    return kind == COMPLETE or any(
        method in kinds.get(kind, ()) for extension, kinds in _EXTENSION_RESULT_TYPES.items() if extension in extensions
    )


def declared_extensions(request: Request) -> frozenset[str]:
    """Return the extensions that a request declares. Raises `FrameError` if its `_meta` is not an object."""
    capabilities = request.meta.get(META_CAPABILITIES)
    declared = members(capabilities).get("extensions") if capabilities is not None and is_object(capabilities) else None
    if declared is None or not is_object(declared):
        return frozenset()
    return frozenset(name for name, settings in members(declared).items() if is_object(settings))
