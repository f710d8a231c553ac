"""Each invariant that is broken is said, and nothing is said where all hold."""

from collections.abc import Set

import pytest
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
    Call,
    Exchange,
)
from tests.chaos.judge import judged
from tests.chaos.upstream import Forwarded


def exchange(nonce: str, outcome: str, target: str = "t", begun: float = 0.0, certificate: str = "") -> Exchange:
    call = Call(target, "resources/read", {}, {}, "agent", certificate)
    return Exchange(call, "g1", nonce, begun, begun + 1, int(begun), outcome, "cause")


def forwarded(nonce: str, target: str = "t", agent: str = "agent") -> Forwarded:
    return Forwarded(0.5, target, nonce, agent)


def broken(
    exchanges: list[Exchange], journal: list[Forwarded], may: Set[str] = frozenset({UNKNOWN, LOST, RESET})
) -> list[str]:
    return judged(exchanges, journal, may=may).broken


def uses(count: int) -> tuple[list[Exchange], list[Forwarded]]:
    """So many calls with one certificate, all of them answered."""
    names = [f"n{number}" for number in range(count)]
    return [exchange(name, ANSWERED, name, certificate="c") for name in names], [
        forwarded(name, name) for name in names
    ]


def test_nothing_is_said_where_all_hold() -> None:
    answered, journal = uses(USES)
    exchanges = [
        *answered,
        exchange("limited", LIMITED, "other", begun=2, certificate="c"),
        exchange("one", ANSWERED),
        exchange("copy", REPLAYED, begun=2),
        exchange("late copy", REFUSED, begun=3),
        exchange("nobody", CLOSED, "u"),
        exchange("lost", UNKNOWN, "v"),
        exchange("lost too", LOST, "w"),
    ]
    assert broken(exchanges, [*journal, forwarded("one"), forwarded("lost", "v")]) == []
    summary = judged(exchanges, journal, may={UNKNOWN, LOST, RESET})
    assert summary.calls == len(exchanges)
    assert summary.longest_gap == pytest.approx(3)


@pytest.mark.parametrize(
    ("exchanges", "journal", "said"),
    [
        ([exchange("a", ANSWERED), exchange("b", UNKNOWN)], [forwarded("a"), forwarded("b")], "reached the server 2"),
        ([exchange("a", ANSWERED), exchange("b", ANSWERED, begun=5)], [forwarded("a"), forwarded("b")], "told first"),
        ([exchange("a", REPLAYED)], [], "were told no"),
        ([exchange("a", REFUSED)], [forwarded("a")], "was refused (cause), and reached"),
        ([exchange("a", ANSWERED), exchange("b", REPLAYED)], [forwarded("b")], "b was refused"),
        ([exchange("a", ANSWERED)], [], "never reached"),
        ([exchange("a", CROSSED)], [forwarded("a")], "a was answered"),
        ([exchange("a", ANSWERED)], [forwarded("a", agent="other")], "on the word of other"),
        ([exchange("a", ANSWERED)], [forwarded("a"), forwarded("x", "y")], "x came"),
        ([exchange("a", ENDLESS)], [], "ended in"),
        ([exchange("a", LIMITED, certificate="c")], [], "c: "),
        (*uses(USES + 1), "was used 9 times"),
    ],
)
def test_what_is_broken_is_said(exchanges: list[Exchange], journal: list[Forwarded], said: str) -> None:
    assert any(said in each for each in broken(exchanges, journal)), broken(exchanges, journal)


def test_an_exchange_is_lost_only_where_something_was_taken_from_clients() -> None:
    unknown, lost = exchange("a", UNKNOWN), exchange("b", LOST)
    for each, journal, kind in (
        (unknown, [forwarded("a")], UNKNOWN),
        (lost, [forwarded("b")], LOST),
        (lost._replace(door="balancer"), [], LOST),
        (lost, [], RESET),
    ):
        assert broken([each], journal, may={kind}) == []
        assert broken([each], journal, may={UNKNOWN, LOST, RESET} - {kind}) == [
            f"{each.nonce} at {each.door} ended in cause"
        ]
