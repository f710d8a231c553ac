"""What the fuzzer of `wrap` runs: a stdio host's bytes, and a server that reads its stdin in every way.

Everything between is the product: the lines, the gate with proofs required, the ledger of what is open. The oracle is
that of `fuzz_gate_target`: what any reader of the child's stdin would run was recorded as allowed. Such a reader takes
any line break for the end of a message, as text streams of Python, Java and .NET do.

The first byte of an input says into how large pieces the rest is cut; from 128 on, the rest chooses
lines (`built_lines`). `@PROOF@` stands for a proof that is good for `ALLOWED`.
"""

import asyncio
import json
from typing import Any, cast

from tests.fuzz.built_lines import built
from tests.fuzz.fuzz_gate_target import (
    ALLOWED,
    CALL,
    PING,
    TRUST,
    Hole,
    Records,
    Run,
    message,
    proven,
    readings,
    runs,
    with_proof,
)
from tests.world.authorization import GATEWAY
from tests.world.decisions import Known

from accredit.errors import FrameError, UpstreamUnavailable
from accredit.gateway.admission.gate import Gate
from accredit.gateway.admission.tool_directory import ToolDirectory
from accredit.gateway.counters import Counters
from accredit.gateway.front.wrap import Wrap
from accredit.gateway.recording.recorder import recorder_of
from accredit.gateway.settings import RecordSettings, StdioUpstream
from accredit.jsonrpc.lines import encode_line
from accredit.stores import MemoryStore, Tasks

_SECONDS = 20
_PIECE = 61
_TURNS = 20


class MemoryHost:
    """The host's side in memory: its bytes in pieces, and all that it is sent."""

    def __init__(self, sent: bytes, size: int) -> None:
        self.gone = asyncio.Event()
        self.told = bytearray()
        self._pieces = iter([sent[at : at + size] for at in range(0, len(sent), size)])

    async def read(self) -> bytes:
        for _ in range(_TURNS):  # what was sent before is answered meanwhile
            await asyncio.sleep(0)
        return next(self._pieces, b"")

    def send(self, line: bytes) -> None:
        self.told += line

    async def drained(self, limit: int = 0) -> None:
        pass


class FreeChild:
    """The server: it answers what it reads, asks something itself, and notes what a free reader would run."""

    def __init__(self, records: Records) -> None:
        self.lines_read = 0
        self._ran: list[Run] = []
        self._records = records
        self._out: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._closed = False

    async def send(self, text: bytes, timeout: float | None) -> None:
        if self._closed:
            raise UpstreamUnavailable("the input is closed")
        self.send_now(text)

    def send_now(self, text: bytes) -> None:
        line = encode_line(text)
        self.lines_read += 1
        if line.count(b"\n") != 1 or not line.endswith(b"\n"):
            raise Hole("more, or less, than one line")
        for run in runs_of(line):
            self._ran.append(run)
            if self._ran.count(run) > self._records.allowed.count(run):
                raise Hole(f"{run[0]} {run[1]!r} runs, and nobody allowed it")
        for answer in answers_to(line):
            self._out.put_nowait(answer)

    def close_input(self) -> None:
        self._closed = True
        self._out.put_nowait(None)

    async def lines(self) -> list[bytes | FrameError] | None:
        line = await self._out.get()
        return None if line is None else [line]

    async def died(self) -> UpstreamUnavailable:
        return UpstreamUnavailable("it ended")

    async def aclose(self) -> None:
        pass


def runs_of(line: bytes) -> set[Run]:
    """The guarded calls that any reader sees in a line, or in what it takes for lines."""
    found: set[Run] = set()
    text = line.decode("utf-8", "replace")
    parts = {line, *line.split(b"\r"), *(part.encode() for part in text.splitlines()), *line.split(b"\0")}
    for part in parts:
        for reading in readings({}, part):
            found.update(runs(reading))
    return found


def answers_to(line: bytes) -> list[bytes]:
    """A good answer to each request of a line; a question of the server's own before the first."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return []
    members = cast("list[Any]", message if isinstance(message, list) else [message])
    asked = [each["id"] for each in members if isinstance(each, dict) and "method" in each and "id" in each]
    if not asked:
        return []
    result = {"content": [], "tools": [], "contents": [], "messages": [], "protocolVersion": "2025-03-26"}
    answers = [{"jsonrpc": "2.0", "id": id, "result": result} for id in asked]
    question = {"jsonrpc": "2.0", "id": "ask", "method": "roots/list"}
    told = answers if isinstance(message, list) else answers[0]
    return [json.dumps(each).encode() for each in (question, told)]


def one_input(data: bytes) -> tuple[bytes, int, int]:
    """One run of the fuzzer: what the host was told, how many lines reached the server, how much was allowed.

    Whatever raises here is a defect.
    """
    if len(data) < 2:
        return b"", 0, 0
    sent = built(data[1:], json.dumps(ALLOWED["arguments"])) if data[0] & 128 else data[1:]
    return asyncio.run(_wrapped(with_proof(sent), _PIECE * (1 + data[0] % 128)))


async def _wrapped(sent: bytes, size: int) -> tuple[bytes, int, int]:
    records = Records()
    settings = TRUST.settings(StdioUpstream(("server",)), records=RecordSettings(GATEWAY))
    counters = Counters()
    recorder = recorder_of(settings, counters, records)
    gate = Gate(
        settings,
        counters,
        ToolDirectory(),
        store=MemoryStore(),
        revocations=Known(),
        recorder=recorder,
        tasks=Tasks(),
    )
    child, host = FreeChild(records), MemoryHost(sent, size)
    wrap: Any = Wrap(settings, gate, cast(Any, child), cast(Any, host), counters)
    async with asyncio.timeout(_SECONDS):
        await asyncio.gather(wrap._from_host(), wrap._backend.over)
    if recorder is not None:
        await recorder.aclose()
    return bytes(host.told), child.lines_read, len(records.allowed)


def corpus() -> dict[str, bytes]:
    """Where the fuzzer begins: a good call, answers and questions, and what could lead around the gate."""
    start = message("initialize", {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {}})
    answer = b'{"jsonrpc":"2.0","id":"ask","result":{"roots":[]}}'
    both = b'{"jsonrpc":"2.0","id":"ask","result":{},"method":"tools/call","params":{"name":"pay"}}'
    inputs = {
        "allowed": proven(ALLOWED),
        "allowed-twice": proven(ALLOWED) + b"\n" + proven(ALLOWED),
        "session": start + b"\n" + PING.replace(b"1,", b"2,", 1) + b"\n" + answer + b"\n" + answer,
        "forged-answer": answer,
        "no-proof": CALL,
        "batch": start.replace(b"1,", b"9,", 1)
        + b"\n["
        + PING.replace(b"1,", b"8,", 1)
        + b","
        + CALL.replace(b"1,", b"7,", 1)
        + b","
        + proven(ALLOWED)
        + b"]",
        "hidden-in-an-answer": both,
        "carriage-return": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":\r' + CALL + b"\r}}",
        "separators": message("ping", {"x": "\u2028" + CALL.decode() + "\u2028"}).replace(
            b"\\u2028", "\u2028".encode()
        ),
        "nul": PING + b"\0" + CALL,
        "bom": b"\xef\xbb\xbf" + CALL,
        "cancelled": message("notifications/cancelled", {"requestId": 1}).replace(b'"id": 1, ', b""),
        "duplicate": PING[:-1] + b',"method":"tools/call"}',
        "spelling": PING[:-1] + b',"Method":"tools/call"}',
        "notification": CALL.replace(b'"id": 1, ', b""),
    }
    return {name: b"\x02" + lines for name, lines in inputs.items()} | {"built": b"\x90" + bytes(range(60))}
