"""How long a child may be silent about a request."""

import asyncio

from tests.world.raw_server import until
from tests.world.running import run

from accredit.gateway.stdio.deadline import Deadline


def test_silence_is_noticed_once() -> None:
    async def main() -> None:
        rings: list[str] = []
        Deadline(0.01, lambda: rings.append("late"), lambda: False)
        await until(lambda: bool(rings))
        assert rings == ["late"]

    run(main())


def test_what_is_heard_puts_it_off() -> None:
    async def main() -> None:
        rings: list[str] = []
        loop = asyncio.get_running_loop()
        begun = loop.time()
        deadline = Deadline(0.05, lambda: rings.append("late"), lambda: False)
        while loop.time() < begun + 0.15:
            deadline.touch()
            await asyncio.sleep(0.001)
            assert not rings or loop.time() - begun > 0.05
        await until(lambda: bool(rings))

    run(main())


def test_time_in_which_the_client_is_waited_for_does_not_count() -> None:
    async def main() -> None:
        rings: list[str] = []
        looks: list[bool] = [True, True, False]
        Deadline(0.005, lambda: rings.append("late"), lambda: bool(looks) and looks.pop(0))  # a timer may go off early
        await until(lambda: bool(rings))
        assert not looks

    run(main())


def test_one_that_was_cancelled_is_silent() -> None:
    async def main() -> None:
        rings: list[str] = []
        deadline = Deadline(0.0, lambda: rings.append("late"), lambda: False)
        deadline.cancel()
        other: list[str] = []
        Deadline(0.0, lambda: other.append("late"), lambda: False)
        await until(lambda: bool(other))
        assert not rings

    run(main())
