"""64 copies of one call at three gateways at once, again and again: one of them reaches the server. I/O: sockets."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence

from tests.chaos.agents import ANSWERED, LIMITED, REPLAYED, USES, WINDOW_SECONDS, Call, Exchange, Load
from tests.chaos.fleet import Fleet
from tests.chaos.judge import judged
from tests.chaos.upstream import Upstream

from accredit.ratify.constraints import MaxRate

COPIES = 64
KINDS = ("own challenges", "issued challenges", "uses under a limit")


async def play_rounds(fleet: Fleet, upstream: Upstream, rounds: Sequence[int]) -> list[str]:
    """Plays so many rounds of each kind; returns what did not hold."""
    load = Load({name: gateway.place for name, gateway in fleet.gateways.items()}, fleet.trusts, 0)
    load.keeps = True
    try:
        return await _played(load, upstream, rounds)
    finally:
        await load.aclose()


async def _played(load: Load, upstream: Upstream, rounds: Sequence[int]) -> list[str]:
    broken: list[str] = []
    for kind, count in zip(KINDS, rounds, strict=True):
        begun, came = time.monotonic(), Counter[str]()
        for number in range(count):
            upstream.journal.clear()
            load.exchanges.clear()
            calls, most = await _calls(load, kind, number)
            found = await _at_once(load, calls)
            came.update(each.outcome for each in found)
            held = judged(load.exchanges, upstream.journal).broken
            if len(upstream.journal) != most:
                held.append(f"{len(upstream.journal)} of {COPIES} copies reached the server, not {most}")
            broken += [f"{kind}, round {number}: {each}" for each in held]
        told = ", ".join(f"{number} {name}" for name, number in came.most_common())
        took = time.monotonic() - begun
        print(f"{count} rounds of {COPIES} copies, {kind}: {told}; {took:.0f} s", flush=True)
    return broken


async def _calls(load: Load, kind: str, number: int) -> tuple[Sequence[Call], int]:
    """Return the calls of a round, and how many of them are to reach the server."""
    trust = load._trusts[number % len(load._trusts)]
    if kind == KINDS[0]:
        return [load.reading(trust, trust.chain("mcp:resource"))] * COPIES, 1
    if kind == KINDS[1]:
        doors = list(load.doors)
        call = await load.sending(trust, trust.chain("email:send"), doors[number % len(doors)])
        assert call is not None, "no challenge was issued"
        return [call] * COPIES, 1
    chain = trust.chain("mcp:resource", constraints=(MaxRate(count=USES, window_s=WINDOW_SECONDS),))
    return [load.reading(trust, chain, chain[0].cert_id) for _ in range(COPIES // 2)], USES


async def _at_once(load: Load, calls: Sequence[Call]) -> Sequence[Exchange]:
    doors = list(load.doors)
    found = await asyncio.gather(*(load.ask(call, doors[place % len(doors)]) for place, call in enumerate(calls)))
    assert {each.outcome for each in found} <= {ANSWERED, REPLAYED, LIMITED}, Counter(each.cause for each in found)
    return found
