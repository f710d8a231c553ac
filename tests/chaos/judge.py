"""What must hold whatever failed, from what clients were told and the server's own journal. No I/O.

1. No challenge took a call to the server twice; nor was any good for two clients, or spent by nobody.
3. No certificate was used more often than its limit, nor refused with room left.
4. Nobody got another's answer, and no call came on another's word.
6. Each exchange ended: in an answer or in an error. What was refused had not reached the server, what was answered had.
   Where nothing was taken away from a client, no exchange was lost.

Invariants 2 and 5, of records, are read from the log (`records`).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence, Set
from itertools import pairwise
from typing import NamedTuple

from tests.chaos import checker
from tests.chaos.agents import (
    ANSWERED,
    CLOSED,
    CROSSED,
    ENDLESS,
    LIMITED,
    LOST,
    REFUSED,
    REPLAYED,
    RESET,
    UNKNOWN,
    USES,
    WINDOW_SECONDS,
    Exchange,
)
from tests.chaos.checker import Limited, Operation
from tests.chaos.upstream import Forwarded

_CHALLENGE = {ANSWERED: checker.FIRST, REPLAYED: checker.SPENT}
_USE = {ANSWERED: checker.COUNTED, LIMITED: checker.REFUSED}
_SLACK_SECONDS = WINDOW_SECONDS // 1000 + 2


class Summary(NamedTuple):
    """What a run under one nemesis came to."""

    calls: int
    outcomes: Counter[str]
    causes: Counter[str]
    longest_gap: float
    broken: list[str]


def judged(exchanges: Sequence[Exchange], journal: Sequence[Forwarded], *, may: Set[str] = frozenset()) -> Summary:
    """Return what came of all exchanges, of which those of one call are all there. `may` be are also others that
    have no answer."""
    ended = [each for each in exchanges if each.outcome != CLOSED]
    broken = [
        *_once(journal),
        *checker.unsound(_challenges(ended)),
        *_limits(exchanges, journal),
        *checker.unsound(_uses(ended), lambda _: Limited(USES, WINDOW_SECONDS, _SLACK_SECONDS)),
        *_crossed(exchanges, journal),
        *_agreement(exchanges, journal),
        *_endings(exchanges, {each.nonce for each in journal}, may),
    ]
    outcomes = Counter(each.outcome for each in exchanges)
    causes = Counter(each.cause for each in exchanges if each.outcome in (REFUSED, UNKNOWN, LOST, CLOSED, ENDLESS))
    return Summary(len(exchanges), outcomes, causes, _longest_gap(exchanges), broken)


def _once(journal: Iterable[Forwarded]) -> list[str]:
    often = Counter(each.target for each in journal)
    return [f"{target} reached the server {count} times" for target, count in often.items() if count > 1]


def _challenges(exchanges: Iterable[Exchange]) -> list[Operation]:
    return [
        Operation(each.call.target, each.begun, each.ended, _CHALLENGE.get(each.outcome), each.door)
        for each in exchanges
    ]


def _uses(exchanges: Iterable[Exchange]) -> list[Operation]:
    return [
        Operation(each.call.certificate, each.begun, each.ended, _USE.get(each.outcome), each.door, each.at)
        for each in exchanges
        if each.call.certificate and each.outcome != REPLAYED
    ]


def _limits(exchanges: Iterable[Exchange], journal: Iterable[Forwarded]) -> list[str]:
    certificates = {each.call.target: each.call.certificate for each in exchanges if each.call.certificate}
    times: dict[str, list[float]] = defaultdict(list)
    for each in journal:
        if each.target in certificates:
            times[certificates[each.target]].append(each.at)
    return [
        f"{certificate} was used {most} times in a window"
        for certificate, found in times.items()
        if (most := checker.most_within(found, WINDOW_SECONDS)) > USES
    ]


def _crossed(exchanges: Sequence[Exchange], journal: Iterable[Forwarded]) -> list[str]:
    agents = {each.nonce: each.call.agent for each in exchanges}
    wrong = [f"{each.nonce} was answered {each.cause}" for each in exchanges if each.outcome == CROSSED]
    return wrong + [
        f"{each.nonce} came on the word of {each.agent or 'nobody'}"
        for each in journal
        if agents.get(each.nonce) != each.agent
    ]


def _agreement(exchanges: Iterable[Exchange], journal: Iterable[Forwarded]) -> list[str]:
    forwarded = {each.nonce for each in journal}
    answered = [f"{each.nonce} was answered, and never reached the server" for each in exchanges
                if each.outcome == ANSWERED and each.nonce not in forwarded]  # fmt: skip
    refused = [f"{each.nonce} was refused ({each.cause or each.outcome}), and reached the server" for each in exchanges
               if each.outcome in (REFUSED, REPLAYED, LIMITED, CLOSED) and each.nonce in forwarded]  # fmt: skip
    return answered + refused


def _endings(exchanges: Iterable[Exchange], forwarded: Set[str], may: Set[str]) -> list[str]:
    bad = {ENDLESS, UNKNOWN, LOST, RESET} - may
    return [
        f"{each.nonce} at {each.door} ended in {each.cause}" for each in exchanges if _ending(each, forwarded) in bad
    ]


def _ending(each: Exchange, forwarded: Set[str]) -> str:
    was_taken = each.nonce in forwarded or each.door == "balancer"
    return RESET if each.outcome == LOST and not was_taken else each.outcome


def _longest_gap(exchanges: Sequence[Exchange]) -> float:
    """Return the longest time in which no call was answered."""
    if not exchanges:
        return 0.0
    times = sorted(each.ended for each in exchanges if each.outcome == ANSWERED)
    moments = [min(each.begun for each in exchanges), *times, max(each.ended for each in exchanges)]
    return max(later - earlier for earlier, later in pairwise(moments))
