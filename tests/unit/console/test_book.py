"""Which asks wait, and how many."""

from typing import Any

import pytest
from tests.world.asked import NOW, WORLD, an_ask
from tests.world.delegations import World

from accredit.consent.answers import Answer
from accredit.consent.asks import Ask, Asker
from accredit.console.book import (
    DENIED_SECONDS,
    KEPT_OPEN_SECONDS,
    MAX_ASKS_OF_AGENT_AN_HOUR,
    MAX_ASKS_OF_NEW_AN_HOUR,
    MAX_PENDING_ASKS,
    MAX_PENDING_ASKS_OF_AGENT,
    MAX_PENDING_ASKS_OF_NEW,
    AskBook,
    PendingAsk,
)
from accredit.errors import DeskError
from accredit.keys import make_key

pytestmark = pytest.mark.holds("console/book")


def book() -> AskBook:
    return AskBook(WORLD.owner.id)


def of(key: Any, subject: str, at: int = NOW) -> Ask:
    """An ask of any agent. Its signature is not looked at here."""
    params = {"name": "send_email", "arguments": {"subject": subject}}
    return an_ask(params, agent=Asker("Other", key.public_key), asked_at=at, expires_at=at + 600)


def take(asks: AskBook, ask: Ask, at: int = NOW, *, is_new: bool = False) -> PendingAsk:
    return asks.take(ask, at, is_new=is_new)[0]


def refused(asks: AskBook, ask: Ask, at: int = NOW, *, is_new: bool = False) -> str:
    with pytest.raises(DeskError) as error:
        asks.take(ask, at, is_new=is_new)
    return error.value.error


@pytest.mark.holds("console/book", "duplicate")
def test_the_same_ask_again_is_the_same__else_a_lost_connection_would_ask_twice() -> None:
    asks, ask = book(), an_ask()
    first, was_new = asks.take(ask, NOW, is_new=False)
    again, is_new = asks.take(ask, NOW, is_new=False)
    assert (again is first, was_new, is_new) == (True, True, False)


@pytest.mark.holds("console/book", "unique-ids")
def test_an_id_that_was_used_is_not_used_again__else_an_ask_could_be_swapped() -> None:
    asks = book()
    first = take(asks, an_ask(id="a" * 32))
    assert refused(asks, an_ask({"name": "pay", "arguments": {}}, id="a" * 32)) == "bad_ask"
    asks.deny(first, NOW, Answer(ask=first.key, decision="deny"))
    assert refused(asks, an_ask({"name": "pay", "arguments": {}}, id="a" * 32)) == "bad_ask"


@pytest.mark.holds("console/book", "unique-ids")
def test_ids_of_before_a_restart_are_used() -> None:
    assert refused(AskBook(WORLD.owner.id, ["b" * 32]), an_ask(id="b" * 32)) == "bad_ask"


@pytest.mark.holds("console/book", "principal")
def test_an_ask_for_somebody_else_is_not_taken() -> None:
    assert refused(book(), an_ask(principals=(World().owner.id,))) == "bad_ask"
    assert take(book(), an_ask(principals=())).state == "pending"


@pytest.mark.holds("console/book", "denial")
def test_a_denied_call_is_denied_unseen_for_an_hour__asking_again_does_not_wear_anybody_down() -> None:
    asks = book()
    first = take(asks, an_ask())
    asks.deny(first, NOW, Answer(ask=first.key, decision="deny"))
    again = take(asks, an_ask())
    assert again.state == "denied"
    assert again.answer is not None
    assert again.answer.decision == "deny"
    assert asks.waiting(NOW) == []
    later = NOW + DENIED_SECONDS
    assert take(asks, an_ask(asked_at=later, expires_at=later + 600), later).state == "pending"
    assert take(asks, an_ask({"name": "send_email", "arguments": {"to": "eve"}})).state == "pending"


@pytest.mark.holds("console/book", "agent-limits")
def test_an_agent_has_three_asks_at_a_time_and_ten_in_an_hour() -> None:
    asks = book()
    for number in range(MAX_PENDING_ASKS_OF_AGENT):
        take(asks, an_ask({"name": "send_email", "arguments": {"n": number}}))
    assert refused(asks, an_ask({"name": "send_email", "arguments": {"n": 99}})) == "rate"
    assert asks.unseen(WORLD.agent.id) == 1
    for each in asks.waiting(NOW):
        asks.deny(each, NOW, Answer(ask=each.key, decision="deny"))
    for number in range(MAX_PENDING_ASKS_OF_AGENT, MAX_ASKS_OF_AGENT_AN_HOUR):
        each = take(asks, an_ask({"name": "send_email", "arguments": {"n": number}}))
        asks.deny(each, NOW, Answer(ask=each.key, decision="deny"))
    assert refused(asks, an_ask({"name": "send_email", "arguments": {"n": 100}})) == "rate"
    assert take(asks, of(make_key("agent", "Other", NOW), "x")).state == "pending"
    later = NOW + 3_600
    assert take(asks, an_ask(asked_at=later, expires_at=later + 600), later).state == "pending"


@pytest.mark.holds("console/book", "agent-limits")
def test_keys_without_end_leave_room_for_the_agents_that_a_person_knows() -> None:
    asks = book()
    keys = [make_key("agent", "Fresh", NOW) for _ in range(MAX_PENDING_ASKS_OF_NEW + 4)]
    taken = [each for each in keys if _is_taken(asks, of(each, "x"))]
    assert len(taken) == MAX_PENDING_ASKS_OF_NEW
    assert asks.unseen() == 4
    assert take(asks, an_ask()).state == "pending"


def _is_taken(asks: AskBook, ask: Ask) -> bool:
    try:
        asks.take(ask, NOW, is_new=True)
    except DeskError:
        return False
    return True


@pytest.mark.holds("console/book", "agent-limits")
def test_new_agents_together_are_shown_sixty_times_an_hour() -> None:
    asks = book()
    for number in range(MAX_ASKS_OF_NEW_AN_HOUR):
        each = take(asks, of(make_key("agent", "Fresh", NOW), str(number)), is_new=True)
        asks.deny(each, NOW, Answer(ask=each.key, decision="deny"))
    assert refused(asks, of(make_key("agent", "Fresh", NOW), "one more"), is_new=True) == "rate"


@pytest.mark.holds("console/book", "pending-limit")
def test_so_many_wait_in_all() -> None:
    asks = book()
    for number in range(MAX_PENDING_ASKS):
        take(asks, of(make_key("agent", "Known", NOW), str(number)))
    assert refused(asks, of(make_key("agent", "Known", NOW), "one more")) == "busy"


def test_an_ask_that_nobody_answered_is_told_later__and_nothing_is_decided() -> None:
    asks, ask = book(), an_ask()
    asked = take(asks, ask)
    assert asks.expire(ask.expires_at) == []
    assert asks.expire(ask.expires_at + 1) == [asked]
    assert asked.answer is not None
    assert (asked.state, asked.answer.decision) == ("expired", "later")


def test_an_ask_that_is_kept_open_waits_for_an_hour() -> None:
    asks, ask = book(), an_ask()
    asked = take(asks, ask)
    asks.keep_open(asked, NOW)
    assert asked.waits(NOW + KEPT_OPEN_SECONDS)
    assert not asked.waits(NOW + KEPT_OPEN_SECONDS + 1)
