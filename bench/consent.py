"""What a person's consent costs: until they see the call, and what their yes adds to it.

`python -m bench.consent [--rounds N]` runs a gateway, a server, a desk, `accredit connect` and Chromium. In each round
the same tool is called twice in turn: by an agent whose delegation covers it, and by one for which a person is asked.
Medians of wall time:

- from the host's call, which is refused, until the title of the page that is open says that somebody asks;
- from the person's certificate at the desk to the result at the host, beside the whole call of the covered agent.

Then the gateway's decision alone is timed in this process, of a certificate that it has seen before and of one for this
very call, in turn: what an approval adds. CPU time of the thread.
"""

import argparse
import json
import os
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Raw
from tests.world.agents import agent_files
from tests.world.authorization import Trust
from tests.world.browser import chromium
from tests.world.command import Serving
from tests.world.connected import Connected
from tests.world.decisions import finished
from tests.world.desk import Desk

from accredit.base.clock import unix_seconds
from accredit.consent.answers import Answer
from accredit.consent.asks import read_ask
from accredit.consent.call import CallTerms
from accredit.consent.offers import offers_for
from accredit.keys import make_key
from accredit.policy.decide import decide
from accredit.policy.decision import drive
from accredit.policy.guarded_call import guarded_call_from_values
from accredit.ratify import DelegationCert, issue_delegation
from accredit.ratify.constraints import MaxRate
from accredit.stores import MemoryStore, RevocationLists

EACH = 10
"""Rounds with one agent: a desk takes no more of its asks in an hour."""
MAX_TITLE_SECONDS = 0.300
MAX_ADDED_SECONDS = 0.002
_OBSERVE = """() => { globalThis.asked = []; new MutationObserver(() => {
  if (document.title.startsWith("(1)")) globalThis.asked.push(Date.now() / 1000); })
  .observe(document.querySelector("title"), { childList: true, characterData: true, subtree: true }); }"""


class Round(NamedTuple):
    """Seconds: to the title, from the yes to the result, and of a call that is covered."""

    title: float
    allowed: float
    covered: float


def call(number: int) -> dict[str, Any]:
    return {"name": "send_email", "arguments": {"to": "ada@example.org", "subject": str(number)}}


def rounds(count: int, folder: Path) -> Iterator[Round]:
    """The real processes, `count` times."""
    with ExitStack() as stack:
        trust = Trust()
        files = agent_files(folder, trust, "email:send")
        gateway = stack.enter_context(Serving("--config", "accredit.toml", folder=folder))
        desk = stack.enter_context(Desk(folder / "person", owner=trust.owner))
        page = stack.enter_context(chromium()).new_page()
        page.goto(desk.link())
        page.wait_for_selector("nav a")
        page.evaluate(_OBSERVE)
        options = (gateway.url, *files.options, "--ask", "off")
        covered = stack.enter_context(Connected(folder, *options))
        covered.initialize()
        for first in range(0, count, EACH):
            trust.agent = make_key("agent", f"Asks {first}", unix_seconds())
            own = folder / f"agent-{first}"
            own.mkdir()
            asking = agent_files(own, trust, "email:read")
            with Connected(asking.folder, gateway.url, *asking.options, "--hold", "300", **desk.env) as host:
                host.initialize()
                for number in range(first, min(first + EACH, count)):
                    yield _round(number, host, covered, desk, page, trust)


def _round(number: int, host: Connected, covered: Connected, desk: Desk, page: Any, trust: Trust) -> Round:
    began = time.perf_counter()
    _check(covered.ask("tools/call", call(number)))
    whole = time.perf_counter() - began
    page.evaluate("() => { globalThis.asked = []; }")
    at = time.time()
    host.say(id=number, method="tools/call", params=call(number))
    page.wait_for_function("() => globalThis.asked.length > 0")
    title = page.evaluate("() => globalThis.asked[0]") - at
    (code,) = [each["code"] for each in desk.tell({"list": True})["asks"]]
    ask = read_ask(json.dumps(desk.tell({"show": code})["ask"]).encode())
    grant = offers_for(ask, is_new=True)[0].grant(ask, secrets.token_hex(16), unix_seconds())
    answer = Answer(ask.digest.hex(), "allow", (issue_delegation(trust.owner.signer(), grant, vocabulary=grant.scope),))
    began = time.perf_counter()
    desk.tell({"deliver": answer.to_dict()})
    _check(host.hear())
    allowed = time.perf_counter() - began
    page.wait_for_function("() => !document.title.startsWith('(')")
    return Round(title, allowed, whole)


def _check(told: Any) -> None:
    if "sent to" not in str(told):
        raise SystemExit(f"bench: {told}")


def decisions(count: int) -> tuple[list[float], list[float]]:
    """CPU seconds of one decision, of a delegation that was seen before and of a certificate for the very call."""
    trust = Trust()
    policy, store = trust.policy(binding_required=True), MemoryStore()
    standing = trust.chain("email:send", "email:read")
    seconds: tuple[list[float], list[float]] = ([], [])
    for number in range(count + 1):
        params = {"name": "list_inbox", "arguments": {"subject": str(number)}}
        digest = guarded_call_from_values("tools/call", params, "", None).call_digest().hex()
        terms = CallTerms(gateway=policy.verifier_id, method="tools/call", target=("list_inbox",), params_sha256=digest)
        once = trust.chain("email:read", constraints=(MaxRate(1, 600), terms.constraint()))
        for chain, found in zip((standing, once), seconds, strict=True):
            found.append(_decided(trust, policy, store, chain, params))
    return seconds[0][1:], seconds[1][1:]


def _decided(trust: Trust, policy: Any, store: MemoryStore, chain: Sequence[DelegationCert], params: Any) -> float:
    proof = Raw(json.dumps(trust.proof(chain, "tools/call", params)).encode())
    now = unix_seconds()
    began = time.thread_time()
    steps = decide(guarded_call_from_values("tools/call", params, "", proof), policy, now)
    decision = finished(drive(steps, store, RevocationLists((), {}), now))
    took = time.thread_time() - began
    if decision.refusal is not None:
        raise SystemExit(f"bench: {decision.refusal}")
    return took


def main() -> int:
    parser = argparse.ArgumentParser(description="What a person's consent costs.")
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="accredit-bench-") as name:
        found = list(rounds(options.rounds, Path(name)))
    title, allowed, covered = (statistics.median(each) for each in zip(*found, strict=True))
    before, once = (statistics.median(each) for each in decisions(300))
    print("| | median | at most | |")
    print("|---|---|---|---|")
    for text, value, limit in (
        ("from a host's call to the page's title", title, MAX_TITLE_SECONDS),
        ("from the yes to the result", allowed, None),
        ("the whole call of an agent that may", covered, None),
        ("a decision, the certificate seen before", before, None),
        ("a decision, the certificate for this call alone", once, None),
        ("what that adds", once - before, MAX_ADDED_SECONDS),
    ):
        verdict = "" if limit is None else "met" if value <= limit else "missed"
        print(f"| {text} | {value * 1e3:.2f} ms | {'-' if limit is None else f'{limit * 1e3:.0f} ms'} | {verdict} |")
    print(f"yes to result : covered call {allowed / covered:.2f}, decisions {once / before:.2f}", end="; ")
    print(f"load: {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores")
    return 0 if title <= MAX_TITLE_SECONDS and once - before <= MAX_ADDED_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
