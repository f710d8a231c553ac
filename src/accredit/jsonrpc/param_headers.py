"""`Mcp-Param-*`: headers that mirror arguments of a tool, as its `inputSchema` declares them (2026-07-28). No I/O.

Source: 2026-07-28, basic/transports/streamable-http ("Custom Headers from Tool Parameters", "Server Validation").

A property in the schema declares a header by an `x-mcp-header` annotation, which is the end of the header's name. An
annotation is valid if

- [reachable] its property is reached from the schema's root through `properties` alone;
- [token] it is a token (RFC 9110 section 5.6.2), unique in the schema without regard to case;
- [type] the property's `type` is string, integer or boolean.

An invalid annotation makes the tool invalid: clients must not offer it, so no headers arrive and nothing is checked.

A call is refused (-32020) if a declared header

1. occurs twice;
2. is there without its argument, or is missing although the argument is there (null and non-scalar values count as no
   argument);
3. is malformed or differs from the argument. Integers are compared as numbers: 42 and 42.0 are equal.

Headers that no schema declares are forwarded, as the source demands.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import cast

import msgspec
from msgspec import Raw, Struct

from accredit.base.text import excerpt
from accredit.errors import RequestError
from accredit.jsonrpc.encode import HEADER_MISMATCH
from accredit.jsonrpc.frames import Request
from accredit.jsonrpc.objects import as_string, is_object, members
from accredit.limits import MAX_TOOL_LIST_BYTES

_PLAIN = re.compile(rb"[\t\x20-\x7e]*")
_SENTINEL = re.compile(r"=\?base64\?(.*)\?=")

Headers = Mapping[bytes, bytes]
"""Header values by lower-case name. A header that is repeated has all its values, joined by `DUPLICATED`."""

DUPLICATED = b"\0"
"""Joins the values of a repeated header. No valid value contains this byte, so the joined value never equals anything
in a body."""


def plain_header(value: bytes) -> str | None:
    """Return the text of a header value without surrounding blanks (RFC 9110 section 5.5).

    None if it is not ASCII.
    """
    value = value.strip(b" \t")
    return value.decode("ascii") if _PLAIN.fullmatch(value) else None


def encode_header(text: str) -> bytes:
    """Return the header value for a text: the text itself if `decode_header` would return it unchanged, else its Base64
    sentinel form (`=?base64?...?=`)."""
    value = text.encode("utf-8", "surrogatepass")
    if plain_header(value) == text and not _SENTINEL.fullmatch(text):
        return value
    return b"=?base64?" + base64.b64encode(value) + b"?="


def decode_header(value: bytes) -> str | None:
    """Return the text of a header value that may have the Base64 sentinel form `=?base64?...?=`.

    None if it is not ASCII, or the form is malformed.
    """
    text = plain_header(value)
    found = _SENTINEL.fullmatch(text or "")
    if found is None:
        return text
    try:
        decoded = base64.b64decode(found[1], validate=True)
        if base64.b64encode(decoded).decode("ascii") != found[1]:
            return None  # two spellings of one value: only the canonical one counts
        return decoded.decode("utf-8")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None


MAX_SCHEMA_BYTES = 262_144
"""The longest `inputSchema` of a tool, in bytes, in which header declarations are looked for. A decoded schema takes up
to 30 times as much memory."""
MAX_PARAM_HEADERS = 64
"""The most headers that one tool may declare. Servers stop at about 100 header fields of a request."""
MAX_DECLARED_CHARS = 8_192
"""The most characters that one tool's declarations may have: the headers' names and the paths to their arguments (64 of
128 each). Declarations are kept for `MAX_KNOWN_TOOLS` tools. Bounded only by the schema's size, they could fill a
gigabyte."""


_Path = tuple[str, ...]
"""The names of properties that lead from the root of a tool's arguments to one value."""

PARAM_HEADERS = b"mcp-param-"
"""The prefix of the names of headers that mirror arguments."""

_ANNOTATION = "x-mcp-header"
_ANNOTATED = _ANNOTATION.encode("ascii")
_TYPES = frozenset({"string", "integer", "boolean"})
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_WHOLE_NUMBER = re.compile(rb"(-?)(?=[0-9])0*+([0-9]*+)(?:\.0++)?")  # possessive: else quadratic in zeros

# Keywords of JSON Schema 2020-12 (and of older drafts) that hold schemas beside `properties`: by name, or directly
# and in arrays. Others (`enum`, `default`, `examples`, ...) hold data, in which an annotation means nothing.
_SCHEMAS_BY_NAME = frozenset({"patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"})
_SCHEMAS = frozenset(
    {
        "additionalItems", "additionalProperties", "allOf", "anyOf", "contains", "contentSchema", "else", "if", "items",
        "not", "oneOf", "prefixItems", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
    }
)  # fmt: skip


class DeclaredHeader(Struct, frozen=True):
    """One header that a tool declares: its `name` in lower case, and the path and type of the argument that it
    mirrors."""

    name: bytes
    path: _Path
    type: str


class _Tool(Struct, rename="camel"):
    name: str
    input_schema: Raw = Raw(b"{}")


class _Page(Struct):
    tools: list[_Tool]


_decode_page = msgspec.json.Decoder(_Page).decode
_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


def has_param_header(headers: Headers) -> bool:
    """Return whether any of these headers mirrors an argument."""
    return b"\n" + PARAM_HEADERS in b"\n" + b"\n".join(headers)


def declared_headers(input_schema: bytes | Raw) -> tuple[DeclaredHeader, ...]:
    """Return the headers that a tool's `inputSchema` declares; none if an annotation is invalid. Never raises.

    Also none if the schema is longer than `MAX_SCHEMA_BYTES` or declares more than `MAX_PARAM_HEADERS` or
    `MAX_DECLARED_CHARS`.
    """
    text = bytes(input_schema)
    if len(text) > MAX_SCHEMA_BYTES or (_ANNOTATED not in text and b"\\" not in text):
        return ()
    try:
        root: object = msgspec.json.decode(text)
    except _UNREADABLE:
        return ()
    found: dict[bytes, DeclaredHeader] = {}
    chars = 0
    for path, schema in _schemas(root):
        if _ANNOTATION in schema:
            header = _declared_header(path, schema)
            if header is None or header.name in found or len(found) == MAX_PARAM_HEADERS:
                return ()
            chars += len(header.name) + sum(map(len, header.path))
            if chars > MAX_DECLARED_CHARS:
                return ()
            found[header.name] = header
    return tuple(found.values())


def listed_schemas(result: bytes | Raw) -> dict[str, Raw]:
    """Return the `inputSchema` of each tool in the `result` of a `tools/list`, by the tool's name. Never raises.

    Empty for any other value, and for one longer than `MAX_TOOL_LIST_BYTES`.
    """
    if len(result) > MAX_TOOL_LIST_BYTES:
        return {}
    try:
        page = _decode_page(result)
    except _UNREADABLE:
        return {}
    return {tool.name: tool.input_schema for tool in page.tools}


def check_param_headers(request: Request, declared: Iterable[DeclaredHeader], headers: Headers) -> None:
    """Refuse a call whose headers and arguments disagree. Raises `RequestError`."""
    objects: dict[_Path, dict[str, Raw]] = {}
    for header in declared:
        if not objects:
            objects[()] = _members_of(request.members.get("arguments"))
        problem = _disagreement(header, _argument(objects, header.path), headers.get(header.name))
        if problem is not None:
            name = excerpt(header.name)
            raise RequestError(HEADER_MISMATCH, f"Header mismatch: {name} {problem}", id=request.id)


def _schemas(root: object) -> Iterator[tuple[_Path | None, dict[str, object]]]:
    """Yield each schema within a schema, with its path. The path is None if the schema is not reached through
    `properties` alone."""
    waiting: list[tuple[_Path | None, object]] = [((), root)]
    while waiting:
        path, schema = waiting.pop()
        if isinstance(schema, dict):
            known = cast("dict[str, object]", schema)
            yield path, known
            for keyword, value in known.items():
                waiting.extend(_below(path, keyword, value))


def _below(path: _Path | None, keyword: str, value: object) -> Iterable[tuple[_Path | None, object]]:
    if isinstance(value, dict):
        named = cast("dict[str, object]", value)
        if keyword == "properties":
            return [(None if path is None else (*path, name), schema) for name, schema in named.items()]
        if keyword in _SCHEMAS_BY_NAME:
            return [(None, schema) for schema in named.values()]
    if keyword not in _SCHEMAS:
        return ()
    return [(None, schema) for schema in cast("list[object]", value if isinstance(value, list) else [value])]


def _declared_header(path: _Path | None, schema: dict[str, object]) -> DeclaredHeader | None:
    token, kind = schema[_ANNOTATION], schema.get("type")
    if not path or not isinstance(token, str) or _TOKEN.fullmatch(token) is None:
        return None
    if not isinstance(kind, str) or kind not in _TYPES:
        return None
    return DeclaredHeader(PARAM_HEADERS + token.lower().encode("ascii"), path, kind)


def _members_of(value: Raw | None) -> dict[str, Raw]:
    return members(value) if value is not None and is_object(value) else {}


def _argument(objects: dict[_Path, dict[str, Raw]], path: _Path) -> Raw | None:
    """Return the value at a path. `objects` caches the objects on the way, so each is parsed once."""
    parent, name = path[:-1], path[-1]
    if parent not in objects:
        objects[parent] = _members_of(_argument(objects, parent))
    return objects[parent].get(name)


def _disagreement(header: DeclaredHeader, argument: Raw | None, value: bytes | None) -> str | None:
    expected = None if argument is None else _render(argument)
    if value is None:
        return None if expected is None else "is missing"
    if DUPLICATED in value:
        return "occurs twice"
    if expected is None:
        return "mirrors no argument"
    given = decode_header(value)
    if given == expected:
        return None
    if header.type == "integer" and given is not None and argument is not None:
        number = _whole_number(given.encode())
        if number is not None and number == _whole_number(bytes(argument)):
            return None
    return "differs from the argument"


def _render(argument: Raw) -> str | None:
    """Return a scalar as a header spells it: a string's value, or the JSON text of a number or boolean. None for other
    values."""
    text = bytes(argument)
    if text == b"null" or text.startswith((b"{", b"[")):
        return None
    return as_string(argument) if text.startswith(b'"') else text.decode("ascii")


def _whole_number(text: bytes) -> bytes | None:
    """Return sign and digits of a whole number, one spelling per number; None for any other text. `int` is not used:
    its cost and its limit depend on the number of digits."""
    found = _WHOLE_NUMBER.fullmatch(text)
    if found is None:
        return None
    return found[1] + found[2] if found[2] else b"0"
