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
from tests.world.guests import FrontDoor
from tests.world.heavy_bodies import MARKS, REFUSED_UNREAD, bodies, call
from tests.world.measured_loop import MeasuredLoop
from tests.world.ports import reserved_port
from tests.world.recorded import records_at
from tests.world.tokened import Tokened

from accredit.errors import RequestError
from accredit.gateway.app import create_app
from accredit.gateway.settings import GatewaySettings, HttpUpstream, RecordSettings
from accredit.jsonrpc.requests import decode_request
from accredit.net.client_documents import ClientDocuments
from accredit.oauth.answers import AUTHORIZE_PATH
from accredit.stores import MemoryStore, RevocationLists
from accredit.stores.asks import Asks

pytestmark = pytest.mark.slow

PROMISED = 0.1
"""Seconds that a request may block the loop."""
FACTOR = 5
"""For a machine that is slow and does much else."""

GUARDS = {"off": (False, False), "proofs": (True, False), "tokens": (False, True), "both": (True, True)}
DOOR = "a front door"


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


def longest(guard: str, log: Path, told: dict[str, list[Told]]) -> dict[str, float]:
    """The longest step of each kind, and for all a whole answer."""
    proofs, tokens = GUARDS.get(guard, (True, False))
    trust, world = Trust(), Tokened()
    front = FrontDoor(trust, registration=True) if guard == DOOR else None
    steps: dict[str, float] = {}

    async def main(port: int) -> None:
        upstream = HttpUpstream(f"http://127.0.0.1:{port}/mcp")
        record, policy = RecordSettings("gate"), world.settings() if tokens else None
        settings = (
            trust.settings(upstream, records=record, tokens=policy, oauth=front.settings if front else None)
            if proofs
            else GatewaySettings(upstream, records=record, tokens=policy)
        )
        app = create_app(
            settings,
            store=MemoryStore(),
            revocations=RevocationLists((), {}),
            records=records_at(log),
            key_sets=world.key_sets if tokens else None,
            door=front.door if front else None,
            asks=Asks() if front else None,
            client_documents=ClientDocuments() if front else None,
        )
        loop = asyncio.get_running_loop()
        assert isinstance(loop, MeasuredLoop)
        for name, exchanges in told.items():
            for each in exchanges:
                await asyncio.sleep(0)
                loop.longest = 0.0
                await asyncio.create_task(app(each.scope, each.receive, each.send))
                steps[name] = max(steps.get(name, 0.0), loop.longest)
                assert each.whole, name
        await app.aclose()

    token = world.token() if tokens else None
    for exchanges in told.values():
        for each in exchanges:
            if token is not None:
                each.scope["headers"].append((b"authorization", f"Bearer {token}".encode()))
    with reserved_port() as port, asyncio.Runner(loop_factory=MeasuredLoop) as runner:
        runner.run(main(port))
    return steps


FURTHER = (
    *("objects that sort otherwise", "integers of 199 digits", "marks in a tool", "names in _meta that pass"),
    *("a giant proof", "a proof that is read", "a token", "a state", "a batch that passes"),
)
"""What gets as far as to what only one of the guards has."""


@pytest.mark.parametrize("guard", GUARDS)
def test_no_body_of_a_stranger_blocks_the_loop(guard: str, tmp_path: Path) -> None:
    everything = bodies().keys()
    names = {"both": everything, "off": everything - REFUSED_UNREAD}.get(guard, FURTHER)
    told = {name: [Told("POST", headers(None), bodies()[name].encode())] for name in names}
    note = json.dumps({"jsonrpc": "2.0", "method": "notifications/x", "params": {"_meta": {MARKS * 100_000: 1}}})
    told["a notification"] = [Told("POST", headers(None), note.encode())]
    steps = longest(guard, tmp_path / "log.db", told)
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


def test_no_cookie_of_a_stranger_blocks_the_loop__python_s_own_reader_takes_seconds_for_a_quoted_one(
    tmp_path: Path,
) -> None:
    form = (b"content-type", b"application/x-www-form-urlencoded")
    told = {
        name: [Told("POST", [(b"host", b"127.0.0.1"), form, (b"cookie", cookie)], b"flow=x", path=AUTHORIZE_PATH)]
        for name, cookie in {"quoted": b'a="%b"' % (b"\\" * 60_000), "many": b"a=b;" * 15_000}.items()
    }
    steps = longest(DOOR, tmp_path / "log.db", told)
    assert all(b"begun in another browser" in each.body for (each,) in told.values())
    assert {name: step for name, step in steps.items() if step > FACTOR * PROMISED} == {}


def test_the_corpus_reaches_what_it_is_for__bodies_that_pass_are_no_more_than_just_within_the_bounds() -> None:
    for name, text in bodies().items():
        if name in REFUSED_UNREAD:
            with pytest.raises(RequestError):
                decode_request(text.encode(), batch_allowed=True)
        else:
            decode_request(text.encode(), batch_allowed=True)
