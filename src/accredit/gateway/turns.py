"""Turns: a long message is worked on in steps, and between two of them everybody else is served. No I/O."""

import asyncio
from collections.abc import Generator
from typing import TypeVar

from accredit.jsonrpc.frames import Opened
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.responses import open_answer
from accredit.limits import LONG_ANSWER_BYTES, SHORT_MESSAGE_BYTES

Found = TypeVar("Found")


async def turn(size: int) -> None:
    """Comes before each piece of work whose time grows with a message of `size` bytes."""
    if size > SHORT_MESSAGE_BYTES:
        await asyncio.sleep(0)


async def in_turns(steps: Generator[None, None, Found], size: int) -> Found:
    """Takes the steps of such a piece of work, each in its turn; gives what it comes to."""
    while True:
        if size > SHORT_MESSAGE_BYTES:
            await asyncio.sleep(0)
        try:
            next(steps)
        except StopIteration as last:
            return last.value


async def between_turns(steps: Generator[None, None, Found]) -> Found:
    """Takes steps of which each is long: between two of them everybody else has a turn; gives what it comes to."""
    while True:
        try:
            next(steps)
        except StopIteration as last:
            return last.value
        await asyncio.sleep(0)


async def opened(text: bytes, era: Era) -> Opened | None:
    """Opens an answer in turns if it is long, for `Expected` to judge it; a short one it opens itself."""
    return await in_turns(open_answer(text, era), len(text)) if len(text) > LONG_ANSWER_BYTES else None
