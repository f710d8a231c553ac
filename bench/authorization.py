"""`python -m bench.authorization [--quick] [--only quotas]`: what a decision costs, on top of pass-through and the raw
signatures.

Gateways side by side, each a process of its own: proofs off, proofs required with the memory store and with SQLite,
bound to their call and not, on SQLite with one quota and with two, and proofs that are only observed, of signed calls
and of unsigned ones. Each call has a fresh challenge, signed before it is sent; the certificate (depth 1) has been
seen. CPU time of the gateway's process per call, by its clock; short rounds go around the gateways in turn, what one
costs beside another is compared within a round, and medians are kept: other work on the machine falls on all of them.
The raw signature check (Ed25519 and ML-DSA-65 of the challenge) is measured here, between the rounds.
"""

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import cast
from urllib.parse import urlsplit

import httptools
import uvloop
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PublicKey

from accredit.keys import make_key, write_key
from accredit.policy.guarded_call import payload_digest
from accredit.ratify import (
    DelegationCert,
    Grant,
    ProofBundle,
    build_session_context,
    challenge_sign_bytes,
    encode_proof_bundle,
    issue_delegation,
    operation_context_hash,
    present,
)
from accredit.ratify.constraints import Constraint
from bench.errors import BenchError
from bench.processes import Server, configured
from bench.side_by_side import cpu_ns

GATEWAY_ID = "bench"
SCOPE = "payments:send"
PARAMS = {"name": "pay", "arguments": {"amount": 12, "currency": "EUR", "to": "x" * 60}}
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"%s"}]}}' % (b"x" * 130)
CONNECTIONS = 16
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
FULL, QUICK = (15, 320), (5, 240)
"""Rounds, and calls in a round."""
TARGET = 1.3
"""Times pass-through and the raw signature check together."""

OFF, OFF_SAME = "proofs off, a small call", "proofs off, the same bytes"
MEMORY, MEMORY_UNBOUND, SQLITE = "bound, memory", "unbound, memory", "bound, SQLite"
OBSERVED, OBSERVED_UNSIGNED = "bound, memory, only observed", "no proof, only observed"
QUOTA, QUOTAS = "bound, SQLite, a quota", "bound, SQLite, two quotas"
NAMES = (OFF, OFF_SAME, MEMORY, MEMORY_UNBOUND, SQLITE, QUOTA, QUOTAS, OBSERVED, OBSERVED_UNSIGNED)
_QUOTAS = (
    '[[quotas]]\nby = "agent"\nwindow = "1h"\ncalls = 1000000000\n',
    '[[quotas]]\nby = "principal"\nwindow = "1d"\nsum = "amount"\nlimit = 1000000000\n',
)
QUOTA_TARGET = 1.2
"""Times the same call without a quota."""


@dataclass(slots=True)
class Way:
    """One gateway and what is posted to it."""

    name: str
    server: Server
    bound: bool | None
    costs: list[float] = field(default_factory=list[float])


class Agent:
    """Signs calls. Its delegation has these constraints."""

    def __init__(self, folder: Path, *constraints: Constraint) -> None:
        now = int(time.time())
        self.owner, self._agent = make_key("human", "Owner", now), make_key("agent", "Agent", now)
        write_key(folder / "owner.key", self.owner)
        grant = Grant(
            subject=self._agent.public_key,
            cert_id="c" * 32,
            scope=(SCOPE,),
            issued_at=now - 60,
            expires_at=now + 86_400,
            constraints=constraints,
        )
        self._chain: Sequence[DelegationCert] = [issue_delegation(self.owner.signer(), grant)]
        request_hash = operation_context_hash(SCOPE, "tools/call", "pay", "", payload_digest(PARAMS))
        self._context = build_session_context(GATEWAY_ID, "", self._agent.id, "", "", request_hash=request_hash)
        self.id = self._agent.id
        self._draw = iter(range(1 << 40))

    def bundle(self, *, bound: bool = True, context: bytes | None = None) -> ProofBundle:
        """A proof, bound to the call of `PARAMS` or to another `context`."""
        challenge = next(self._draw).to_bytes(8, "big") + time.time_ns().to_bytes(24, "big")
        context = (self._context if context is None else context) if bound else b""
        return present(self._chain, self._agent.signer(), challenge, int(time.time()), session_context=context)


def check_us(proofs: Sequence[ProofBundle]) -> float:
    """CPU time of one raw check of the two signatures of a challenge, by `cryptography`, whatever the gateway uses."""
    ed25519 = Ed25519PublicKey.from_public_bytes(proofs[0].agent_pub_key.ed25519)
    ml_dsa_65 = MLDSA65PublicKey.from_public_bytes(proofs[0].agent_pub_key.ml_dsa_65)
    started = time.thread_time_ns()
    for proof in proofs:
        message = challenge_sign_bytes(proof.challenge, proof.challenge_at, proof.session_context)
        ed25519.verify(proof.challenge_sig.ed25519, message)
        ml_dsa_65.verify(proof.challenge_sig.ml_dsa_65, message)
    return (time.thread_time_ns() - started) / 1000 / len(proofs)


def body_of(
    proof: ProofBundle | None, token: str | None = None, more: Mapping[str, object] = MappingProxyType({})
) -> bytes:
    """A call with this proof and token; `more` is what its `_meta` has besides."""
    meta = dict(more) | ({} if proof is None else {"ratify_proof": json.loads(encode_proof_bundle(proof))})
    if token is not None:
        meta["token"] = token
    params = {**PARAMS, "_meta": meta}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return json.dumps(call, separators=(",", ":")).encode()


class Upstream(asyncio.Protocol):
    """Gives every request the same answer."""

    answer = ANSWER

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        self._transport.write(head % len(self.answer) + self.answer)


async def post_all(
    url: str,
    bodies: Sequence[bytes],
    connections: int = CONNECTIONS,
    headers: Mapping[str, str] = HEADERS,
    answer: bytes = ANSWER,
) -> list[float]:
    """Posts each body once; returns how many seconds each answer took."""
    left, times = iter(bodies), list[float]()
    where = urlsplit(url)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"POST {where.path} HTTP/1.1\r\nHost: {where.netloc}\r\n{lines}".encode()

    async def client() -> None:
        reader, writer = await asyncio.open_connection(where.hostname, where.port, limit=1 << 20)
        with contextlib.closing(writer):
            for body in left:
                began = time.perf_counter()
                writer.write(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body))
                status = await reader.readuntil(b"\r\n\r\n")
                length = int(status.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                said = await reader.readexactly(length)
                times.append(time.perf_counter() - began)
                if said != answer:
                    raise BenchError(f"a call failed: {said[:300]!r}")

    async with asyncio.TaskGroup() as group:
        for _ in bodies[:connections]:
            group.create_task(client())
    return times


def toml(upstream: str, store: str | None, mode: str = "required", quotas: int = 0) -> str:
    proofs = f"""
[proofs]
mode = "{mode}"
freshness_seconds = 300
[[proofs.roots]]
name = "Owner"
public_key_file = "owner.key.pub"
[tools.pay]
scope = "{SCOPE}"
facts = {{ amount = "/amount", currency = "/currency" }}
[store]
url = "{store}"
"""
    gateway = f'[gateway]\nport = 0\nid = "{GATEWAY_ID}"\n[upstream]\nurl = "{upstream}"\n'
    return gateway + (proofs if store else "") + "".join(_QUOTAS[:quotas])


async def measure(rounds: int, calls: int, folder: Path, names: Collection[str]) -> tuple[list[Way], float]:
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(Upstream, "127.0.0.1", 0)
    upstream = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/mcp"
    agent = Agent(folder)
    checks: list[float] = []
    with contextlib.ExitStack() as stack:

        def way(name: str, store: str | None, bound: bool | None, mode: str = "required", quotas: int = 0) -> Way:
            text = toml(upstream, store, mode, quotas)
            return Way(name, stack.enter_context(configured(text, folder, name)), bound)

        off = stack.enter_context(configured(toml(upstream, None), folder, "off"))
        ways = [
            Way(OFF, off, None),
            Way(OFF_SAME, off, True),
            way(MEMORY, "memory:", True),
            way(MEMORY_UNBOUND, "memory:", False),
            way(SQLITE, f"sqlite:///{folder}/accredit.db", True),
            way(QUOTA, f"sqlite:///{folder}/quota.db", True, quotas=1),
            way(QUOTAS, f"sqlite:///{folder}/quotas.db", True, quotas=2),
            way(OBSERVED, "memory:", True, "observe"),
            way(OBSERVED_UNSIGNED, "memory:", None, "observe"),
        ]
        ways = [each for each in ways if each.name in names]
        for number in range(rounds + 1):
            for each in ways:
                proofs = [agent.bundle(bound=each.bound or False) for _ in range(calls)]
                bodies = [body_of(None if each.bound is None else proof) for proof in proofs]
                before = cpu_ns(each.server.pid)
                await post_all(each.server.url, bodies)
                cost = (cpu_ns(each.server.pid) - before) / 1000 / calls
                if number:  # the first round fills caches
                    each.costs.append(cost)
                    checks.append(check_us(proofs[:100]))
    listener.close()
    return ways, median(checks)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.authorization", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds")
    parser.add_argument("--only", choices=["quotas"], help="what quotas cost alone")
    options = parser.parse_args(arguments)
    rounds, calls = QUICK if options.quick else FULL
    names = (OFF_SAME, SQLITE, QUOTA, QUOTAS) if options.only else NAMES
    with tempfile.TemporaryDirectory(prefix="accredit-bench-") as folder:
        ways, check = uvloop.run(measure(rounds, calls, Path(folder), names))
    rounds_of = {way.name: way.costs for way in ways}
    floors = [cost + check for cost in rounds_of[OFF_SAME]]
    print(f"raw signature check of one challenge: {check:.0f} us")
    print("| gateway | CPU per call, us | to pass-through + raw check | signatures' share |")
    print("|---|---|---|---|")
    for name, costs in rounds_of.items():
        cost = median(costs)
        judged = name not in (OFF, OFF_SAME, OBSERVED_UNSIGNED)
        ratio = f"{_beside(costs, floors):.2f} x (target {TARGET})" if judged else ""
        print(f"| {name} | {cost:.0f} | {ratio} | {f'{check / cost:.0%}' if judged else ''} |")
    for name in (QUOTA, QUOTAS):
        beside = _beside(rounds_of[name], rounds_of[SQLITE])
        print(f"{name}: {beside:.2f} x without (target {QUOTA_TARGET})")
    return 0


def _beside(costs: Sequence[float], others: Sequence[float]) -> float:
    return median(one / other for one, other in zip(costs, others, strict=True))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
