"""Proposes a route and a scope for each operation of an API, and compares operations with routes. No I/O.

- [reads] `GET`, `HEAD` and `OPTIONS` share one scope of the API, `custom:SERVER:read`.
- [own-scope] Every other operation has a scope of its own, by its `operationId`, else by its method and path. No two
  have the same, whatever the document calls them.
- [sensitive] `DELETE` is sensitive, and so is an operation, even a `GET`, whose name says that it can't be undone
  ("send", "refund").
- [left-out] What a table of routes can't take is left out.
- [not-another] If an operation gets no route, its requests must not match the route of another operation that needs
  something else (`DELETE /a/{x}:all` could match `DELETE /a/{x}`). So such a route is not proposed. If the table
  already has one, that is reported.

Not checked: whether the document says what the API does; the operator decides.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from accredit.http_api.openapi import Operation
from accredit.http_api.routes import Route, RouteTable, read_route
from accredit.http_api.targets import fold
from accredit.policy.catalog import own_scope
from accredit.policy.drill import DRILL_PATHS

READS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing (RFC 9110 section 9.2.1)."""
IRREVERSIBLE = frozenset(
    {
        "approve", "cancel", "charge", "delete", "destroy", "disable", "drop", "erase", "execute", "invite", "kill",
        "merge", "pay", "publish", "purge", "refund", "remove", "reset", "revoke", "send", "submit", "terminate",
        "transfer", "withdraw", "wipe",
    }
)  # fmt: skip
"""Words by which an operation is taken for one that nobody can take back."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_PARAMETER = re.compile(r"\{[^{}]*\}")
_LITERAL = re.compile(r"[A-Za-z0-9._~!$&'()*+,=:@-]*")
_MIXED = "{}"
"""Stands for a segment that is neither a parameter nor a literal: anything could match it."""


class Proposal(NamedTuple):
    """The proposed route of an operation, and the reason for its scope."""

    operation: Operation
    route: Route
    scope: str
    sensitive: bool
    reason: str

    @property
    def needs(self) -> tuple[str, bool]:
        """What requests need: a scope, and whether they sign a challenge."""
        return self.scope, self.sensitive


class Proposals(NamedTuple):
    """What is proposed for an API: `routes` that a table does not have yet, and what was `left_out`, with the reason.
    `same` are the table's own routes that belong to an operation. `counted` maps the text of a proposed or left-out
    route to routes of the table that match some of its requests, but need something else."""

    routes: list[Proposal]
    left_out: list[tuple[Proposal, str]]
    same: set[str]
    counted: dict[str, list[str]]


def read_scope(server: str) -> str:
    """Return the scope of all reads of an API."""
    return own_scope("read", server)


def propose(
    operations: Iterable[Operation], server: str, prefix: str = "", there: Mapping[str, tuple[str, bool]] = {}
) -> Proposals:
    """Propose routes for operations, whose paths `prefix` precedes. `there` are a table's routes, each with what it
    needs: a scope, and whether it is sensitive."""
    table = RouteTable(there)
    places = {_place(route): route.text for route in table.routes.values()}
    named = [_with_route(operation, prefix) for operation in operations]
    same = {places[_place(route)] for _, route in named if _place(route) in places}
    taken = {read_scope(server), *(scope for scope, _ in there.values())}
    new = [_proposal(*each, server, taken) for each in named if _place(each[1]) not in places]
    alike = _by_length(table.routes.values())
    counted = {
        one.route.text: texts
        for one in new
        if (texts := [each.text for each in alike[one.route.length] if there[each.text] != one.needs
                      and _could_count(one.route, each)])
    }  # fmt: skip
    kept: dict[str, Proposal] = {}
    out: list[tuple[Proposal, str]] = []
    for one in new:
        fault = _fault(one, table)
        if fault is None:
            kept[one.route.text] = one
        else:
            out.append((one, fault))
    _leave_ambiguous(kept, out)
    return Proposals([*kept.values()], out, same, counted)


def _leave_ambiguous(kept: dict[str, Proposal], out: list[tuple[Proposal, str]]) -> None:
    """Leave out each route that would match requests of a route already left out ([not-another]), until none is."""
    alike = _by_length(one.route for one in kept.values())
    left = [one for one, _ in out]
    while left:
        lost = left.pop()
        for route in alike[lost.route.length]:
            one = kept.get(route.text)
            if one is not None and one.needs != lost.needs and _could_count(lost.route, route):
                del kept[route.text]
                out.append((one, f"requests of {lost.route.text}, which is left out, would count as this"))
                left.append(one)


def _with_route(operation: Operation, prefix: str) -> tuple[Operation, Route]:
    """Return an operation with its route. If its path can't be a route of a table, return what can be read of the path,
    for comparison."""
    text = f"{operation.method} {prefix}{operation.path}"
    try:
        return operation, read_route(text)
    except ValueError:
        path = re.split(r"[?#]", prefix + operation.path, maxsplit=1)[0]
        return operation, Route(text, operation.method, tuple(map(_segment, path[1:].split("/"))), ())


def _segment(part: str) -> str | None:
    if _PARAMETER.fullmatch(part):
        return None
    return part if _LITERAL.fullmatch(part) else _MIXED


def _proposal(operation: Operation, route: Route, server: str, taken: set[str]) -> Proposal:
    word = _word_of(operation)
    if operation.method in READS and word is None:
        return Proposal(operation, route, read_scope(server), False, "it reads")
    names = [each for each in (operation.name.replace("/", "."), route.text) if each]
    scope = next((each for name in names if (each := own_scope(name, server)) not in taken), "")
    taken.add(scope)
    if operation.method == "DELETE":
        return Proposal(operation, route, scope, True, "it deletes")
    if word is not None:
        return Proposal(operation, route, scope, True, f'by its name, "{word}", nobody takes it back')
    return Proposal(operation, route, scope, False, "it changes what is there")


def irreversible_word(*texts: str) -> str | None:
    """Return a word in these names which says that an operation can't be undone, or None."""
    words = (word.lower() for text in texts for word in _WORD.findall(text))
    return min(IRREVERSIBLE.intersection(words), default=None)


def _word_of(operation: Operation) -> str | None:
    """Return a word by which an operation is irreversible, or None: the verb of its name, which is its first word
    (`sendMessage`, `messages/send`), or a word of its path's last literal segment. Of a read with a name, only the name
    counts."""
    words = _WORD.findall(re.split(r"[/.:]", operation.name)[-1])[:1]
    if not words or operation.method not in READS:
        literals = [part for part in operation.path.split("/") if part and "{" not in part]
        words += _WORD.findall("".join(literals[-1:]))
    return irreversible_word(*words)


def _fault(one: Proposal, table: RouteTable) -> str | None:
    """Add a route to a table, or return why that can't be."""
    if one.operation.server:
        return f"it is at {one.operation.server}"
    if one.route.text in DRILL_PATHS.values():
        return "it is a route of the gateway's own"
    if not one.scope:
        return "another operation has the scope that it would have"
    try:
        read_route(one.route.text)
    except ValueError as error:
        return f"a route {error}"
    try:
        table.add(one.route.text)
    except ValueError as error:
        return f"the table {error}"
    return None


def _could_count(lost: Route, kept: Route) -> bool:
    """Return whether a request of the operation `lost`, which gets no route, could match the route `kept`."""
    pairs = [*zip(lost.bare, kept.bare, strict=False)]
    if any(None not in (a, b) and _MIXED not in (a, b) and fold(a or "") != fold(b or "") for a, b in pairs):
        return False
    wider = any(a is not None and b is None for a, b in pairs)
    narrower = any(b is not None and (a is None or a == _MIXED) for a, b in pairs)
    return lost.method == kept.method and (wider or not narrower)


def _place(route: Route) -> tuple[str, tuple[str | None, ...]]:
    return route.method, route.segments


def _by_length(routes: Iterable[Route]) -> dict[tuple[str, int], list[Route]]:
    found: dict[tuple[str, int], list[Route]] = defaultdict(list)
    for route in routes:
        found[route.length].append(route)
    return found
