"""Reads what it can from the two ends of an overlong line. No I/O.

Programs write a message's id before or after its long members, among short ones. Those short members are read here by
JSON's own rules: forward from the start to the first object or array, and backward from the last brace to the last
object or array. When reading backward, text inside a string could be mistaken for members, but then the number of its
quotes would not be even. The middle is not examined: a message that repeats a member is invalid anyway.

An id is used only if no reader could find another one at these ends: it occurs once, in one spelling.
"""

import re

from msgspec import Raw

from accredit.errors import LineTooLong
from accredit.jsonrpc.objects import as_id, as_string

_STRING = rb'"(?:[^"\\\x00-\x1f]|\\.)*"'
_SCALAR = rb"(?:%b|-?[0-9][0-9.eE+-]*|true|false|null)" % _STRING
_MEMBER = rb"[ \t\r]*(%b)[ \t\r]*:[ \t\r]*(%b)[ \t\r]*" % (_STRING, _SCALAR)
_LAST = re.compile(rb"(?:,%b)+\}\Z" % _MEMBER.replace(b"(%b)" % _STRING, b"(?:%b)" % _STRING, 1))
_NEXT = re.compile(_MEMBER + rb"([,}])")
_NAME = re.compile(rb"[ \t\r]*(%b)[ \t\r]*:" % _STRING)
_REQUESTS, _RESPONSES = frozenset({"method", "params"}), frozenset({"result", "error"})


def line_too_long(detail: str, head: bytes, tail: bytes) -> LineTooLong:
    """Return the error for an overlong line of which only the two ends are kept. `detail` is the error's text. `tail`
    is b"" if the line has not ended yet."""
    head, tail = head.lstrip(b" \t\r"), tail.rstrip(b" \t\r")
    if not head.startswith(b"{"):
        return LineTooLong(detail, is_message=head.startswith(b"["))
    pairs = [*_first(head), *_last(tail)]
    names = {name for name, _ in pairs}
    ids = [(name, value) for name, value in pairs if name.casefold() == "id"]
    id = as_id(Raw(ids[0][1])) if len(ids) == 1 and ids[0][0] == "id" else None
    kinds = [kind for kind, own in (("call", _REQUESTS), ("response", _RESPONSES)) if names & own]
    return LineTooLong(detail, id=id, kind=kinds[0] if len(kinds) == 1 else "", is_message=True)


def _first(head: bytes) -> list[tuple[str, bytes]]:
    """Return the members before the first long one, and the name of that one without its value."""
    pairs: list[tuple[str, bytes]] = []
    at = 1
    while (member := _NEXT.match(head, at)) is not None:
        pairs.append((as_string(Raw(member[1])) or "", member[2]))
        at = member.end()
    named = _NAME.match(head, at)
    return [*pairs, (as_string(Raw(named[1])) or "", b"")] if named is not None else pairs


def _last(tail: bytes) -> list[tuple[str, bytes]]:
    begun = _LAST.search(tail)
    pairs: list[tuple[str, bytes]] = []
    at = begun.start() + 1 if begun is not None else len(tail)
    while (member := _NEXT.match(tail, at)) is not None:
        pairs.append((as_string(Raw(member[1])) or "", member[2]))
        at = member.end()
    return pairs
