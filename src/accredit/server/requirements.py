"""`require`: what a tool asks for, said beside the tool. No I/O.

The requirement is kept as an attribute of the function, which stays as it is: so it does not matter whether `require`
is under or over `@mcp.tool()`, and any name that the tool is registered under finds it. In a low-level server tools
have no functions: there requirements are given by the tools' names (`ProofGuard.protect`). Every scope that is named so
is valid in the certificates that this process reads: a delegation may grant it.

Not checked here: whether a tool has a requirement at all. One without is refused when it is called.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from accredit.errors import ConfigurationError
from accredit.policy import Entry, Facts, facts_fault, scope_fault

F = TypeVar("F", bound=Callable[..., Any])

_ENTRY = "__accredit_entry__"
_named: set[str] = set()


class Requirement:
    """What a tool asks for. It decorates the tool's function, or stands beside the tool's name (`protect`)."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry

    def __call__(self, tool: F) -> F:
        """The function, with this requirement. Raises `ConfigurationError`."""
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
        """Makes its scopes valid in the certificates that this process reads."""
        _named.update((self.entry.scope, *self.entry.accepts))


def require(
    scope: str,
    *,
    sensitive: bool = False,
    accepts: Sequence[str] = (),
    facts: Mapping[str, str | float] | None = None,
) -> Requirement:
    """The decorated tool needs a proof that grants `scope`, or any scope of `accepts`.

    `sensitive` tools take only proofs over a challenge that this server issued (Option B of Ratify).
    `facts` says where the facts that constraints are held against are among the arguments: `{"amount": "/amount"}`
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
    """What the function of a tool asks for, or None where nothing is said."""
    found = getattr(tool, _ENTRY, None)
    return found if isinstance(found, Entry) else None


def named_scopes() -> frozenset[str]:
    """Every scope that a requirement of this process names."""
    return frozenset(_named)
