"""Who can only write the store has nobody asked anything; digits are good three times, and an ask is taken once."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.world.asked import NOW, WORLD, a_client_ask, allowed, an_ask, let_in

from accredit.errors import AskError, AskGone, UnusableAnswer
from accredit.gateway.holding import MAX_QUESTION_ID_BYTES, HeldAsks
from accredit.ports import HeldAsk
from accredit.rounds import KeyRing
from accredit.stores.asks import Asks
from accredit.stores.runners import Steps, writes

RING = KeyRing([bytes(32)])


class Rows(Asks):
    """A store whose rows somebody else can write."""

    @writes
    def change(self, key: bytes, **changes: Any) -> Steps[None]:
        for name, value in changes.items():
            stored = value.encode() if isinstance(value, str) else value
            yield f"UPDATE asks SET {name} = $1 WHERE key = $2", (stored, key)


def holding(store: Asks | None = None, ring: KeyRing = RING, now: int = NOW) -> HeldAsks:
    return HeldAsks(store or Rows(), ring, clock=lambda: now)


def other(digits: str) -> str:
    return f"{(int(digits) + 1) % 10**6:06}"


@pytest.mark.holds("gateway/holding", "once")
async def test_a_call_is_held_once__shown_to_its_person_and_answered() -> None:
    gateway, ask = holding(), an_ask()
    held = await gateway.hold(ask)
    again = await gateway.hold(an_ask())
    assert (held.ask, again.ask, held.answer) == (ask, ask, None)
    assert await gateway.waiting(WORLD.owner.id) == [ask.code]
    found = await gateway.find_code(ask.code)
    assert found is not None
    assert found.ask == ask
    with pytest.raises(UnusableAnswer):
        found.chain(NOW)
    waiting = asyncio.create_task(gateway.wait(held.row.key, 60))
    answer = allowed(ask)
    assert await gateway.answer(held, answer.encode())
    answered = await waiting
    assert answered is not None
    assert answered.chain(NOW) == answer.certificates
    taken = await gateway.take(held.row.key)
    assert taken.chain(NOW) == answer.certificates
    with pytest.raises(AskGone):
        await gateway.take(held.row.key)
    assert await gateway.wait(held.row.key, 60) is None
    await gateway.aclose()


@pytest.mark.holds("gateway/holding", "questions")
async def test_a_question_s_id_is_known_again_by_any_gateway__and_is_nobody_else_s() -> None:
    gateway, elsewhere = holding(), holding()
    held = await gateway.hold(an_ask())
    ids = {gateway.question_id(held, "agent", "session") for _ in range(3)}
    assert len(ids) == 3, "a session's requests have ids of their own"
    for id in ids:
        assert len(id) <= MAX_QUESTION_ID_BYTES
        assert elsewhere.of_question(id, "agent", "session") == (held.row.key, held.ask.digest)
        for to in (("agent", "other"), ("other", "session"), ("agentsession", ""), ("agent",)):
            assert elsewhere.of_question(id, *to) is None
        assert holding(ring=KeyRing([b"1" * 32])).of_question(id, "agent", "session") is None
        sealed = held.row.text.decode()
        assert elsewhere.of_question("accredit.q1." + sealed.removeprefix("k1."), "agent", "session") is None


@given(text=st.text() | st.text(st.characters(codec="ascii"), max_size=200).map("accredit.q1.".__add__))
def test_no_text_that_was_made_up_is_a_question_s_id(text: str) -> None:
    assert holding().of_question(text, "agent", "session") is None


async def test_who_waits_longer_than_they_may_is_told_that_nobody_has_answered() -> None:
    gateway = holding()
    held = await gateway.hold(a_client_ask())
    assert await gateway.wait(held.row.key, 0) == held
    assert await gateway.waiting("") == [held.ask.code]  # a code is no secret of the store's, and asks nobody


@pytest.mark.parametrize("principals", [(), ("a1" * 16, "b0" * 16)])
async def test_a_call_is_held_for_one_person_alone(principals: tuple[str, ...]) -> None:
    with pytest.raises(AskError):
        await holding().hold(an_ask(principals=principals))


@pytest.mark.holds("gateway/holding", "digits")
async def test_only_whoever_knows_the_digits_gets_a_client_s_answer__after_a_yes_and_in_three_tries() -> None:
    gateway, ask = holding(), a_client_ask()
    held, yes = await gateway.hold(ask), let_in(ask)
    await gateway.answer(held, yes.encode())
    assert await gateway.confirm(held.row.key, other(held.digits)) is None
    assert await gateway.confirm(held.row.key, "\ud800") is None
    taken = await gateway.confirm(held.row.key, held.digits)
    assert taken is not None
    assert taken.chain(NOW) == yes.certificates
    with pytest.raises(AskGone):
        await gateway.confirm(held.row.key, held.digits)


@pytest.mark.holds("gateway/holding", "digits")
async def test_after_three_wrong_tries_the_right_digits_are_of_no_use__whatever_gateway_is_asked() -> None:
    store, ask = Rows(), a_client_ask()
    gateways = [holding(store) for _ in range(3)]
    held = await gateways[0].hold(ask)
    await gateways[1].answer(held, let_in(ask).encode())
    tries = [each.confirm(held.row.key, other(held.digits)) for each in gateways]
    told = await asyncio.gather(*tries, return_exceptions=True)
    assert [type(each) for each in told] == [type(None), type(None), AskGone]
    for gateway in gateways:
        with pytest.raises(AskGone):
            await gateway.confirm(held.row.key, held.digits)
    assert await store.find(held.row.key, now=NOW) is None


@pytest.mark.holds("gateway/holding", "digits")
async def test_whoever_sets_the_tries_back_in_the_store_gets_no_more_of_them() -> None:
    class Forgetful(Rows):
        async def attempt(self, key: bytes, *, now: int) -> int:
            return min(await super().attempt(key, now=now), 1)

    gateway, ask = holding(Forgetful()), a_client_ask()
    held = await gateway.hold(ask)
    await gateway.answer(held, let_in(ask).encode())
    for _ in range(2):
        assert await gateway.confirm(held.row.key, other(held.digits)) is None
    with pytest.raises(AskGone):
        await gateway.confirm(held.row.key, other(held.digits))
    assert await gateway.find(held.row.key) is None


async def test_digits_before_a_yes_end_the_ask() -> None:
    gateway = holding()
    held = await gateway.hold(a_client_ask())
    with pytest.raises(AskGone):
        await gateway.confirm(held.row.key, held.digits)
    assert await gateway.find(held.row.key) is None


@pytest.mark.holds("gateway/holding", "sealed")
@pytest.mark.parametrize(
    "changes",
    [
        {"person": "b0" * 16},
        {"person": ""},
        {"asker": b"b" * 32},
        {"code": "0000-00"},
        {"text": b""},
        {"text": b"k1.AAAA"},
        {"text": b"\xff" * 200_000},
    ],
)
async def test_a_row_that_was_changed_asks_nobody_anything(changes: dict[str, Any]) -> None:
    store = Rows()
    gateway, ask = holding(store), an_ask()
    held = await gateway.hold(ask)
    await store.change(held.row.key, **changes)
    assert await gateway.find(held.row.key) is None
    assert await gateway.find_code(changes.get("code", ask.code)) is None
    with pytest.raises(AskGone):
        await gateway.take(held.row.key)


@pytest.mark.holds("gateway/holding", "sealed")
async def test_a_row_that_a_thief_put_in_an_ask_s_place_is_replaced_by_the_ask() -> None:
    store = Rows()
    thief, gateway = holding(store, KeyRing([b"t" * 32])), holding(store)
    mine = await thief.hold(an_ask(id="0" * 32))
    ask = an_ask()
    held = await gateway.hold(ask)
    assert (held.row.key, held.ask) == (mine.row.key, ask)


@pytest.mark.holds("gateway/holding", "sealed")
async def test_a_sealed_ask_is_good_for_no_other_row() -> None:
    store = Rows()
    gateway = holding(store)
    one = await gateway.hold(an_ask())
    two = await gateway.hold(a_client_ask())
    await store.change(one.row.key, text=two.row.text)
    assert await gateway.find(one.row.key) is None


async def test_an_answer_that_is_none_counts_as_no_answer() -> None:
    store = Rows()
    gateway = holding(store)
    held = await gateway.hold(an_ask())
    await store.change(held.row.key, answer=b"{")
    found = await gateway.find(held.row.key)
    assert found is not None
    assert found.answer is None


async def test_a_store_that_puts_back_what_no_gateway_sealed_has_the_call_refused() -> None:
    class Thiefs(Rows):
        async def hold(self, ask: HeldAsk, *, now: int) -> HeldAsk:
            return replace(ask, text=b"mine")

    with pytest.raises(AskGone):
        await holding(Thiefs()).hold(an_ask())
