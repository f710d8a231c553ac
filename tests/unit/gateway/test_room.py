"""Who gets a place, who gives way for whom, and that nothing is lost on the way."""

import asyncio
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accredit.errors import RequestError
from accredit.gateway.room import Room, Rooms, Slot, leave_once_read, until_read


@dataclass
class Somebody:
    peer: str = "192.0.2.1"
    proved: bool = False


STRANGER = Somebody()
KNOWN = Somebody(proved=True)


def refused(room: Room, holder: Somebody, size: int = 1) -> RequestError:
    with pytest.raises(RequestError) as found:
        room.take(holder, size)
    return found.value


@pytest.mark.holds("gateway/room", "reserve")
def test_strangers_get_no_place_of_the_reserve_and_others_get_all() -> None:
    room = Room("calls", 4, 1)
    for _ in range(3):
        room.take(STRANGER)
    error = refused(room, STRANGER)
    assert (error.status, error.detail, error.retry_after) == (503, "Too many calls", 1)
    place = room.take(KNOWN)
    refused(room, KNOWN)
    place.leave()
    place.leave()
    assert room.taken == 3
    refused(room, STRANGER)
    room.take(KNOWN)


@pytest.mark.holds("gateway/room", "own-requests")
async def test_what_the_gateway_asks_for_itself_keeps_its_room_until_it_was_read() -> None:
    room = Room("large answers", 4)

    async def ask() -> None:
        leave_once_read(room.take(KNOWN))

    await ask()
    assert room.taken == 0
    with until_read():
        await asyncio.gather(ask(), ask())
        with until_read():
            await ask()
            assert room.taken == 3
        assert room.taken == 2
    assert room.taken == 0


def test_who_has_proved_something_meanwhile_is_a_stranger_no_more() -> None:
    room, one = Room("streams", 4, 1), Somebody()
    places = [room.take(holder) for holder in (one, STRANGER, STRANGER)]
    refused(room, STRANGER)
    one.proved = True
    refused(room, STRANGER)
    room.recount()
    room.take(STRANGER)
    for place in places:
        place.leave()
    assert room.taken == 1


async def holding(room: Room, holder: Somebody, ends: list[str]) -> None:
    try:
        with room.held(holder, yields=True):
            await asyncio.Event().wait()
    except RequestError as error:
        ends.append(f"{holder.peer} {error.status}")


async def standing(room: Room, *holders: Somebody) -> tuple[list[asyncio.Task[None]], list[str]]:
    ends: list[str] = []
    tasks = [asyncio.create_task(holding(room, holder, ends)) for holder in holders]
    await asyncio.sleep(0)
    return tasks, ends


async def ended(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.holds("gateway/room", "eviction")
async def test_who_has_proved_something_takes_the_place_of_a_stranger_when_all_are_taken() -> None:
    room = Room("streams", 4, 1)
    tasks, ends = await standing(room, *[STRANGER] * 3, KNOWN)
    place = room.take(KNOWN)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert ends == ["192.0.2.1 503"]
    assert room.taken == 4
    place.leave()
    await ended(tasks)
    assert room.taken == 0


@pytest.mark.holds("gateway/room", "eviction")
async def test_of_two_addresses_the_one_that_holds_most_gives_way_until_both_hold_the_same() -> None:
    room, other = Room("streams", 5), Somebody("192.0.2.2")
    tasks, ends = await standing(room, *[STRANGER] * 5)
    places = [room.take(other), room.take(other)]
    refused(room, other)  # 3 to 2: one more would make it 2 to 3, and so for ever
    refused(room, STRANGER)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert ends == ["192.0.2.1 503"] * 2
    for place in places:
        place.leave()
    await ended(tasks)
    assert room.taken == 0


@pytest.mark.holds("gateway/room", "eviction")
async def test_behind_a_proxy_nobody_gives_way__and_no_address_is_refused_before_the_room_is_full() -> None:
    room = Room("streams", 5)
    tasks, ends = await standing(room, *[STRANGER] * 5)
    refused(room, STRANGER)
    assert (room.taken, ends) == (5, [])
    await ended(tasks)


async def test_what_is_not_to_be_interrupted_is_not() -> None:
    room = Room("calls", 2, 1)
    with room.held(STRANGER):
        refused(room, Somebody("192.0.2.2"))
        with room.held(KNOWN):
            refused(room, KNOWN)


async def test_somebody_else_s_cancellation_is_not_taken_for_a_place_given_up() -> None:
    room = Room("streams", 1)
    tasks, ends = await standing(room, STRANGER)
    room.take(KNOWN)
    tasks[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
    assert ends == []


@pytest.mark.holds("gateway/room", "wait")
async def test_a_place_is_waited_for_but_not_for_ever_nor_by_too_many() -> None:
    room = Room("requests", 10, waiting=1)
    place = room.take(STRANGER, 10)
    waiter = asyncio.create_task(room.wait(STRANGER, 4, 30))
    await asyncio.sleep(0)
    with pytest.raises(RequestError):
        await room.wait(STRANGER, 1, 30)
    place.leave()
    place = await waiter
    place.leave()
    assert room.taken == 0
    place = room.take(STRANGER, 10)
    with pytest.raises(RequestError):
        await room.wait(STRANGER, 1, 0.01)
    waiter = asyncio.create_task(room.wait(STRANGER, 1, 30))
    await asyncio.sleep(0)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    place.leave()
    assert room.taken == 0


@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from(["a", "b", "c"]), st.integers(1, 4), st.booleans()), max_size=60)
)
def test_whatever_comes_and_goes_no_more_is_taken_than_there_is_and_the_reserve_is_kept(
    steps: list[tuple[bool, str, int, bool]],
) -> None:
    room, held = Room("bodies", 12, 3), list[Slot]()
    for comes, peer, size, proved in steps:
        if comes:
            holder = Somebody(peer, proved)
            strange = sum(place.size for place in held if not place.holder.proved)
            taken = sum(place.size for place in held)
            if taken + size > 12 or (not proved and strange + size > 9):
                refused(room, holder, size)
            else:
                held.append(room.take(holder, size))
        elif held:
            held.pop(size % len(held)).leave()
        assert room.taken == sum(place.size for place in held)
    for place in held:
        place.leave()
    assert room.taken == 0
    assert room.take(STRANGER, 9)


def test_a_session_that_has_proved_something_is_remembered__but_not_more_than_so_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("accredit.gateway.room.MAX_REMEMBERED_SESSIONS", 2)
    rooms = Rooms(4_194_304, proving=True)
    for session in (b"one", b"two", b"one", b"three"):
        rooms.proved(session)
    assert [rooms.has_proved(session) for session in (b"one", b"two", b"three", b"")] == [True, False, True, False]


@pytest.mark.holds("gateway/room", "reserve")
def test_nothing_is_kept_for_anybody_where_nobody_can_prove_anything() -> None:
    for proving, most in ((False, 1_000), (True, 750)):
        rooms = Rooms(4_194_304, proving=proving)
        for _ in range(most):
            rooms.streams.take(STRANGER)
        refused(rooms.streams, STRANGER)
