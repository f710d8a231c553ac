"""How long a child may be silent about a request."""

import asyncio

import pytest
from tests.world.raw_server import until
from tests.world.virtual_time import run_virtually

from accredit.gateway.upstream.stdio.pending_calls import Deadline

pytestmark = pytest.mark.holds("gateway/upstream/stdio/pending_calls")


async def test_silence_is_noticed_once() -> None:
    rings: list[str] = []
    Deadline(0.01, lambda: rings.append("late"), lambda: False)
    await until(lambda: bool(rings))
    assert rings == ["late"]


def test_what_is_heard_puts_it_off() -> None:
    async def main() -> None:
        rings: list[str] = []
        deadline = Deadline(10.0, lambda: rings.append("late"), lambda: False)
        for _ in range(5):
            await asyncio.sleep(9.0)
            deadline.touch()
        await asyncio.sleep(9.0)
        assert not rings
        await asyncio.sleep(2.0)
        assert rings == ["late"]

    run_virtually(main())


async def test_time_in_which_the_client_is_waited_for_does_not_count() -> None:
    rings: list[str] = []
    looks: list[bool] = [True, True, False]
    Deadline(0.005, lambda: rings.append("late"), lambda: bool(looks) and looks.pop(0))  # a timer may go off early
    await until(lambda: bool(rings))
    assert not looks


async def test_one_that_was_cancelled_is_silent() -> None:
    rings: list[str] = []
    deadline = Deadline(0.0, lambda: rings.append("late"), lambda: False)
    deadline.cancel()
    other: list[str] = []
    Deadline(0.0, lambda: other.append("late"), lambda: False)
    await until(lambda: bool(other))
    assert not rings
