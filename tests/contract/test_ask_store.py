"""What all memories of asks promise (`ports.AskStore`), and that they promise the same."""

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.world.stores import NOW, SHARED_URLS, URLS, opened_asks
from tests.world.thief import Thief

from accredit.errors import AsksFull
from accredit.ports import AskStore, HeldAsk
from accredit.stores import asks

pytestmark = pytest.mark.holds("stores/asks")

Opening = AbstractAsyncContextManager[AskStore]
ADA, BOB = "a1" * 16, "b0" * 16
MANY = 8


def key(number: int) -> bytes:
    return number.to_bytes(32, "big")


def ask(number: int = 1, *, asker: int = 1, person: str = ADA, ends: int = 600) -> HeldAsk:
    return HeldAsk(key(number), key(asker), person, f"CODE-{number}", b"sealed\0\xff", NOW + ends)


@pytest.fixture(params=URLS)
def url(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def opening(url: str, tmp_path: Path) -> Opening:
    return opened_asks(url, tmp_path)


async def test_an_ask_is_found_by_its_key_and_its_code_until_it_ends__and_no_longer(opening: Opening) -> None:
    async with opening as store:
        assert await store.find(key(1), now=NOW) is None
        assert await store.hold(ask(), now=NOW) == ask()
        for now, found in ((NOW + 600, ask()), (NOW + 601, None)):
            assert await store.find(key(1), now=now) == found
            assert await store.find_code("CODE-1", now=now) == found
        assert await store.find_code("CODE-2", now=NOW) is None


async def test_the_same_call_that_is_asked_for_again_is_one_ask__with_the_answer_that_it_has(opening: Opening) -> None:
    async with opening as store:
        await store.hold(ask(), now=NOW)
        again = replace(ask(), code="CODE-9", text=b"another")
        assert await store.hold(again, now=NOW) == ask()
        assert await store.answer(key(1), b"no", keep_until=NOW + 900, now=NOW)
        assert await store.hold(again, now=NOW + 700) == replace(ask(), answer=b"no", keep_until=NOW + 900)
        assert await store.hold(replace(again, keep_until=NOW + 2000), now=NOW + 901) == replace(
            again, keep_until=NOW + 2000
        )


async def test_a_person_is_shown_their_own_asks_without_an_answer__and_nobody_else_s(opening: Opening) -> None:
    async with opening as store:
        for number, (person, ends) in enumerate([(ADA, 30), (ADA, 20), (BOB, 40), (ADA, 50), ("", 60)]):
            await store.hold(ask(number, asker=number, person=person, ends=ends), now=NOW)
        await store.answer(key(3), b"yes", keep_until=NOW + 50, now=NOW)
        assert list(await store.waiting(ADA, now=NOW)) == ["CODE-1", "CODE-0"]
        assert list(await store.waiting(ADA, now=NOW + 21)) == ["CODE-0"]
        assert list(await store.waiting(BOB, now=NOW)) == ["CODE-2"]


async def test_an_answer_is_given_once__and_the_same_one_may_be_told_again(opening: Opening) -> None:
    async with opening as store:
        await store.hold(ask(), now=NOW)
        assert await store.answer(key(1), b"yes", keep_until=NOW + 900, now=NOW)
        assert await store.answer(key(1), b"yes", keep_until=NOW + 900, now=NOW)
        assert not await store.answer(key(1), b"no", keep_until=NOW + 900, now=NOW)
        assert not await store.answer(key(2), b"yes", keep_until=NOW + 900, now=NOW)
        assert not await store.answer(key(1), b"yes", keep_until=NOW + 900, now=NOW + 901)
        assert await store.find(key(1), now=NOW) == replace(ask(), answer=b"yes", keep_until=NOW + 900)


@pytest.mark.holds("stores/asks", "count")
async def test_one_asker_can_t_take_the_room_of_others__nor_strangers_that_of_calls(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asks.MAX_ASKS_PER_ASKER == 3
    monkeypatch.setattr(asks, "MAX_ASKS", 4)
    async with opening as store:
        for number in range(3):
            await store.hold(ask(number), now=NOW)
        with pytest.raises(AsksFull):
            await store.hold(ask(3), now=NOW)
        await store.answer(key(0), b"no", keep_until=NOW + 600, now=NOW)
        await store.hold(ask(3), now=NOW)
        with pytest.raises(AsksFull):  # of all, and not of this asker
            await store.hold(ask(4, asker=2), now=NOW)
        late = NOW + 601
        for number in range(4):
            await store.hold(replace(ask(number, asker=number), keep_until=late), now=late)


@pytest.mark.holds("stores/asks", "count")
async def test_strangers_who_begin_consents_keep_nobody_out__and_end_none_that_a_person_has_answered(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asks, "MAX_ASKS", 3)
    async with opening as store:
        await store.hold(ask(0), now=NOW)
        for number in range(1, 4):
            await store.hold(ask(number, asker=number, person="", ends=600 + number), now=NOW)
        await store.answer(key(1), b"yes", keep_until=NOW + 601, now=NOW)
        for number in range(4, 7):
            await store.hold(ask(number, asker=number, person="", ends=600 + number), now=NOW)
        held = [number for number in range(7) if await store.find(key(number), now=NOW)]
        assert held == [0, 1, 5, 6]
        for number in (5, 6):
            await store.answer(key(number), b"yes", keep_until=NOW + 610, now=NOW)
        with pytest.raises(AsksFull):
            await store.hold(ask(8, asker=8, person=""), now=NOW)


@pytest.mark.holds("stores/asks", "count")
async def test_who_begins_consents_without_end_throws_out_their_own(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four gateways take twenty a second, and a person needs a minute to type a code."""
    monkeypatch.setattr(asks, "MAX_ASKS", 6)
    async with opening as store:
        for number in range(2):
            await store.hold(ask(number, asker=number, person=""), now=NOW)
        for number in range(2, 30):
            await store.hold(ask(number, asker=9, person="", ends=600 + number), now=NOW)
        await store.hold(ask(30, asker=3, person="", ends=700), now=NOW)
        held = [number for number in range(31) if await store.find(key(number), now=NOW)]
        assert held == [0, 1, 27, 28, 29, 30]


@pytest.mark.holds("stores/asks", "count")
async def test_an_ended_consent_gives_no_room_twice__so_nobody_can_hold_more_than_are_taken_in(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows stay for some seconds after their end. If one of them gave way, more asks would be held than there is room
    for, and each later one refused until they end."""
    monkeypatch.setattr(asks, "MAX_ASKS", 3)
    async with opening as store:
        await store.hold(ask(0, asker=9, person=""), now=NOW)
        for number in range(1, 4):
            await store.hold(ask(number, asker=9, person="", ends=1200), now=NOW + 601)
        await store.hold(ask(4, asker=9, person="", ends=1200), now=NOW + 601)
        await store.hold(ask(5, asker=1, person="", ends=1200), now=NOW + 601)
        held = [number for number in range(6) if await store.find(key(number), now=NOW + 601)]
        assert len(held) == 3
        assert held[-1] == 5


async def test_an_answer_is_found_without_its_code__until_it_is_taken_or_ends(opening: Opening) -> None:
    async with opening as asks:
        for number in range(3):
            await asks.hold(ask(number), now=NOW)
        for number in range(2):
            assert await asks.answer(key(number), b"yes", keep_until=NOW + 600, now=NOW)
        assert await asks.answered(b"", now=NOW) == [(key(0), b"yes"), (key(1), b"yes")]
        assert await asks.answered(key(0), now=NOW) == [(key(1), b"yes")]
        assert await asks.answered(key(1), now=NOW) == await asks.answered(b"", now=NOW + 601) == []
        await asks.take(key(0), now=NOW)
        assert await asks.answered(b"", now=NOW) == [(key(1), b"yes")]


async def test_a_code_names_one_ask(opening: Opening) -> None:
    async with opening as store:
        await store.hold(ask(1), now=NOW)
        with pytest.raises(AsksFull):
            await store.hold(replace(ask(2), code="CODE-1"), now=NOW)
        later = replace(ask(2), code="CODE-1", keep_until=NOW + 1200)
        assert await store.hold(later, now=NOW + 601) == later
        assert await store.find_code("CODE-1", now=NOW + 601) == later


@pytest.mark.holds("stores/asks", "written")
async def test_of_many_at_once_one_answers__one_takes__and_each_try_is_counted(opening: Opening) -> None:
    async with opening as store:
        await store.hold(ask(), now=NOW)
        answers = [bytes([number]) for number in range(MANY)]
        told = await asyncio.gather(*(store.answer(key(1), each, keep_until=NOW + 600, now=NOW) for each in answers))
        assert sum(told) == 1
        tries = await asyncio.gather(*(store.attempt(key(1), now=NOW) for _ in range(MANY)))
        assert sorted(tries) == list(range(1, MANY + 1))
        taken = await asyncio.gather(*(store.take(key(1), now=NOW) for _ in range(MANY)))
        (one,) = [each for each in taken if each is not None]
        assert one == replace(ask(), answer=answers[told.index(True)], tries=MANY)
        assert await store.find(key(1), now=NOW) is None
        assert await store.attempt(key(1), now=NOW) == 0


@pytest.mark.parametrize("url", SHARED_URLS)
async def test_what_one_gateway_holds_another_answers_and_a_third_takes__each_once(url: str, tmp_path: Path) -> None:
    async with (
        opened_asks(url, tmp_path) as one,
        opened_asks(url, tmp_path) as two,
        opened_asks(url, tmp_path) as three,
    ):
        await one.hold(ask(), now=NOW)
        told = await asyncio.gather(
            *(
                each.answer(key(1), bytes([place]), keep_until=NOW + 600, now=NOW)
                for place, each in enumerate((two, three))
            )
        )
        assert sorted(told) == [False, True]
        taken = await asyncio.gather(*(each.take(key(1), now=NOW) for each in (one, two, three)))
        assert len([each for each in taken if each is not None]) == 1


@pytest.mark.parametrize("url", SHARED_URLS)
async def test_a_row_that_is_longer_than_any_ask_is_none__and_is_not_read(url: str, tmp_path: Path) -> None:
    async with opened_asks(url, tmp_path) as store:
        await store.hold(ask(), now=NOW)
        thief = Thief(tmp_path / "store.db")
        zeros = "zeroblob(?)" if thief.has_file else "convert_to(repeat('0', ?), 'UTF8')"
        thief.run(f"UPDATE asks SET answer = {zeros}", asks.MAX_HELD_BYTES)
        assert await store.find(key(1), now=NOW) is None
        assert await store.find_code("CODE-1", now=NOW) is None
        assert list(await store.waiting(ADA, now=NOW)) == []
        assert await store.take(key(1), now=NOW) is None


async def test_what_is_no_answer_hides_none_behind_it__or_nobody_could_take_theirs_back(tmp_path: Path) -> None:
    async with opened_asks(SHARED_URLS[0], tmp_path) as store:
        for number in (1, 2):
            await store.hold(ask(number), now=NOW)
            await store.answer(key(number), b"yes", keep_until=NOW + 600, now=NOW)
        for wrong in (5, 1.5, "a text"):
            Thief(tmp_path / "store.db").run("UPDATE asks SET answer = ? WHERE key = ?", wrong, key(1))
            assert await store.answered(b"", now=NOW) == [(key(1), b""), (key(2), b"yes")]
