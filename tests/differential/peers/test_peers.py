"""Programs that read the same bytes differently are no way around the gate: one corpus, the real gateway, real servers.

Whatever a server makes of a request, it runs no tool that the gateway has not recorded as allowed, by the same name and
with the same arguments; and what the gateway has refused never reaches it. First it is shown that the corpus bites:
without the gateway, each server runs some of what nobody has allowed.
"""

import asyncio
import json
import os
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.differential.peers.corpus import Case, corpus
from tests.differential.peers.play import line_to
from tests.differential.peers.servers import KINDS, Peer, ProgramMissing, running
from tests.world.authorization import GATEWAY, Signed, Trust
from tests.world.command import Serving, accredit, wait_until

from accredit.attest import CallRecord, recorded_params
from accredit.keys import write_key
from accredit.stores.log_file import LogFile

CORPUS = corpus()

CONTROL = "allowed: the number 1"
"""A call as everybody writes it: it has to run, or the others prove nothing."""

BITES = {
    "python-sdk": {"a call alone, without a proof"},
    "fastmcp": {"a call alone, without a proof"},
    "typescript-v1": {
        "a ping, and in UTF-7 a call: application/json; charset=utf-7",
        "all of it in utf-16",
        "packed as gzip",
        "packed as br",
    },
    "typescript-v1-sse": {
        "a ping, and in UTF-7 a call: application/json; charset=utf-7",
        "all of it in utf-16le",
    },
    "typescript-v2": {
        "a ping, and in UTF-7 a call: application/json; charset=utf-7",
        "packed as br",
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
[attest]
mode = "durable"
key_file = "gateway.key"
[store]
url = "sqlite:///accredit.db"
"""

Run = tuple[str, str]
"""A tool's name, and the digest of the params that a run of it means."""


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


def as_run(params: dict[str, Any]) -> Run:
    return params["name"], recorded_params(json.dumps(params).encode(), token_argument=False).sha256


def runs_of(peer: Peer) -> Counter[Run]:
    return Counter(map(as_run, peer.ran()))


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


def case_of(seen: dict[str, Any]) -> str:
    """The case that a run came from: its argument says so."""
    told = str(seen["arguments"].get("to"))
    named = [case.name for case in CORPUS if told.startswith(case.name.replace('"', "'"))]
    return max(named, key=len, default=told)


def test_without_the_gateway_each_server_runs_what_nobody_has_allowed(peer: tuple[str, Peer]) -> None:
    kind, server = peer

    async def main() -> None:
        async with line_to(server.port, server.path) as line:
            for case in CORPUS:
                await line.send(case, "{}")
            last = len(server.ran())
            await line.send(_control(), "{}")
            await asyncio.to_thread(wait_until, lambda: len(server.ran()) > last)

    asyncio.run(main())
    allowed = Counter(as_run(case.params) for case in CORPUS if case.params is not None)
    stolen = {case_of(seen) for seen in server.ran() if as_run(seen) not in allowed}
    assert stolen >= BITES[kind]


def test_no_server_runs_a_tool_that_the_gateway_did_not_record_as_allowed(
    peer: tuple[str, Peer], tmp_path: Path
) -> None:
    _, server = peer
    trust = Trust()
    chain = trust.chain("email:read")
    refused: list[str] = []

    def meta(case: Case) -> str:
        if case.params is None:
            return "{}"
        return json.dumps({"ratify_proof": trust.proof(chain, "tools/call", case.params, Signed(scope="email:read"))})

    async def main(gateway: Serving) -> None:
        async with line_to(gateway.port, server.path) as line:
            before = await line.refused()
            for case in CORPUS:
                arrived = server.arrived()
                await line.send(case, meta(case))
                now = await line.refused()
                if now > before:
                    refused.append(case.name)
                    assert server.arrived() == arrived, f"refused, and yet the server got it: {case.name}"
                before = now
            last = len(server.ran())
            await line.send(_control(), meta(_control()))
            await asyncio.to_thread(wait_until, lambda: len(server.ran()) > last)

    write_key(tmp_path / "owner.key", trust.owner)
    assert accredit("keys", "new", "gateway.key", "--kind", "gateway", folder=tmp_path).returncode == 0
    (tmp_path / "accredit.toml").write_text(_CONFIGURATION.format(gateway=GATEWAY, url=server.url), "utf-8")
    with Serving(folder=tmp_path) as gateway:
        asyncio.run(main(gateway))
    allowed = allowed_in(tmp_path / "accredit.db")
    ran = runs_of(server)
    around = [seen for seen in server.ran() if as_run(seen) in ran - allowed]
    assert not around, f"{len(around)} runs that nobody has allowed: {around}"
    assert len(ran) > 1
    assert len(refused) > len(CORPUS) // 2


def _control() -> Case:
    (control,) = (case for case in CORPUS if case.name == CONTROL)
    return control
