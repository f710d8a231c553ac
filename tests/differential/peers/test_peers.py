"""Programs that read the same bytes differently are no way around the gate: one corpus, the real gateway, real servers.

Whatever a server makes of a request, it runs no tool that the gateway has not recorded as allowed, by the same name and
with the same arguments; and what the gateway has refused never reaches it. First it is shown that the corpus bites:
without the gateway, each server runs some of what nobody has allowed.
"""

import asyncio
import json
import os
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import brotli
import pytest
from tests.differential.peers.corpus import Case, Headers, corpus, hidden, ping_or_stream
from tests.differential.peers.play import Line, line_to
from tests.differential.peers.servers import KINDS, Peer, ProgramMissing, running
from tests.world.authorization import GATEWAY, Signed, Trust
from tests.world.calls import post
from tests.world.command import Serving, wait_until
from tests.world.honest_server import HonestServer
from tests.world.issuer import AUDIENCE, key_set_text
from tests.world.raw_client import RawClient
from tests.world.raw_server import RawServer
from tests.world.running import RunningGateway
from tests.world.tokened import ISSUER, Tokened

from accredit.attest import CallRecord, recorded_params
from accredit.base.clock import unix_seconds
from accredit.gateway import HttpUpstream, create_app
from accredit.jsonrpc.methods import Era
from accredit.keys import make_key, write_key
from accredit.stores import MemoryStore, RevocationLists
from accredit.stores.audit_log.reader import LogFile

pytestmark = pytest.mark.slow

CONTROL = "allowed: the number 1"
"""A call as everybody writes it: it has to run, or the others prove nothing."""

REFUSALS = ("request_refused", "call_denied", "call_challenged", "notification_refused")

AT_ONCE = 8
"""Cases that a server gets at the same time, without the gateway."""

RUNS = 40
"""Of the calls that are allowed, so many at the least run behind the gateway, of 56."""

ALLOWED = "allowed: "
"""Calls that a gateway lets through, or refuses for their head alone, begin so: nothing is hidden in them."""

BITES = {
    "python-sdk": {"a call alone, without a proof"},
    "fastmcp": {"a call alone, without a proof"},
    "typescript-v1": {
        "a ping, and in UTF-7 a call: application/json; charset=utf-7",
        "all of it in utf-16",
        "packed as gzip",
        "packed as br",
        "a ping, and in Brotli a call: br",
    },
    "typescript-v1-sse": {
        "a ping, and in UTF-7 a call: application/json; charset=utf-7",
        "all of it in utf-16le",
    },
    "typescript-v2": {
        "a ping, and in UTF-7 a call: application/json; charset=utf-7",
        "packed as br",
        "a ping, and in Brotli a call: br",
    },
    "go": {"packed as gzip", "a method in capitals beside another", "DELETE with X-HTTP-Method-Override"},
    "java": {"all of it in utf-32be, and nobody says so", "two methods, the call first", "a call after a comment"},
}
"""Of what runs without the gateway, what each server was chosen for."""

_CONFIGURATION = """
[gateway]
id = "{gateway}"
[upstream]
url = "{url}"
[attest]
mode = "durable"
key_file = "gateway.key"
[store]
url = "sqlite:///accredit.db"
"""
_PROOFS = """
[proofs]
mode = "required"
binding = "required"
[[proofs.roots]]
name = "Owner"
public_key_file = "owner.key.pub"
[tools.act]
scope = "email:read"
[tools.steal]
scope = "payments:send"
"""
_TOKENS = f"""
[tokens]
mode = "required"
[[tokens.issuers]]
issuer = "{ISSUER}"
audience = "{AUDIENCE}"
jwks_file = "keys.json"
[tools.act]
scope = "email:read"
token_scope = "email:read"
[tools.steal]
scope = "payments:send"
token_scope = "payments:send"
"""

Run = tuple[str, str]
"""A tool's name, and the digest of the params that a run of it means."""


WITH_TOKENS = ("python-sdk", "typescript-v1")


@pytest.fixture(params=KINDS)
def peer(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[tuple[str, Peer]]:
    kind: str = request.param
    folder = tmp_path / "peer"
    folder.mkdir()
    try:
        command = KINDS[kind].command(folder)
    except ProgramMissing as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))
    with running(command, KINDS[kind].path, folder) as found:
        yield kind, found


@pytest.mark.timeout(600)
def test_no_server_runs_a_tool_that_the_gateway_did_not_record_as_allowed(
    peer: tuple[str, Peer], tmp_path: Path
) -> None:
    kind, server = peer
    cases = corpus()
    bare = asyncio.run(without_gateway(server, cases))
    meant = {as_run(case.params) for case in cases if case.params is not None}
    assert {case_of(seen, cases) for seen in bare if as_run(seen) not in meant} >= BITES[kind]

    trust = Trust()
    chain = trust.chain("email:read")

    def prove(case: Case) -> str:
        if case.params is None:
            return "{}"
        return json.dumps({"ratify_proof": trust.proof(chain, "tools/call", case.params, Signed(scope="email:read"))})

    write_key(tmp_path / "owner.key", trust.owner)
    around = ran_around(server, tmp_path, _PROOFS, prove)
    assert not around, around


@pytest.mark.timeout(600)
@pytest.mark.parametrize("peer", WITH_TOKENS, indirect=True)
def test_no_server_runs_a_tool_for_a_token_that_lacks_its_scope(peer: tuple[str, Peer], tmp_path: Path) -> None:
    _, server = peer
    world = Tokened()
    (tmp_path / "keys.json").write_bytes(key_set_text(world.key))
    token = world.token(scope="email:read", exp=unix_seconds() + 3600)
    around = ran_around(server, tmp_path, _TOKENS, lambda _: "{}", (("Authorization", f"Bearer {token}"),))
    # Names that differ only by case are the server's to read here: what a binder drops of them is recorded, too.
    allowed, sent = allowed_in(tmp_path / "accredit.db"), {case.name: case.params for case in corpus()}
    for seen in around:
        params = sent.get(case_of(seen, corpus()))
        assert params is not None, seen
        assert as_run(params) in allowed, seen
    assert "steal" not in {seen["name"] for seen in server.ran()}


async def test_a_ping_that_is_a_call_in_brotli_is_refused_for_its_coding__and_is_a_ping_without_one() -> None:
    body, end = ping_or_stream("here")
    assert json.loads(body)["method"] == "ping"
    unpacking = brotli.Decompressor()
    assert json.loads(unpacking.process(body[:end])) == json.loads(hidden("here"))
    assert unpacking.is_finished()

    upstream = HonestServer()
    async with RawServer(upstream) as server:
        settings = Trust().settings(HttpUpstream(server.url))
        async with RunningGateway(
            create_app(settings, store=MemoryStore(), revocations=RevocationLists((), {}))
        ) as gateway:
            for coding in ("br", "identity, br"):
                asked = post(Era.LEGACY).and_header("Content-Encoding", coding)
                async with RawClient(gateway.port) as client:
                    await client.ask("POST", "/mcp", asked.headers, body)
                    answer = await client.answer()
                assert (answer.status, json.loads(answer.body)["error"]["code"]) == (415, -32600)
            assert upstream.messages == []
            async with RawClient(gateway.port) as client:
                await client.ask("POST", "/mcp", post(Era.LEGACY).headers, body)
                await client.answer()
            for request in server.requests:
                assert request.header("content-encoding") is None
                assert json.loads(request.body)["method"] == "ping"


def ran_around(
    server: Peer, folder: Path, settings: str, prove: Callable[[Case], str], headers: Headers = ()
) -> list[dict[str, Any]]:
    """Sends the corpus through a gateway with these settings; gives what ran that it did not record as allowed."""
    cases, before = corpus(), len(server.ran())
    write_key(folder / "gateway.key", make_key("gateway", GATEWAY, unix_seconds()))
    told = _CONFIGURATION.format(gateway=GATEWAY, url=server.url) + settings
    (folder / "accredit.toml").write_text(told, "utf-8")
    with Serving(folder=folder) as gateway:
        refused = asyncio.run(through_gateway(gateway, server, cases, prove, headers))
    ran = server.ran()[before:]
    # Both happened, and often: a gateway that refuses everything, or a server that runs nothing, would prove nothing.
    assert refused > len(cases) // 2
    assert len({case_of(seen, cases) for seen in ran}) > RUNS
    around = Counter(map(as_run, ran)) - allowed_in(folder / "accredit.db")
    return [seen for seen in ran if as_run(seen) in around]


async def without_gateway(server: Peer, cases: list[Case]) -> list[dict[str, Any]]:
    """What a server runs of the corpus by itself."""
    async with line_to(server.port, server.path) as line:
        waiting = [case for case in cases if not case.name.startswith(ALLOWED)]
        for at in range(0, len(waiting), AT_ONCE):
            await asyncio.gather(*(line.send(case, "{}") for case in waiting[at : at + AT_ONCE]))
        await _runs_control(server, line, cases, lambda _: "{}")
    return list(server.ran())


async def through_gateway(
    gateway: Serving, server: Peer, cases: list[Case], prove: Callable[[Case], str], headers: Headers
) -> int:
    """Sends the corpus; gives how many cases the gateway refused, none of which may have reached the server."""
    refused = 0
    async with line_to(gateway.port, server.path, headers) as line:
        before = refusals_of(gateway)
        for case in cases:
            arrived = server.arrived()
            await line.send(case, prove(case))
            now = refusals_of(gateway)
            if now > before:
                refused += 1
                assert server.arrived() == arrived, f"refused, and yet the server got it: {case.name}"
            before = now
        await _runs_control(server, line, cases, prove)
    return refused


async def _runs_control(server: Peer, line: Line, cases: list[Case], prove: Callable[[Case], str]) -> None:
    """A call as everybody writes it runs, after all that came before it."""
    (control,) = (case for case in cases if case.name == CONTROL)
    last = len(server.ran())
    await line.send(control, prove(control))
    await asyncio.to_thread(wait_until, lambda: len(server.ran()) > last)


def refusals_of(gateway: Serving) -> int:
    """How often the gateway has said in its log that it refused something; it does so before it answers."""
    return sum(gateway.stderr.count(f'"event": "{kind}"') for kind in REFUSALS)


def as_run(params: dict[str, Any]) -> Run:
    return params["name"], recorded_params(json.dumps(params).encode(), token_argument=False).sha256


def allowed_in(log: Path) -> Counter[Run]:
    """What the gateway has recorded as allowed."""
    found: Counter[Run] = Counter()
    with LogFile(log) as entries:
        for entry in entries.entries():
            statement = entry.statement()
            record = statement.predicate if statement is not None else None
            if isinstance(record, CallRecord) and record.decision is not None and record.decision.verdict == "allow":
                assert statement is not None
                found[str(record.call.target), statement.sha256] += 1
    return found


def case_of(seen: dict[str, Any], cases: list[Case]) -> str:
    """The case that a run came from: its argument says so."""
    told = str(seen["arguments"].get("to"))
    named = [case.name for case in cases if told.startswith(case.name.replace('"', "'"))]
    return max(named, key=len, default=told)
