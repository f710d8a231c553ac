"""Turns: a long message is worked on in steps, and between two of them everybody else is served. No I/O."""

import asyncio

from accredit.jsonrpc.long_text import Found, Steps
from accredit.limits import SHORT_MESSAGE_BYTES


async def turn(size: int) -> None:
    """Give others a turn before a piece of work whose time grows with a message of `size` bytes."""
    if size > SHORT_MESSAGE_BYTES:
        await asyncio.sleep(0)


async def in_turns(steps: Steps[Found]) -> Found:
    """Take the steps of long work, and give others a turn between two of them. Return what the work returns."""
    while True:
        try:
            next(steps)
        except StopIteration as last:
            return last.value
        await asyncio.sleep(0)
