"""What is done in steps, done at one go: for tests that ask what comes of it."""

from collections.abc import Generator
from typing import TypeVar

Found = TypeVar("Found")


def at_one_go(steps: Generator[None, None, Found]) -> Found:
    """What the steps come to. Raises what they raise."""
    while True:
        try:
            next(steps)
        except StopIteration as last:
            return last.value
