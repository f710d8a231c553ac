"""What is asked and what is answered, to the byte. No I/O.

The load script, the upstream and the checks share these values, so the upstream knows every request by heart
(and answers one that arrives changed with 404), and an answer can be compared byte for byte.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

JSON_TYPE = "application/json"
SSE_TYPE = "text/event-stream"

VARIED = 16
"""Lengths of a call whose length varies."""

KIB = 1024
MIB = 1024 * KIB

LEGACY_HEADERS = {
    "Content-Type": JSON_TYPE,
    "Accept": f"{JSON_TYPE}, {SSE_TYPE}",
    "MCP-Protocol-Version": "2025-11-25",
    "Mcp-Session-Id": "4f6c1d0e7a5b4c3d9e8f",
}

MODERN = "2026-07-28"
MODERN_META: dict[str, object] = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}

# Text as tools return it: mostly ASCII, some escapes, now and then a letter beyond ASCII.
_LINE = 'Paid invoice 4711 ("Café Größenwahn", 12.50 €); see https://example.org/i/4711?lang=de.\n'


@dataclass(frozen=True, slots=True)
class Call:
    """One `tools/call` and the answer that is owed to it."""

    name: str
    request: bytes
    headers: dict[str, str]
    answer: bytes
    """The JSON-RPC response: the body itself, or with `sse` the data of the only event."""
    sse: bool
    others: tuple["Call", ...] = ()
    """Calls that take turns with it, of other lengths."""

    @property
    def all(self) -> tuple["Call", ...]:
        """It, and those that take turns with it."""
        return self, *self.others

    @property
    def content_type(self) -> str:
        return SSE_TYPE if self.sse else JSON_TYPE

    @property
    def body(self) -> bytes:
        """The bytes of the HTTP body that the upstream sends."""
        return sse_event(self.answer) if self.sse else self.answer


def sse_event(data: bytes) -> bytes:
    return b"event: message\ndata: " + data + b"\n\n"


def compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def request(tool: str, meta: dict[str, object] | None = None, query: str = "unpaid invoices") -> bytes:
    params: dict[str, object] = {"name": tool, "arguments": {"query": query, "limit": 20}}
    if meta is not None:
        params["_meta"] = meta
    return compact({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})


def result_frame(result: dict[str, object]) -> bytes:
    return compact({"jsonrpc": "2.0", "id": 7, "result": result})


def text_answer(size: int) -> bytes:
    """A response of exactly `size` bytes, all of it one text."""

    def frame(text: str) -> bytes:
        return result_frame({"content": [{"type": "text", "text": text}], "isError": False})

    room = size - len(frame(""))
    line_bytes = len(compact(_LINE)) - 2
    text = _LINE * (room // line_bytes)
    return frame(text + "x" * (size - len(frame(text))))


def structured_answer(size: int) -> bytes:
    """A response of exactly `size` bytes, nearly all of it small members of `structuredContent`."""

    def frame(rows: list[dict[str, object]], pad: str = "") -> bytes:
        content = [{"type": "text", "text": f"{len(rows)} rows{pad}"}]
        return result_frame({"content": content, "structuredContent": {"rows": rows}, "isError": False})

    row_bytes = len(compact(_row(10_000))) + 1
    rows = [_row(10_000 + number) for number in range((size - len(frame([])) - 8) // row_bytes)]
    return frame(rows, "." * (size - len(frame(rows))))


def _row(number: int) -> dict[str, object]:
    return {"id": number, "name": f"Invoice {number}", "amount": 12.5, "paid": True, "tags": ["a", "b"]}


def _modern(tool: str) -> tuple[bytes, dict[str, str]]:
    return request(tool, MODERN_META), modern_headers(tool)


def modern_headers(tool: str) -> dict[str, str]:
    """The headers of a call in the modern era."""
    headers = LEGACY_HEADERS | {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": tool}
    del headers["Mcp-Session-Id"]
    return headers


def _calls() -> Iterator[Call]:
    answers = {
        "200b": text_answer(200),
        "32k": text_answer(32 * KIB),
        "32k-structured": structured_answer(32 * KIB),
        "1m": text_answer(MIB),
    }
    for size, answer in answers.items():
        for kind in ("json", "sse"):
            name = f"{size}-{kind}"
            yield Call(name, request(name), LEGACY_HEADERS, answer, kind == "sse")
    yield _varied()
    for size in ("200b", "32k", "32k-structured"):
        name = f"{size}-modern"
        asked, headers = _modern(name)
        yield Call(name, asked, headers, answers[size][:-2] + b',"resultType":"complete"}}', sse=False)


def _varied() -> Call:
    """A small call whose body and answer have another length each time, as real ones do."""
    name = "200b-varied"
    first, *others = (
        Call(
            name,
            request(name, query="unpaid invoices" + " of last year" * n),
            LEGACY_HEADERS,
            text_answer(200 + 9 * n),
            sse=False,
        )
        for n in range(VARIED)
    )
    return replace(first, others=tuple(others))


CALLS: dict[str, Call] = {call.name: call for call in _calls()}
