"""`require`: a tool's requirement, written beside the tool. No I/O.

The requirement is kept as an attribute of the function, which is otherwise unchanged: so `require` may stand under or
over `@mcp.tool()`, and the tool's requirement is found under any name that it is registered by. In a low-level server
tools have no functions: there requirements are given by the tools' names (`ProofGuard.protect`). Every scope named in a
requirement is valid in the certificates that this process reads: a delegation may grant it.

Not checked here: whether a tool has a requirement at all. One without is refused when it is called.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from accredit.errors import ConfigurationError
from accredit.policy import Entry, Facts, facts_fault, scope_fault

_F = TypeVar("_F", bound=Callable[..., Any])

_ENTRY = "__accredit_entry__"
_named: set[str] = set()


class Requirement:
    """What a tool requires. It decorates the tool's function, or stands beside the tool's name (`protect`)."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry

    def __call__(self, tool: _F) -> _F:
        """Attach this requirement to a function, and return it. Raises `ConfigurationError`."""
        if _ENTRY in getattr(tool, "__dict__", {}):
            raise ConfigurationError(
                f"require: {tool!r} has a requirement already", "name all scopes that satisfy it in accepts"
            )
        try:
            setattr(tool, _ENTRY, self.entry)
        except (AttributeError, TypeError, ValueError):
            raise ConfigurationError(
                f"require: {tool!r} is no function", "put @require on the tool's function"
            ) from None
        self.name_scopes()
        return tool

    def name_scopes(self) -> None:
        """Make its scopes valid in the certificates that this process reads."""
        _named.update((self.entry.scope, *self.entry.accepts))


def require(
    scope: str,
    *,
    sensitive: bool = False,
    accepts: Sequence[str] = (),
    facts: Mapping[str, str | float] | None = None,
) -> Requirement:
    """Require a proof that grants `scope`, or any scope of `accepts`, for the decorated tool.

    `sensitive` tools accept only proofs over a challenge that this server issued (Option B of Ratify). `facts` says
    where in the arguments the facts are that constraints are evaluated against: `{"amount": "/amount"}`
    (docs/reference/configuration.md, `[tools.NAME.facts]`). Raises `ConfigurationError`.
    """
    if isinstance(accepts, str):
        raise ConfigurationError("require: accepts is a text", f"write accepts=[{accepts!r}]")
    for each in (scope, *accepts):
        fault = scope_fault(each)
        if fault:
            raise ConfigurationError(f"require: {each!r} {fault}", 'name one scope, such as "email:send"')
    fault = facts_fault(facts or {})
    if fault:
        raise ConfigurationError(f"require: facts: {fault}", 'write facts={"amount": "/amount"}')
    return Requirement(
        Entry(scope=scope, accepts=tuple(accepts), marked_sensitive=sensitive, facts=Facts(dict(facts or {})))
    )


def entry_of(tool: object) -> Entry | None:
    """Return what the function of a tool requires, or None if it has no requirement."""
    entry = getattr(tool, _ENTRY, None)
    return entry if isinstance(entry, Entry) else None


def named_scopes() -> frozenset[str]:
    """Return every scope that a requirement of this process names."""
    return frozenset(_named)
