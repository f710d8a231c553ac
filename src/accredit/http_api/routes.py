"""The routes of an API, and the search for the one that a request matches. No I/O.

A route is written `METHOD /path`, with `{name}` for a segment that may be anything but empty.

- [exact] The method and each literal segment must be the same, byte for byte once decoded. `HEAD` is not `GET`, and a
  trailing slash makes another path.
- [literal-first] A literal segment wins over `{name}`.
- [no-twins] A request is refused if a segment differs from a literal of some route only in case, or in something else
  that a lenient reader ignores (`targets.fold`): the API might take it for that route.
- [one-meaning] A table is refused if two of its routes differ only in such details, in a trailing slash, or in the
  names of parameters. It is also refused if each of two routes has a literal where the other has a parameter: a request
  could match both, and the API may choose the other one.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from accredit.errors import RequestError
from accredit.http_api.targets import Target, fold, read_target, unclear

MAX_ROUTES = 2_000
"""How many routes one API may have. GitHub's API, one of the largest, has some 1,250 operations. Routes with the same
method and number of segments are compared in pairs."""

_ROUTE = re.compile(r"([A-Z]{1,32}) (/[^\s?#]*)")
_NAME = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.-]{0,63})\}")
_NO_ROUTE = frozenset({"CONNECT", "TRACE"})
"""Methods that no route may have: CONNECT opens a tunnel, TRACE sends credentials back."""


class Route(NamedTuple):
    """A route: its text, its method, and its segments. A segment is a literal, or None for a parameter; `names` are the
    parameters' names, in order."""

    text: str
    method: str
    segments: tuple[str | None, ...]
    names: tuple[str, ...]

    @property
    def bare(self) -> tuple[str | None, ...]:
        """The segments, without the empty one that a slash at the end makes."""
        return self.segments[:-1] if len(self.segments) > 1 and self.segments[-1] == "" else self.segments

    @property
    def length(self) -> tuple[str, int]:
        """The method and the number of segments, not counting a slash at the end: only routes that have the same could
        match one request."""
        return self.method, len(self.bare)


class RouteMatch(NamedTuple):
    """The route that a request matches, and the decoded values of its parameters."""

    route: str
    parameters: dict[str, str]


class _Node:
    """A node in the tree of routes: what may follow it, and the routes that end here, by method."""

    __slots__ = ("ends", "literals", "parameter", "twins")

    def __init__(self) -> None:
        self.literals: dict[str, _Node] = {}
        self.twins: dict[str, str] = {}
        """The literals, by their folded form."""
        self.parameter: _Node | None = None
        self.ends: dict[str, Route] = {}


class RouteTable:
    """The routes of one API. Raises `ValueError` for an ambiguous table ([one-meaning]). Its text continues a sentence
    that begins with a configuration key."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.routes: dict[str, Route] = {}
        self._root = _Node()
        self._alike: dict[tuple[str, int], list[Route]] = defaultdict(list)
        """The routes by `length`."""
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        """Add a route. Raises `ValueError`, and leaves the table as it was, if it would become ambiguous."""
        route = read_route(text)
        if len(self.routes) == MAX_ROUTES:
            raise ValueError(f"has more than {MAX_ROUTES} routes")
        self._check_literals(route)
        alike = self._alike[route.length]
        for other in alike:
            _check_pair(other, route)
        alike.append(route)
        self.routes[text] = route
        node = self._root
        for segment in route.segments:
            if segment is None:
                node.parameter = node.parameter or _Node()
                node = node.parameter
                continue
            node.twins[fold(segment)] = segment
            node = node.literals.setdefault(segment, _Node())
        node.ends[route.method] = route

    def find(self, method: str, target: Target) -> RouteMatch | None:
        """Return the route that a request matches, or None. Raises `RequestError` ([no-twins])."""
        nodes = [self._root]
        for segment, seen in zip(target.segments, target.folded, strict=True):
            following: list[_Node] = []
            for node in nodes:
                literal = node.literals.get(segment)
                if literal is not None:
                    following.append(literal)
                elif segment and seen in node.twins:
                    raise _twin()
                if segment and node.parameter is not None:
                    following.append(node.parameter)
            nodes = following
            if not nodes:
                return None
        found = next((node.ends[method] for node in nodes if method in node.ends), None)
        if found is None:
            return None
        values = [value for value, literal in zip(target.segments, found.segments, strict=True) if literal is None]
        return RouteMatch(found.text, dict(zip(found.names, values, strict=True)))

    def route_now(self, text: str) -> str | None:
        """Return the route of this table that matches the requests of `text`, a route of another table. It is "" if
        none matches, and None if that depends on a request's path."""
        try:
            once = read_route(text)
        except ValueError:
            return ""
        found = [each for each in self.routes.values() if _is_shared(once, each)]
        if any(b is not None for each in found for a, b in zip(once.segments, each.segments, strict=True) if a is None):
            return None
        first = max(found, key=lambda each: [part is not None for part in each.segments], default=None)
        return first.text if first is not None else ""

    def _check_literals(self, route: Route) -> None:
        node: _Node | None = self._root
        for segment in route.segments:
            if node is None:
                return
            if segment is None:
                node = node.parameter
                continue
            twin = node.twins.get(fold(segment), segment)
            if twin != segment:
                raise ValueError(f'has "{segment}" and "{twin}" in one place: some servers take them for the same')
            node = node.literals.get(segment)
        if node is not None and route.method in node.ends:
            raise ValueError(f'has "{node.ends[route.method].text}" twice, as "{route.text}"')


def read_route(text: str) -> Route:
    """Read a route. Raises `ValueError`, whose text continues a sentence that begins with a configuration key."""
    found = _ROUTE.fullmatch(text)
    if found is None or found[1] in _NO_ROUTE:
        raise ValueError('should be a method and a path, such as "POST /messages/{id}/send"')
    parts = found[2][1:].split("/")
    names = [_NAME.fullmatch(part) for part in parts]
    plain = [part if name is None else "x" for part, name in zip(parts, names, strict=True)]
    if any("{" in part or "}" in part for part in plain):
        raise ValueError("should have each parameter as a whole segment, such as /messages/{id}")
    known = [name[1] for name in names if name is not None]
    if len(set(known)) != len(known):
        raise ValueError("should name each of its parameters once")
    try:
        literals = read_target(("/" + "/".join(plain)).encode("utf-8")).segments
    except RequestError as error:
        raise ValueError(
            f"should be a path that requests can have: {error.detail[0].lower()}{error.detail[1:]}"
        ) from None
    segments = (None if name is not None else literal for literal, name in zip(literals, names, strict=True))
    return Route(text, found[1], tuple(segments), tuple(known))


def _twin() -> RequestError:
    return unclear("a segment is that of a route but for case, blanks or dots")


def _check_pair(one: Route, other: Route) -> None:
    """Check two routes with the same method and number of segments, not counting a slash at the end."""
    if not _overlap(one, other):
        return
    if len(one.segments) != len(other.segments):
        raise ValueError(f'has "{one.text}" and "{other.text}": some servers ignore a slash at the end')
    sides = {a is None for a, b in zip(one.segments, other.segments, strict=True) if (a is None) != (b is None)}
    if len(sides) > 1:
        raise ValueError(f'has "{one.text}" and "{other.text}", and a request could be of both')


def _is_shared(one: Route, other: Route) -> bool:
    """Return whether a request could match both routes."""
    same = one.method == other.method and len(one.segments) == len(other.segments)
    return same and _overlap(one, other)


def _overlap(one: Route, other: Route) -> bool:
    """Return whether a path could match both routes. Only as many segments are compared as the shorter route has."""
    pairs = zip(one.segments, other.segments, strict=False)
    return all(a is None or b is None or a == b for a, b in pairs)
