"""`require`: a tool's requirement, written beside the tool. No I/O but the log.

`require` returns a wrapper that does what the function does and has its signature. Both have the requirement as an
attribute. So `require` may stand under or over `@mcp.tool()`, `@mcp.resource()` and `@mcp.prompt()`, and is found under
any name that the function is registered by. In a low-level server tools have no functions: there requirements are given
by the tools' names (`ProofGuard.protect`). Every scope named in a requirement is valid in the certificates that this
process reads: a delegation may grant it.

- [targets] `require` applies to a function, a static or class method, and a partial or a cache of one. Anything else is
  refused; for a callable object, decorate its `__call__`.
- [wrappers] The requirement is found through standard wrappers (`entry_of`), and through FastMCP's own, which lack the
  standard attribute.
- [hidden-requirement] Some callables could hide a requirement (`hides_requirement`): a callable without a requirement
  that holds (in its closure, its defaults or its object) a callable with one; a method that overrides a method with
  one; and a `singledispatch` function whose implementations have another requirement than itself. A server with such a
  callable does not start; if one is registered later, that is refused.
- [unseen-requirement] That search can miss a function (in a list, a global name, another object). Such a function is
  refused when it is called: while a guarded server answers a request, the function that `require` returned runs only if
  the request was judged by a written requirement. A default scope is not enough, and neither is a request that was not
  judged at all.

Not checked here: whether a tool has a requirement at all (one without is refused when it is called); a server without a
guard, and calls outside of any request, where the function runs without a check; and functions with a requirement that
are called by a function with another requirement.
"""

import contextlib
import functools
import inspect
import itertools
import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from types import FunctionType, MethodType
from typing import Any, TypeVar, cast

from mcp.shared.exceptions import MCPError

from accredit.errors import ConfigurationError
from accredit.jsonrpc.encode import INTERNAL_ERROR
from accredit.policy.catalog import Entry, scope_fault
from accredit.policy.facts import Facts, facts_fault

_F = TypeVar("_F", bound=Callable[..., Any])

_ENTRY = "__accredit_entry__"
_CALL = "__call__"
_FUNCTIONS: Any = (FunctionType, functools.partial, type(functools.lru_cache(len)))
_CACHE_METHODS = ("cache_clear", "cache_info", "cache_parameters")
_named: set[str] = set()
_log = logging.getLogger("accredit.server")
_unjudged: ContextVar[bool] = ContextVar("accredit_unjudged", default=False)


class Requirement:
    """What a tool requires. It decorates the tool's function, or stands beside the tool's name (`protect`)."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry

    def __call__(self, tool: _F) -> _F:
        """Attach this requirement to a function, and return a wrapper with it ([unseen-requirement]). Raises
        `ConfigurationError`."""
        # Read from its class, a static or class method is only the function inside.
        is_method = isinstance(tool, staticmethod | classmethod)
        inner: Any = cast("Any", tool).__func__ if is_method else tool
        if not isinstance(inner, _FUNCTIONS):
            raise ConfigurationError(
                f"require: {tool!r} is no function",
                "put @require on the tool's function; of an object that is called, on its class's __call__",
            )
        if _ENTRY in inner.__dict__:
            raise ConfigurationError(
                f"require: {tool!r} has a requirement already", "name all scopes that satisfy it in accepts"
            )
        setattr(inner, _ENTRY, self.entry)  # for earlier registrations
        self.name_scopes()
        held = self._held(inner)
        return type(cast("Any", tool))(held) if is_method else held

    def _held(self, tool: Any) -> Any:
        if isinstance(tool, functools.partial):
            inner = cast("functools.partial[Any]", tool)
            partial = functools.partial(self._held(inner.func), *inner.args, **inner.keywords)
            vars(partial).update(vars(inner))
            return partial

        async def awaited(*args: Any, **named: Any) -> Any:
            _check_judged(tool, self.entry)
            return await tool(*args, **named)

        def called(*args: Any, **named: Any) -> Any:
            _check_judged(tool, self.entry)
            return tool(*args, **named)

        held = functools.wraps(tool)(awaited if inspect.iscoroutinefunction(tool) else called)
        vars(held).update({name: getattr(tool, name) for name in _CACHE_METHODS if hasattr(tool, name)})
        return held

    def name_scopes(self) -> None:
        """Make the scopes of this requirement valid in the certificates that this process reads."""
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
    where in the arguments to find the facts that constraints are evaluated for: `{"amount": "/amount"}`
    (docs/reference/configuration.md, `[tools.NAME.facts]`). Raises `ConfigurationError`.
    """
    if isinstance(accepts, str):
        raise ConfigurationError("require: accepts is a text", f"write accepts=[{accepts!r}]")
    if not isinstance(sensitive, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"require: sensitive is {sensitive!r}", "write sensitive=True, or leave it out")
    for each in (scope, *accepts):
        # The result of a failed lookup, or the function of a bare @require.
        is_text = isinstance(each, str)  # pyright: ignore[reportUnnecessaryIsInstance]
        fault = scope_fault(each) if is_text else "is no text"
        if fault:
            raise ConfigurationError(f"require: {each!r} {fault}", 'name one scope, such as "email:send"')
    fault = facts_fault(facts or {})
    if fault:
        raise ConfigurationError(f"require: facts: {fault}", 'write facts={"amount": "/amount"}')
    return Requirement(
        Entry(scope=scope, accepts=tuple(accepts), marked_sensitive=sensitive, facts=Facts(dict(facts or {})))
    )


def entry_of(tool: object) -> Entry | None:
    """Return the requirement of a tool's function, or None. If it wraps others, the outermost requirement counts
    ([wrappers])."""
    return next(_entries(tool, _wrapped_callables), None)


def hides_requirement(tool: object) -> bool:
    """Return whether a function hides a requirement ([hidden-requirement]). It does if it has none itself, but holds or
    overrides a function with one, or if it dispatches to a function with another requirement."""
    entry = entry_of(tool)
    if entry is None:
        return next(_entries(tool, _held_callables), None) is not None
    return any(entry_of(each) not in (None, entry) for each in _dispatch_targets(tool))


@contextlib.contextmanager
def mark_judged(by_requirement: bool) -> Generator[None]:
    """Mark, within this context, whether the running request was judged by a written requirement
    ([unseen-requirement])."""
    before = _unjudged.set(not by_requirement)
    try:
        yield
    finally:
        _unjudged.reset(before)


def _check_judged(tool: object, entry: Entry) -> None:
    if _unjudged.get():
        _log.error(
            "%r asks for %s, and was called by what has no requirement: put @require beside that", tool, entry.scope
        )
        raise MCPError(INTERNAL_ERROR, "the call was not decided")


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


def _wrapped_callables(tool: Any) -> Iterator[object]:
    """Yield the callables that a callable declares to wrap."""
    if isinstance(tool, MethodType):
        yield tool.__func__
        if tool.__name__ == _CALL:  # FastMCP keeps this for a callable object
            yield tool.__self__
        return
    if not isinstance(tool, FunctionType | type):
        yield getattr(tool.__class__, _CALL, None)
    for name in ("__wrapped__", "__func__", "func"):  # the last is a partial's
        yield getattr(tool, name, None) if name != "func" or _is_partial(tool) else None
    for inner in _closure_values(tool):  # FastMCP's wrappers have the name of the wrapped function
        if getattr(inner, "__qualname__", "") == tool.__qualname__:
            yield inner


def _is_partial(tool: object) -> bool:
    return isinstance(tool, functools.partial)


def _held_callables(tool: Any) -> Iterator[object]:
    """Yield the callables that a callable holds, whether it wraps them or not, and those that it overrides."""
    yield from _wrapped_callables(tool)
    yield from _dispatch_targets(tool)
    held: list[Iterable[object]] = [_closure_values(tool)]
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


def _dispatch_targets(tool: Any) -> Iterator[object]:
    """Yield the implementations of a `singledispatch` function."""
    registry = getattr(tool, "registry", None) if isinstance(tool, FunctionType) and hasattr(tool, "dispatch") else None
    yield from registry.values() if isinstance(registry, Mapping) else ()


def _closure_values(tool: Any) -> Iterator[Any]:
    for cell in (tool.__closure__ or ()) if isinstance(tool, FunctionType) else ():
        with contextlib.suppress(ValueError):  # not filled yet
            yield cell.cell_contents


def named_scopes() -> frozenset[str]:
    """Return every scope that a requirement of this process names."""
    return frozenset(_named)
