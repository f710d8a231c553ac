"""Long work that is done in steps, so that others need not wait for all of it. Such a function is a generator: it
yields after each step, and returns the result. No I/O."""

from collections.abc import Generator
from typing import TypeVar

Found = TypeVar("Found")
Steps = Generator[None, None, Found]
"""Long work as a generator: others may be served at each `yield`. It returns the result."""


def at_one_go(steps: Generator[object, None, Found]) -> Found:
    """Do all steps at once, for work that is not long, and return the result. Raises whatever the work raises."""
    while True:
        try:
            next(steps)
        except StopIteration as last:
            return last.value
