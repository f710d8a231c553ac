"""Turns: a long message is worked on in steps, and between two of them everybody else is served. No I/O."""

import asyncio
from collections.abc import Generator
from typing import TypeVar

from accredit.limits import SHORT_MESSAGE_BYTES

Found = TypeVar("Found")


async def turn(size: int) -> None:
    """Comes before each piece of work whose time grows with a message of `size` bytes."""
    if size > SHORT_MESSAGE_BYTES:
        await asyncio.sleep(0)


async def in_turns(steps: Generator[None, None, Found], size: int) -> Found:
    """Takes the steps of such a piece of work, each in its turn; gives what it comes to."""
    while True:
        await turn(size)
        try:
            next(steps)
        except StopIteration as last:
            return last.value
