"""`python -m tests.fuzz.fuzz_jsonrpc FOLDER [libFuzzer's options]`: fuzzes the JSON-RPC core, guided by its branches.

The first byte of an input picks a check, the rest is what it is given. A check fails by an exception that is not in
the error tree, or by a difference: to the slow oracle, between two splits of a stream, or after writing again.
The folder is first filled with a few seeds, and keeps what the fuzzer finds.
"""

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["accredit"]):  # pyright: ignore[reportAttributeAccessIssue]
    from accredit.errors import AnswerError, FrameError, JsonError, RequestError
    from accredit.jsonrpc.encode import error_frame, with_members
    from accredit.jsonrpc.era import check_agreement, decode_header
    from accredit.jsonrpc.frames import Notification, Request, decode_frame
    from accredit.jsonrpc.lines import LineSplitter
    from accredit.jsonrpc.methods import META_CAPABILITIES, META_VERSION, Era
    from accredit.jsonrpc.objects import members
    from accredit.jsonrpc.param_headers import check_param_headers, declared_headers, listed_schemas
    from accredit.jsonrpc.requests import decode_request
    from accredit.jsonrpc.responses import Expected
    from accredit.jsonrpc.sse import SseParser
    from accredit.jsonrpc.text import check_each_rule, check_text
from tests.property import oracle

META = f'"_meta":{{"{META_VERSION}":"2026-07-28","{META_CAPABILITIES}":{{"elicitation":{{}},"roots":{{}}}}}}'
CALL = decode_request(f'{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"n",{META}}}}}'.encode())
assert isinstance(CALL, Request)
ASKED = CALL
LIMIT = 4096


def check_frame(text: bytes) -> None:
    """A message is accepted when the oracle accepts it, and means the same when it is written again."""
    try:
        expected = oracle.message(oracle.parse(text))
    except oracle.Refused:
        expected = None
    try:
        found = type(decode_frame(text)).__name__.lower()
    except FrameError:
        found = None
    assert found == expected
    if found is not None:
        assert oracle.parse(with_members(members(text), {})) == oracle.parse(text)


def check_request(text: bytes) -> None:
    """A request holds no duplicate at any depth, and its headers and arguments can be compared."""
    try:
        frame = decode_request(text, batch_allowed=True)
    except RequestError as error:
        decode_frame(error_frame(error.id, error.code, error.detail))
        return
    oracle.no_duplicates(oracle.parse(text))
    headers = {b"mcp-method": text[:9], b"mcp-param-a": text[-9:]}
    assert frame.era in Era
    if isinstance(frame, Request | Notification):
        _refusable(lambda: check_agreement(frame, headers))
    if isinstance(frame, Request):
        declared = declared_headers(b'{"properties":{"name":{"type":"string","x-mcp-header":"a"}}}')
        _refusable(lambda: check_param_headers(frame, declared, headers))


def check_answer(text: bytes) -> None:
    """An answer that is forwarded is a frame with the request's id; one that is refused leaves the request open."""
    for era, batch in ((Era.LEGACY, False), (Era.LEGACY, True), (Era.MODERN, False)):
        exchange = Expected(era, [ASKED], batch=batch)
        try:
            forwarded = exchange.body(text)
        except AnswerError:
            assert list(exchange.open) == [7]
            continue
        assert exchange.done
        assert batch or members(forwarded)["id"] == members(ASKED.text)["id"]


def check_result(text: bytes) -> None:
    """The same for what stands in a modern result."""
    check_answer(b'{"jsonrpc":"2.0","id":7,"result":' + text + b"}")


def check_one_pass(text: bytes) -> None:
    """One pass refuses what the passes of each rule refuse, for the same reason."""
    reasons: list[str | None] = []
    for check in (check_text, check_each_rule):
        try:
            reasons.append(check(text))
        except JsonError as error:
            reasons.append(error.detail)
    assert reasons[0] == reasons[1]


def check_event_stream(text: bytes) -> None:
    """Two splits of a stream give the same events."""
    whole, parts = SseParser(LIMIT), SseParser(LIMIT)
    cut = text[0] if text else 0
    expected = [event.data for event in whole.feed(text)]
    found = [event.data for chunk in (text[:cut], text[cut:]) for event in parts.feed(chunk)]
    assert [data for data in found if data is not None] == [data for data in expected if data is not None]


def check_lines(text: bytes) -> None:
    """Two splits of a stream give the same lines."""
    cut = text[0] if text else 0
    parts = LineSplitter(16)
    found = [line for chunk in (text[:cut], text[cut:]) for line in parts.feed(chunk)]
    expected = LineSplitter(16).feed(text)
    assert list(map(_shown, found)) == list(map(_shown, expected))


def check_schema(text: bytes) -> None:
    """Schemas, lists and header values are read or not, but never raise."""
    declared = declared_headers(text)
    listed = listed_schemas(b'{"tools":[{"name":"a","inputSchema":' + text + b"}]}")
    assert {name: declared_headers(found) for name, found in listed.items()} in ({}, {"a": declared})
    listed_schemas(text)
    decode_header(text)


def _shown(line: bytes | FrameError) -> bytes:
    return line if isinstance(line, bytes) else line.detail.encode()


def _refusable(check: Callable[[], None]) -> None:
    with contextlib.suppress(RequestError):
        check()


CHECKS = [
    *(check_frame, check_request, check_answer, check_result, check_event_stream, check_lines, check_schema),
    check_one_pass,
]
SEEDS = [
    b'{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete"}}',
    b'{"jsonrpc": "2.0", "id": "7", "error": {"code": -32000, "message": "m\\u00e9", "data": [1e99]}}',
    ASKED.text,
    b'[{"jsonrpc":"2.0","method":"x","params":{"a":[{"b":"\\"["}]}},{"jsonrpc":"2.0","id":7,"result":null}]',
    b'{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"url"}}}}',
    b"\x05id: 1\r\nevent: message\rdata: {}\n\n: x\n\ndata\n\n",
    b'{"properties":{"a":{"type":"integer","x-mcp-header":"A"}},"allOf":[{"items":{"$defs":{}}}]}',
    b"=?base64?SGVsbG8=?=",
]


def check_one(data: bytes) -> None:
    """What the fuzzer calls."""
    if data:
        CHECKS[data[0] % len(CHECKS)](data[1:])


def main(arguments: list[str]) -> None:
    """Fuzzes until a limit among the arguments is reached, or until something fails."""
    for index, seed in enumerate(SEEDS):
        for which in range(len(CHECKS)):
            Path(arguments[1], f"seed-{index}-{which}").write_bytes(bytes([which]) + seed)
    atheris.Setup(arguments, check_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv)
