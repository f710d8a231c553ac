"""`python -m bench.token_gateway [--quick]`: what a bearer token costs a call through the gateway.

CPU time of the gateway per call, medians over rounds: tokens off, one token that comes again and again (its
verification is remembered), and a new token with each call (its signature is verified). All bodies have the same size,
the token in `_meta.token`, so that reading it is not what differs.
"""

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
from pathlib import Path
from statistics import median

import uvloop

from accredit.base.clock import unix_seconds
from accredit.keys import load_token_key, make_token_key, write_token_key
from accredit.tokens.issued import SessionGrant, issue_session_token
from bench.authorization import PARAMS, Upstream, post_all
from bench.processes import configured
from bench.procfs import cpu_seconds

FULL, QUICK = (9, 400), (3, 150)
"""Rounds, and calls in a round."""
TOKENS = """
[tokens]
mode = "required"
[[tokens.issuers]]
issuer = "accredit"
audience = "bench"
public_key_file = "tokens.key.pub"
"""


def token(folder: Path, number: int) -> str:
    """A good token, another one for each number."""
    now = unix_seconds()
    grant = SessionGrant(
        issuer="accredit",
        subject="agent",
        audience="bench",
        issued_at=now,
        expires_at=now + 3_600,
        token_id=f"{number:032d}",
    )
    return issue_session_token(load_token_key(folder / "tokens.key"), grant)


def body(text: str) -> bytes:
    """A call that carries it."""
    params = {**PARAMS, "_meta": {"token": text}}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()


async def measure(rounds: int, calls: int, folder: Path) -> dict[str, float]:
    """The cost of each way, in microseconds."""
    listener = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    text = f'[gateway]\nport = 0\n[upstream]\nurl = "http://127.0.0.1:{port}/mcp"\n'
    costs: dict[str, list[float]] = {"tokens off": [], "the same token": [], "a new token": []}
    with contextlib.ExitStack() as stack:
        off = stack.enter_context(configured(text, folder, "off"))
        on = stack.enter_context(configured(text + TOKENS, folder, "on"))
        for number in range(rounds + 1):
            fresh = [body(token(folder, number * calls + each + 1)) for each in range(calls)]
            same = [body(token(folder, 0))] * calls
            ways = (("tokens off", off, same), ("the same token", on, same), ("a new token", on, fresh))
            for name, server, bodies in ways:
                before = cpu_seconds(server.pid)
                await post_all(server.url, bodies)
                if number:  # the first round fills caches
                    costs[name].append((cpu_seconds(server.pid) - before) * 1e6 / calls)
    listener.close()
    return {name: median(found) for name, found in costs.items()}


def main(arguments: list[str]) -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.token_gateway", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds")
    rounds, calls = QUICK if parser.parse_args(arguments).quick else FULL
    with tempfile.TemporaryDirectory(prefix="accredit-bench-") as name:
        folder = Path(name)
        write_token_key(folder / "tokens.key", make_token_key())
        costs = uvloop.run(measure(rounds, calls, folder))
    print("| gateway | CPU per call, us | to tokens off |")
    print("|---|---|---|")
    for way, cost in costs.items():
        print(f"| {way} | {cost:.0f} | {cost / costs['tokens off']:.2f} x |")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
