"""`python -m bench.front_door [--quick]`: what a call of an app costs that can only log in, and how long a login takes.

One gateway with records and a store in a file gets the same call in two ways, in turns: with a proof that the agent has
made, and with an access token, for which the gateway makes the proof; the delegations are alike. CPU time of the
gateway's process per call; one hybrid signature is measured between the turns. What the second costs beside the first
and one signature is compared within a round, and the median is kept. A login is all that programs do, from the app's
registration to the result of its first call: the person's desk and browser are programs here, and nobody thinks.
"""

import argparse
import asyncio
import os
import secrets
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import NamedTuple
from urllib.parse import urlencode

import httpx2
import uvloop
from tests.world.front_door import CHALLENGE, VERIFIER, Browser, form, json_of, yes_to

from accredit.consent.call import CallTerms
from accredit.consent.desk_requests import DeskRequest
from accredit.consent.held import ClientAsk
from accredit.keys import PrivateKeyFile, make_key, write_key
from accredit.ratify import HybridPrivateKey
from bench import main_job
from bench.authorization import GATEWAY_ID, HEADERS, SCOPE, Agent, Upstream, body_of, post_all
from bench.processes import configured, free_port
from bench.side_by_side import cpu_ns

NAME = "front-door"
FULL, QUICK = (20, 320), (5, 160)
"""Rounds, and calls in a turn."""
LOGINS = 5
TARGET = 1.15
"""Times the call with a proof and one signature together."""
LOGIN_SECONDS = 3.0
CALLBACK = "http://127.0.0.1:9/callback"
SIGNED_BYTES = 250
"""What is signed of a call."""


class Found(NamedTuple):
    """Microseconds of CPU time of both ways and of a signature, by round; and seconds of logins."""

    proved: list[float]
    logged_in: list[float]
    signature: list[float]
    logins: list[float]


def toml(upstream: str, url: str) -> str:
    """The configuration of a gateway with a front door."""
    oauth = f'[oauth]\nenabled = true\npublic_url = "{url}"\nregistration = true\n'
    text = main_job.toml(upstream, "sqlite:///door.db", shared=True)
    return text.replace("port = 0", f"port = {url.rpartition(':')[2]}") + oauth


def write_files(folder: Path) -> Agent:
    """Write the keys of people and gateways; return an agent with a delegation."""
    write_key(folder / "gateway.key", make_key("gateway", "gateway", 0))
    keys = folder / "cluster.keys"
    keys.write_text("YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE=\n")
    keys.chmod(0o600)
    return Agent(folder, CallTerms(gateway=GATEWAY_ID, method="tools/call", target=("pay",)).constraint())


async def log_in(url: str, owner: PrivateKeyFile) -> str:
    """Log in as an app does, with a person who says yes; return the access token."""

    async def desk(op: str, code: str, **more: object) -> dict[str, object]:
        nonce, now = secrets.token_hex(16), int(time.time())
        request = DeskRequest(gateway=url, nonce=nonce, at=now, op=op, person=owner.id, code=code, **more)  # pyright: ignore[reportArgumentType]
        signed = request.signed(owner.signer()).encode()
        return json_of(await http.post(f"{url}/.well-known/accredit/asks", content=signed))

    async with httpx2.AsyncClient(trust_env=False) as http:
        browser = Browser()
        about = {"redirect_uris": [CALLBACK], "client_name": "App"}
        app = json_of(await http.post(f"{url}/oauth/register", json=about))["client_id"]
        asked = {
            "response_type": "code", "client_id": app, "redirect_uri": CALLBACK, "code_challenge": CHALLENGE,
            "code_challenge_method": "S256", "resource": f"{url}/mcp", "scope": SCOPE,
        }  # fmt: skip
        await browser.get(f"{url}/oauth/authorize?{urlencode(asked)}")
        await browser.press("begin", url)
        ask = ClientAsk.from_dict((await desk("fetch", browser.code))["ask"])  # pyright: ignore[reportArgumentType]
        told = await desk("answer", browser.code, answer=yes_to(ask, owner))
        await browser.press("confirm", url, digits=str(told["digits"]))
        fields = {"client_id": app, "resource": f"{url}/mcp", "code": browser.told["code"], "code_verifier": VERIFIER}
        tokens = await http.post(f"{url}/oauth/token", **form(grant_type="authorization_code", **fields))
        await browser.aclose()
        return json_of(tokens)["access_token"]


def token_headers(token: str) -> dict[str, str]:
    """The headers of a call with an access token."""
    return {**HEADERS, "Authorization": f"Bearer {token}"}


async def measure(rounds: int, calls: int, folder: Path) -> Found:
    """Log in, and make the calls."""
    listener = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", 0)
    agent, url = write_files(folder), f"http://127.0.0.1:{free_port()}"
    found = Found([], [], [], [])
    with (
        closing(listener),
        configured(toml(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/mcp", url), folder, "door") as server,
    ):
        token = ""
        for _ in range(LOGINS):
            begun = time.perf_counter()
            token = await log_in(url, agent.owner)
            await post_all(server.url, [body_of(None)], 1, token_headers(token))
            found.logins.append(time.perf_counter() - begun)
        for number in range(rounds + 1):
            signature = _signature_us()
            for costs, headers in ((found.proved, HEADERS), (found.logged_in, token_headers(token))):
                proofs = [agent.bundle(bound=True) if headers is HEADERS else None for _ in range(calls)]
                bodies = list(map(body_of, proofs))
                before = cpu_ns(server.pid)
                await post_all(server.url, bodies, headers=headers)
                if number:  # the first round fills caches
                    costs.append((cpu_ns(server.pid) - before) / 1000 / calls)
            if number:
                found.signature.append(signature)
    return found


def _signature_us() -> float:
    key = HybridPrivateKey(os.urandom(32), os.urandom(32))
    messages = [os.urandom(SIGNED_BYTES) for _ in range(100)]
    begun = time.thread_time_ns()
    for message in messages:
        key.sign(message)
    return (time.thread_time_ns() - begun) / 1000 / len(messages)


def main(arguments: list[str]) -> int:
    """Print what was found."""
    parser = argparse.ArgumentParser(prog="python -m bench.front_door", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="accredit-bench-") as folder:
        found = uvloop.run(measure(*(QUICK if options.quick else FULL), Path(folder)))
    ratio = median(
        token / (proof + sign)
        for token, proof, sign in zip(found.logged_in, found.proved, found.signature, strict=True)
    )
    print(f"one hybrid signature: {median(found.signature):.0f} us")
    print("| a call | CPU, us | to the call with a proof + one signature |")
    print("|---|---|---|")
    print(f"| with a proof | {median(found.proved):.0f} | |")
    print(f"| with an access token | {median(found.logged_in):.0f} | {ratio:.2f} x (target {TARGET}) |")
    print(f"from registration to the first result: {median(found.logins):.2f} s (target {LOGIN_SECONDS:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
