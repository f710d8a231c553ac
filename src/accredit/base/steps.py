"""Long work that is done in steps, so that others need not wait for all of it. No I/O."""

from collections.abc import Generator
from typing import TypeVar

Found = TypeVar("Found")
Steps = Generator[None, None, Found]
"""Long work, in steps between which others may be served, and what it comes to."""


def at_one_go(steps: Generator[object, None, Found]) -> Found:
    """Take all steps, for work that is not long. Raises what they raise."""
    while True:
        try:
            next(steps)
        except StopIteration as last:
            return last.value
