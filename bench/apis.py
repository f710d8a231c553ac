"""`python -m bench.apis [--quick]`: what a decision costs over HTTP beside the same call of MCP, side by side.

Each gateway gets the same arguments with a bound proof of depth 1, whose certificate it has seen; its store is in
memory, and nothing is recorded. What counts is the CPU of its processes. A gateway *behind* which the API is forwards;
one that a proxy *asks* only decides. It is compared, in the same rounds, with the raw check of the two signatures of
the proof's challenge (`authorization.check_us`), and with all that an API without a gateway would have to do with the
same header (`read_and_check_us`): decode it, and check those of the certificate as well.
"""

import argparse
import asyncio
import contextlib
import json
import re
import sys
import tempfile
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

import uvloop
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PublicKey

from accredit.http_api.call import Protocol, request_hash, session_context
from accredit.http_api.wire import encode_proof_header
from accredit.ratify import (
    ProofBundle,
    challenge_sign_bytes,
    decode_proof_bundle,
    delegation_sign_bytes,
    encode_proof_bundle,
)
from bench.authorization import GATEWAY_ID, PARAMS, SCOPE, Agent, Upstream, body_of, check_us, toml
from bench.errors import BenchError
from bench.processes import Server, configured
from bench.side_by_side import cpu_ns

MCP, HTTP, ASKED = "MCP call", "HTTP request, forwarded", "question of a proxy, answered"
FULL, QUICK = (15, 320), (5, 240)
"""Rounds, and requests in a round."""
CONNECTIONS = 16
HTTP_TARGET, ASKED_TARGET = 1.1, 1.2
"""Times the MCP call, and times the raw check."""
BODY = json.dumps(PARAMS["arguments"]).encode()
PATH, NAME = "/api/pay", "pay"
_ADMIN = re.compile(r"(http://\S+)/metrics")
Writes = Callable[[ProofBundle], bytes]


@dataclass(slots=True)
class Way:
    """A gateway, who signs for it (over `context` where that is not MCP's), and how a request is written."""

    url: str
    server: Server
    write: Writes
    protocol: Protocol | None = None
    costs: list[float] = field(default_factory=list[float])

    def proof(self, agent: Agent) -> ProofBundle:
        if self.protocol is None:
            return agent.bundle(bound=True)
        body = BODY if self.protocol == "http" else b""
        path = f"{PATH}/payments" if self.protocol == "http" else "/payments"
        found = request_hash("POST", path, sha256(body).digest(), SCOPE)
        return agent.bundle(context=session_context(self.protocol, f"{GATEWAY_ID}/{NAME}", agent.id, found))


def _api(more: str) -> str:
    return f"""
[gateway]
port = 0
id = "{GATEWAY_ID}"
[proofs]
mode = "required"
freshness_seconds = 300
[[proofs.roots]]
name = "Owner"
public_key_file = "owner.key.pub"
[store]
url = "memory:"
[servers.{NAME}]
{more}
[servers.{NAME}.routes."POST /payments"]
scope = "{SCOPE}"
facts = {{ amount = "body:/amount", currency = "body:/currency" }}
"""


def read_and_check_us(values: Sequence[bytes]) -> float:
    """CPU time to read a proof from its header, and to check all its signatures by `cryptography`."""
    started = time.thread_time_ns()
    for value in values:
        proof = decode_proof_bundle(urlsafe_b64decode(value + b"=" * (-len(value) % 4)))
        message = challenge_sign_bytes(proof.challenge, proof.challenge_at, proof.session_context)
        signed = [(message, proof.challenge_sig, proof.agent_pub_key)]
        signed += [(delegation_sign_bytes(each), each.signature, each.issuer_pub_key) for each in proof.delegations]
        for text, signature, key in signed:
            Ed25519PublicKey.from_public_bytes(key.ed25519).verify(signature.ed25519, text)
            MLDSA65PublicKey.from_public_bytes(key.ml_dsa_65).verify(signature.ml_dsa_65, text)
    return (time.thread_time_ns() - started) / 1000 / len(values)


def _request(method: str, path: str, headers: str, body: bytes) -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _of_mcp(proof: ProofBundle) -> bytes:
    accepts = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
    return _request("POST", "/mcp", accepts, body_of(proof))


def _of_api(proof: ProofBundle) -> bytes:
    return _request("POST", f"{PATH}/payments", f"Content-Type: application/json\r\n{_header(proof)}", BODY)


def _of_proxy(proof: ProofBundle) -> bytes:
    asked = "X-Original-Method: POST\r\nX-Original-URI: /payments\r\n"
    return _request("GET", f"/v1/ratify/authorize/{NAME}", asked + _header(proof), b"")


def _header(proof: ProofBundle) -> str:
    return f"Ratify-Proof: {_value(proof).decode()}\r\n"


def _value(proof: ProofBundle) -> bytes:
    return encode_proof_header(encode_proof_bundle(proof))


async def send_all(url: str, requests: Sequence[bytes]) -> None:
    """Send each request once, over `CONNECTIONS`. Raises `BenchError` for an answer that is not 200 or 204."""
    left, where = iter(requests), urlsplit(url)

    async def client() -> None:
        reader, writer = await asyncio.open_connection(where.hostname, where.port, limit=1 << 20)
        with contextlib.closing(writer):
            for request in left:
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"content-length: (\d+)", head.lower())
                said = await reader.readexactly(int(length[1])) if length else b""
                if head[9:12] not in (b"200", b"204"):
                    raise BenchError(f"a request failed: {head[:200] + said[:300]!r}")

    async with asyncio.TaskGroup() as group:
        for _ in requests[:CONNECTIONS]:
            group.create_task(client())


async def measure(rounds: int, calls: int, folder: Path) -> tuple[dict[str, Way], float, float]:
    """The ways with what they cost, and the median of each of the two checks."""
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(Upstream, "127.0.0.1", 0)
    upstream = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    agent, checks, whole = Agent(folder), list[float](), list[float]()
    behind = _api(f'protocol = "http"\nurl = "{upstream}"\npath = "{PATH}"')
    asked = "[admin]\nport = 0\n" + _api('protocol = "authorize"\nproxy = "nginx"')
    with contextlib.ExitStack() as stack:
        mcp, api, admin = (
            stack.enter_context(configured(text, folder, name))
            for text, name in ((toml(f"{upstream}/mcp", "memory:"), "mcp"), (behind, "http"), (asked, "asked"))
        )
        found = _ADMIN.search((folder / "asked.log").read_text())
        if found is None:
            raise BenchError("no address of the admin listener")
        ways = {
            MCP: Way(mcp.url, mcp, _of_mcp),
            HTTP: Way(api.url, api, _of_api, "http"),
            ASKED: Way(found[1], admin, _of_proxy, "authorize"),
        }
        for number in range(rounds + 1):
            for way in ways.values():
                proofs = [way.proof(agent) for _ in range(calls)]
                requests = [way.write(proof) for proof in proofs]
                before = cpu_ns(way.server.pid)
                await send_all(way.url, requests)
                if number:  # the first round fills caches
                    way.costs.append((cpu_ns(way.server.pid) - before) / 1000 / calls)
                    checks.append(check_us(proofs[:100]))
                    whole.append(read_and_check_us([_value(proof) for proof in proofs[:100]]))
    listener.close()
    return ways, median(checks), median(whole)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.apis", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds")
    rounds, calls = QUICK if parser.parse_args(arguments).quick else FULL
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="accredit-bench-") as folder:
        ways, check, whole = uvloop.run(measure(rounds, calls, Path(folder)))
    print(f"raw signature check of one challenge: {check:.0f} us; a proof read and checked whole: {whole:.0f} us")
    print(f"({time.monotonic() - started:.0f} s in all)")
    print("| request | CPU, us | beside | target |")
    print("|---|---|---|---|")
    mcp = ways[MCP].costs
    print(f"| {MCP} | {median(mcp):.0f} | | |")
    http = median(one / other for one, other in zip(ways[HTTP].costs, mcp, strict=True))
    print(f"| {HTTP} | {median(ways[HTTP].costs):.0f} | {http:.2f} x the MCP call | {HTTP_TARGET} |")
    cost = median(ways[ASKED].costs)
    print(f"| {ASKED} | {cost:.0f} | {cost / check:.2f} x the raw check | {ASKED_TARGET} |")
    print(f"| | | {cost / whole:.2f} x a proof read and checked whole | |")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
