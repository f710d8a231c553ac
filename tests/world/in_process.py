"""What the types of tests that run commands in their own process are. No I/O."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What was printed, as JSON."""
        return json.loads(self.out)

    @property
    def words(self) -> str:
        """What was printed, as one line with single spaces."""
        return " ".join(self.out.split())


Run = Callable[..., Done]
"""Runs `accredit` with these arguments."""

Refused = Callable[..., tuple[str, str]]
"""Runs a command that must refuse; returns what is wrong, and what to do."""

Save = Callable[..., str]
"""Writes a file from objects; returns its name."""
