"""What is asked and what is answered, to the byte. No I/O.

The load script, the upstream and the checks share these values, so the upstream knows every request by heart
(and answers one that arrives changed with 404), and an answer can be compared byte for byte.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass

JSON_TYPE = "application/json"
SSE_TYPE = "text/event-stream"

KIB = 1024
MIB = 1024 * KIB

LEGACY_HEADERS = {
    "Content-Type": JSON_TYPE,
    "Accept": f"{JSON_TYPE}, {SSE_TYPE}",
    "MCP-Protocol-Version": "2025-11-25",
    "Mcp-Session-Id": "4f6c1d0e7a5b4c3d9e8f",
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


def request(tool: str, meta: dict[str, object] | None = None) -> bytes:
    params: dict[str, object] = {"name": tool, "arguments": {"query": "unpaid invoices", "limit": 20}}
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
    version = "2026-07-28"
    meta: dict[str, object] = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    headers = LEGACY_HEADERS | {
        "MCP-Protocol-Version": version,
        "Mcp-Method": "tools/call",
        "Mcp-Name": tool,
    }
    del headers["Mcp-Session-Id"]
    return request(tool, meta), headers


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
    asked, headers = _modern("200b-modern")
    yield Call("200b-modern", asked, headers, answers["200b"][:-2] + b',"resultType":"complete"}}', sse=False)


CALLS: dict[str, Call] = {call.name: call for call in _calls()}
