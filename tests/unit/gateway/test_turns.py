"""Long work is done one step in a turn of the loop, whoever does it, and servers have theirs in rotation."""

import asyncio
import contextlib
import gc
import time
import weakref
from collections.abc import Coroutine, Generator
from itertools import pairwise
from typing import Any

import pytest
from tests.world.virtual_time import VirtualTimeLoop, run_virtually

from accredit.gateway.turns import (
    LONG_STEP_SECONDS,
    MOST_REST_SECONDS,
    TURNS_BETWEEN_LONG_STEPS,
    current_server,
    in_turns,
    next_turn,
    turn,
)
from accredit.limits import SHORT_MESSAGE_BYTES

STEPS = 4


async def works(server: str, name: str, done: list[str]) -> None:
    """Long work for a server."""

    def steps() -> Generator[None, None, str]:
        for _ in range(STEPS):
            done.append(name)
            yield
        return name

    current_server.set(server)
    await next_turn()
    assert await in_turns(steps()) == name


async def all_of(*works: Coroutine[Any, Any, None]) -> None:
    async with asyncio.TaskGroup() as group:
        for each in works:
            group.create_task(each)


@pytest.mark.holds("gateway/turns", "one-step")
async def test_forty_floods_hold_the_loop_for_no_longer_than_one__in_each_of_its_turns_one_step_is_done() -> None:
    done: list[str] = []
    seen: list[int] = []

    floods = asyncio.ensure_future(all_of(*(works(f"s{number % 5}", "", done) for number in range(40))))
    while not floods.done():
        seen.append(len(done))
        await asyncio.sleep(0)
    assert len(done) == 40 * STEPS
    assert max(after - before for before, after in pairwise(seen)) == 1


@pytest.mark.holds("gateway/turns", "servers")
async def test_a_server_with_much_to_do_keeps_no_other_waiting__they_have_their_steps_in_rotation() -> None:
    done: list[str] = []

    await all_of(*(works("loud", "loud", done) for _ in range(20)), works("calm", "calm", done))
    assert done.index("calm") <= 1
    last = max(index for index, name in enumerate(done) if name == "calm")
    assert last <= 2 * STEPS


async def test_those_of_one_server_have_theirs_in_the_order_in_which_they_asked() -> None:
    done: list[str] = []

    await all_of(*(works("one", str(number), done) for number in range(3)))
    assert done == ["0", "1", "2"] * STEPS


async def test_who_has_gone_keeps_nobody_from_his_turn() -> None:
    done: list[str] = []

    gone = [asyncio.create_task(works(server, "gone", done)) for server in ("one", "two")]
    await asyncio.sleep(0)
    for task in gone:
        task.cancel()
    await works("two", "there", done)
    for task in gone:
        with contextlib.suppress(asyncio.CancelledError):
            await task
    await works("one", "there", done)
    assert done == ["there"] * 2 * STEPS


async def test_what_is_short_waits_for_no_turn() -> None:
    waiting = [next_turn() for _ in range(3)]
    await turn(SHORT_MESSAGE_BYTES)
    assert not any(each.done() for each in waiting)
    await turn(SHORT_MESSAGE_BYTES + 1)
    assert all(each.done() for each in waiting)


@pytest.mark.holds("gateway/turns", "rest")
async def test_after_a_step_that_took_long_others_have_more_than_one_turn__a_call_would_meet_one_in_each() -> None:
    at: list[int] = []

    turns = 0

    def steps() -> Generator[None, None, None]:
        for _ in range(STEPS):
            at.append(turns)
            ends = time.perf_counter() + 5 * LONG_STEP_SECONDS
            while time.perf_counter() < ends:
                pass
            yield

    work = asyncio.ensure_future(in_turns(steps()))
    while not work.done():
        turns += 1
        await asyncio.sleep(0)
    assert len(at) == STEPS
    assert min(after - before for before, after in pairwise(at[1:])) > TURNS_BETWEEN_LONG_STEPS // 2


def steps_of(seconds: float, at: list[tuple[float, float]]) -> Generator[None, None, None]:
    """Steps that take as long, and when each began and ended."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    for _ in range(STEPS):
        began = loop.time()
        loop.goes_by(seconds)
        at.append((began, loop.time()))
        yield


@pytest.mark.holds("gateway/turns", "rest")
def test_a_call_that_waits_for_the_log_three_times_meets_one_long_step__not_one_in_each_wait() -> None:
    at: list[tuple[float, float]] = []
    call: list[float] = []

    async def recorded() -> None:
        loop = asyncio.get_running_loop()
        call.append(loop.time())
        for _ in range(3):
            await asyncio.sleep(0.015)
        call.append(loop.time())

    async def main() -> None:
        await asyncio.gather(recorded(), in_turns(steps_of(0.06, at)))

    run_virtually(main())
    began, ended = call
    assert len([each for each in at if began <= each[0] < ended]) == 1


@pytest.mark.holds("gateway/turns", "rest")
@pytest.mark.parametrize(("seconds", "rests"), [(0.06, 0.06), (3.0, MOST_REST_SECONDS), (LONG_STEP_SECONDS / 2, 0.0)])
def test_others_have_as_much_time_as_a_long_step_took__not_as_long_as_a_machine_stalls__and_none_after_a_short_one(
    seconds: float, rests: float
) -> None:
    at: list[tuple[float, float]] = []

    async def main() -> None:
        await in_turns(steps_of(seconds, at))

    run_virtually(main())
    assert [after[0] - before[1] for before, after in pairwise(at)] == pytest.approx([rests] * (STEPS - 1))


@pytest.mark.holds("gateway/turns", "rest")
def test_who_comes_later_rests_for_nobody__the_time_between_is_no_step() -> None:
    at: list[tuple[float, float]] = []

    async def main() -> None:
        await next_turn()
        await asyncio.sleep(5)
        await next_turn()
        at.append((asyncio.get_running_loop().time(), 0.0))

    run_virtually(main())
    assert at == [(pytest.approx(5), 0.0)]


def test_a_loop_that_has_ended_is_held_by_nothing__a_program_may_run_many() -> None:
    seen: list[weakref.ref[asyncio.AbstractEventLoop]] = []

    async def main() -> None:
        seen.append(weakref.ref(asyncio.get_running_loop()))
        await works("a", "work", [])

    asyncio.run(main())
    gc.collect()
    assert seen[0]() is None
