"""What a text means and whether it is valid, found slowly: the standard library's parser, loops and the rules.

It shares no code with `accredit.jsonrpc`. Objects are lists of pairs, so that no member is lost; numbers with a
fraction or an exponent stay text (`Decimal`), so that 1.0 is not 1.
"""

import json
import math
from typing import cast

MAX_DEPTH = 128
MESSAGE = ("jsonrpc", "id", "method", "params", "result", "error")
ERROR = ("code", "message", "data")


class Refused(Exception):
    """The text is not valid."""


class Members(list[tuple[str, object]]):
    """An object: its members, also those that occur twice."""

    def get(self, name: str) -> object:
        return dict(self)[name]

    def names(self) -> list[str]:
        return [name for name, _ in self]


class Decimal(str):
    """A number with a fraction or an exponent."""


def depth_of(text: str) -> int:
    """The deepest nesting of brackets outside strings."""
    depth = deepest = 0
    inside = escaped = False
    for char in text:
        if inside:
            inside = escaped or char != '"'
            escaped = not escaped and char == "\\"
        elif char == '"':
            inside = True
        elif char in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "]}":
            depth -= 1
    return deepest


def parse(text: bytes) -> object:
    """The value of a strict JSON text. Raises `Refused`."""
    if text.startswith(b"\xef\xbb\xbf"):
        raise Refused("byte order mark")
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused("UTF-8") from None
    if depth_of(decoded) > MAX_DEPTH:
        raise Refused("depth")
    try:
        value = json.loads(
            decoded,
            object_pairs_hook=Members,
            parse_constant=_constant,
            parse_int=_integer,
            parse_float=_decimal,
        )
    except (ValueError, RecursionError):
        raise Refused("JSON") from None
    _no_lone_surrogates(value)
    return value


def _constant(text: str) -> object:
    raise Refused(text)


def _integer(text: str) -> object:
    _decimal(text)
    return int(text)


def _decimal(text: str) -> object:
    if math.isinf(float(text)):
        raise Refused("infinite")
    return Decimal(text)


def _no_lone_surrogates(value: object) -> None:
    if isinstance(value, Decimal):
        return
    if isinstance(value, str):
        if any(0xD800 <= ord(char) <= 0xDFFF for char in value):
            raise Refused("a lone surrogate")
    elif isinstance(value, Members):
        for name, inner in value:
            _no_lone_surrogates(name)
            _no_lone_surrogates(inner)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            _no_lone_surrogates(inner)


def _unambiguous(value: object, defined: tuple[str, ...]) -> Members:
    if not isinstance(value, Members):
        raise Refused("no object")
    names = value.names()
    if len(set(names)) < len(names):
        raise Refused("duplicate")
    for name in names:
        if name not in defined and name.casefold() in {known.casefold() for known in defined}:
            raise Refused("spelling")
    return value


def _is_string(value: object) -> bool:
    return isinstance(value, str) and not isinstance(value, Decimal)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def message(value: object) -> str:
    """What kind of JSON-RPC message a value is: request, notification, success or failure. Raises `Refused`."""
    found = dict(_unambiguous(value, MESSAGE))
    if not (_is_string(found.get("jsonrpc")) and found["jsonrpc"] == "2.0"):
        raise Refused("version")
    if "id" in found:
        nameless = found["id"] is None and "error" in found and "method" not in found
        if not (_is_string(found["id"]) or _is_integer(found["id"]) or nameless):
            raise Refused("id")
    if "method" in found:
        return _call(found)
    return _answer(found)


def _call(found: dict[str, object]) -> str:
    if "result" in found or "error" in found or not _is_string(found["method"]):
        raise Refused("call")
    if "params" in found and not isinstance(found["params"], Members):
        raise Refused("params")
    return "request" if "id" in found else "notification"


def _answer(found: dict[str, object]) -> str:
    if "id" not in found or ("result" in found) == ("error" in found):
        raise Refused("answer")
    if "result" in found:
        return "success"
    error = dict(_unambiguous(found["error"], ERROR))
    if not _is_integer(error.get("code")) or not _is_string(error.get("message")):
        raise Refused("error")
    return "failure"


def no_duplicates(value: object) -> None:
    """Whether no object at any depth holds a name twice. Raises `Refused`."""
    if isinstance(value, Members):
        if len(set(value.names())) < len(value):
            raise Refused("duplicate")
        for _, inner in value:
            no_duplicates(inner)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            no_duplicates(inner)


def request(value: object, params: tuple[str, ...], meta: tuple[str, ...]) -> str:
    """The same for a message of a client; `params` and `meta` are the names that its method defines."""
    kind = message(value)
    no_duplicates(value)
    found = dict(cast("Members", value))
    if isinstance(found.get("params"), Members) and "method" in found:
        inner = dict(_unambiguous(found["params"], params))
        if isinstance(inner.get("_meta"), Members):
            _unambiguous(inner["_meta"], meta)
    return kind
