"""Facts of an HTTP request, which constraints and quotas use: values from its path, its query or its body. No I/O.

A source is `path:NAME` (a parameter of the route), `query:NAME` (a key of the query), `body:/POINTER` (a JSON Pointer
into the body), or a constant. They become pointers into one object (`arguments`), from which `policy.facts` takes them.
A value that two readers could read differently is left out, and a constraint on a missing fact refuses:

- [body] A body has facts only if it is declared as JSON and nothing else, and is strict JSON: no two members of an
  object have the same name, whatever the case, and no integer is beyond 2^53-1.
- [query] A key has a value only if no other key could be taken for it. A query with `;`, which some readers take for
  `&`, has no values. A value with `+` is left out, since that may mean a blank.
- [either] A name that is both in the query and in a JSON body has no value: frameworks that merge the two differ in
  which one counts. If the body may be a form, or is unreadable JSON, the query has no values. If there is a query, and
  the body has more than `MAX_MEMBERS_BESIDE_QUERY` members, neither has values.
- [numbers] A number in a path or a query is a plain decimal: no exponent, no leading zero, no sign but `-`.
"""

import re
from collections.abc import Collection, Mapping
from typing import cast
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec import Raw

from accredit.canonical import has_wide_integer
from accredit.errors import FrameError
from accredit.http_api.routes import RouteMatch
from accredit.jsonrpc.objects import check_no_duplicates, check_same_names
from accredit.jsonrpc.text import check_amount, check_text
from accredit.policy.facts import TEXTS, Facts
from accredit.policy.guarded_call import read_freely

MAX_QUERY_KEYS = 256
"""How many keys a query may have for facts to be read from it. Each is decoded and folded."""
MAX_MEMBERS_BESIDE_QUERY = 4_096
"""How many members a body may have for facts to be read from it or from the query, if there are both. The name of each
is folded (some 20 ms), before the caller is known."""

_SOURCE = re.compile(r"(path|query|body):(.+)", re.DOTALL)
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,9})?")
_BRACES = frozenset("{}")


def http_facts(sources: Mapping[str, str | float]) -> Facts:
    """Return sources as pointers into `arguments`. `source_fault` must have checked them before."""
    return Facts({name: _pointer(name, source) for name, source in sources.items()})


def source_fault(sources: Mapping[str, object], parameters: Collection[str]) -> str | None:
    """Return what is wrong with sources for a route with these parameters, or None. `policy.facts.facts_fault` checks
    the result of `http_facts`."""
    for name, source in sources.items():
        if not isinstance(source, str):
            continue
        found = _SOURCE.fullmatch(source)
        if found is None:
            if source.startswith("/") or not _BRACES.isdisjoint(source):
                return f'{name} should be "path:NAME", "query:NAME", "body:/POINTER" or a constant'
        elif found[1] == "path" and found[2] not in parameters:
            return f"{name}: the route has no parameter {found[2]!a}"
        elif found[1] == "body" and not found[2].startswith("/"):
            return f"{name}: {found[2]!a} is no JSON Pointer"
        elif not _BRACES.isdisjoint(found[2]):
            return f"{name}: {found[2]!a} should hold no braces"
    return None


def arguments(
    facts: Facts, match: RouteMatch, query: str, body: bytes | None, *, maybe_form: bool = False
) -> dict[str, object]:
    """Return the object from which the facts of a request are taken. `body` is None unless the request declares it as
    JSON. `maybe_form` says that there is another body, and that the API may read it as a form."""
    wanted = facts.arguments
    if not wanted:
        return {}
    found: dict[str, object] = {}
    values = {} if maybe_form or wanted <= {"path", "body"} else _query(query)
    in_body: Collection[str] = ()
    if body and (values or "body" in wanted):
        try:
            value = _json(body)
        except (FrameError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            values = {}
        else:
            found["body"], in_body = _apart(value, query)
    values = {key: value for key, value in values.items() if fold_key(key) not in in_body}
    texts = {"path": match.parameters, "query": values}
    return {**found, **texts, "numbers": {kind: _numbers(each) for kind, each in texts.items()}}


def _apart(value: object, query: str) -> tuple[object, Collection[str]]:
    """Return a body's value without the members that the query names, too, and the folded names of all members
    ([either])."""
    if not query or not isinstance(value, dict):
        return value, ()
    found = cast("dict[str, object]", value)
    keys = decoded_keys(query.replace(";", "&"))
    if keys is None:
        return {}, ()
    in_query = {folded for _, folded in keys}
    if len(found) > MAX_MEMBERS_BESIDE_QUERY:
        return {}, in_query
    members = {name: fold_key(name) for name in found}
    return {name: found[name] for name, folded in members.items() if folded not in in_query}, set(members.values())


def decoded_keys(query: str) -> list[tuple[str, str]] | None:
    """Return the keys of a query, or None if they can't be read. Each is a pair: the decoded key, and the key as the
    most lenient reader would compare it (`fold_key`). PHP, for one, stops at a bracket, and takes a dot for an
    underscore."""
    pairs = query.split("&")
    if len(pairs) > MAX_QUERY_KEYS:
        return None
    try:
        keys = [_unquote(pair.partition("=")[0]) for pair in pairs]
    except UnicodeDecodeError:
        return None
    return [(key, fold_key(key)) for key in keys]


def fold_key(key: str) -> str:
    """Return a decoded key as the most lenient reader would compare it."""
    return read_freely(key).partition("[")[0].replace(".", "_")


def _pointer(name: str, source: str | float) -> str | float:
    found = _SOURCE.fullmatch(source) if isinstance(source, str) else None
    if found is None:
        return source
    if found[1] == "body":
        return f"/body{found[2]}"
    kind = found[1] if name in TEXTS else f"numbers/{found[1]}"
    return f"/{kind}/{found[2].replace('~', '~0').replace('/', '~1')}"


def _query(query: str) -> dict[str, str]:
    """Return the values of a query's unambiguous keys ([query])."""
    keys = decoded_keys(query) if query and ";" not in query else None
    if keys is None:
        return {}
    seen = [folded for _, folded in keys]
    values: dict[str, str] = {}
    for (key, folded), pair in zip(keys, query.split("&"), strict=True):
        _, equals, value = pair.partition("=")
        if not equals or "+" in value or seen.count(folded) > 1:
            continue
        try:
            values[key] = unquote_to_bytes(value).decode("utf-8")
        except UnicodeDecodeError:
            continue
    return values


def _unquote(key: str) -> str:
    return unquote_to_bytes(key.replace("+", " ")).decode("utf-8")


def _numbers(values: Mapping[str, str]) -> dict[str, float]:
    """Return the values that are plain decimals, as numbers ([numbers])."""
    return {key: float(value) for key, value in values.items() if _DECIMAL.fullmatch(value)}


def _json(body: bytes) -> object:
    """Return the value of a strict body ([body]). Raises `FrameError`, and what `msgspec` raises."""
    check_amount(body)
    check_text(body)
    check_no_duplicates(body)
    check_same_names(Raw(body))
    if has_wide_integer(body):
        raise FrameError("an integer beyond 2^53-1")
    return msgspec.json.decode(body)
