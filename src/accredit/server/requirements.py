"""`require`: a tool's requirement, written beside the tool. No I/O.

The requirement is kept as an attribute of the function, which is otherwise unchanged: so `require` may stand under or
over `@mcp.tool()`, `@mcp.resource()` and `@mcp.prompt()`, and is found under any name that the function is registered
by. In a low-level server tools have no functions: there requirements are given by the tools' names
(`ProofGuard.protect`). Every scope named in a requirement is valid in the certificates that this process reads: a
delegation may grant it.

1. `require` goes on what is called: a function, a static or class method, a partial, an object with `__call__`.
   Anything else is refused.
2. It is found through all that says what it wraps (`entry_of`), and through FastMCP's own wrappers, which do not.
3. A callable that holds one with a requirement (in its closure, its defaults, its object), or a method that overrides
   one, and that has none itself, could hide it (`hides_requirement`): the start fails, and what is registered later is
   refused.

Not checked here: whether a tool has a requirement at all. One without is refused when it is called.
"""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import FunctionType, MethodType
from typing import Any, TypeVar

from accredit.errors import ConfigurationError
from accredit.policy import Entry, Facts, facts_fault, scope_fault

_F = TypeVar("_F", bound=Callable[..., Any])

_ENTRY = "__accredit_entry__"
_CALL = "__call__"
_named: set[str] = set()


class Requirement:
    """What a tool requires. It decorates the tool's function, or stands beside the tool's name (`protect`)."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry

    def __call__(self, tool: _F) -> _F:
        """Attach this requirement to a function, and return it. Raises `ConfigurationError`."""
        # Only the function inside is left of a static or class method once it is read from its class.
        inner: Any = getattr(tool, "__func__", tool) if _is_method_of_class(tool) else tool
        if isinstance(inner, type) or not callable(inner):
            raise ConfigurationError(f"require: {tool!r} is no function", "put @require on the tool's function")
        if _ENTRY in getattr(inner, "__dict__", {}):
            raise ConfigurationError(
                f"require: {tool!r} has a requirement already", "name all scopes that satisfy it in accepts"
            )
        try:
            setattr(inner, _ENTRY, self.entry)
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
    """Return what the function of a tool requires, the outermost requirement of what it wraps, or None (rule 2)."""
    return next(_entries(tool, _wrapped), None)


def hides_requirement(tool: object) -> bool:
    """Return whether a function without a requirement holds or overrides one that has (rule 3)."""
    return entry_of(tool) is None and next(_entries(tool, _held), None) is not None


def _entries(tool: object, inside: Callable[[Any], Iterator[object]]) -> Iterator[Entry]:
    waiting, seen = [tool], dict[int, object]()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen[id(each)] = each
        entry = getattr(each, _ENTRY, None)
        if isinstance(entry, Entry):
            yield entry
        waiting += inside(each)


def _is_method_of_class(tool: object) -> bool:
    return isinstance(tool, staticmethod | classmethod)


def _wrapped(tool: Any) -> Iterator[object]:
    """Yield what a callable says that it wraps."""
    if isinstance(tool, MethodType):
        yield tool.__func__
        if tool.__name__ == _CALL:  # FastMCP keeps this of an object that is called
            yield tool.__self__
        return
    if not isinstance(tool, FunctionType | type):
        yield getattr(tool.__class__, _CALL, None)
    for name in ("__wrapped__", "__func__", "func"):  # the last is a partial's
        yield getattr(tool, name, None) if name != "func" or _is_partial(tool) else None
    for inner in _closed_over(tool):  # FastMCP's wrappers have the name of what they wrap
        if getattr(inner, "__qualname__", "") == tool.__qualname__:
            yield inner


def _is_partial(tool: object) -> bool:
    return isinstance(tool, functools.partial)


def _held(tool: Any) -> Iterator[object]:
    """Yield the callables that a callable holds, wrapped or not, and what it overrides."""
    yield from _wrapped(tool)
    held: list[Iterable[object]] = [_closed_over(tool)]
    if isinstance(tool, FunctionType):
        held += [tool.__defaults__ or (), (tool.__kwdefaults__ or {}).values()]
    elif _is_partial(tool):
        held += [tool.args, tool.keywords.values()]
    elif not isinstance(tool, type | classmethod):
        owner, name = (tool.__self__, tool.__name__) if isinstance(tool, MethodType) else (tool, _CALL)
        kind = owner if isinstance(owner, type) else type(owner)
        yield from (vars(each).get(name) for each in kind.__mro__)
        held += [] if owner is kind else [getattr(owner, "__dict__", {}).values()]
    for each in itertools.chain(*held):
        if isinstance(each, classmethod) or (callable(each) and not isinstance(each, type)):
            yield each


def _closed_over(tool: Any) -> Iterator[Any]:
    for cell in (tool.__closure__ or ()) if isinstance(tool, FunctionType) else ():
        with suppress(ValueError):  # not filled yet
            yield cell.cell_contents


def named_scopes() -> frozenset[str]:
    """Return every scope that a requirement of this process names."""
    return frozenset(_named)
