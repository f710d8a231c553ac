"""Judges the usual form of answer in one pass. It can confirm an answer but never refuses one. No I/O.

Most answers are one object of exactly `jsonrpc`, the requested `id`, and a `result` that is an object, in the order and
with the spaces that the common servers write. If a text begins and ends in that way, `simd` finds it valid with three
members, and it is not too deep, it is such an object. It then satisfies `frames.decode_frame` and, in the modern era,
[modern-result] of `responses`, without being split. All other texts are judged in `responses`.
"""

from msgspec import Raw

from accredit.errors import MessageId
from accredit.jsonrpc.encode import to_json
from accredit.jsonrpc.result_types import COMPLETE, DECIDING
from accredit.jsonrpc.simd import ParsedObject, parsed_object
from accredit.jsonrpc.text import is_too_deep

MAX_PLAIN_RESULT_MEMBERS = 64
"""The most members of a modern result whose names are read one by one from the fast parser. Real results have five. A
larger result is split."""


_MEMBERS = 3
_BEGINNINGS = (b'{"jsonrpc":"2.0","id":%b,"result":{', b'{"jsonrpc": "2.0", "id": %b, "result": {')
"""How answers begin: first as the Python SDK and most others write them, then as Python's own `json` does. After such a
beginning, only the last brace follows the result."""
_RESULT_FIRST = b'{"result":{'
_END = b'},"jsonrpc":"2.0","id":%b}'
"""How an answer ends that the TypeScript SDK writes: the result comes first."""


def plain_result(text: bytes, id: MessageId, *, modern: bool) -> Raw | None:
    """Return the `result` of a valid response of usual form to the request with this id. None means undecided."""
    start, end = _extent(text, b"%d" % id if isinstance(id, int) else to_json(id))
    if not end:
        return None
    message = parsed_object(text)
    if message is None or len(message) != _MEMBERS or is_too_deep(text):
        return None
    if modern and not _is_complete(message["result"]):  # pyright: ignore[reportArgumentType] - it begins with a brace
        return None
    return Raw(text[start:end])


def _extent(text: bytes, id: bytes) -> tuple[int, int]:
    """Return where the result begins and ends, provided that the text is valid and has one of the usual forms. Return
    0, 0 if it has none of these forms."""
    if text.endswith(b"}}"):
        for form in _BEGINNINGS:
            beginning = form % id
            if text.startswith(beginning):
                return len(beginning) - 1, len(text) - 1
    elif text.startswith(_RESULT_FIRST) and text.endswith(end := _END % id):
        return len(_RESULT_FIRST) - 1, len(text) - len(end) + 1
    return 0, 0


def _is_complete(result: ParsedObject) -> bool:
    if len(result) > MAX_PLAIN_RESULT_MEMBERS:
        return False
    deciding = [name for name in result if name.casefold() in DECIDING.folded]
    return not deciding or (deciding == ["resultType"] and result["resultType"] == COMPLETE)
