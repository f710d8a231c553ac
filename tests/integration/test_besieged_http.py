"""The edges of HTTP, from both sides, against the real command with proofs required and durable records.

Whatever comes: no call reaches the server unrecorded, no answer is given without its record, nothing of a hostile head
reaches the other side, and the gateway serves the next one.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.world.authorization import Trust
from tests.world.besieged import Besieged, Reading, asked, posting
from tests.world.calls import Posted, chunk, http, post
from tests.world.raw_client import CutOff, RawClient
from tests.world.raw_server import PATIENCE, Connection, RawServer

from accredit.app.http11 import MAX_REQUEST_HEAD_BYTES
from accredit.gateway.upstream.http.parsing import MAX_HEAD_BYTES
from accredit.jsonrpc.methods import Era
from accredit.limits import MAX_INTERIM_ANSWERS

pytestmark = pytest.mark.slow

LEAK = "swordfish"
A_WHILE = 0.5
"""Seconds for a connection that may stay open with nothing more to come."""


# --- clients ----------------------------------------------------------------------------------------

Bytes = Callable[[Posted], bytes]
UNPROVED = post(Era.MODERN, "resources/read", {"uri": "mail://unproved"})
OFFER = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n"


def whole(posted: Posted) -> bytes:
    return posting(posted) + posted.body


def line(text: str) -> Bytes:
    return lambda call: posting(call, text) + call.body


def more(fields: str) -> Bytes:
    return lambda call: posting(call, framing=f"{fields}Content-Length: {len(call.body)}") + call.body


def chunked(fields: str, last: bytes = b"0\r\n\r\n", text: str = "POST /mcp HTTP/1.1") -> Bytes:
    return lambda call: posting(call, text, framing=fields + "Transfer-Encoding: chunked") + chunk(call.body) + last


PASS: dict[str, Bytes] = {
    "HTTP/1.0": line("POST /mcp HTTP/1.0"),
    "HTTP/1.0, kept alive": lambda call: posting(call, "POST /mcp HTTP/1.0", framing="Connection: keep-alive\r\n"
                                                 f"Content-Length: {len(call.body)}") + call.body,
    "a target with its host": line("POST http://127.0.0.1/mcp HTTP/1.1"),
    "an expectation": more("Expect: 100-continue\r\n"),
    "an offer of HTTP/2": more(OFFER),
    "an offer of a web socket": more("Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"),
    "an offer before chunks": chunked(OFFER),
    "trailers": chunked("Trailer: Mcp-Method\r\n", b"0\r\nMcp-Method: ping\r\nContent-Type: text/plain\r\n\r\n"),
    "an extension of a chunk": lambda call: posting(call, framing="Transfer-Encoding: chunked")
    + b"%x;a=b\r\n%b\r\n0\r\n\r\n" % (len(call.body), call.body),
    "behind a refused one": lambda call: whole(UNPROVED) + whole(call),
    "behind one of another path": lambda call: posting(UNPROVED, "POST /other HTTP/1.1") + UNPROVED.body + whole(call),
}  # fmt: skip
FAIL: dict[str, Bytes] = {
    "no host": lambda call: whole(call).replace(b"Host: 127.0.0.1\r\n", b""),
    "two hosts": more("Host: evil.example\r\n"),
    "a target of another host": line("POST http://evil.example/mcp HTTP/1.1"),
    "a connection through": line("CONNECT 127.0.0.1:80 HTTP/1.1"),
    "HTTP/2": lambda _: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/0.9": lambda _: b"GET /mcp\r\n\r\n",
    "both framings": lambda call: chunked(f"Content-Length: {len(call.body)}\r\n")(call),
    "two lengths": more("Content-Length: 5\r\n"),
    "another coding below chunks": chunked("Transfer-Encoding: gzip\r\n"),
    "chunks in HTTP/1.0": chunked("", text="POST /mcp HTTP/1.0"),
    "a length as a trailer": chunked("", b"0\r\nContent-Length: 5\r\n\r\n"),
    "a bare line feed": lambda call: whole(call).replace(b"\r\n", b"\n", 1),
    "a lone carriage return": more("X-A: b\rMcp-Method: ping\r\n"),
    "a null": more("X-A: b\0c\r\n"),
    "a folded line": more("X-A: b\r\n c\r\n"),
    "a space before a colon": more("X-A : b\r\n"),
    "a large head": more(f"X-A: {'a' * MAX_REQUEST_HEAD_BYTES}\r\n"),
    "many headers": more("X-A: b\r\n" * 5_000),
    "behind one that closes": lambda call: posting(UNPROVED, framing="Connection: close\r\nContent-Length: "
                                                   f"{len(UNPROVED.body)}") + UNPROVED.body + whole(call),
    "in the body of one that is too large": lambda call: posting(UNPROVED, framing="Content-Length: 99999999")
    + whole(call),
}  # fmt: skip


async def is_answered(client: RawClient, number: int, seconds: float) -> bool:
    """Whether an answer to this call comes before the connection ends, or in this time."""
    with contextlib.suppress(TimeoutError, CutOff, ConnectionError):
        async with asyncio.timeout(seconds):
            while True:
                body = (await client.answer()).body
                if body.startswith(b"{") and json.loads(body).get("id") == number:
                    return True
    return False


async def test_at_the_edges_of_http_a_client_gets_no_call_past_the_record(trust: Trust, tmp_path: Path) -> None:
    reading = Reading()
    async with RawServer(reading) as server:
        besieged = Besieged(tmp_path, trust, f'url = "{server.url}"')
        with await asyncio.to_thread(besieged.serving().__enter__) as gateway:
            for number, (name, sent) in enumerate((PASS | FAIL).items()):
                uri = f"mail://{number}"
                async with RawClient(gateway.port) as client:
                    await client.send(sent(besieged.call(uri, id=number)))
                    answered = await is_answered(client, number, PATIENCE if name in PASS else A_WHILE)
                assert (uri in reading.called) == (name in PASS), name
                if name in PASS:
                    assert answered, name
                    besieged.answered.append(uri)
            async with RawClient(gateway.port) as client:
                assert "result" in await besieged.ask(client, "mail://last")
            gateway.stop()
            assert await asyncio.to_thread(gateway.wait) == 0
        assert "Traceback" not in gateway.stderr
    besieged.check(reading.called)


# --- servers ----------------------------------------------------------------------------------------


def head(*lines: str) -> bytes:
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


OK = "HTTP/1.1 200 OK"
JSON = "Content-Type: application/json"
HINT = head("HTTP/1.1 103 Early Hints", f"Link: </{LEAK}>", f"Set-Cookie: {LEAK}=1", "Content-Length: 5")
TRAILERS = f"0\r\nContent-Type: text/html\r\nSet-Cookie: {LEAK}\r\nMcp-Session-Id: {LEAK}\r\n\r\n".encode()
Answer = Callable[[bytes], bytes]

SOUND: dict[str, Answer] = {
    "early hints": lambda body: HINT * MAX_INTERIM_ANSWERS + http(body),
    "trailers that repeat headers": lambda body: head(OK, JSON, "Transfer-Encoding: chunked") + chunk(body) + TRAILERS,
    "HTTP/1.0 without a length": lambda body: head("HTTP/1.0 200 OK", JSON) + body,
    "a second answer at once": lambda body: http(body) + http(body.replace(b"sound", LEAK.encode())),
    "a connection that is said to close and does not": lambda body: http(body, headers=(("Connection", "close"),)),
}
BROKEN: dict[str, Answer] = {
    "hints without end": lambda body: HINT * 1_000 + http(body),
    "another protocol": lambda body: head("HTTP/1.1 101 Switching Protocols", "Upgrade: h2c") + http(body),
    "chunks in HTTP/1.0": lambda body: head("HTTP/1.0 200 OK", JSON, "Transfer-Encoding: chunked") + chunk(body),
    "both framings": lambda body: head(OK, JSON, "Transfer-Encoding: chunked", "Content-Length: 5") + chunk(body),
    "two lengths": lambda body: head(OK, JSON, "Content-Length: 5", f"Content-Length: {len(body)}") + body,
    "a folded line": lambda body: http(body, headers=(("X-A", f"b\r\n {LEAK}"),)),
    "a null": lambda body: http(body, headers=(("X-A", "b\0"),)),
    "bare line feeds": lambda body: http(body).replace(b"\r\n", b"\n"),
    "HTTP/2": lambda body: http(body).replace(b"HTTP/1.1", b"HTTP/2.0"),
    "an extension without end": lambda _: head(OK, JSON, "Transfer-Encoding: chunked")
    + b"5;" + b"a" * 2 * MAX_HEAD_BYTES,
    "trailers without end": lambda body: head(OK, JSON, "Transfer-Encoding: chunked") + chunk(body) + b"0\r\n"
    + b"A: b\r\n" * 1_000,
    "a length that is not kept": lambda body: http(body, length=len(body) + 5),
    "no HTTP": lambda _: LEAK.encode() * 10,
}  # fmt: skip


async def test_a_hostile_head_of_the_server_reaches_no_client__and_each_call_has_its_outcome(
    trust: Trust, tmp_path: Path
) -> None:
    rows = SOUND | BROKEN
    names = iter([each for name in rows for each in (name, "")])

    async def sends(connection: Connection, body: bytes) -> None:
        name = next(names)
        await connection.send(rows[name](body) if name else http(body))
        if name and "does not" not in name:
            connection.writer.write_eof()

    reading = Reading(sends)
    async with RawServer(reading) as server:
        besieged = Besieged(tmp_path, trust, f'url = "{server.url}"')
        with await asyncio.to_thread(besieged.serving().__enter__) as gateway:
            async with RawClient(gateway.port) as client:
                for number, name in enumerate(rows):
                    answer = await asked(client, besieged.call(f"mail://{number}"))
                    said = besieged.note(f"mail://{number}", answer)
                    assert ("result" in said) == (name in SOUND), (name, said)
                    assert LEAK not in repr(answer), name
                    assert "result" in await besieged.ask(client, f"mail://after-{number}")
            gateway.stop()
            assert await asyncio.to_thread(gateway.wait) == 0
    assert len(reading.called) == 2 * len(rows)
    found = besieged.check(reading.called)
    assert {call["status"] for call in found.values()} <= {"ok", "upstream_invalid", "unknown"}
    assert len(found) == len(reading.called)
