"""The scope vocabulary (Ratify section 6). No I/O.

A scope is one of these: a canonical string, a wildcard over some canonical strings, `custom:` followed by at least one
character, or a string that the deployment adds. A wildcard stands for those members of its group that are not
sensitive. A deployment's string stands for itself. No scope implies another: a required scope is compared literally.
"""

from collections.abc import Collection, Iterable, Mapping

_CUSTOM_PREFIX = "custom:"
IDENTITY = "identity:"
"""How scopes begin that are for delegating and proving: no tool needs them."""
DELEGATE = "identity:delegate"
"""The scope that a subject needs in order to delegate further."""


def _members(group: str, plain: str, sensitive: str = "") -> tuple[frozenset[str], frozenset[str]]:
    return (
        frozenset(f"{group}:{name}" for name in plain.split()),
        frozenset(f"{group}:{name}" for name in sensitive.split()),
    )


_GROUPS = (
    _members("meeting", "attend speak video chat share_screen", "record"),
    _members("comms", "message:read message:send email:read email:send calendar:read calendar:write"),
    _members("comms", "", "message:delete email:delete"),
    _members("files", "read", "write"),
    _members("identity", "prove", "delegate"),
    _members("presence", "", "represent"),
    _members("transact", "purchase sell"),
    _members("payments", "send receive", "authorize"),
    _members("contract", "read", "sign"),
    _members("data", "read share", "write delete export"),
    _members("execute", "tool", "code"),
    _members("generate", "content", "deepfake"),
    _members("physical", "enter exit", "actuate manipulate"),
    _members("robot", "operate move interact"),
    _members("drone", "deliver capture", "fly"),
    _members("vehicle", "transport charge", "operate"),
    _members("infrastructure", "monitor", "control access"),
    _members("actuate", "", "valve motor switch"),
)

SENSITIVE_SCOPES = frozenset[str]().union(*(sensitive for _, sensitive in _GROUPS))
CANONICAL_SCOPES = SENSITIVE_SCOPES.union(*(plain for plain, _ in _GROUPS))

_WITH_WILDCARD = (
    "meeting comms:message comms:email comms transact payments data execute generate physical robot drone vehicle"
    " infrastructure"
)
WILDCARDS: Mapping[str, frozenset[str]] = {
    f"{group}:*": frozenset(scope for scope in CANONICAL_SCOPES - SENSITIVE_SCOPES if scope.startswith(f"{group}:"))
    for group in _WITH_WILDCARD.split()
}


def unknown_scope(scopes: Iterable[str], vocabulary: Collection[str] = ()) -> str | None:
    """Return the first scope that neither the protocol nor `vocabulary` has, or None. `vocabulary` is what the
    deployment adds."""
    for scope in scopes:
        known = scope in CANONICAL_SCOPES or scope in WILDCARDS or scope in vocabulary
        if not known and not (scope.startswith(_CUSTOM_PREFIX) and len(scope) > len(_CUSTOM_PREFIX)):
            return scope
    return None


def is_sensitive(scope: str) -> bool:
    """Return whether the canonical vocabulary calls a scope sensitive."""
    return scope in SENSITIVE_SCOPES


def expand(scopes: Iterable[str]) -> list[str]:
    """Return every granted scope, sorted: wildcards become their members, others stay as they are."""
    return sorted(_expand(scopes))


def intersect(grants: Iterable[Iterable[str]]) -> list[str]:
    """Return the scopes that all of the lists grant, expanded and sorted."""
    expanded = [_expand(scopes) for scopes in grants]
    return sorted(expanded[0].intersection(*expanded[1:])) if expanded else []


def _expand(scopes: Iterable[str]) -> set[str]:
    granted: set[str] = set()
    for scope in scopes:
        granted.update(WILDCARDS.get(scope, (scope,)))
    return granted
