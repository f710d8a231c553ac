"""Commands that run in the process of their test."""

import json
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from accredit.cli import main


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


def runs(
    monkeypatch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str] | pytest.CaptureFixture[bytes], *first: str
) -> Run:
    """`run("log", ...)` as `accredit log ...`; `first` are words that come before all others."""

    def run(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["accredit", *first, *arguments])
        capture.readouterr()
        code = main()
        out, err = (each.decode() if isinstance(each, bytes) else each for each in capture.readouterr())
        return Done(code, out, err)

    return run
