"""No request of a stranger keeps the event loop from others: its longest step is measured for hostile requests.

What is measured is the processor time of a step, not how long it took, and the bound is generous: the faults that these
tests keep away took seconds.
"""

import asyncio
import gc
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.world.asgi import Told
from tests.world.authorization import Trust
from tests.world.measured_loop import MeasuredLoop
from tests.world.ports import reserved_port
from tests.world.recorded import records_at
from tests.world.tokened import Tokened

from accredit.gateway.asgi import create_app
from accredit.gateway.settings import GatewaySettings, HttpUpstream, RecordSettings
from accredit.jsonrpc.requests import decode_request
from accredit.limits import MAX_PROOF_BUNDLE_BYTES, MAX_STRUCTURES, MAX_VALUES
from accredit.stores import MemoryStore, RevocationLists

PROMISED = 0.1
"""Seconds that a request may block the loop."""
FACTOR = 5
"""For a machine that is slow and does much else."""

ROOM = 4_194_304 - 600
MARKS = "\u0301\u0316"


def filled(piece: str, most: int = ROOM) -> str:
    return piece * min(most, ROOM // len(piece.encode()))


def call(
    arguments: str = "{}", *, method: str = "tools/call", name: str = "pay", meta: str = "{}", id: str = "1"
) -> str:
    params = f'{{"name":"{name}","arguments":{arguments},"_meta":{meta}}}'
    return f'{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}'


def listed(piece: str, most: int = ROOM) -> str:
    return call(f'{{"a":[{filled(piece, most)}0]}}')


def read(path: str) -> str:
    return f'{{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{{"uri":"file:///{path}"}}}}'


VALUES = MAX_VALUES - 40
STRUCTURES = MAX_STRUCTURES - 40
BODIES = {
    "floats": listed("0.1,"),
    "as many floats as pass": listed("0.1,", VALUES),
    "long floats": listed("0.12345678901234567,"),
    "tiny floats": listed("1.5e-300,", VALUES),
    "floats that are written out": listed("1e-6,", VALUES),
    "whole floats": listed("1.0,", VALUES),
    "large integers": listed("9007199254740991,"),
    "huge integers": listed("12345678901234567,"),
    "integers of 199 digits": listed("1" * 199 + ","),
    "integers of 309 digits": listed("1" * 309 + ","),
    "one integer": call(f'{{"a":{filled("1")}}}'),
    "blanks": call(f'{{"a":[1e100,{filled(" ")}1e-6]}}'),
    "arrays": listed("[],"),
    "as many arrays as pass": listed("[],", STRUCTURES),
    "nested arrays": listed("[" * 100 + "]" * 100 + ","),
    "nested arrays that pass": listed("[" * 100 + "]" * 100 + ",", STRUCTURES // 100),
    "brackets": filled("["),
    "brackets in a text": call(f'{{"a":"{filled("[{:,")}"}}'),
    "objects that pass": listed('{"":0},', STRUCTURES // 2),
    "objects that sort otherwise": call('{"a":["\U00010000",' + filled('{"\ue000":0},', STRUCTURES // 2) + "0]}"),
    "members": call("{" + ",".join(f'"{index:x}":0' for index in range(400_000)) + "}"),
    "members that pass": call("{" + ",".join(f'"{index:x}":0' for index in range(STRUCTURES)) + "}"),
    "members of params": call("{}", meta="{}," + ",".join(f'"{index:x}":0' for index in range(STRUCTURES))),
    "a duplicate at the end": call("{" + "".join(f'"{index:x}":0,' for index in range(STRUCTURES)) + '"\\u0030":0}'),
    "long names": call("{" + ",".join(f'"{index}{"a" * 4_000}":0' for index in range(1_000)) + "}"),
    "marks in a name": call(f'{{"x{filled(MARKS)}":0}}'),
    "texts": listed('"",', VALUES),
    "escapes": call(f'{{"a":"{filled(chr(92) + "n")}"}}'),
    "escaped quotes": call(f'{{"a":"{filled(chr(92) + chr(34))}"}}'),
    "nulls": listed("null,", VALUES),
    "marks in a method": call(method="x" + filled(MARKS)),
    "marks in a tool": call(name="x" + filled(MARKS)),
    "marks in a URI": read(filled(MARKS)),
    "few marks in a URI": read(MARKS * 4_000),
    "percents": read("%25" * 2_700),
    "marks in _meta": call(meta=f'{{"x{filled(MARKS)}":0}}'),
    "many names in _meta": call(meta="{" + ",".join(f'"{index}{MARKS * 60}":0' for index in range(15_000)) + "}"),
    "names in _meta that pass": call(meta="{" + ",".join(f'"{index}{MARKS * 120}":0' for index in range(250)) + "}"),
    "an id": call(id=f'"{filled("a")}"'),
    "a giant proof": call(meta=f'{{"ratify_proof":{{"delegations":[{filled("[],", VALUES // 8)}0]}}}}'),
    "a proof that is read": call(meta='{"ratify_proof":[' + "[]," * (MAX_PROOF_BUNDLE_BYTES // 3 - 10) + "0]}"),
    "a token": call(f'{{"_token":"{filled("a.")}"}}', meta=f'{{"token":"{"a." * 1_000}"}}'),
    "a state": call(f'{{}},"requestState":"{filled("s1.")}"'),
    "a batch": "[" + ",".join(call(f'{{"a":[{"0.5," * 2_500}0]}}', id=str(index)) for index in range(100)) + "]",
}  # fmt: skip
NOTE = json.dumps({"jsonrpc": "2.0", "method": "notifications/x", "params": {"_meta": {MARKS * 100_000: 1}}})
GUARDS = {"off": (False, False), "proofs": (True, False), "tokens": (False, True), "both": (True, True)}


@pytest.fixture(autouse=True)
def small_heap() -> Iterator[None]:
    """What the tests themselves keep is not looked through while a step is measured; `accredit serve` does the same."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def headers(token: str | None, **more: str) -> list[tuple[bytes, bytes]]:
    found = {"host": "127.0.0.1", "content-type": "application/json", "mcp-protocol-version": "2025-03-26", **more}
    if token is not None:
        found["authorization"] = f"Bearer {token}"
    return [(name.encode(), value.encode()) for name, value in found.items()]


def longest(guard: str, log: Path, bodies: dict[str, list[Told]]) -> dict[str, float]:
    """The longest step of each kind, and for all a whole answer."""
    proofs, tokens = GUARDS[guard]
    trust, world = Trust(), Tokened()
    steps: dict[str, float] = {}

    async def main(port: int) -> None:
        upstream = HttpUpstream(f"http://127.0.0.1:{port}/mcp")
        record, policy = RecordSettings("gate"), world.settings() if tokens else None
        settings = (
            trust.settings(upstream, records=record, tokens=policy)
            if proofs
            else GatewaySettings(upstream, records=record, tokens=policy)
        )
        app = create_app(
            settings,
            store=MemoryStore(),
            revocations=RevocationLists((), {}),
            records=records_at(log),
            key_sets=world.key_sets if tokens else None,
        )
        loop = asyncio.get_running_loop()
        assert isinstance(loop, MeasuredLoop)
        for name, told in bodies.items():
            for each in told:
                await asyncio.sleep(0)
                loop.longest = 0.0
                await asyncio.create_task(app(each.scope, each.receive, each.send))
                steps[name] = max(steps.get(name, 0.0), loop.longest)
                assert each.whole, name
        await app.aclose()

    token = world.token() if tokens else None
    for told in bodies.values():
        for each in told:
            if token is not None:
                each.scope["headers"].append((b"authorization", f"Bearer {token}".encode()))
    with reserved_port() as port, asyncio.Runner(loop_factory=MeasuredLoop) as runner:
        runner.run(main(port))
    return steps


@pytest.mark.slow
@pytest.mark.parametrize("guard", GUARDS)
def test_no_body_of_a_stranger_blocks_the_loop(guard: str, tmp_path: Path) -> None:
    bodies = {name: [Told("POST", headers(None), text.encode())] for name, text in BODIES.items()}
    bodies["a notification"] = [Told("POST", headers(None), NOTE.encode())]
    steps = longest(guard, tmp_path / "log.db", bodies)
    assert {name: step for name, step in steps.items() if step > FACTOR * PROMISED} == {}


HEADS: dict[str, list[tuple[bytes, bytes]]] = {
    "one name again and again": [(b"a", b"")] * 16_000,
    "connections": [(b"connection", b"a," * 30_000)],
    "a session": [(b"mcp-session-id", b"a" * 60_000)],
    "a token": [(b"authorization", b"Bearer " + b"a." * 30_000)],
    "blanks before a token": [(b"authorization", b"Bearer" + b" " * 60_000 + b"\n")],
    "a sentinel": [(b"mcp-name", b"=?base64?" * 6_000)],
    "an origin": [(b"origin", b"http://" + b"[" * 60_000)],
    "a version": [(b"mcp-protocol-version", b"9" * 60_000)],
    "a length": [(b"content-length", b"9" * 4_000)],
}


@pytest.mark.parametrize("guard", GUARDS)
def test_no_head_of_a_stranger_blocks_the_loop(guard: str, tmp_path: Path) -> None:
    heads = {
        name: [Told(method, [*headers(None), *head], call().encode()) for method in ("POST", "DELETE")]
        for name, head in HEADS.items()
    }
    steps = longest(guard, tmp_path / "log.db", heads)
    assert {name: step for name, step in steps.items() if step > FACTOR * PROMISED} == {}


def test_the_corpus_reaches_what_it_is_for__bodies_that_pass_are_no_more_than_just_within_the_bounds() -> None:
    for name, text in BODIES.items():
        if "pass" in name:
            decode_request(text.encode())
