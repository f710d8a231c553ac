"""A task of our own make is a task: it can be cancelled and bounded in time. And it does not wait for nothing."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from typing import Any

import pytest
from tests.world.running import run

from accredit.gateway.eager import EagerTask, Wakeup

told: ContextVar[str] = ContextVar("told", default="")


def in_callback(
    work: Callable[[], Coroutine[Any, Any, None]], then: Callable[[EagerTask], Awaitable[None]]
) -> EagerTask:
    """Starts `work` in a callback of the loop, where no task runs, and does something with it then."""

    async def main() -> EagerTask:
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        task = EagerTask(work(), loop, lambda _, error: ended.set())
        loop.call_soon(task.start)
        await asyncio.sleep(0)
        await then(task)
        await ended.wait()
        return task

    return run(main())


async def nothing(task: EagerTask) -> None:
    """Lets it be."""


def test_what_need_not_wait_is_done_at_once__within_whoever_starts_it() -> None:
    seen: list[object] = []

    async def work() -> None:
        seen.append(asyncio.current_task())

    async def then(task: EagerTask) -> None:
        assert seen == [task]
        assert task.done()
        assert not task.cancel()

    in_callback(work, then)


def test_it_waits_for_whatever_a_task_can_wait_for() -> None:
    steps: list[object] = []

    async def work() -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        steps.append(await asyncio.gather(asyncio.sleep(0, 1), asyncio.sleep(0, 2)))
        future = asyncio.get_running_loop().create_future()
        future.set_exception(ValueError("raised where it waits"))
        with pytest.raises(ValueError, match="raised"):
            await asyncio.shield(future)
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            steps.append("late")

    in_callback(work, nothing)
    assert steps == [[1, 2], "late"]


async def test_a_wakeup_goes_on_with_it_at_once__but_never_within_another_step() -> None:
    seen: list[str] = []

    loop = asyncio.get_running_loop()
    wakeups = [Wakeup(loop=loop), Wakeup(loop=loop)]

    async def first() -> None:
        await wakeups[0]
        seen.append("first")
        wakeups[1].wake()
        seen.append("first goes on")

    async def second() -> None:
        await wakeups[1]
        seen.append("second")

    for work in (first(), second()):
        loop.call_soon(EagerTask(work, loop, lambda _, error: None).start)
    await asyncio.sleep(0)

    def wake() -> None:
        wakeups[0].wake()
        seen.append("woken")
        wakeups[0].wake()

    loop.call_soon(wake)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert seen == ["first", "first goes on", "woken", "second"]


async def test_a_wakeup_that_fails_raises_where_it_is_waited_for__and_a_task_of_asyncio_s_may_wait_as_well() -> None:
    loop = asyncio.get_running_loop()
    caught: list[str] = []
    failing = Wakeup(loop=loop)

    async def work() -> None:
        try:
            await failing
        except ValueError as error:
            caught.append(str(error))

    loop.call_soon(EagerTask(work(), loop, lambda _, error: None).start)
    await asyncio.sleep(0)
    failing.fail(ValueError("no"))
    failing.wake()
    await asyncio.sleep(0)
    assert caught == ["no"]
    other = Wakeup(loop=loop)
    loop.call_soon(other.wake)
    await other


def test_it_is_cancelled_where_it_waits__and_may_take_it_back() -> None:
    caught: list[str] = []

    async def work() -> None:
        for _ in range(2):
            try:
                await Wakeup(loop=asyncio.get_running_loop())
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                assert task is not None
                caught.append(f"{error} {task.cancelling()} {task.uncancel()}")

    async def then(task: EagerTask) -> None:
        task.cancel("one")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel("two")

    in_callback(work, then)
    assert caught == ["one 1 0", "two 1 0"]


async def test_a_cancellation_before_its_first_step_is_raised_there() -> None:
    loop = asyncio.get_running_loop()
    begun: list[bool] = []

    async def work() -> None:
        begun.append(True)

    task = EagerTask(work(), loop, lambda _, error: None)
    task.cancel()
    task.start()  # a task runs here: so it begins at the next step
    assert not task.done()
    await asyncio.sleep(0)
    assert task.done()
    assert not begun


async def test_each_has_its_own_context__whoever_goes_on_with_it() -> None:
    seen: list[str] = []

    async def work(name: str, waits: Wakeup) -> None:
        told.set(name)
        await waits
        seen.append(told.get())

    loop = asyncio.get_running_loop()
    waits = [Wakeup(loop=loop), Wakeup(loop=loop)]
    for name, each in zip("ab", waits, strict=True):
        loop.call_soon(EagerTask(work(name, each), loop, lambda _, error: None).start)
    await asyncio.sleep(0)
    for each in waits:
        loop.call_soon(each.wake)
    await asyncio.sleep(0)
    assert told.get() == ""
    assert seen == ["a", "b"]


async def test_what_nobody_catches_is_told_to_whoever_started_it() -> None:
    ended: list[BaseException | None] = []

    async def work() -> None:
        raise ValueError("mine")

    loop = asyncio.get_running_loop()
    loop.call_soon(EagerTask(work(), loop, lambda _, error: ended.append(error)).start)
    await asyncio.sleep(0)
    assert [str(error) for error in ended] == ["mine"]


def test_what_can_t_be_awaited_is_an_error_where_it_is_awaited() -> None:
    caught: list[str] = []

    class Strange:
        def __await__(self) -> Any:
            yield 7

    async def work() -> None:
        try:
            await Strange()
        except RuntimeError as error:
            caught.append(str(error))

    in_callback(work, nothing)
    assert caught == ["a task can't wait for 7"]
