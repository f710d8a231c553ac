"""One corpus for all servers: requests that two programs may read differently. No I/O.

A case without `params` looks harmless, or is no message at all: a server that runs a tool for it has read what nobody
has allowed. A case with `params` is a call that is allowed as these say it, in a spelling of its own: a server that
runs anything else has read it differently. `steal` is a tool that nobody may call.
"""

import gzip
import json
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import brotli
from hypothesis import Phase, given, settings
from msgspec import Struct
from tests.property.texts import messages, mutated
from tests.world.hostile_frames import ANY_ERA

Headers = tuple[tuple[str, str], ...]

JSON = ("Content-Type", "application/json")
META = "@META@"
GENERATED = 40


class Case(Struct, frozen=True):
    """A request. In `body` the text `META` stands for what goes into `_meta`."""

    name: str
    body: bytes
    headers: Headers = (JSON,)
    params: dict[str, Any] | None = None
    method: str = "POST"
    encode: Callable[[bytes], bytes] = bytes


def hidden(name: str) -> str:
    """The call that nobody may make. Its argument says which case it came from."""
    arguments = {"to": name, "amount": 1}
    return _compact(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "steal", "arguments": arguments}}
    )


@cache
def corpus() -> list[Case]:
    """All cases, in a fixed order; names are unique."""
    parts = (
        _charsets,
        _polyglots,
        _codings,
        _ping_or_stream,
        _spellings,
        _texts,
        _methods,
        _heads,
        _modern,
        _allowed,
        _ambiguous,
        _generated,
    )
    cases = [case for part in parts for case in part()]
    assert len({case.name for case in cases}) == len(cases)
    return cases


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _typed(value: str, *more: tuple[str, str]) -> Headers:
    return (("Content-Type", value), *more)


# --- charsets ---------------------------------------------------------------------------------------

_CODECS = {
    "utf-7": "utf-7",
    "utf-16": "utf-16",
    "utf-16le": "utf-16-le",
    "utf-16be": "utf-16-be",
    "ucs-2": "utf-16-le",
    "utf-32": "utf-32",
    "utf-32le": "utf-32-le",
    "utf-32be": "utf-32-be",
    "ibm037": "cp037",
}


def _charsets() -> Iterator[Case]:
    for charset, codec in _CODECS.items():
        name = f"all of it in {charset}"
        yield Case(name, hidden(name).encode(codec), _typed(f"application/json; charset={charset}"))
        name = f"all of it in {charset}, and nobody says so"
        yield Case(name, hidden(name).encode(codec))
    name = "a byte order mark"
    yield Case(name, b"\xef\xbb\xbf" + hidden(name).encode())


def _in_utf_7(text: str) -> str:
    return "+" + b64encode(text.encode("utf-16-be")).decode().rstrip("=") + "-"


def _ping_or_call(name: str) -> bytes:
    """A sound ping in ASCII; who decodes it as UTF-7 finds that its string ends early, and a call behind it."""
    call = _compact({"name": "steal", "arguments": {"to": name, "amount": 1}})
    injected = f'"}}}},"method":"tools/call","params":{call[:-1]},"_meta":{{"x":"'
    return f'{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"_meta":{{"x":"{_in_utf_7(injected)}"}}}}}}'.encode()


def _polyglots() -> Iterator[Case]:
    for type in (
        "application/json; charset=utf-7",
        "application/json;charset=UTF-7",
        'application/json; charset="utf-7"',
        "application/json; x=y; charset=utf-7",
        "application/json; charset=utf-8; charset=utf-7",
        "application/json; charset=utf-7; charset=utf-8",
        "application/json; charset=utf7",
        "application/json; charset=unicode-1-1-utf-7",
        "application/json; charset=utf-7-imap",
        "application/json;\tcharset=utf-7",
        "APPLICATION/JSON; CHARSET=UTF-7",
        "application/json-rpc; charset=utf-7",
        "application/json; charset*=utf-8''utf-7",
    ):
        name = f"a ping, and in UTF-7 a call: {type}"
        yield Case(name, _ping_or_call(name.replace('"', "'")), _typed(type))
    name = "a ping, and in UTF-7 a call: two types"
    yield Case(
        name, _ping_or_call(name), _typed("application/json", ("Content-Type", "application/json; charset=utf-7"))
    )


# --- codings ----------------------------------------------------------------------------------------


def _zstd(text: bytes) -> bytes:
    """A frame of one block, which is not compressed (RFC 8878)."""
    whole = b"\x28\xb5\x2f\xfd" + b"\xa0" + len(text).to_bytes(4, "little")
    return whole + (1 | len(text) << 3).to_bytes(3, "little") + text


_PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "GZIP": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "gzip, gzip": lambda text: gzip.compress(gzip.compress(text)),
    "br, gzip": lambda text: gzip.compress(brotli.compress(text)),
    "identity, gzip": gzip.compress,
    "zstd": _zstd,
}


def _codings() -> Iterator[Case]:
    for coding, pack in _PACK.items():
        name = f"packed as {coding}"
        yield Case(name, pack(hidden(name).encode()), (JSON, ("Content-Encoding", coding)))
    for coding in ("identity", "utf-7", "x"):
        name = f"not packed, but said to be {coding}"
        yield Case(name, hidden(name).encode(), (JSON, ("Content-Encoding", coding)))
    name = "packed, and nobody says so"
    yield Case(name, gzip.compress(hidden(name).encode()))
    name = "packed twice over, in two headers"
    twice = gzip.compress(gzip.compress(hidden(name).encode()))
    yield Case(name, twice, (JSON, ("Content-Encoding", "gzip"), ("Content-Encoding", "gzip")))


# A sound beginning of an object in JSON, and of a Brotli stream of two blocks: the first is 41,123 blanks, made by
# prefix codes of one symbol each (RFC 7932 section 9.2); the header of the second, which is not packed, ends with `":`.
_OBJECT_AND_STREAM = ' \n\n{"F @\u00be(\u052fi6\u04edn\'J#":'.encode()
_SECOND_BLOCK = 53_522
_LAST_BLOCK = b"\r"
"""An empty one, and white space. What comes behind it, `node:zlib` leaves unread."""


def ping_or_stream(name: str) -> tuple[bytes, int]:
    """A sound ping; who unpacks it by Brotli finds a call. Also where the stream is over."""
    stream = _OBJECT_AND_STREAM + hidden(name).encode().ljust(_SECOND_BLOCK) + _LAST_BLOCK
    return stream + b',"jsonrpc":"2.0","id":1,"method":"ping"}', len(stream)


def _ping_or_stream() -> Iterator[Case]:
    for coding in ("br", "BR", "identity, br"):
        name = f"a ping, and in Brotli a call: {coding}"
        yield Case(name, ping_or_stream(name)[0], (JSON, ("Content-Encoding", coding)))
    name = "a ping, and in Brotli a call: nobody says so"
    yield Case(name, ping_or_stream(name)[0])


# --- members, and what is around them ---------------------------------------------------------------


def _call(name: str) -> str:
    return f'"params":{{"name":"steal","arguments":{{"to":"{name}","amount":1}}}}'


def _spellings() -> Iterator[Case]:
    head = '"jsonrpc":"2.0","id":1'
    spelled = {
        "two methods, the call last": '"method":"ping","method":"tools/call"',
        "two methods, the call first": '"method":"tools/call","method":"ping"',
        "two methods, one with an escape": '"method":"ping","m\\u0065thod":"tools/call"',
        "two methods, the first with an escape": '"m\\u0065thod":"tools/call","method":"ping"',
        "a method in capitals": '"METHOD":"tools/call"',
        "a method in capitals beside another": '"method":"ping","Method":"tools/call"',
        "a method in capitals before another": '"Method":"tools/call","method":"ping"',
        "a method in no string": '"method":["tools/call"]',
    }
    for name, method in spelled.items():
        yield Case(name, f"{{{head},{method},{_call(name)}}}".encode())
    folded = {"a long s": "param\u017f", "capitals": "PARAMS"}
    for what, params in folded.items():
        name = f"params with {what}"
        call = _call(name).replace("params", params)
        yield Case(name, f'{{{head},"method":"tools/call","params":{{"name":"act"}},{call}}}'.encode())
    name = "a call without an id"
    yield Case(name, f'{{"jsonrpc":"2.0","method":"tools/call",{_call(name)}}}'.encode())
    name = "a call whose id is null"
    yield Case(name, f'{{"jsonrpc":"2.0","id":null,"method":"tools/call",{_call(name)}}}'.encode())
    name = "a call that says nothing of JSON-RPC"
    yield Case(name, f'{{"id":1,"method":"tools/call",{_call(name)}}}'.encode())


def _texts() -> Iterator[Case]:
    ping = '{"jsonrpc":"2.0","id":1,"method":"ping"}'
    around: dict[str, Callable[[str], str]] = {
        "alone, without a proof": str,
        "in an array": lambda call: f"[{call}]",
        "in an array with a ping": lambda call: f"[{ping},{call}]",
        "after a ping": lambda call: ping + call,
        "on the line after a ping": lambda call: f"{ping}\n{call}",
        "before a ping": lambda call: call + ping,
        "before a brace": lambda call: call + "}",
        "after a comment": lambda call: f"/* {ping} */{call}",
        "after a comment to the end of a line": lambda call: f"//{ping}\n{call}",
        "in single quotes": lambda call: call.replace('"', "'"),
        "after a NUL": lambda call: "\0" + call,
        "before a NUL": lambda call: call + "\0",
        "after a form feed": lambda call: "\f" + call,
        "after a blank that is none": lambda call: "\u00a0" + call,
        "with a comma too many": lambda call: call[:-1] + ",}",
        "with NaN": lambda call: call[:-1] + ',"x":NaN}',
        "with a number that begins with 0": lambda call: call.replace('"amount":1', '"amount":01'),
        "with a number in hexadecimal": lambda call: call.replace('"amount":1', '"amount":0x1'),
        "deep in an extension": lambda call: f'{{"jsonrpc":"2.0","id":1,"method":"ping","x":{call}}}',
        "deep in params": lambda call: f'{{"jsonrpc":"2.0","id":1,"method":"ping","params":{call}}}',
    }
    for what, put in around.items():
        name = f"a call {what}"
        yield Case(name, put(hidden(name)).encode())
    for what, bad in {"overlong": b"\xc1\xa5", "alone": b"e\x80", "a surrogate": b"e\xed\xa0\x80"}.items():
        name = f"a method with UTF-8 that is none: {what}"
        yield Case(name, hidden(name).encode().replace(b'"method"', b'"m' + bad + b'thod"'))
    for row, text, *_ in ANY_ERA:
        name = f"an answer that is none, and a call: {row}"
        yield Case(name, text[:10_000] + hidden(name).encode())


def _methods() -> Iterator[Case]:
    for method in (
        "Tools/Call", "TOOLS/CALL", "tools/call ", " tools/call", "tools/call\\u0000", "tools//call", "tools\\/call",
        "\\u0074ools/call", "tools.call", "tools/call/", "./tools/call", "tool\\u017f/call",
    ):  # fmt: skip
        name = "by the method " + method.replace("\\", "-")
        yield Case(name, hidden(name).replace("tools/call", method, 1).encode())


# --- heads ------------------------------------------------------------------------------------------


def _heads() -> Iterator[Case]:
    for override in ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"):
        for method in ("GET", "DELETE", "PUT"):
            name = f"{method} with {override}"
            yield Case(name, hidden(name).encode(), (JSON, (override, "POST")), method=method)
    for header in ("X-Original-URL", "X-Rewrite-URL", "X-Forwarded-Prefix"):
        name = f"with {header}"
        yield Case(name, hidden(name).encode(), (JSON, (header, "/mcp")))
    for type in (
        "text/plain", "text/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
        "application/jsonp", "application/json5", "application/vnd.api+json", "application/json, text/plain",
        "text/plain, application/json", "application/json ; charset=utf-8", "application/json;", "*/*", "",
    ):  # fmt: skip
        name = f"of the type {type}"
        yield Case(name, hidden(name).encode(), _typed(type))
    name = "of no type"
    yield Case(name, hidden(name).encode(), ())
    name = "with a method in a header"
    yield Case(name, hidden(name).encode(), (JSON, ("Mcp-Method", "ping"), ("Mcp-Name", "act")))
    name = "in the query"
    yield Case(name, b"{}", (JSON, ("X-Original-URL", "/mcp?body=" + hidden("x").replace(" ", "%20"))))
    name = "a body that is over early, and one more request"
    text = hidden(name).encode()
    more = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    more += b"Accept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text)
    yield Case(name, b"0\r\n\r\n" + more, (JSON, ("Transfer-Encoding", "chunked"), ("Content-Length", "5")))


# --- 2026-07-28 -------------------------------------------------------------------------------------

_VERSION = "io.modelcontextprotocol/protocolVersion"


def _modern() -> Iterator[Case]:
    def case(name: str, *, meta: str, headers: Headers, method: str = '"method":"tools/call"') -> Case:
        known = f'{meta},"io.modelcontextprotocol/clientCapabilities":{{}}'
        params = f'{_call(name)[:-1]},"_meta":{{{known}}}}}'
        return Case(name, f'{{"jsonrpc":"2.0","id":1,{method},{params}}}'.encode(), (JSON, *headers))

    good = f'"{_VERSION}":"2026-07-28"'
    version = ("MCP-Protocol-Version", "2026-07-28")
    method, tool = ("Mcp-Method", "tools/call"), ("Mcp-Name", "steal")
    for name, headers in {
        "as it should be, without a proof": (version, method, tool),
        "a header that says ping": (version, ("Mcp-Method", "ping")),
        "a header that names another tool": (version, method, ("Mcp-Name", "act")),
        "two headers of which one names another tool": (version, method, ("Mcp-Name", "act"), tool),
        "a header in base64 that names another tool": (version, method, ("Mcp-Name", "=?base64?YWN0?=")),
        "a header of the version before": (("MCP-Protocol-Version", "2025-11-25"), method, tool),
        "two headers of different versions": (("MCP-Protocol-Version", "2025-11-25"), version, method, tool),
        "no headers": (version,),
    }.items():
        yield case(f"modern: {name}", meta=good, headers=headers)
    for name, meta in {
        "a body of the version before": f'"{_VERSION}":"2025-11-25"',
        "a body of no version that there is": f'"{_VERSION}":"2099-01-01"',
        "two versions": f'{good},"{_VERSION}":"2025-11-25"',
        "two versions, one with an escape": f'"{_VERSION.replace("V", chr(92) + "u0056")}":"2025-11-25",{good}',
        "a version in capitals beside another": f'{good},"{_VERSION.upper()}":"2025-11-25"',
        "a version that is no text": f'"{_VERSION}":["2026-07-28"]',
    }.items():
        yield case(f"modern: {name}", meta=meta, headers=(version, method, tool))
    ping = ("Mcp-Method", "ping")
    for name, told in {
        "two methods": '"method":"ping","method":"tools/call"',
        "a method in capitals beside another": '"method":"ping","Method":"tools/call"',
    }.items():
        yield case(f"modern: {name}", meta=good, headers=(version, ping), method=told)


# --- calls that are allowed -------------------------------------------------------------------------

_NUMBERS = (
    "1", "1.0", "1e0", "10E-1", "0.1e+1", "1.00000000000000000001", "-0", "-0.0", "1e-400", "0.30000000000000004",
    "4.35", "1e21", "1e20", "1.7976931348623157e308", "5e-324", "123456789012345680", "9007199254740991", "0.000001",
    "1e-7", "333333333.33333329",
)  # fmt: skip
_STRINGS = (
    "a/b", "\u00e9", "e\u0301", "\u20ac", "\U0001f600", "\u2028", "\u007f", "\u200b", "\ufeff", "\u212a", "\ufb01",
    "\t\n\r\b\f", '"\\', "</script>", "\0", "\ue000",
)  # fmt: skip


def _allowed_text(to: str, amount: str) -> bytes:
    return (
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"act","arguments":'
        f'{{"to":{to},"amount":{amount}}},"_meta":{META}}}}}'
    ).encode()


def _act(to: str, amount: float = 1) -> dict[str, Any]:
    return {"name": "act", "arguments": {"to": to, "amount": amount}}


def _allowed() -> Iterator[Case]:
    for number in _NUMBERS:
        name = f"allowed: the number {number}"
        yield Case(name, _allowed_text(_compact(name), number), params=_act(name, float(number)))
    for at, string in enumerate(_STRINGS):
        for escaped in (False, True):
            name = f"allowed: the string {at}{' escaped' if escaped else ''}"
            to = f"{name}: {string}"
            yield Case(name, _allowed_text(json.dumps(to, ensure_ascii=escaped), "1"), params=_act(to))
    name = "allowed: each letter escaped"
    text = _allowed_text("".join(['"', *(f"\\u{ord(each):04x}" for each in name), '"']), "1")
    for word in (b"jsonrpc", b"method", b"tools/call", b"params", b"name", b"arguments", b"amount"):
        text = text.replace(b'"%b"' % word, b'"%b"' % b"".join(b"\\u%04x" % each for each in word))
    yield Case(name, text, params=_act(name))
    for type in ("application/json; charset=utf-8", 'application/json; charset="UTF-8"', "Application/JSON"):
        name = f"allowed: of the type {type}"
        yield Case(name, _allowed_text(_compact(name), "1"), _typed(type), _act(name))


def _ambiguous() -> Iterator[Case]:
    for extra in (
        '"AMOUNT":1000', '"Amount":1000', '"amOunt":1000', '"T\\u006f":"thief"', '"amount":1000',
        '"\\u0061mount":1000', '"am\\u006Funt":1000',
    ):  # fmt: skip
        for first in (False, True):
            name = f"twice: {extra} {'first' if first else 'last'}".replace('"', "'").replace("\\", "-")
            plain = f'"to":{_compact(name)},"amount":1'
            both = f"{extra},{plain}" if first else f"{plain},{extra}"
            text = _allowed_text("@", "1").replace(b'"to":@,"amount":1', both.encode())
            yield Case(name, text, params={"name": "act", "arguments": json.loads(f"{{{both}}}")})
    for what, more in {
        "two names": '"name":"steal",',
        "a name with an escape": '"n\\u0061me":"steal",',
        "a name in capitals": '"Name":"steal",',
        "arguments in capitals": '"Arguments":{"to":"thief","amount":1000},',
    }.items():
        for first in (False, True):
            name = f"twice: {what}, {'first' if first else 'last'}"
            text = _allowed_text(_compact(name), "1")
            at = b'"params":{' if first else b'"_meta"'
            put = at + more.encode() if first else more.encode() + at
            yield Case(name, text.replace(at, put), params=_act(name))
    for charset in ("latin1", "iso-8859-1", "windows-1252", "us-ascii", "utf-7", "shift_jis", "utf8", "utf-8-sig"):
        to = f"in {charset}: \u00e9+AOk-"
        name = f"other letters in {charset}"
        yield Case(name, _allowed_text(_compact(to), "1"), _typed(f"application/json; charset={charset}"), _act(to))
    for coding in ("gzip", "deflate", "br", "identity"):
        name = f"allowed: packed as {coding}"
        pack = _PACK.get(coding, bytes)
        coded = (JSON, ("Content-Encoding", coding))
        yield Case(name, _allowed_text(_compact(name), "1"), coded, _act(name), encode=pack)


# --- texts of the parsers' own tests ----------------------------------------------------------------


def _generated() -> Iterator[Case]:
    found: list[bytes] = []

    @settings(max_examples=GENERATED, derandomize=True, database=None, deadline=None, phases=[Phase.generate])
    @given(mutated(messages()))
    def collect(text: bytes) -> None:
        found.append(text)

    collect()
    for at, text in enumerate(dict.fromkeys(found)):
        name = f"generated {at}"
        call = _compact({"name": "steal", "arguments": {"to": name, "amount": 1}}).encode()
        yield Case(name, text.replace(b'{"name":"n"}', call))
